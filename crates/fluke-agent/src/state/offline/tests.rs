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

    offline.connected(2 * MINUTE);
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
    offline.connected(MINUTE);
    assert_eq!(offline.repairs(&snapshot, &all_drifted(), now), [], "the server decides");
}

#[test]
fn what_fails_is_left_alone_for_longer_and_longer() {
    let start = Instant::now();
    let mut offline = Offline::new(MINUTE, start);
    let snapshot = held().snapshot.clone();
    let due = |offline: &Offline, after: u64| {
        !offline.repairs(&snapshot, &all_drifted(), start + Duration::from_secs(after)).is_empty()
    };
    offline.learn(&report(&[(0, Outcome::Failure), (1, Outcome::Skipped)]), start);
    assert!(!due(&offline, 9));
    assert!(due(&offline, 10));
    offline.learn(&report(&[(0, Outcome::AppliedButDrifted)]), start);
    assert!(!due(&offline, 19));
    assert!(due(&offline, 20));
    offline.learn(&report(&[(0, Outcome::Success), (1, Outcome::Success)]), start);
    assert!(due(&offline, 0));
}
