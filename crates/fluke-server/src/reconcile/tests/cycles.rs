//! What is checked and put right, when, and what is told of it.

use super::*;

#[test]
fn a_new_host_is_checked_and_put_right() {
    let mut lab = Lab::new();
    assert_eq!(lab.status(), Status::Offline);
    assert_eq!(told(&lab.connect(&[quiet("a"), quiet("b")])), ["snapshot", "check all"]);
    assert_eq!(lab.status(), Status::Unknown);
    assert_eq!(told(&lab.answer(&[off(0), ok(1)])), ["apply 0"]);
    assert_eq!(lab.status(), Status::Applying);
    assert_eq!(told(&lab.perform(Outcome::Success)), Vec::<String>::new());
    assert_eq!(lab.status(), Status::InSync);
    let story = ["agent_connected", "drift_detected", "apply_started", "apply_finished"];
    assert_eq!(lab.kinds(), story);
    assert!(lab.alerts.is_empty(), "`remediate` is silent");
}

#[test]
fn an_agent_that_holds_the_snapshot_is_only_told_to_check() {
    let tasks = [quiet("a")];
    let mut lab = Lab::new();
    let held = Some(wanted("c0", &tasks).snapshot.hash());
    let hello = Hello { snapshot: held, ..hello() };
    let wanted = Some(wanted("c1", &tasks));
    let sent = lab.step(Input::Connected { hello, session: SessionId(1), wanted });
    assert_eq!(told(&sent), ["check all"]);
}

#[test]
fn an_alert_only_task_waits_for_a_human() {
    let mut lab = Lab::with(&[task("certs", Policy::AlertOnly, &["x"])]);
    assert_eq!(told(&lab.answer(&[off(0)])), Vec::<String>::new());
    assert_eq!(lab.status(), Status::Drifted);
    let pending = News::DriftDetected {
        policy: Policy::AlertOnly,
        remediation_status: RemediationStatus::PendingManual,
    };
    assert_eq!(lab.alerts, std::slice::from_ref(&pending));

    let day = Duration::from_secs(24 * 60 * 60);
    for _ in 0..day.as_secs() / POLL.as_secs() {
        assert_eq!(told(&lab.pass(POLL)), ["check all"]);
        assert_eq!(told(&lab.answer(&[])), Vec::<String>::new());
    }
    assert_eq!(lab.alerts, std::slice::from_ref(&pending), "once per drift, not once per cycle");

    assert_eq!(told(&lab.ask(Some("certs"))), ["check 0"]);
    assert_eq!(told(&lab.answer(&[])), ["apply 0"]);
    lab.perform(Outcome::Success);
    assert_eq!(lab.status(), Status::InSync);
    assert_eq!(lab.alerts, [pending, News::DriftRemediated { success: true }]);
    let finished = lab.events.iter().find(|event| event.kind == EventKind::ApplyFinished);
    assert_eq!(finished.and_then(|event| event.by.as_deref()), Some("eve"));
    assert_eq!(lab.progress.last(), Some(&Progress::Ended { error: None }));
}

#[test]
fn remediate_and_alert_tells_of_the_drift_and_of_its_end() {
    let mut lab = Lab::with(&[task("a", Policy::RemediateAndAlert, &["x"])]);
    lab.answer(&[off(0)]);
    lab.perform(Outcome::Success);
    let detected = News::DriftDetected {
        policy: Policy::RemediateAndAlert,
        remediation_status: RemediationStatus::InProgress,
    };
    let round = [detected, News::DriftRemediated { success: true }];
    assert_eq!(lab.alerts, round);
    lab.pass(POLL);
    lab.answer(&[off(0)]);
    lab.perform(Outcome::Success);
    assert_eq!(lab.alerts, [round.clone(), round].concat(), "another drift is told again");
}

#[test]
fn a_drift_that_heals_by_itself_is_resolved() {
    let mut lab = Lab::with(&[task("a", Policy::AlertOnly, &["x"])]);
    lab.answer(&[off(0)]);
    lab.pass(POLL);
    lab.answer(&[ok(0)]);
    assert_eq!(lab.alerts.last(), Some(&News::DriftResolved));
    assert_eq!(lab.kinds().last(), Some(&"drift_resolved"));
    assert_eq!(lab.status(), Status::InSync);
}

