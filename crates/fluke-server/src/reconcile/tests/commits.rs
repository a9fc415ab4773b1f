//! Git goes on: what a commit starts, waits for, and replaces.

use super::*;

#[test]
fn a_commit_that_changes_nothing_here_starts_nothing() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[ok(0)]);
    assert_eq!(told(&lab.commit("c2", &[quiet("a")])), Vec::<String>::new());
    assert_eq!(lab.machine.view().commit, Some(CommitId::new("c2")));
}

#[test]
fn a_commit_checks_only_what_it_changed() {
    let mut lab = Lab::with(&[quiet("a"), quiet("b")]);
    lab.answer(&[ok(0), ok(1)]);
    let changed = task("b", Policy::Remediate, &["y"]);
    let sent = lab.commit("c2", &[quiet("a"), changed, quiet("c")]);
    assert_eq!(told(&sent), ["snapshot", "check 1,2"]);
    assert_eq!(told(&lab.answer(&[off(1), ok(2)])), ["apply 1"]);
}

#[test]
fn a_newer_commit_waits_for_an_apply_and_only_the_newest_counts() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[off(0)]);
    assert_eq!(told(&lab.commit("c2", &[quiet("b")])), ["snapshot"], "to be kept for later");
    assert_eq!(told(&lab.commit("c3", &[quiet("c")])), ["snapshot"]);
    assert_eq!(lab.machine.view().commit, Some(CommitId::new("c1")), "it works from one snapshot");
    assert_eq!(told(&lab.perform(Outcome::Success)), ["check all"]);
    assert_eq!(lab.machine.view().commit, Some(CommitId::new("c3")));
    let commits: Vec<_> = lab.events.iter().filter_map(|event| event.commit.clone()).collect();
    assert!(commits.iter().all(|commit| commit.as_str() == "c1"), "no event mixes commits");
}

#[test]
fn a_commit_that_is_taken_back_during_an_apply_is_taken_back_on_the_host() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[off(0)]);
    assert_eq!(told(&lab.commit("c2", &[quiet("b")])), ["snapshot"]);
    assert_eq!(told(&lab.commit("c3", &[quiet("a")])), ["snapshot"]);
    assert!(lab.commit("c4", &[quiet("a")]).is_empty(), "it has that");
    assert!(lab.perform(Outcome::Success).is_empty(), "nothing is new");
    assert_eq!(lab.machine.view().commit, Some(CommitId::new("c4")));
    assert_eq!(lab.status(), Status::InSync);
}

#[test]
fn a_snapshot_that_cannot_be_sent_leaves_the_apply_that_is_under_way_alone() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[off(0)]);
    lab.commit("c2", &[quiet("b")]);
    lab.step(Input::Unsendable { why: "too large".into() });
    assert_eq!(lab.status(), Status::Failed);
    assert!(lab.commit("c3", &[quiet("b")]).is_empty(), "it would be too large again");
    assert!(lab.perform(Outcome::Success).is_empty());
    assert_eq!(lab.kinds().iter().filter(|kind| **kind == "apply_finished").count(), 1);
    assert_eq!(told(&lab.commit("c4", &[quiet("c")])), ["snapshot", "check all"]);
    assert!(lab.kinds().contains(&"check_recovered"));
}

#[test]
fn a_newer_commit_replaces_a_check_and_its_late_answer_counts_for_nothing() {
    let mut lab = Lab::with(&[quiet("a")]);
    let stale = lab.last.clone();
    assert_eq!(told(&lab.commit("c2", &[quiet("b")])), ["snapshot", "check all"]);
    let current = std::mem::replace(&mut lab.last, stale);
    assert!(lab.answer(&[off(0)]).is_empty());
    assert_eq!(lab.status(), Status::Unknown);
    lab.last = current;
    assert_eq!(told(&lab.answer(&[off(0)])), ["apply 0"]);
}

#[test]
fn a_new_snapshot_tries_a_failing_task_at_once() {
    let mut lab = Lab::with(&[quiet("a"), quiet("b")]);
    lab.answer(&[off(0), ok(1)]);
    lab.perform(Outcome::AppliedButDrifted);
    assert_eq!(lab.machine.drift()[0].status, StepStatus::AppliedButDrifted);
    assert_eq!(told(&lab.commit("c2", &[quiet("a")])), ["snapshot", "check all"]);
    assert_eq!(told(&lab.answer(&[off(0)])), ["apply 0"]);
}

#[test]
fn a_task_that_no_longer_applies_is_no_drift_any_more() {
    let mut lab = Lab::with(&[task("a", Policy::AlertOnly, &["x"]), quiet("b")]);
    lab.answer(&[off(0), ok(1)]);
    assert_eq!(told(&lab.commit("c2", &[quiet("b")])), ["snapshot"], "nothing new to check");
    assert!(lab.machine.drift().is_empty());
    assert_eq!(lab.alerts.last(), Some(&News::DriftResolved));
    assert_eq!(lab.status(), Status::InSync);
}
