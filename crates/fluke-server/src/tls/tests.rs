use std::os::unix::fs::PermissionsExt;

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use super::*;

/// What `openssl x509 -req` makes when nobody asks for more.
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBGTCBvwIUFTjR2yJcKzZhC1Nh1WsxjCzbb0swCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDb2xkMCAXDTI2MTExNTEwMDQyM1oYDzIxMjYxMDIyMTAwNDIzWjAOMQww
CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARas9f270uaGPmk
L9UPPAQjBQ8xErhBd7ooaVd+jrCAvgkWlxJu7oXA3H+4G4Z1o8Al5aNag+dS/DdC
1qqzE6l5MAoGCCqGSM49BAMCA0kAMEYCIQD1Ci7ulpicDO7NPOyNce+mr2DdUlk0
JuBSPEgRb5+CBwIhANM3wk6Qqld1k2Z211tvRE3XRX8bAGGcIxfT9lQrq7B1
-----END CERTIFICATE-----
";

/// As `openssl pkey -aes256` and `openssl ec -aes256 -traditional` begin; no more is looked at.
const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjx
-----END ENCRYPTED PRIVATE KEY-----
";
const OLD_ENCRYPTED: &str = "-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-256-CBC,0123456789ABCDEF0123456789ABCDEF

AAAA
-----END EC PRIVATE KEY-----
";

pub(super) fn directory() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

/// A self-signed certificate and its key, good until `not_after`.
fn pair(not_after: SystemTime) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["localhost".to_string()]).expect("names");
    params.not_after = not_after.into();
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

fn good_pair() -> (String, String) {
    pair(SystemTime::now() + Duration::from_secs(86_400))
}

fn write(directory: &TempDir, cert: &str, key: &str) -> TlsFiles {
    let files = TlsFiles {
        cert_file: directory.path().join("server.pem"),
        key_file: directory.path().join("server.key"),
    };
    std::fs::write(&files.cert_file, cert).expect("written");
    std::fs::write(&files.key_file, key).expect("written");
    files
}

#[test]
fn every_kind_of_bad_file_is_named_with_its_reason() {
    let (cert, key) = good_pair();
    let (expired, expired_key) = pair(SystemTime::now() - Duration::from_secs(86_400));
    let (_, other_key) = good_pair();
    for (case, cert, key, wanted) in [
        ("no certificate", "hello", &*key, ["server.pem", "no certificate in it"]),
        ("a key for a certificate", &key, &key, ["server.pem", "no certificate in it"]),
        ("no key", &cert, "hello", ["server.key", "no private key in it"]),
        ("a certificate for a key", &cert, &cert, ["server.key", "no private key in it"]),
        ("another's key", &cert, &other_key, ["server.key does not belong", "server.pem"]),
        ("expired", &expired, &expired_key, ["server.pem expired on", "replace it"]),
        ("a passphrase", &cert, ENCRYPTED, ["server.key is encrypted", "openssl pkey"]),
        ("an old passphrase", &cert, OLD_ENCRYPTED, ["server.key is encrypted", "openssl pkey"]),
        ("version 1", VERSION_1, &key, ["server.pem cannot be used", "X.509 v1"]),
        (
            "garbage inside",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &key,
            ["server.pem", "not an X.509 certificate"],
        ),
    ] {
        let directory = directory();
        let error = Certificates::from_files(write(&directory, cert, key)).expect_err(case);
        let error = error.to_string();
        assert!(wanted.iter().all(|part| error.contains(part)), "{case}: {error}");
    }
    let directory = directory();
    let files = write(&directory, &cert, &key);
    std::fs::remove_file(&files.cert_file).expect("removed");
    std::fs::create_dir(&files.cert_file).expect("made");
    let error = Certificates::from_files(files.clone()).expect_err("a directory").to_string();
    assert!(error.contains("server.pem") && error.contains("check the path"), "{error}");
    std::fs::remove_dir(&files.cert_file).expect("removed");
    std::fs::write(&files.cert_file, &cert).expect("written");
    std::fs::remove_file(&files.key_file).expect("removed");
    let error = Certificates::from_files(files).expect_err("missing").to_string();
    assert!(error.contains("server.key") && error.contains("No such file"), "{error}");
}

