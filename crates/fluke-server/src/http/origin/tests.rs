use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, http::HeaderValue::from_static(value));
    }
    headers
}

#[test]
fn only_its_own_pages_are_its_own() {
    let host = ("host", "fluke.example:7071");
    let own = ("origin", "https://fluke.example:7071");
    for (case, given, is) in [
        ("no browser", vec![host], Origin::Unsaid),
        ("own page", vec![host, own], Origin::Own),
        ("own page, over http", vec![host, ("origin", "http://fluke.example:7071")], Origin::Own),
        ("own page, said by the site", vec![host, ("sec-fetch-site", "same-origin")], Origin::Own),
        ("own page, twice", vec![host, own, ("sec-fetch-site", "same-origin")], Origin::Own),
        ("contradicted", vec![host, own, ("sec-fetch-site", "cross-site")], Origin::Foreign),
        (
            "contradicted the other way",
            vec![host, ("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")],
            Origin::Foreign,
        ),
        ("another port", vec![host, ("origin", "https://fluke.example")], Origin::Foreign),
        ("another host", vec![host, ("origin", "https://evil.example:7071")], Origin::Foreign),
        ("a prefix", vec![host, ("origin", "https://fluke.example:7071.evil")], Origin::Foreign),
        ("no page", vec![host, ("origin", "null")], Origin::Foreign),
        ("an extension", vec![host, ("origin", "x://fluke.example:7071")], Origin::Foreign),
        ("empty", vec![host, ("origin", "")], Origin::Foreign),
        ("two", vec![host, own, own], Origin::Foreign),
        ("two hosts", vec![host, host, own], Origin::Foreign),
        ("same site, other origin", vec![host, ("sec-fetch-site", "same-site")], Origin::Foreign),
        ("cross site", vec![host, ("sec-fetch-site", "cross-site")], Origin::Foreign),
        ("typed in", vec![host, ("sec-fetch-site", "none")], Origin::Typed),
        ("origin without a host", vec![own], Origin::Foreign),
    ] {
        assert_eq!(origin(&headers(&given), &Uri::from_static("/x")), is, "{case}");
    }
    // Over HTTP/2 the host is part of the address.
    let uri = Uri::from_static("https://fluke.example:7071/x");
    assert_eq!(origin(&headers(&[own]), &uri), Origin::Own);
    assert_eq!(origin(&headers(&[("origin", "https://evil.example")]), &uri), Origin::Foreign);
}

#[test]
fn names_that_a_stranger_may_have_are_not_safe() {
    let own = ["fluke.big.com".to_string()];
    for (host, safe) in [
        ("127.0.0.1:7071", true),
        ("10.1.2.3", true),
        ("[::1]:7071", true),
        ("[fe80::1]", true),
        ("localhost:7071", true),
        ("LocalHost", true),
        ("fluke", true),
        ("fluke.lan:7071", true),
        ("fluke.dc1.internal.", true),
        ("fluke.default.svc:7071", true),
        ("fluke.default.svc.cluster.local", true),
        ("fluke.svc.evil.com", false),
        ("fluke.big.com:7071", true),
        ("FLUKE.big.com.", true),
        ("other.big.com", false),
        ("evil.com:7071", false),
        ("127.0.0.1.evil.com", false),
        ("localhost.evil.com", false),
        ("evillan.com", false),
        ("xlocal.com", false),
        ("", false),
        (":7071", false),
        (".", false),
        ("2130706433.evil.com", false),
    ] {
        assert_eq!(is_safe_name(host, &own), safe, "{host}");
    }
}

#[test]
fn secure_cookies_are_kept_over_http_on_this_machine_only() {
    for (host, is) in [
        ("localhost:7071", true),
        ("a.localhost", true),
        ("127.0.0.1", true),
        ("127.1.2.3:80", true),
        ("[::1]:7071", true),
        ("fluke.lan", false),
        ("10.0.0.1:7071", false),
        ("localhost.evil.com", false),
    ] {
        assert_eq!(is_loopback(host), is, "{host}");
    }
}
