use super::super::config::{Router, RouterTls, Tls};
use super::*;

fn wanted(domains: &[&str], given: Vec<Pair>) -> Dynamic {
    let mut dynamic = Dynamic { tls: Tls { certificates: given }, ..Dynamic::default() };
    for domain in domains {
        let tls = RouterTls { passthrough: false, cert_resolver: Some(RESOLVER.into()) };
        let rule = Some(format!("Host(`{domain}`)"));
        let router = Router { rule, tls: Some(tls), ..Router::default() };
        dynamic.http.routers.insert(format!("{domain}.main"), router);
    }
    dynamic
}

/// As Traefik writes it.
fn store(domains: &[&str]) -> String {
    let kept =
        |domain: &&str| serde_json::json!({ "domain": { "main": domain }, "Store": "default" });
    let kept: Vec<Value> = domains.iter().map(kept).collect();
    serde_json::json!({ RESOLVER: { "Account": {}, "Certificates": kept } }).to_string()
}

#[test]
fn a_domain_without_a_certificate_is_named_after_a_while_until_it_has_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("acme.json");
    let (mut awaited, now) = (Awaited::default(), Instant::now());
    let both = wanted(&["a.example.com", "b.example.com"], Vec::new());
    let mut after = |seconds| {
        let then = now + Duration::from_secs(seconds);
        awaited.look(&both, &path, then);
        awaited.words(then, Timestamp::default())
    };
    assert_eq!(after(0), None, "there is not even a file");
    std::fs::write(&path, store(&["a.example.com"])).expect("room");
    assert_eq!(after(119), None);
    let words = after(120).unwrap_or_default();
    assert!(words.starts_with("there is no certificate for b.example.com yet"), "{words}");
    std::fs::write(&path, store(&["a.example.com", "b.example.com"])).expect("room");
    assert_eq!(after(121), None);
}

#[test]
fn who_was_refused_asks_again_with_pauses_that_grow() {
    let (mut awaited, now) = (Awaited::default(), Instant::now());
    let domain = |name: &str| BTreeSet::from([name.to_owned()]);
    let mut asked = Vec::new();
    for minute in 0..240 {
        if awaited.see(domain("a"), now + Duration::from_secs(60 * minute)) {
            asked.push(minute);
        }
    }
    assert_eq!(asked, [5, 15, 35, 75, 135, 195]);
    let then = now + Duration::from_secs(60 * 240);
    assert!(!awaited.see(domain("b"), then), "it was asked for with its route");
    assert!(awaited.see(domain("b"), then + FIRST));
    assert!(!awaited.see(BTreeSet::new(), then + 2 * LONGEST), "there is nothing to ask for");
}

#[test]
fn what_is_given_is_not_waited_for() {
    let made = rcgen::generate_simple_self_signed(["*.example.com".to_owned()]).expect("a pair");
    let key_file = made.signing_key.serialize_pem();
    let given = vec![Pair { cert_file: made.cert.pem(), key_file }];
    let (mut awaited, now) = (Awaited::default(), Instant::now());
    let store = Path::new("/nonexistent");
    awaited.look(&wanted(&["a.example.com"], given.clone()), store, now);
    assert_eq!(awaited.words(now + PATIENCE, Timestamp::default()), None);
    awaited.look(&wanted(&["a.example.org"], given), store, now);
    assert!(awaited.words(now + PATIENCE, Timestamp::default()).is_some());
}

/// As Traefik keeps one that is good until the first of a month of 2027.
fn kept_until(domain: &str, month: u8) -> Value {
    let mut params = rcgen::CertificateParams::new([domain.to_owned()]).expect("a name");
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2027, month, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let pem = params.self_signed(&key).expect("a certificate").pem();
    let certificate = BASE64_STANDARD.encode(pem);
    serde_json::json!({ "domain": { "main": domain }, "certificate": certificate })
}

#[test]
fn a_certificate_that_nobody_renews_is_named_before_its_end_and_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("acme.json");
    let write = |all: &[Value]| {
        let store = serde_json::json!({ RESOLVER: { "Certificates": all } });
        std::fs::write(&path, store.to_string()).expect("room");
    };
    let (mut awaited, now) = (Awaited::default(), Instant::now());
    let both = wanted(&["a.example.com", "b.example.com"], Vec::new());
    let mut on = |day: &str| {
        let today = format!("{day}T12:00:00Z").try_into().expect("a day");
        assert!(!awaited.look(&both, &path, now), "to ask does not renew it");
        awaited.words(now, today)
    };
    write(&[kept_until("a.example.com", 3), kept_until("b.example.com", 6)]);
    assert_eq!(on("2027-02-01"), None, "there is time");
    let words = on("2027-02-20").unwrap_or_default();
    let named = "nobody renewed the certificate for a.example.com, which ends on 2027-03-01: ";
    assert!(words.starts_with(named), "{words}");
    let words = on("2027-07-01").unwrap_or_default();
    for (domain, end) in [("a", "2027-03-01"), ("b", "2027-06-01")] {
        let named = format!("for {domain}.example.com, which ended on {end}");
        assert!(words.contains(&named), "{words}");
    }
    write(&[kept_until("a.example.com", 12), kept_until("b.example.com", 12)]);
    assert_eq!(on("2027-07-01"), None, "they were renewed");
}

#[test]
fn of_a_certificate_that_nobody_needs_any_more_nothing_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("acme.json");
    let kept = [kept_until("a.example.com", 3), kept_until("b.example.com", 12)];
    let store = serde_json::json!({ RESOLVER: { "Certificates": kept } });
    std::fs::write(&path, store.to_string()).expect("room");
    let made = rcgen::generate_simple_self_signed(["a.example.com".to_owned()]).expect("a pair");
    let key_file = made.signing_key.serialize_pem();
    let given = vec![Pair { cert_file: made.cert.pem(), key_file }];
    let (mut awaited, now) = (Awaited::default(), Instant::now());
    let today = Timestamp::try_from("2027-02-20T12:00:00Z".to_owned()).expect("a day");
    let both = ["a.example.com", "b.example.com"];
    let table = [
        (wanted(&both, Vec::new()), true),
        (wanted(&both[1..], Vec::new()), false),
        (wanted(&both, Vec::new()), true),
        (wanted(&both, given), false),
        (wanted(&both, Vec::new()), true),
    ];
    for (number, (wanted, is_named)) in table.into_iter().enumerate() {
        awaited.look(&wanted, &path, now);
        assert_eq!(awaited.words(now, today).is_some(), is_named, "{number}");
    }
}
