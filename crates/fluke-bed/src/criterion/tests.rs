//! A criterion that lets everything pass proves nothing.

use fluke_model::event::EventId;
use fluke_model::id::{StepAddress, TaskName};
use fluke_model::time::Timestamp;

use super::*;

fn event(at: u64, kind: EventKind, outcome: Option<Outcome>) -> Line {
    let mut event = Event::new(kind, Timestamp(at));
    event.id = EventId(at);
    event.task = Some(TaskName::new("page").expect("a name"));
    event.step = Some(StepAddress::new("shell", "file").expect("an address"));
    event.outcome = outcome;
    Line::Told(Box::new(event))
}

fn started(at: u64) -> Line {
    event(at, EventKind::ApplyStarted, None)
}

fn finished(at: u64, outcome: Outcome) -> Line {
    event(at, EventKind::ApplyFinished, Some(outcome))
}

fn of(account: &str, lines: Vec<Line>) -> Vec<String> {
    let chronicle = Chronicle(lines);
    broken(&Evidence { account: account.into(), chronicle, ..Evidence::default() })
}

#[test]
fn what_is_in_order_is_not_broken() {
    let well = vec![started(1), finished(2, Outcome::Success)];
    assert_eq!(of("begin page 1 7\nend page 1 7\n", well), Vec::<String>::new());
    let killed = vec![
        started(1),
        finished(2, Outcome::Interrupted),
        started(3),
        finished(4, Outcome::Success),
    ];
    let account = "begin page 1 7\nbegin page 1 8\nend page 1 8\n";
    assert_eq!(of(account, killed), Vec::<String>::new());
    // Interrupted before the command had said a word.
    let early = vec![started(1), finished(2, Outcome::Interrupted)];
    assert_eq!(of("", early), Vec::<String>::new());
}

#[test]
fn every_way_to_be_broken_is_seen() {
    let well = || vec![started(1), finished(2, Outcome::Success)];
    let account = "begin page 1 7\nend page 1 7\n";
    let cases = [
        ("no end", of("begin page 1 7\n", vec![started(1)])),
        ("no beginning", of("", vec![finished(2, Outcome::Success)])),
        ("two ends", of(account, [well(), vec![finished(3, Outcome::Success)]].concat())),
        ("two beginnings", of(account, [vec![started(0)], well()].concat())),
        ("nobody told", of(account, vec![])),
        ("never done", of("begin page 1 7\n", well())),
        ("twice on the host, once told", of(&account.repeat(2), well())),
        ("needless", of(&format!("needless page\n{account}"), well())),
        ("overlap", of(&format!("overlap page\n{account}"), well())),
        ("nonsense", of(&format!("hm\n{account}"), well())),
    ];
    for (case, broken) in cases {
        assert!(!broken.is_empty(), "{case}");
    }
}

#[test]
fn what_is_done_to_services_has_an_end_as_well() {
    let of_service = |line: Line| {
        let Line::Told(mut event) = line else { return line };
        event.task = None;
        event.step = Some(StepAddress::new("container", "web").expect("an address"));
        Line::Told(event)
    };
    let well = [started(1), finished(2, Outcome::Interrupted)].map(of_service);
    assert_eq!(of("", well.to_vec()), Vec::<String>::new());
    assert!(!of("", well[..1].to_vec()).is_empty(), "no end");
    assert!(!of("", well[1..].to_vec()).is_empty(), "no beginning");
}

#[test]
fn what_a_server_took_to_its_grave_is_not_held_against_the_agent() {
    let account = "begin page 1 7\nend page 1 7\n";
    assert_eq!(of(account, vec![started(1), Line::Unread]), Vec::<String>::new());
    let later = vec![Line::Unread, finished(2, Outcome::Success)];
    assert_eq!(of(account, later), Vec::<String>::new());
    let lost = vec![Line::Unread, started(3)];
    assert!(!of(account, lost).is_empty(), "what began after it has to end");
}

#[test]
fn state_that_cannot_be_read_is_seen() {
    let state = |name: &str, text: &str| {
        let state = [(name.to_string(), text.as_bytes().to_vec())].into();
        broken(&Evidence { state, ..Evidence::default() }).len()
    };
    for (name, text, problems) in [
        ("snapshot.json", "{}", 0),
        ("snapshot.json", "{", 1),
        ("snapshot.json.corrupt-1", "{}", 1),
        ("journal", "{}\n{}\n", 0),
        ("journal", "{}\n{", 1),
        ("run", "0123", 0),
    ] {
        assert_eq!(state(name, text), problems, "{name}: {text}");
    }
}
