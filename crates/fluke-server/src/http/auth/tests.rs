use super::*;

const SOCKET: Peer = Peer::Socket { uid: Some(1000) };

#[test]
fn one_decision_for_each_route_and_caller() {
    use Access::*;
    use Refusal::*;
    let none = hashes::<&str>([]);
    let two = hashes(["one", "two"]);
    let socket = Ok(Caller::Socket { uid: Some(1000) });
    for (case, access, peer, valid, bearer, cross_site, decision) in [
        ("open to all", Open, Peer::Tcp, &two, None, true, Ok(Caller::Anonymous)),
        ("open to liars", Open, Peer::Tcp, &two, Some("wrong"), false, Ok(Caller::Anonymous)),
        ("read, no tokens set", Read, Peer::Tcp, &none, None, false, Ok(Caller::Anonymous)),
        ("change, no tokens set", Change, Peer::Tcp, &none, None, false, Err(ReadOnly)),
        ("any token, none set", Change, Peer::Tcp, &none, Some("one"), false, Err(ReadOnly)),
        ("empty token, none set", Change, Peer::Tcp, &none, Some(""), false, Err(ReadOnly)),
        ("read without", Read, Peer::Tcp, &two, None, false, Err(NoToken)),
        ("change without", Change, Peer::Tcp, &two, None, false, Err(NoToken)),
        ("read with a wrong one", Read, Peer::Tcp, &two, Some("on"), false, Err(WrongToken)),
        ("read with an empty one", Read, Peer::Tcp, &two, Some(""), false, Err(WrongToken)),
        ("change with a wrong one", Change, Peer::Tcp, &two, Some("ONE"), false, Err(WrongToken)),
        ("read with the first", Read, Peer::Tcp, &two, Some("one"), false, Ok(Caller::Token(1))),
        (
            "change with the second",
            Change,
            Peer::Tcp,
            &two,
            Some("two"),
            false,
            Ok(Caller::Token(2)),
        ),
        ("read from elsewhere", Read, Peer::Tcp, &two, Some("one"), true, Ok(Caller::Token(1))),
        ("change from elsewhere", Change, Peer::Tcp, &two, Some("one"), true, Err(CrossSite)),
        ("socket reads", Read, SOCKET, &two, None, false, socket),
        ("socket changes", Change, SOCKET, &two, None, false, socket),
        ("socket, no tokens set", Change, SOCKET, &none, None, false, socket),
        ("socket from elsewhere", Change, SOCKET, &none, None, true, Err(CrossSite)),
    ] {
        assert_eq!(authorise(access, peer, valid, bearer, cross_site), decision, "{case}");
    }
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let parsed = pairs.iter().map(|(name, value)| {
        let name = http::HeaderName::from_static(name);
        (name, http::HeaderValue::from_static(value))
    });
    parsed.collect()
}

#[test]
fn only_its_own_pages_are_the_same_site() {
    let host = ("host", "fluke.example:7071");
    for (case, given, cross_site) in [
        ("no browser", vec![host], false),
        ("own page", vec![host, ("origin", "https://fluke.example:7071")], false),
        (
            "own page, said twice",
            vec![host, ("origin", "http://fluke.example:7071"), ("sec-fetch-site", "same-origin")],
            false,
        ),
        ("another port", vec![host, ("origin", "https://fluke.example")], true),
        ("another host", vec![host, ("origin", "https://evil.example:7071")], true),
        ("a prefix", vec![host, ("origin", "https://fluke.example:7071.evil")], true),
        ("no page", vec![host, ("origin", "null")], true),
        ("same site, other origin", vec![host, ("sec-fetch-site", "same-site")], true),
        ("cross site", vec![host, ("sec-fetch-site", "cross-site")], true),
        ("typed in", vec![host, ("sec-fetch-site", "none")], true),
        ("origin without a host", vec![("origin", "https://fluke.example")], true),
    ] {
        let uri = Uri::from_static("/api/v1/reconcile");
        assert_eq!(is_cross_site(&headers(&given), &uri), cross_site, "{case}");
    }
    // Over HTTP/2 the host is part of the address.
    let uri = Uri::from_static("https://fluke.example:7071/api/v1/reconcile");
    assert!(!is_cross_site(&headers(&[("origin", "https://fluke.example:7071")]), &uri));
    assert!(is_cross_site(&headers(&[("origin", "https://evil.example")]), &uri));
}

#[test]
fn a_bearer_token_is_read_from_its_header() {
    for (value, token) in [
        ("Bearer abc", Some("abc")),
        ("bearer abc", Some("abc")),
        ("Basic abc", None),
        ("abc", None),
        ("Bearer", None),
    ] {
        let given = headers(&[("authorization", value)]);
        assert_eq!(bearer(&given), token, "{value}");
    }
}

#[test]
fn a_change_names_its_cause() {
    for (caller, claimed, said) in [
        (Caller::Socket { uid: Some(0) }, Some("ana"), "ana via socket (uid 0)"),
        (Caller::Socket { uid: None }, None, "somebody via socket"),
        (Caller::Token(2), Some("ana"), "ana via api token #2"),
        (Caller::Token(1), Some(" "), "somebody via api token #1"),
        (Caller::Token(1), Some("a\x1b[31m\nb"), "a[31mb via api token #1"),
    ] {
        assert_eq!(caller.describe(claimed), said);
    }
    assert!(Caller::Token(1).describe(Some(&"x".repeat(10_000))).len() < 200);
}

#[test]
fn tokens_can_be_rotated_without_a_gap() {
    let tokens = ApiTokens::new(["old"]);
    let knows = |token| position(&tokens.valid(), token).is_some();
    assert!(knows("old") && !knows("new"));
    tokens.replace(["old", "new"]);
    assert!(knows("old") && knows("new"));
    tokens.replace(["new"]);
    assert!(!knows("old") && knows("new"));
    assert!(!format!("{tokens:?}").contains("new"), "never shown");
}