#[test]
fn a_failing_task_is_tried_again_after_growing_pauses_and_told_once() {
    let mut lab = Lab::with(&[task("a", Policy::RemediateAndAlert, &["x"])]);
    lab.answer(&[off(0)]);
    lab.perform(Outcome::Failure);
    assert_eq!(lab.machine.drift()[0].status, StepStatus::Failed);
    assert_eq!(lab.machine.drift()[0].reason.as_deref(), Some("what it printed"));
    let since = lab.machine.drift()[0].since;
    for pause in [10, 20, 40] {
        assert!(
            lab.pass(Duration::from_secs(pause) - Duration::from_millis(1))
                .iter()
                .all(|message| !matches!(message, ToAgent::Check { steps: Scope::Steps(_), .. }))
        );
        if matches!(lab.machine.phase, Phase::Checking { .. }) {
            assert!(lab.answer(&[]).is_empty(), "a poll in between tries nothing");
        }
        assert_eq!(told(&lab.pass(Duration::from_millis(1))), ["check 0"]);
        assert_eq!(told(&lab.answer(&[])), ["apply 0"]);
        lab.perform(Outcome::Failure);
    }
    let failures =
        lab.alerts.iter().filter(|news| **news == News::DriftRemediated { success: false });
    assert_eq!(failures.count(), 1, "one alert per failure streak");
    assert_eq!(
        lab.machine.drift()[0].since,
        since,
        "a drift is as old as it is, however often tried"
    );

    assert_eq!(told(&lab.ask(None)), ["check all"], "a manual reconcile does not wait");
    lab.answer(&[]);
    lab.perform(Outcome::Success);
    assert_eq!(lab.alerts.last(), Some(&News::DriftRemediated { success: true }));
    assert_eq!(lab.alerts.len(), 3);
}

#[test]
fn a_check_that_cannot_tell_applies_nothing() {
    let mut lab = Lab::with(&[task("a", Policy::Remediate, &["x", "y"])]);
    assert!(lab.answer(&[unsure(0), off(1)]).is_empty());
    assert_eq!(lab.status(), Status::Failed);
    assert_eq!(lab.kinds()[1..], ["check_failed", "drift_detected"]);
    lab.pass(POLL);
    assert_eq!(told(&lab.answer(&[ok(0)])), ["apply 1"]);
    assert!(lab.kinds().contains(&"check_recovered"));
}

#[test]
fn a_clock_that_jumps_changes_no_interval() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[ok(0)]);
    let right = lab.now.wall;
    let years = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    let back = Timestamp(right.0 - years.as_millis() as u64);
    for wall in [right.after(years), back, Timestamp(0), Timestamp(u64::MAX), right] {
        lab.now.wall = wall;
        assert_eq!(told(&lab.pass(POLL / 2)), Vec::<String>::new(), "{wall:?}: too early");
        assert_eq!(told(&lab.pass(POLL)), ["check all"], "{wall:?}");
        lab.answer(&[]);
        assert!(lab.machine.silent_for(lab.now) < POLL);
    }
}

#[test]
fn what_the_agent_saw_change_is_checked_and_nothing_else() {
    let mut lab = Lab::with(&[quiet("a"), quiet("b")]);
    lab.answer(&[ok(0), ok(1)]);
    let snapshot = wanted("c", &[quiet("a"), quiet("b")]).snapshot.hash();
    let steps = vec![StepIndex(1), StepIndex(9)];
    let sent = lab.step(Input::Message(ToServer::LookAgain { snapshot, steps }));
    assert_eq!(told(&sent), ["check 1"]);
    assert_eq!(told(&lab.answer(&[off(1)])), ["apply 1"]);
}

