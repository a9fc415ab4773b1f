//! An approval is of what was seen: of nothing that Git or the host has become since.

use super::*;

fn certs(command: &str) -> SnapshotTask {
    task("certs", Policy::AlertOnly, &[command])
}

fn off_because(step: u32, reason: &str) -> (u32, Verdict) {
    (step, Verdict::Drifted(Drift::because(reason)))
}

fn off_by(step: u32, diff: &str) -> (u32, Verdict) {
    (step, Verdict::Drifted(Drift { reason: "differs".into(), diff: Some(diff.into()) }))
}

#[test]
fn what_was_seen_is_applied() {
    let mut lab = Lab::with(&[certs("renew")]);
    lab.answer(&[off(0)]);
    assert_eq!(told(&lab.approve("certs")), ["check 0"]);
    assert_eq!(told(&lab.answer(&[off(0)])), ["apply 0"]);
    lab.perform(Outcome::Success);
    assert_eq!(lab.progress.last(), Some(&Progress::Ended { error: None }));
}

#[test]
fn an_approval_is_not_for_what_drifts_after_it() {
    let mut lab = Lab::with(&[task("a", Policy::AlertOnly, &["x", "y"])]);
    lab.answer(&[off(0), ok(1)]);
    lab.approve("a");
    assert!(lab.answer(&[off(1)]).is_empty(), "nobody saw that the second has drifted");
    assert!(lab.refusal().contains("now: shell.s1 (check exited 1);"), "{}", lab.refusal());
    lab.approve("a");
    assert_eq!(told(&lab.answer(&[])), ["apply 0,1"]);
}

#[test]
fn an_approval_is_not_for_a_commit_that_comes_while_the_check_runs() {
    let mut lab = Lab::with(&[certs("renew")]);
    lab.answer(&[off(0)]);
    assert_eq!(told(&lab.approve("certs")), ["check 0"]);

    let sent = lab.commit("c2", &[certs("rm -rf /")]);
    assert_eq!(told(&sent), ["snapshot", "check all"], "the commit's own check");
    assert!(lab.answer(&[off(0)]).is_empty(), "the same drift, and another command for it");
    let why = "the task `certs` was changed in Git since this was approved (commit c2)";
    assert!(lab.refusal().contains(why), "{}", lab.refusal());
    assert!(!lab.kinds().contains(&"apply_started"));

    lab.approve("certs");
    assert_eq!(told(&lab.answer(&[])), ["apply 0"], "it was looked at again");
}

#[test]
fn an_approval_is_not_for_a_commit_that_waits_for_an_apply_to_end() {
    let other = quiet("other");
    let mut lab = Lab::with(&[certs("renew"), other.clone()]);
    assert_eq!(told(&lab.answer(&[off(0), off(1)])), ["apply 1"]);
    lab.commit("c2", &[certs("rm -rf /"), other]);
    lab.approve("certs");
    assert_eq!(told(&lab.perform(Outcome::Success)), ["check 0"]);
    assert!(lab.answer(&[off(0)]).is_empty());
    assert!(lab.refusal().contains("was changed in Git"), "{}", lab.refusal());
}

#[test]
fn an_approval_survives_a_commit_that_leaves_its_task_alone() {
    let mut lab = Lab::with(&[certs("renew")]);
    lab.answer(&[off(0)]);
    lab.approve("certs");
    assert_eq!(told(&lab.commit("c2", &[certs("renew"), quiet("new")])), ["snapshot", "check 1"]);
    assert_eq!(told(&lab.answer(&[ok(1)])), ["check 0"]);
    assert_eq!(told(&lab.answer(&[])), ["apply 0"]);
}

#[test]
fn an_approval_is_not_for_another_reason_or_another_difference() {
    for (seen, found) in [
        (off(0), off_because(0, "the key is gone")),
        (off_by(0, "-a\n+b"), off_by(0, "-a\n+c")),
        (unsure(0), off(0)),
    ] {
        let mut lab = Lab::with(&[certs("renew")]);
        lab.answer(std::slice::from_ref(&seen));
        lab.approve("certs");
        let sent = lab.answer(std::slice::from_ref(&found));
        assert!(sent.is_empty(), "{seen:?}, then {found:?}");
        assert!(lab.refusal().contains("is no longer what was approved"), "{}", lab.refusal());
        lab.approve("certs");
        assert_eq!(told(&lab.answer(&[])), ["apply 0"], "it was looked at again");
    }
}

#[test]
fn what_failed_can_be_approved_again_though_its_apply_told_no_difference() {
    let mut lab = Lab::with(&[certs("renew")]);
    lab.answer(&[off_by(0, "-a\n+b")]);
    lab.approve("certs");
    lab.answer(&[]);
    lab.record(StepIndex(0), Fact::Began { reason: "differs".into() });
    let output = Output::from_text("no");
    lab.record(StepIndex(0), Fact::Ended { outcome: Outcome::Failure, duration_ms: 1, output });
    lab.finish();
    lab.approve("certs");
    assert_eq!(told(&lab.answer(&[off_by(0, "-a\n+b")])), ["apply 0"]);
}

#[test]
fn whoever_asks_for_a_task_that_is_taken_away_meanwhile_is_told_that_nothing_was_done() {
    for is_approval in [false, true] {
        let mut lab = Lab::with(&[certs("renew"), quiet("other")]);
        lab.answer(&[off(0), ok(1)]);
        match is_approval {
            true => lab.approve("certs"),
            false => lab.ask(Some("certs")),
        };
        lab.commit("c2", &[quiet("other")]);
        assert!(lab.refusal().contains("`certs` no longer applies"), "{}", lab.refusal());
    }
}
