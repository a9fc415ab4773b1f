use super::*;
use crate::services::fixture::{container, deployment, spec};

fn web(state: State) -> Container {
    container("c", &deployment("web", spec("web:1")), state)
}

#[test]
fn a_change_that_takes_longer_than_any_was_abandoned() {
    let (mut since, now) = (Since::default(), Instant::now());
    let second = Duration::from_secs(1);
    let changing = [web(State::Changing)];
    since.see(&changing, |_| false, now);
    since.see(&changing, |_| false, now + second);
    assert!(!since.is_abandoned("c", now + LONGEST_CHANGE - second), "it has its time");
    assert!(since.is_abandoned("c", now + LONGEST_CHANGE));
    assert!(!since.is_abandoned("another", now + LONGEST_CHANGE));
}

#[test]
fn a_change_counts_from_its_own_beginning_and_not_while_the_lane_makes_it() {
    let now = Instant::now();
    for (between, is_stopping) in [(State::Exited, false), (State::Changing, true)] {
        let (mut since, later) = (Since::default(), now + LONGEST_CHANGE);
        since.see(&[web(State::Changing)], |_| false, now);
        since.see(&[web(between)], |_| is_stopping, now);
        since.see(&[web(State::Changing)], |_| false, later);
        assert!(!since.is_abandoned("c", later));
        assert!(since.is_abandoned("c", later + LONGEST_CHANGE));
    }
}

#[test]
fn one_that_was_seen_before_is_as_old_as_then_whatever_clocks_say() {
    let hour = Duration::from_secs(3600);
    let now = Instant::now() + hour;
    let runs = |process, started| Container {
        process: Some(process),
        started: Some(started),
        ..web(State::Running)
    };
    let mut since = Since::default();
    since.see(&[runs(7, now)], |_| false, now);
    for set in [now - hour, now + hour] {
        assert_eq!(since.started(&runs(7, set)), Some(now));
        since.see(&[runs(7, set)], |_| false, now);
    }
    assert_eq!(since.started(&runs(7, now + hour)), Some(now), "however often it is seen");
    let next = now + Duration::from_secs(1);
    assert_eq!(since.started(&runs(8, next)), Some(next), "it is another life");
    let ended = Container { process: None, ..runs(7, next) };
    assert_eq!(since.started(&ended), Some(next));
}
