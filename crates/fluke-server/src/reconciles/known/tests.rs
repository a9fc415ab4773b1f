use std::time::{Duration, Instant};

use fluke_model::api::ReconcileScope;
use fluke_model::id::{StepAddress, TaskName};
use fluke_model::time::Timestamp;
use fluke_model::verdict::Outcome;
use proptest::prelude::*;

use super::*;

fn name(number: usize) -> AgentName {
    AgentName::new(format!("a{number}")).expect("a name")
}

fn asked_of(agents: usize) -> Known {
    let waiting = |number| ReconcileAgent {
        name: name(number),
        state: ReconcileState::Waiting,
        steps: Vec::new(),
        error: None,
    };
    Known::new(ReconcileProgress {
        id: "r1".into(),
        scope: ReconcileScope::All,
        name: None,
        agent: None,
        by: "eve".into(),
        done: false,
        failed: false,
        started: Timestamp(0),
        agents: (0..agents).map(waiting).collect(),
    })
}

fn step(number: usize, output: Option<&str>) -> Progress {
    Progress::Step(ReconcileStep {
        task: Some(TaskName::new("certs").expect("a name")),
        service: None,
        step: StepAddress::new("shell", &format!("s{number}")).expect("an address"),
        outcome: output.map(|_| Outcome::Success),
        output: output.map(str::to_string),
    })
}

fn failure() -> Progress {
    Progress::Ended { error: Some("no".into()) }
}

#[test]
fn of_an_output_the_end_is_kept() {
    assert_eq!(tail("short".into()), "short");
    let kept = tail(format!("{}é{}", "x".repeat(100), "y".repeat(OUTPUT - 1)));
    assert_eq!(kept, format!("[earlier output is in the events]\n{}", "y".repeat(OUTPUT - 1)));
}

#[test]
fn a_reconcile_of_nobody_is_done() {
    assert!(asked_of(0).progress().done);
}

#[test]
fn the_last_agent_to_end_ends_it() {
    let mut known = asked_of(3);
    assert!(!known.note(&name(0), failure()));
    assert!(!known.note_offline(&name(1)));
    assert!(!known.note(&name(9), failure()), "it was never asked of that one");
    assert!(!known.progress().done);
    assert!(known.note(&name(2), Progress::Ended { error: None }));
    assert!(known.progress().done && known.progress().failed);
}

#[test]
fn what_is_large_is_told_without_what_its_steps_printed() {
    let mut known = asked_of(1);
    known.note(&name(0), step(0, Some("printed")));
    assert_eq!(known.told(known.weight()), *known.progress());
    let told = known.told(known.weight() - 1);
    assert_eq!(told.agents[0].steps[0].output, None);
    assert_eq!(told.agents[0].steps[0].outcome, Some(Outcome::Success));
}

#[test]
fn a_hundred_thousand_agents_are_followed_in_no_time() {
    const AGENTS: usize = 100_000;
    let mut known = asked_of(AGENTS);
    let began = Instant::now();
    for number in 0..AGENTS {
        let agent = name(number);
        for progress in [Progress::Checking, Progress::Applying, step(0, None), step(0, Some(""))] {
            assert!(!known.note(&agent, progress));
        }
        let is_last = known.note(&agent, Progress::Ended { error: None });
        assert_eq!(is_last, number == AGENTS - 1);
    }
    // Were all looked at for each it would take an hour.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

fn some_progress() -> impl Strategy<Value = Option<Progress>> {
    prop_oneof![
        Just(Some(Progress::Checking)),
        Just(Some(Progress::Applying)),
        (0..3usize, prop::option::of("[a-z]{0,9}"))
            .prop_map(|(number, output)| Some(step(number, output.as_deref()))),
        Just(Some(Progress::Ended { error: None })),
        Just(Some(failure())),
        Just(None),
    ]
}

proptest! {
    #[test]
    fn what_is_counted_is_what_there_is(
        agents in 0..12usize,
        said in prop::collection::vec((0..12usize, some_progress()), 0..60),
    ) {
        let mut known = asked_of(agents);
        for (agent, progress) in said {
            match progress {
                Some(progress) => known.note(&name(agent), progress),
                None => known.note_offline(&name(agent)),
            };
            let afresh = Known::new(known.progress.clone());
            prop_assert_eq!(
                (known.open, known.failed, known.weight),
                (afresh.open, afresh.failed, afresh.weight)
            );
            prop_assert_eq!(&known.progress, &afresh.progress);
        }
    }
}
