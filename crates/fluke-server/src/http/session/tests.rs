use proptest::prelude::*;

use super::*;

const NOON: Timestamp = Timestamp(1_700_000_000_000);
const NONCE: Nonce = [7; 16];

fn tokens() -> [SecretDigest; 2] {
    [SecretDigest::of("one"), SecretDigest::of("two")]
}

fn later(seconds: u64) -> Timestamp {
    NOON.after(Duration::from_secs(seconds))
}

#[test]
fn a_session_is_known_by_its_token_until_its_time_is_up() {
    let [one, two] = tokens();
    let session = Session::begin(" Anna Å. ", NONCE, NOON);
    assert_eq!(session.name.as_deref(), Some("Anna Å."));
    let value = session.sign(&two);
    assert_eq!(Session::read(&value, &[one, two], NOON), Some((session.clone(), 1)));
    assert_eq!(Session::read(&value, &[two], later(LIFE.as_secs() - 1)), Some((session, 0)));
    assert_eq!(Session::read(&value, &[two], later(LIFE.as_secs())), None, "expired");
    assert_eq!(Session::read(&value, &[one], NOON), None, "its token was taken out");
    assert_eq!(Session::read(&value, &[], NOON), None);
}

#[test]
fn a_session_that_is_used_lasts() {
    let session = Session::begin("", NONCE, NOON);
    assert_eq!(session.name, None);
    assert_eq!(session.renewed(later(RENEWED_AFTER.as_secs() - 1)), None);
    let renewed = session.renewed(later(RENEWED_AFTER.as_secs())).expect("due");
    assert_eq!((renewed.nonce, &renewed.name), (session.nonce, &None));
    assert_eq!(renewed.expires, session.expires + RENEWED_AFTER.as_secs());
}

#[test]
fn a_session_that_is_always_used_ends_all_the_same() {
    let [one, _] = tokens();
    let mut value = Session::begin("Anna", NONCE, NOON).sign(&one);
    let (mut hours, most) = (0, WHOLE_LIFE.as_secs() / 3600);
    // Used every hour, by cookies that were renewed: what is not in them is forgotten.
    while let Some((session, _)) = Session::read(&value, &[one], later(hours * 3600)) {
        assert!(hours < most, "it lives on");
        value = session.renewed(later(hours * 3600)).map_or(value, |renewed| renewed.sign(&one));
        hours += 1;
    }
    assert_eq!(hours, most);
}

#[test]
fn the_cookie_is_for_this_server_alone_and_out_of_reach_of_scripts() {
    let [one, _] = tokens();
    for cookie in [Session::begin("anna", NONCE, NOON).cookie(&one), forgotten()] {
        for attribute in ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"] {
            assert!(cookie.split("; ").any(|part| part == attribute), "{cookie}");
        }
        assert!(!cookie.contains("Domain"), "{cookie}");
        assert!(cookie.starts_with("__Host-"), "{cookie}");
    }
}

#[test]
fn names_are_bounded_and_printable() {
    let name = Session::begin(&"x\n\u{1b}".repeat(1000), NONCE, NOON).name.expect("a name");
    assert_eq!(name, "x".repeat(MAX_NAME));
    let turned = Session::begin("An\u{202e}na\u{200f} \u{2067}Å", NONCE, NOON).name;
    assert_eq!(turned.as_deref(), Some("Anna Å"));
    assert_eq!(Session::begin("\u{200b} \u{2028}", NONCE, NOON).name, None);
    let [one, _] = tokens();
    let widest = Session::begin(&"\u{10FFFF}".repeat(1000), NONCE, NOON);
    assert!(Session::read(&widest.sign(&one), &[one], NOON).is_some());
}

#[test]
fn one_cookie_is_ours_and_two_are_nobodys() {
    for (sent, ours) in [
        (vec!["__Host-fluke_session=a"], Some("a")),
        (vec!["x=1; __Host-fluke_session=a ; y=2"], Some("a")),
        (vec!["x=1", "__Host-fluke_session=a=b"], Some("a=b")),
        (vec!["__Host-fluke_session=a; __Host-fluke_session=b"], None),
        (vec!["__Host-fluke_session=a", "__Host-fluke_session=a"], None),
        (vec!["__HOST-FLUKE_SESSION=a; x__Host-fluke_session=a"], None),
        // A host beside this one, or a page over plain http, can set this and not ours.
        (vec!["fluke_session=b"], None),
        (vec!["fluke_session=b; __Host-fluke_session=a"], Some("a")),
        (vec!["__Host-fluke_session"], None),
        (vec![], None),
    ] {
        let mut headers = HeaderMap::new();
        for value in &sent {
            headers.append(header::COOKIE, value.parse().expect("a header"));
        }
        assert_eq!(shown(&headers), ours, "{sent:?}");
    }
}

#[test]
fn a_session_that_was_signed_out_is_remembered_and_memory_is_bounded() {
    let ended = Ended::default();
    ended.add(NONCE, NOON);
    assert!(ended.has(&NONCE) && !ended.has(&[8; 16]));
    for number in 0..2 * Ended::REMEMBERED as u128 {
        ended.add(number.to_be_bytes(), later(1));
    }
    let count =
        || ended.0.lock().map(|table| (table.nonces.len(), table.until.len())).expect("lock");
    assert_eq!(count(), (Ended::REMEMBERED, Ended::REMEMBERED));
    // Once their time is up, there is room without forgetting anything that matters.
    let afterwards = later(2 + LIFE.as_secs());
    ended.add(NONCE, afterwards);
    ended.add(NONCE, afterwards);
    assert_eq!(count(), (1, 1));
}

proptest! {
    #[test]
    fn whatever_is_sent_is_not_a_session(value in ".{0,200}") {
        prop_assert_eq!(Session::read(&value, &tokens(), NOON), None);
    }

    #[test]
    fn what_looks_like_one_is_none_either(
        expires in any::<u64>(), begun in any::<u64>(), nonce in "[0-9a-f]{32}", name in "[A-Za-z0-9_-]{0,20}",
        signature in "[A-Za-z0-9_-]{43}",
    ) {
        let value = format!("{expires}.{begun}.{nonce}.{name}.{signature}");
        prop_assert_eq!(Session::read(&value, &tokens(), NOON), None);
    }

    #[test]
    fn a_session_with_one_character_changed_is_none(
        name in "\\PC{0,20}", nonce in any::<Nonce>(), at in any::<prop::sample::Index>(),
        other in "[A-Za-z0-9._=-]",
    ) {
        let [one, two] = tokens();
        let session = Session::begin(&name, nonce, NOON);
        let value = session.sign(&one);
        prop_assert_eq!(Session::read(&value, &[two, one], NOON), Some((session, 1)));
        let at = at.index(value.len());
        let tampered = format!("{}{other}{}", &value[..at], &value[at + 1..]);
        if tampered != value {
            prop_assert_eq!(Session::read(&tampered, &[two, one], NOON), None, "{}", tampered);
        }
        prop_assert_eq!(Session::read(&value[..at], &[one], NOON), None);
    }

    #[test]
    fn cookies_of_any_kind_are_read_without_a_fuss(values in prop::collection::vec(any::<Vec<u8>>(), 0..4)) {
        let mut headers = HeaderMap::new();
        for value in values.iter().filter_map(|value| http::HeaderValue::from_bytes(value).ok()) {
            headers.append(header::COOKIE, value);
        }
        let _ = shown(&headers);
    }
}