#[test]
fn a_good_certificate_is_taken_with_its_validity() {
    let until = SystemTime::now() + Duration::from_secs(1_000_000);
    let (cert, key) = pair(until);
    let directory = directory();
    let certificates = Certificates::from_files(write(&directory, &cert, &key)).expect("good");
    let difference = Timestamp::from(until).0.abs_diff(certificates.valid_until().0);
    assert!(difference < 1000, "{difference}");
    assert!(certificates.own_ca().is_none());
}

fn leaf(certificates: &Certificates) -> Vec<u8> {
    certificates.current().key.cert[0].to_vec()
}

fn look_again(certificates: &Certificates) {
    let long_ago = Instant::now().checked_sub(LOOK_AGAIN).expect("the machine is up for a second");
    certificates.current().looked = long_ago;
    certificates.refresh();
}

#[test]
fn replaced_files_are_used_and_bad_ones_are_not() {
    let (cert, key) = good_pair();
    let directory = directory();
    let files = write(&directory, &cert, &key);
    let certificates = Certificates::from_files(files.clone()).expect("good");
    let first = leaf(&certificates);
    look_again(&certificates);
    assert_eq!(leaf(&certificates), first);

    let (second_cert, second_key) = good_pair();
    std::fs::write(&files.cert_file, format!("{second_cert}\n")).expect("written");
    look_again(&certificates);
    assert_eq!(leaf(&certificates), first, "half of a pair is not taken");

    std::fs::write(&files.key_file, format!("{second_key}\n\n")).expect("written");
    look_again(&certificates);
    let second = leaf(&certificates);
    assert_ne!(second, first);

    std::fs::remove_file(&files.cert_file).expect("removed");
    look_again(&certificates);
    std::fs::write(&files.cert_file, "nonsense").expect("written");
    look_again(&certificates);
    assert_eq!(leaf(&certificates), second);
}

/// As certbot and cert-manager do it: files in a folder of their own, and a link that is swapped.
#[test]
fn a_link_that_leads_elsewhere_is_followed() {
    let directory = directory();
    let moment = SystemTime::now() - Duration::from_secs(60);
    let place = |name: &str, (cert, key): (String, String)| {
        let folder = directory.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        for (file, text) in [("server.pem", cert), ("server.key", key)] {
            let file = folder.join(file);
            // Neither size nor time tells the files apart.
            std::fs::write(&file, format!("{text}{}", " ".repeat(4096 - text.len())))
                .expect("written");
            let file = std::fs::File::options().write(true).open(file).expect("ours");
            file.set_modified(moment).expect("ours");
        }
        folder
    };
    let (first, second) = (place("..1", good_pair()), place("..2", good_pair()));
    let link = directory.path().join("live");
    std::os::unix::fs::symlink(&first, &link).expect("a link");
    let files = TlsFiles { cert_file: link.join("server.pem"), key_file: link.join("server.key") };
    let certificates = Certificates::from_files(files).expect("good");
    let before = leaf(&certificates);
    let swapped = directory.path().join("swapped");
    std::os::unix::fs::symlink(&second, &swapped).expect("a link");
    std::fs::rename(&swapped, &link).expect("swapped");
    look_again(&certificates);
    assert_ne!(leaf(&certificates), before);
}

#[test]
fn a_file_that_is_half_written_is_taken_when_it_is_whole() {
    let (cert, key) = good_pair();
    let directory = directory();
    let files = write(&directory, &cert, &key);
    let certificates = Certificates::from_files(files.clone()).expect("good");
    let first = leaf(&certificates);
    let (cert, key) = good_pair();
    std::fs::write(&files.key_file, &key).expect("written");
    for half in [&cert[..0], &cert[..cert.len() / 2], &cert[..cert.len() - 5]] {
        std::fs::write(&files.cert_file, half).expect("written");
        look_again(&certificates);
        assert_eq!(leaf(&certificates), first, "the old one stays");
    }
    std::fs::write(&files.cert_file, &cert).expect("written");
    look_again(&certificates);
    assert_ne!(leaf(&certificates), first);
}