#[test]
fn what_drifts_again_whenever_it_was_put_right_is_left_alone_for_longer_and_longer() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[off(0)]);
    lab.perform(Outcome::Success);
    let notice = |lab: &mut Lab| {
        let snapshot = lab.machine.board.as_ref().expect("a snapshot").snapshot.hash();
        let look = ToServer::LookAgain { snapshot, steps: vec![StepIndex(0)] };
        lab.step(Input::Message(look));
        lab.answer(&[off(0)])
    };
    for _ in 0..policy::FREE_RELAPSES {
        assert_eq!(told(&notice(&mut lab)), ["apply 0"]);
        lab.perform(Outcome::Success);
    }
    assert!(notice(&mut lab).is_empty(), "it is left alone");
    assert!(notice(&mut lab).is_empty(), "whatever the host says");
    assert_eq!(told(&lab.pass(Duration::from_secs(10))), ["check 0"], "for ten seconds");
    assert_eq!(told(&lab.answer(&[])), ["apply 0"]);
    lab.perform(Outcome::Success);
    lab.pass(policy::LASTING);
    assert_eq!(told(&notice(&mut lab)), ["apply 0"], "that one lasted");
}

#[test]
fn a_step_that_the_agent_never_speaks_of_counts_as_failed() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.ask(None);
    lab.answer(&[off(0)]);
    lab.answer_is_apply_then_finish();
    assert_eq!(lab.status(), Status::Failed);
}

impl Lab {
    fn answer_is_apply_then_finish(&mut self) {
        assert!(!self.applying().is_empty());
        self.finish();
    }
}

#[test]
fn polls_are_spread_and_never_late_and_on_the_same_beat_for_all() {
    let mut lab = Lab::with(&[quiet("a")]);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..50 {
        lab.answer(&[]);
        let wait = lab.machine.deadline().expect("a poll is due") - lab.now.instant;
        assert!(wait <= POLL && wait >= POLL.mul_f64(0.85), "{wait:?}");
        seen.insert(wait);
        assert_eq!(told(&lab.pass(wait)), ["check all"]);
        assert_eq!(lab.now.wall.0 % (POLL.as_millis() as u64 / 120), 0);
    }
    assert!(seen.len() > 10, "not always the same moment");
}

#[test]
fn whoever_asks_before_the_first_commit_is_told_so() {
    let mut lab = Lab::new();
    lab.step(Input::Connected { hello: hello(), session: SessionId(1), wanted: None });
    lab.ask(None);
    let Some(Progress::Ended { error: Some(why) }) = lab.progress.last() else {
        panic!("still waiting: {:?}", lab.progress);
    };
    assert!(why.contains("no commit is in force yet"), "{why}");
}

#[test]
fn only_so_many_reconciles_wait_for_one_agent_and_all_of_them_end() {
    let mut lab = Lab::with(&[quiet("a")]);
    let request = || Request { id: "r1".into(), by: "eve".into(), what: What::Host };
    let taken = (0..MAX_REQUESTS * 2).filter(|_| lab.machine.ask(request())).count();
    assert_eq!(taken, MAX_REQUESTS);
    lab.step(Input::Disconnected { why: "test".into() });
    let ended = |progress: &&Progress| matches!(progress, Progress::Ended { error: Some(_) });
    assert_eq!(lab.progress.iter().filter(ended).count(), MAX_REQUESTS);
}

#[test]
fn a_told_drift_is_taken_back_even_if_the_last_check_could_not_tell() {
    let mut lab = Lab::with(&[task("certs", Policy::AlertOnly, &["x"])]);
    lab.answer(&[off(0)]);
    lab.pass(POLL);
    lab.answer(&[unsure(0)]);
    lab.commit("c2", &[]);
    assert_eq!(lab.alerts.last(), Some(&News::DriftResolved));
}

#[test]
fn what_keeps_changing_on_the_host_does_not_hold_up_the_poll() {
    let mut lab = Lab::with(&[quiet("a"), quiet("b")]);
    lab.answer(&[ok(0), ok(1)]);
    let snapshot = lab.machine.board.as_ref().expect("a snapshot").snapshot.hash();
    let look = || ToServer::LookAgain { snapshot, steps: vec![StepIndex(0)] };
    assert_eq!(told(&lab.step(Input::Message(look()))), ["check 0"]);
    lab.step(Input::Message(look()));
    lab.now.instant += POLL;
    assert_eq!(told(&lab.answer(&[])), ["check all"]);
    assert_eq!(told(&lab.answer(&[])), Vec::<String>::new(), "which looked at it as well");
}
