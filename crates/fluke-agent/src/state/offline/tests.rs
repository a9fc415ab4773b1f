use std::sync::Arc;

use fluke_model::id::CommitId;
use fluke_model::policy::Trigger;
use fluke_model::verdict::{Drift, Outcome};

use super::super::Held;
use super::super::processing::Cause;
use super::super::tests::task;
use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn held() -> Arc<Held> {
    let tasks = vec![
        task("a-silent", Policy::Remediate, &["x", "y"]),
        task("b-told", Policy::RemediateAndAlert, &["x"]),
        task("c-human", Policy::AlertOnly, &["x"]),
    ];
    let snapshot = Arc::new(Snapshot::new(tasks));
    Arc::new(Held { commit: CommitId::new("c0ffee"), snapshot })
}

fn all_drifted() -> Vec<(StepIndex, Verdict)> {
    (0..4).map(|n| (StepIndex(n), Verdict::Drifted(Drift::because("gone")))).collect()
}

fn report(outcomes: &[(u32, Outcome)]) -> Report {
    let outcomes = outcomes.iter().map(|(step, outcome)| (StepIndex(*step), *outcome)).collect();
    let cause = Cause { instruction: None, trigger: Trigger::Offline };
    Report { held: held(), cause, outcomes }
}

#[test]
fn the_agent_looks_by_itself_only_one_interval_after_it_was_left_alone() {
    let start = Instant::now();
    let mut offline = Offline::new(MINUTE, start);
    assert_eq!(offline.next_look(), Some(start + MINUTE));

    offline.connected(2 * MINUTE, start);
    assert_eq!(offline.next_look(), None);
    offline.looked(start);
    assert_eq!(offline.next_look(), None);

    offline.lost(start);
    assert_eq!(offline.next_look(), Some(start + 2 * MINUTE));
    offline.lost(start + MINUTE);
    assert_eq!(offline.next_look(), Some(start + 2 * MINUTE), "failed attempts change nothing");
    offline.looked(start + 3 * MINUTE);
    assert_eq!(offline.next_look(), Some(start + 5 * MINUTE));
}

#[test]
fn only_what_may_be_repaired_silently_is_repaired() {
    let now = Instant::now();
    let mut offline = Offline::new(MINUTE, now);
    let snapshot = held().snapshot.clone();
    assert_eq!(offline.repairs(&snapshot, &all_drifted(), now), [StepIndex(0), StepIndex(1)]);
    offline.connected(MINUTE, now);
    assert_eq!(offline.repairs(&snapshot, &all_drifted(), now), [], "the server decides");
}

#[test]
fn what_just_failed_for_the_server_is_left_alone_however_often_the_connection_goes() {
    let start = Instant::now();
    let second = Duration::from_secs(1);
    let mut offline = Offline::new(MINUTE, start);
    let snapshot = held().snapshot.clone();
    offline.connected(MINUTE, start);
    offline.learn(&report(&[(0, Outcome::Failure)]), start);
    offline.lost(start + second);
    assert_eq!(offline.repairs(&snapshot, &all_drifted(), start + second), []);
    offline.connected(MINUTE, start + 2 * second);
    offline.lost(start + 3 * second);
    assert_eq!(offline.repairs(&snapshot, &all_drifted(), start + 3 * second), []);
    assert_eq!(offline.next_look(), Some(start + 10 * second), "then it is due");
    offline.connected(MINUTE, start + 11 * second);
    offline.lost(start + 12 * second);
    assert_eq!(offline.next_look(), Some(start + 12 * second + MINUTE), "long over");
}

