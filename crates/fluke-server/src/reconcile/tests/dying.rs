//! Applies whose agent or connection dies of them.

use super::*;

impl Lab {
    /// An apply begins, the agent is gone in the middle of it, comes back, and says how it ended.
    fn die_and_return(&mut self, outcome: Outcome) -> Vec<ToAgent> {
        self.record(StepIndex(0), Fact::Began { reason: "x".into() });
        self.step(Input::Disconnected { why: "connection reset".into() });
        self.now.instant += Duration::from_millis(500);
        let apply = self.last.clone();
        self.connect(&[told_task()]);
        let check = std::mem::replace(&mut self.last, apply);
        let output = Output::from_text("the end");
        self.record(StepIndex(0), Fact::Ended { outcome, duration_ms: 3, output });
        self.last = check;
        self.answer(&[off(0)])
    }

    /// An apply begins, the agent dies of it, comes back, and knows nothing of it.
    fn die_and_forget(&mut self) -> Vec<ToAgent> {
        self.record(StepIndex(0), Fact::Began { reason: "x".into() });
        self.step(Input::Disconnected { why: "connection reset".into() });
        self.now.instant += Duration::from_millis(500);
        self.connect(&[told_task()]);
        self.answer(&[off(0)])
    }

    fn failures_told(&self) -> usize {
        let failed = News::DriftRemediated { success: false };
        self.alerts.iter().filter(|news| **news == failed).count()
    }
}

fn told_task() -> SnapshotTask {
    task("a", Policy::RemediateAndAlert, &["x"])
}

#[test]
fn an_apply_that_takes_its_agent_down_every_time_is_left_alone_like_one_that_fails() {
    let mut lab = Lab::with(&[told_task()]);
    assert_eq!(told(&lab.answer(&[off(0)])), ["apply 0"]);
    let once = lab.die_and_return(Outcome::Interrupted);
    assert_eq!(told(&once), ["apply 0"], "once is nobody's fault");
    assert_eq!(lab.failures_told(), 0);
    assert!(lab.die_and_return(Outcome::Interrupted).is_empty(), "twice is the task's");
    assert_eq!(lab.failures_told(), 1);
    assert_eq!(told(&lab.pass(Duration::from_secs(20))), ["check 0"]);
    assert_eq!(told(&lab.answer(&[])), ["apply 0"]);
    lab.perform(Outcome::Success);
    assert_eq!(lab.alerts.last(), Some(&News::DriftRemediated { success: true }));
}

#[test]
fn an_agent_that_cannot_write_down_what_it_dies_of_is_left_alone_as_well() {
    let mut lab = Lab::with(&[told_task()]);
    assert_eq!(told(&lab.answer(&[off(0)])), ["apply 0"]);
    assert_eq!(told(&lab.die_and_forget()), ["apply 0"], "once is nobody's fault");
    assert_eq!(lab.failures_told(), 0);
    assert!(lab.die_and_forget().is_empty(), "twice is the task's");
    assert_eq!(lab.failures_told(), 1);
    let interrupted = |event: &&Event| event.outcome == Some(Outcome::Interrupted);
    assert_eq!(lab.events.iter().filter(interrupted).count(), 2, "each has its end");
    assert_eq!(told(&lab.pass(Duration::from_secs(20))), ["check 0"]);
}

#[test]
fn an_apply_that_fails_while_nobody_listens_is_not_tried_at_once_on_return() {
    let mut lab = Lab::with(&[told_task()]);
    lab.answer(&[off(0)]);
    assert!(lab.die_and_return(Outcome::Failure).is_empty());
    assert_eq!(lab.failures_told(), 1);
    assert_eq!(told(&lab.pass(Duration::from_secs(10))), ["check 0"]);
    assert_eq!(told(&lab.answer(&[])), ["apply 0"]);
}

#[test]
fn what_failed_just_before_the_connection_was_lost_is_left_alone_as_well() {
    let tasks = [told_task(), quiet("b")];
    let mut lab = Lab::with(&tasks);
    assert_eq!(told(&lab.answer(&[off(0), off(1)])), ["apply 0,1"]);
    lab.record(StepIndex(0), Fact::Began { reason: "x".into() });
    let output = Output::from_text("no");
    let failed = Fact::Ended { outcome: Outcome::Failure, duration_ms: 1, output };
    lab.record(StepIndex(0), failed);
    lab.step(Input::Disconnected { why: "connection reset".into() });
    assert_eq!(lab.failures_told(), 1);
    lab.connect(&tasks);
    assert_eq!(told(&lab.answer(&[off(0), off(1)])), ["apply 1"], "only what never came to an end");
}
