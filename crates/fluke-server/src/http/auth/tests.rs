use super::*;

const SOCKET: Peer = Peer::Socket { uid: Some(1000) };

/// A request over the network that asks to look and shows nothing.
fn asked(access: Access) -> Asked<'static> {
    let (peer, origin) = (Peer::Tcp, Origin::Unsaid);
    Asked { access, peer, shown: Shown::Nothing, origin, strange_name: false }
}

impl<'a> Asked<'a> {
    fn showing(self, token: &'a str) -> Self {
        Self { shown: Shown::Bearer(token), ..self }
    }

    fn signed_in(self) -> Self {
        Self { shown: Shown::Session { token: 2, name: Some("anna".into()) }, ..self }
    }

    fn of(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    fn local(self) -> Self {
        Self { peer: SOCKET, ..self }
    }

    fn by_a_strange_name(self) -> Self {
        Self { strange_name: true, ..self }
    }
}

#[test]
fn one_decision_for_each_route_and_caller() {
    use Access::*;
    use Refusal::*;
    let two = hashes(["one", "two"]);
    let anonymous = Ok(Caller::Anonymous);
    let socket = Ok(Caller::Socket { uid: Some(1000) });
    let anna = Ok(Caller::Browser { token: 2, name: Some("anna".into()) });
    for (case, asked, decision) in [
        ("open to all", asked(Open).of(Origin::Foreign), anonymous.clone()),
        ("open to liars", asked(Open).showing("wrong"), anonymous.clone()),
        ("read without", asked(Read), Err(NoToken)),
        ("page without", asked(Page), Err(NoToken)),
        ("change without", asked(Change), Err(NoToken)),
        ("read with a wrong one", asked(Read).showing("on"), Err(WrongToken)),
        ("read with an empty one", asked(Read).showing(""), Err(WrongToken)),
        ("change with a wrong one", asked(Change).showing("ONE"), Err(WrongToken)),
        ("read with the first", asked(Read).showing("one"), Ok(Caller::Token(1))),
        ("change with the second", asked(Change).showing("two"), Ok(Caller::Token(2))),
        ("any name will do", asked(Read).showing("one").by_a_strange_name(), Ok(Caller::Token(1))),
        (
            "a program that reads says anything",
            asked(Read).showing("one").of(Origin::Foreign),
            Ok(Caller::Token(1)),
        ),
        ("but no change", asked(Change).showing("one").of(Origin::Foreign), Err(CrossSite)),
        ("nor typed in", asked(Change).showing("one").of(Origin::Typed), Err(CrossSite)),
        ("read by session", asked(Read).signed_in(), anna.clone()),
        ("page by session", asked(Page).signed_in(), anna.clone()),
        (
            "page by a link from elsewhere",
            asked(Page).signed_in().of(Origin::Foreign),
            anna.clone(),
        ),
        ("data for a page elsewhere", asked(Read).signed_in().of(Origin::Foreign), Err(CrossSite)),
        ("typed in", asked(Read).signed_in().of(Origin::Typed), anna.clone()),
        ("change by session", asked(Change).signed_in().of(Origin::Own), anna),
        ("without saying where from", asked(Change).signed_in(), Err(CrossSite)),
        ("from elsewhere", asked(Change).signed_in().of(Origin::Foreign), Err(CrossSite)),
        ("the door from its page", asked(OwnPage).of(Origin::Own), anonymous.clone()),
        ("the door from nowhere", asked(OwnPage), Err(CrossSite)),
        ("the door from elsewhere", asked(OwnPage).of(Origin::Foreign), Err(CrossSite)),
        ("the door, with a token", asked(OwnPage).showing("one"), Err(CrossSite)),
        ("socket reads", asked(Read).local(), socket.clone()),
        ("socket changes", asked(Change).local(), socket.clone()),
        ("socket, own page", asked(Change).local().of(Origin::Own), socket.clone()),
        ("socket from elsewhere", asked(Change).local().of(Origin::Foreign), Err(CrossSite)),
        ("socket, data for elsewhere", asked(Read).local().of(Origin::Foreign), Err(CrossSite)),
        ("socket by a strange name", asked(Read).local().by_a_strange_name(), Err(StrangeName)),
        (
            "socket, rebound",
            asked(Change).local().of(Origin::Own).by_a_strange_name(),
            Err(StrangeName),
        ),
    ] {
        assert_eq!(authorise(asked, &two), decision, "{case}");
    }
    for (case, asked, decision) in [
        ("read, no tokens set", asked(Read), anonymous.clone()),
        ("page, no tokens set", asked(Page), anonymous.clone()),
        ("change, no tokens set", asked(Change), Err(ReadOnly)),
        ("any token, none set", asked(Change).showing("one"), Err(ReadOnly)),
        ("empty token, none set", asked(Change).showing(""), Err(ReadOnly)),
        ("a session of old", asked(Change).signed_in().of(Origin::Own), Err(ReadOnly)),
        ("rebound", asked(Read).by_a_strange_name(), Err(StrangeName)),
        ("rebound, with a token", asked(Read).showing("x").by_a_strange_name(), Err(StrangeName)),
        ("data for elsewhere", asked(Read).of(Origin::Foreign), Err(CrossSite)),
        ("a token changes nothing", asked(Read).showing("x").of(Origin::Foreign), Err(CrossSite)),
        ("page by a link", asked(Page).of(Origin::Foreign), anonymous),
        ("socket, no tokens set", asked(Change).local(), socket),
    ] {
        assert_eq!(authorise(asked, &[]), decision, "{case}");
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
    let anna = |name: Option<&str>| Caller::Browser { token: 3, name: name.map(Into::into) };
    for (caller, claimed, said) in [
        (Caller::Socket { uid: Some(0) }, Some("ana"), "ana via socket (uid 0)"),
        (Caller::Socket { uid: None }, None, "somebody via socket"),
        (Caller::Token(2), Some("ana"), "ana via api token #2"),
        (anna(Some("anna")), Some("ben"), "anna via api token #3 (browser)"),
        (anna(None), Some("ben"), "ben via api token #3 (browser)"),
        (anna(None), None, "somebody via api token #3 (browser)"),
        (Caller::Token(1), Some(" "), "somebody via api token #1"),
        (Caller::Token(1), Some("a\x1b[31m\nb"), "a[31mb via api token #1"),
        (Caller::Token(1), Some("\u{202e}anna\u{2066}\u{2028}"), "anna via api token #1"),
        (Caller::Token(1), Some("\u{200b}\u{feff}\u{e0061}"), "somebody via api token #1"),
        (Caller::Token(1), Some("Åse 王 ☃"), "Åse 王 ☃ via api token #1"),
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
