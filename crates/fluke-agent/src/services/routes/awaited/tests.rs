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
        awaited.words(then)
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
    assert_eq!(awaited.words(now + PATIENCE), None);
    awaited.look(&wanted(&["a.example.org"], given), store, now);
    assert!(awaited.words(now + PATIENCE).is_some());
}