fn own(directory: &TempDir) -> Result<Arc<Certificates>, TlsError> {
    Certificates::own(&directory.path().join("tls"), own_names(&[]))
}

#[test]
fn the_own_ca_is_made_once_and_the_certificate_anew_on_every_start() {
    let directory = directory();
    let first = own(&directory).expect("a CA");
    let (file, fingerprint) = first.own_ca().expect("an own CA");
    let second = own(&directory).expect("the same CA");
    assert_eq!(second.own_ca(), Some((file, fingerprint)));
    assert_ne!(leaf(&first), leaf(&second));
    let mode = |name: &str| {
        let file = directory.path().join("tls").join(name);
        std::fs::metadata(file).expect(name).permissions().mode() & 0o777
    };
    assert_eq!((mode("ca.key"), mode("ca.pem"), mode("")), (0o600, 0o644, 0o700));
}

#[test]
fn a_lost_key_is_an_error_and_an_unfinished_start_is_not() {
    let directory = directory();
    own(&directory).expect("a CA");
    let file = |name: &str| directory.path().join("tls").join(name);
    let kept = std::fs::read(file("ca.key")).expect("a key");
    std::fs::remove_file(file("ca.key")).expect("removed");
    assert!(matches!(own(&directory), Err(TlsError::LostKey { .. })));
    std::fs::write(file("ca.key"), kept).expect("written");
    std::fs::remove_file(file("ca.pem")).expect("removed");
    own(&directory).expect("a new CA");
    std::fs::write(file("ca.pem"), "").expect("written");
    let error = own(&directory).expect_err("damaged").to_string();
    assert!(error.contains("ca.pem"), "{error}");
}

#[test]
fn the_own_certificate_is_renewed_before_it_ends() {
    let directory = directory();
    let certificates = own(&directory).expect("a CA");
    let first = leaf(&certificates);
    look_again(&certificates);
    assert_eq!(leaf(&certificates), first);
    certificates.current().validity.until = now().after(Duration::from_secs(29 * 86_400));
    look_again(&certificates);
    assert_ne!(leaf(&certificates), first);
    assert!(certificates.valid_until() > now().after(Duration::from_secs(80 * 86_400)));
}

#[test]
fn a_certificate_of_a_time_to_come_is_replaced_when_the_clock_is_right_again() {
    let directory = directory();
    let certificates = own(&directory).expect("a CA");
    let first = leaf(&certificates);
    let years = Duration::from_secs(10 * 365 * 86_400);
    let ahead = Validity { from: now().after(years), until: now().after(2 * years) };
    certificates.current().validity = ahead;
    look_again(&certificates);
    assert_ne!(leaf(&certificates), first);
    assert!(certificates.valid_until() < now().after(years));
}

#[test]
fn a_clock_that_is_behind_the_own_ca_is_not_believed() {
    let directory = directory();
    let certificates = own(&directory).expect("a CA");
    let Origin::Own(ca) = &certificates.origin else { panic!("it is its own") };
    let validity = certificates.current().validity;
    let year = Duration::from_secs(365 * 86_400);
    let before = Timestamp(now().0 - year.as_millis() as u64);
    assert!(!ca.is_due(&validity, before));
    assert!(!ca.is_due(&validity, now()));
    assert!(ca.is_due(&validity, now().after(year)));
}

#[test]
fn own_names_cover_how_a_server_is_called() {
    let some = own_names(&["192.0.2.7:7070".parse().expect("an address")]);
    for name in ["localhost", "127.0.0.1", "::1", "192.0.2.7"] {
        assert!(some.iter().any(|have| have == name), "{name} in {some:?}");
    }
    let everywhere = own_names(&["0.0.0.0:7070".parse().expect("an address")]);
    assert!(everywhere.len() >= 3 && !everywhere.contains(&"0.0.0.0".to_string()));
    let unique: std::collections::HashSet<_> = everywhere.iter().collect();
    assert_eq!(unique.len(), everywhere.len());
}
