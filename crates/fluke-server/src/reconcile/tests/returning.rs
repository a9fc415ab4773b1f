//! Agents that were away: what they tell when they are back, and what they forgot.

use super::*;

#[test]
fn a_repeated_record_is_acknowledged_and_told_once() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[off(0)]);
    let began = || Fact::Began { reason: "x".into() };
    assert_eq!(told(&lab.record_as(5, StepIndex(0), began())), ["ack 5"]);
    assert_eq!(told(&lab.record_as(5, StepIndex(0), began())), ["ack 5"]);
    assert_eq!(lab.kinds().iter().filter(|kind| **kind == "apply_started").count(), 1);
}

#[test]
fn what_happened_while_the_connection_was_lost_is_told_on_return() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.ask(None);
    lab.answer(&[off(0)]);
    lab.record(StepIndex(0), Fact::Began { reason: "x".into() });
    lab.step(Input::Disconnected { why: "connection reset".into() });
    assert_eq!(lab.status(), Status::Offline);
    let lost = Progress::Ended { error: Some("the agent's connection was lost".into()) };
    assert_eq!(lab.progress.last(), Some(&lost));

    let before = lab.last.clone();
    assert_eq!(told(&lab.connect(&[quiet("a")])), ["snapshot", "check all"]);
    let check = std::mem::replace(&mut lab.last, before);
    let output = Output::from_text("done");
    lab.record(StepIndex(0), Fact::Ended { outcome: Outcome::Success, duration_ms: 3, output });
    lab.last = check;
    assert!(lab.answer(&[ok(0)]).is_empty(), "nothing is applied twice");
    assert_eq!(lab.kinds().iter().filter(|kind| **kind == "apply_finished").count(), 1);
    assert_eq!(lab.status(), Status::InSync);
}

#[test]
fn an_apply_that_its_agent_forgot_is_ended_when_the_agent_is_back_and_only_once() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[off(0)]);
    lab.record(StepIndex(0), Fact::Began { reason: "x".into() });
    let apply = lab.last.clone();
    lab.step(Input::Disconnected { why: "connection reset".into() });
    lab.connect(&[quiet("a")]);
    let ends = |lab: &Lab| -> Vec<Option<Outcome>> {
        let ended = lab.events.iter().filter(|event| event.kind == EventKind::ApplyFinished);
        ended.map(|event| event.outcome).collect()
    };
    assert_eq!(ends(&lab), [], "it may still be under way");
    assert_eq!(told(&lab.answer(&[off(0)])), ["apply 0"]);
    assert_eq!(ends(&lab), [Some(Outcome::Interrupted)]);

    // One that was able to write down the beginning, and not the end, ends it once more.
    let output = Output::from_text("the agent ended in the middle");
    let again = Fact::Ended { outcome: Outcome::Interrupted, duration_ms: 0, output };
    let next = std::mem::replace(&mut lab.last, apply);
    assert_eq!(told(&lab.record_as(1 << 20, StepIndex(0), again)), ["ack 1048576"]);
    lab.last = next;
    lab.records = 1 << 20;
    assert_eq!(ends(&lab), [Some(Outcome::Interrupted)]);
    lab.perform(Outcome::Success);
    assert_eq!(ends(&lab), [Some(Outcome::Interrupted), Some(Outcome::Success)]);
}

#[test]
fn what_an_agent_could_not_keep_is_counted_in_an_event() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.step(Input::Message(ToServer::Lost { records: 7 }));
    let event = lab.events.last().expect("an event");
    assert_eq!(event.kind, EventKind::EventsLost);
    assert!(event.output.as_ref().is_some_and(|text| text.starts_with("7 records")), "{event:?}");
}

#[test]
fn an_offline_repair_that_a_commit_overtakes_does_not_look_under_way_for_ever() {
    let mut lab = Lab::with(&[quiet("a")]);
    let repair = |lab: &Lab, id, fact| Record {
        id: RecordId(id),
        at: lab.now.wall,
        instruction: None,
        snapshot: wanted("c1", &[quiet("a")]).snapshot.hash(),
        commit: CommitId::new("c1"),
        subject: Subject::Step {
            task: TaskName::new("a").expect("name"),
            step: StepAddress::new("shell", "s0").expect("address"),
            index: StepIndex(0),
        },
        trigger: Trigger::Offline,
        fact,
    };
    let began = repair(&lab, 1, Fact::Began { reason: "drifted".into() });
    lab.step(Input::Message(ToServer::Record(began)));
    assert_eq!(lab.machine.drift()[0].status, StepStatus::Applying);
    assert_eq!(told(&lab.commit("c2", &[quiet("a"), quiet("b")])), ["snapshot", "check all"]);
    let output = Output::from_text("");
    let ended = Fact::Ended { outcome: Outcome::Success, duration_ms: 1, output };
    let ended = repair(&lab, 2, ended);
    lab.step(Input::Message(ToServer::Record(ended)));
    lab.answer(&[ok(0), ok(1)]);
    assert_eq!(lab.status(), Status::InSync);
}
