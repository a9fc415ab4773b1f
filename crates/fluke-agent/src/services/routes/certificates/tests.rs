use super::*;

/// Those that are made here end in the year 4096.
const TODAY: Timestamp = Timestamp(1_800_000_000_000);

fn write(folder: &Path, name: &str, domain: &str) -> Certificate {
    let made = rcgen::generate_simple_self_signed([domain.to_owned()]).expect("a certificate");
    let file = |kind: &str, text: String| {
        let path = folder.join(format!("{name}.{kind}"));
        std::fs::write(&path, text).expect("room");
        path
    };
    let key_file = file("key", made.signing_key.serialize_pem());
    Certificate { cert_file: file("crt", made.cert.pem()), key_file }
}

#[test]
fn a_certificate_that_is_being_replaced_is_served_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let given = [write(folder.path(), "a", "a.example.com")];
    let mut certificates = Certificates::default();
    let (first, problems) = certificates.read(&given, TODAY);
    assert_eq!((first.len(), problems.len()), (1, 0), "{problems:?}");
    // The new certificate is there, its key is not yet.
    let next = write(folder.path(), "b", "a.example.com");
    std::fs::copy(&next.cert_file, &given[0].cert_file).expect("room");
    let (same, problems) = certificates.read(&given, TODAY);
    assert_eq!(same, first);
    assert!(problems[0].contains("does not go with the key"), "{problems:?}");
    assert!(problems[0].ends_with("the one before it is served"), "{problems:?}");
    std::fs::copy(&next.key_file, &given[0].key_file).expect("room");
    let (second, problems) = certificates.read(&given, TODAY);
    assert_eq!(problems, [""; 0]);
    assert_ne!(second, first);
}

#[test]
fn a_certificate_that_never_was_good_keeps_nobody_else_from_being_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = write(folder.path(), "good", "a.example.com");
    let bad = |cert: &str| {
        let cert_file = folder.path().join(cert);
        Certificate { cert_file, key_file: good.key_file.clone() }
    };
    std::fs::write(folder.path().join("text"), "hello").expect("room");
    std::fs::write(folder.path().join("long"), vec![b'a'; LONGEST as usize + 1]).expect("room");
    let given = [bad("missing"), bad("text"), bad("long"), good.clone()];
    let (served, problems) = Certificates::default().read(&given, TODAY);
    assert_eq!(served.len(), 1);
    for (problem, why) in
        problems.iter().zip(["cannot read", "no certificate in it", "longer than 256 KiB"])
    {
        assert!(problem.contains(why) && problem.ends_with("it is not served"), "{problem}");
    }
}

#[test]
fn a_certificate_that_ends_is_served_and_its_end_is_told_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut params = rcgen::CertificateParams::new(["a.example.com".to_owned()]).expect("a name");
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2027, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let given = [write(folder.path(), "a", "a.example.com")];
    let made = params.self_signed(&key).expect("a certificate");
    std::fs::write(&given[0].cert_file, made.pem()).expect("room");
    std::fs::write(&given[0].key_file, key.serialize_pem()).expect("room");
    let mut certificates = Certificates::default();
    let table = [
        ("2026-12-01", None),
        ("2026-12-20", Some("a.crt ends on 2027-01-01: renew it")),
        ("2027-02-01", Some("a.crt ended on 2027-01-01: renew it")),
    ];
    for (day, words) in table {
        let today = format!("{day}T00:00:00Z").try_into().expect("a day");
        let (served, problems) = certificates.read(&given, today);
        assert_eq!(served.len(), 1, "{day}");
        match words {
            None => assert_eq!(problems, [""; 0], "{day}"),
            Some(words) => assert!(problems[0].ends_with(words), "{problems:?}"),
        }
    }
}
