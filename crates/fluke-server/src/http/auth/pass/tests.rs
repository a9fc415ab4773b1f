use std::time::Duration;

use super::*;
use crate::http::auth::hashes;
use crate::http::session::LIFE;

const NOON: Timestamp = Timestamp(1_700_000_000_000);

fn anna(token: &str) -> SignedIn {
    let session = Session::begin("Anna", [7; 16], NOON);
    SignedIn { session, token: SecretDigest::of(token), number: 1 }
}

fn browser() -> Caller {
    Caller::Browser { token: 1, name: Some("Anna".into()) }
}

#[test]
fn a_pass_is_of_the_token_that_was_shown_whatever_takes_its_place() {
    let (valid, ended) = (hashes(["shown", "other"]), Ended::default());
    let pass = Pass::of(&Caller::Token(1), &valid, None);
    assert!(pass.holds_at(NOON, &valid, &ended));
    assert!(pass.holds_at(NOON, &hashes(["new", "shown"]), &ended), "it only moved");
    assert!(!pass.holds_at(NOON, &hashes(["new", "other"]), &ended), "another is the first now");
    assert!(!pass.holds_at(NOON, &[], &ended), "and now nobody is asked, but this one was");
}

#[test]
fn a_pass_is_no_longer_good_than_its_session() {
    let (valid, ended) = (hashes(["shown"]), Ended::default());
    let pass = Pass::of(&browser(), &valid, Some(&anna("shown")));
    let until = NOON.after(LIFE);
    let just_before = Timestamp(until.0 - Duration::from_secs(1).as_millis() as u64);
    assert!(pass.holds_at(just_before, &valid, &ended));
    assert!(!pass.holds_at(until, &valid, &ended), "its time is up");
    assert!(!pass.holds_at(NOON, &hashes(["other"]), &ended), "its token was taken out");
    ended.add([7; 16], NOON);
    assert!(!pass.holds_at(NOON, &valid, &ended), "signed out");
}

#[test]
fn who_needed_nothing_needs_something_once_it_is_asked_for() {
    let ended = Ended::default();
    let pass = Pass::of(&Caller::Anonymous, &[], None);
    assert!(pass.holds_at(NOON, &[], &ended) && !pass.holds_at(NOON, &hashes(["new"]), &ended));
    let local = Pass::of(&Caller::Socket { uid: Some(0) }, &[], None);
    assert!(local.holds_at(NOON, &hashes(["new"]), &ended));
}