#[test]
fn what_the_agent_may_have_ended_of_is_left_alone() {
    let start = Instant::now();
    let second = Duration::from_secs(1);
    let mut offline = Offline::new(MINUTE, start);
    let held = held();
    let tasks = held.snapshot.tasks().iter().map(|task| &task.name);
    offline.leave_alone(tasks, start);
    offline.connected(MINUTE, start + second);
    offline.lost(start + 9 * second);
    assert_eq!(offline.repairs(&held.snapshot, &all_drifted(), start + 9 * second), []);
    assert_ne!(offline.repairs(&held.snapshot, &all_drifted(), start + 10 * second), []);
}

#[test]
fn what_fails_is_left_alone_for_longer_and_longer() {
    let start = Instant::now();
    let mut offline = Offline::new(MINUTE, start);
    let snapshot = held().snapshot.clone();
    let due = |offline: &mut Offline, after: u64| {
        !offline.repairs(&snapshot, &all_drifted(), start + Duration::from_secs(after)).is_empty()
    };
    offline.learn(&report(&[(0, Outcome::Failure), (1, Outcome::Skipped)]), start);
    assert!(!due(&mut offline, 9));
    assert!(due(&mut offline, 10));
    offline.learn(&report(&[(0, Outcome::AppliedButDrifted)]), start);
    assert!(!due(&mut offline, 19));
    assert!(due(&mut offline, 20));
    offline.learn(&report(&[(0, Outcome::Success), (1, Outcome::Success)]), start);
    assert!(due(&mut offline, 0));
}

#[test]
fn a_failed_repair_is_tried_again_after_its_pause_and_not_only_at_the_next_look() {
    let start = Instant::now();
    let mut offline = Offline::new(60 * MINUTE, start);
    offline.learn(&report(&[(0, Outcome::Failure)]), start);
    let due = start + Duration::from_secs(10);
    assert_eq!(offline.next_look(), Some(due));
    let errors: Vec<_> = all_drifted()
        .into_iter()
        .map(|(step, _)| (step, Verdict::Error { reason: "cannot tell".into() }))
        .collect();
    assert_eq!(offline.repairs(&held().snapshot, &errors, due), []);
    assert_eq!(offline.next_look(), Some(start + 60 * MINUTE), "it was tried");
}

#[test]
fn only_steps_that_were_looked_at_are_repaired() {
    let now = Instant::now();
    let mut offline = Offline::new(MINUTE, now);
    let one = [(StepIndex(1), Verdict::Drifted(Drift::because("killed")))];
    assert_eq!(offline.repairs(&held().snapshot, &one, now), [StepIndex(1)]);
}

#[test]
fn what_dies_whenever_it_was_put_right_is_left_alone_for_longer_and_longer() {
    let now = Instant::now();
    let mut offline = Offline::new(60 * MINUTE, now);
    let snapshot = held().snapshot.clone();
    let relapse = |offline: &mut Offline| {
        let due = offline.repairs(&snapshot, &all_drifted(), now);
        offline.learn(&report(&[(0, Outcome::Success), (1, Outcome::Success)]), now);
        !due.is_empty()
    };
    let tries = (0..100).filter(|_| relapse(&mut offline)).count();
    assert_eq!(tries as u32, policy::FREE_RELAPSES + 1);
}

#[test]
fn the_agent_knows_that_it_is_alone_once_it_was_left_or_could_not_reach_anybody() {
    let now = Instant::now();
    let mut offline = Offline::new(MINUTE, now);
    assert!(!offline.is_alone(), "the server may be there in a moment");
    offline.unreached();
    assert!(offline.is_alone());
    offline.connected(MINUTE, now);
    assert!(!offline.is_alone());
    offline.lost(now);
    assert!(offline.is_alone());
}

#[test]
fn what_failed_and_is_not_for_the_agent_to_repair_is_no_reason_to_look_again_and_again() {
    let start = Instant::now();
    let mut offline = Offline::new(60 * MINUTE, start);
    offline.learn(&report(&[(0, Outcome::Failure)]), start);
    let due = offline.next_look().expect("alone");
    offline.looked(due);
    assert_eq!(offline.next_look(), Some(due + 60 * MINUTE));
}
