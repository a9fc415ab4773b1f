use std::time::Duration;

use fluke_model::id::SessionId;
use fluke_model::message::Fact;
use fluke_model::policy::Policy;
use fluke_model::snapshot::SnapshotTask;
use fluke_model::task::{ExecutorSpec, OnFailure, ShellSpec, Step};
use fluke_model::verdict::{Drift, Outcome, Output, Verdict};

use super::processing::{Acted, Applied, Judged, Next, Told};
use super::*;

/// A task from the names of its steps; `name?` goes on past a failure.
pub(super) fn task(name: &str, policy: Policy, steps: &[&str]) -> Arc<SnapshotTask> {
    let step = |text: &&str| Step {
        address: StepAddress::new("shell", text.trim_end_matches('?')).expect("a name"),
        on_failure: if text.ends_with('?') { OnFailure::Continue } else { OnFailure::Abort },
        timeout: None,
        spec: ExecutorSpec::Shell(ShellSpec {
            check: "true".into(),
            command: "true".into(),
            working_dir: None,
            run_as: None,
            env: Default::default(),
        }),
    };
    let name = TaskName::new(name).expect("a name");
    Arc::new(SnapshotTask { name, policy, steps: steps.iter().map(step).collect() })
}

pub(super) fn held(tasks: &[(&str, &[&str])]) -> Arc<Held> {
    let tasks = tasks.iter().map(|(name, steps)| task(name, Policy::Remediate, steps));
    let snapshot = Arc::new(Snapshot::new(tasks.collect()));
    Arc::new(Held { commit: CommitId::new("c0ffee"), snapshot })
}

fn instruction(number: u64) -> InstructionId {
    InstructionId { session: SessionId(7), number }
}

fn apply(held: &Held, steps: &[u32]) -> Order {
    Order {
        instruction: instruction(1),
        snapshot: held.snapshot.hash(),
        kind: OrderKind::Apply {
            steps: steps.iter().copied().map(StepIndex).collect(),
            trigger: Trigger::Poll,
        },
    }
}

fn check(held: &Held, number: u64) -> Order {
    Order {
        instruction: instruction(number),
        snapshot: held.snapshot.hash(),
        kind: OrderKind::Check(Scope::All),
    }
}

fn processing(held: &Arc<Held>, steps: &[u32]) -> Processing {
    match Idle::new(Some(held.clone())).take_up(apply(held, steps)) {
        TakenUp::Processing(processing) => processing,
        other => panic!("not processing: {other:?}"),
    }
}

/// A host in a word a step: what its check says before, what its apply does, what its check says
/// after. Anything else in the script would be a look or an apply that should not have been made.
#[derive(Clone, Copy)]
struct Script {
    before: &'static str,
    apply: &'static str,
    after: &'static str,
}

const OK: Script = Script { before: "ok", apply: "", after: "" };
const FIXED: Script = Script { before: "no", apply: "done", after: "ok" };
const BROKEN: Script = Script { before: "no", apply: "failed", after: "" };
const STUBBORN: Script = Script { before: "no", apply: "done", after: "no" };
const BLIND: Script = Script { before: "error", apply: "", after: "" };
const BLINDED: Script = Script { before: "no", apply: "done", after: "error" };
/// Must not be touched.
const NEVER: Script = Script { before: "never", apply: "never", after: "never" };

fn verdict(word: &str) -> Verdict {
    match word {
        "ok" => Verdict::Satisfied,
        "no" => Verdict::Drifted(Drift::because("not so")),
        "error" => Verdict::Error { reason: "cannot tell".into() },
        other => panic!("a step was looked at that should not be ({other})"),
    }
}

fn line(held: &Held, told: &Told) -> String {
    let (task, address) = held.name_of(told.step).expect("a step of the snapshot");
    let what = match &told.fact {
        Fact::Began { .. } => "began".to_owned(),
        Fact::Ended { outcome, .. } => format!("ended {}", outcome.as_str()),
        Fact::PassedOver { outcome, .. } => format!("passed over {}", outcome.as_str()),
    };
    format!("{task}/{} {what}", address.name())
}

/// Runs to the end, and returns what was told.
fn play(held: &Arc<Held>, listed: &[u32], scripts: &[Script]) -> Vec<String> {
    let mut told = Vec::new();
    let took = Duration::from_millis(5);
    let mut processing = processing(held, listed);
    loop {
        let judging = match processing.next() {
            Next::Judge(judging) => judging,
            Next::Home(report, home) => {
                assert_eq!(report.cause.instruction, Some(instruction(1)));
                assert_eq!(home.idle.held(), Some(held));
                break;
            }
        };
        let script = scripts[judging.step().0 as usize];
        let acting = match judging.found(verdict(script.before)) {
            Judged::Passed(facts, rest) => {
                told.extend(facts);
                processing = rest;
                continue;
            }
            Judged::Act(fact, acting) => {
                told.push(fact);
                acting
            }
        };
        let applied = match script.apply {
            "done" => Applied::Done(Output::default()),
            "failed" => Applied::Failed(Output::default()),
            other => panic!("a step was applied that should not be ({other})"),
        };
        let (facts, rest) = match acting.ended(applied, took) {
            Acted::Verify(verifying) => verifying.found(verdict(script.after), took),
            Acted::Over(facts, rest) => (facts, rest),
            Acted::Interrupted(..) => panic!("nobody stopped it"),
        };
        told.extend(facts);
        processing = rest;
    }
    told.iter().map(|told| line(held, told)).collect()
}

#[test]
fn each_situation_of_a_task_has_one_course() {
    let abc: &[(&str, &[&str])] = &[("t", &["a", "b", "c"])];
    let lenient: &[(&str, &[&str])] = &[("t", &["a?", "b?", "c"])];
    let two: &[(&str, &[&str])] = &[("t", &["a", "b"]), ("u", &["c"])];
    for (case, tasks, listed, scripts, expected) in [
        ("one drifted", abc, &[1][..], [NEVER, FIXED, OK], &["t/b began", "t/b ended success"][..]),
        (
            "healed in the meantime",
            abc,
            &[0, 2],
            [OK, NEVER, FIXED],
            &["t/a passed over healed", "t/c began", "t/c ended success"],
        ),
        (
            "a later step drifts because of an earlier one",
            abc,
            &[0],
            [FIXED, FIXED, OK],
            &["t/a began", "t/a ended success", "t/b began", "t/b ended success"],
        ),
        (
            "a failure that says abort takes along those that were asked for",
            abc,
            &[0, 2],
            [BROKEN, NEVER, NEVER],
            &["t/a began", "t/a ended failure", "t/c passed over skipped"],
        ),
        (
            "a failure that says continue does not, and what follows is looked at",
            lenient,
            &[0, 2],
            [BROKEN, OK, FIXED],
            &["t/a began", "t/a ended failure", "t/c began", "t/c ended success"],
        ),
        (
            "applied and still drifted is a failure",
            abc,
            &[0, 1],
            [STUBBORN, NEVER, NEVER],
            &["t/a began", "t/a ended applied_but_drifted", "t/b passed over skipped"],
        ),
        (
            "applied and then blind is a failure",
            abc,
            &[0, 1],
            [BLINDED, NEVER, NEVER],
            &["t/a began", "t/a ended failure", "t/b passed over skipped"],
        ),
        (
            "nothing is applied on an error",
            abc,
            &[0, 1],
            [BLIND, NEVER, NEVER],
            &["t/a passed over failure", "t/b passed over skipped"],
        ),
        (
            "an error that says continue is passed over",
            lenient,
            &[0, 2],
            [BLIND, NEVER, FIXED],
            &["t/a passed over failure", "t/c began", "t/c ended success"],
        ),
        (
            "an error in a step that follows",
            abc,
            &[0, 2],
            [FIXED, BLIND, NEVER],
            &[
                "t/a began",
                "t/a ended success",
                "t/b passed over failure",
                "t/c passed over skipped",
            ],
        ),
        (
            "one task's failure is not another's",
            two,
            &[0, 1, 2],
            [BROKEN, NEVER, FIXED],
            &[
                "t/a began",
                "t/a ended failure",
                "t/b passed over skipped",
                "u/c began",
                "u/c ended success",
            ],
        ),
        (
            "one task's change is not another's",
            two,
            &[0, 2],
            [FIXED, OK, OK],
            &["t/a began", "t/a ended success", "u/c passed over healed"],
        ),
        (
            "order is the snapshot's, whatever the order of the list",
            two,
            &[2, 0],
            [FIXED, OK, FIXED],
            &["t/a began", "t/a ended success", "u/c began", "u/c ended success"],
        ),
        ("steps that do not exist", abc, &[3, 99], [NEVER, NEVER, NEVER], &[]),
    ] {
        assert_eq!(play(&held(tasks), listed, &scripts), expected, "{case}");
    }
}

#[test]
fn a_drift_that_stays_is_said_plainly_behind_the_output() {
    let held = held(&[("t", &["a"])]);
    let Next::Judge(judging) = processing(&held, &[0]).next() else { panic!("a step is due") };
    let Judged::Act(_, acting) = judging.found(verdict("no")) else { panic!("it drifted") };
    let done = Applied::Done(Output::from_text("working…"));
    let Acted::Verify(verifying) = acting.ended(done, Duration::ZERO) else { panic!("verify") };
    let (told, _) = verifying.found(verdict("no"), Duration::from_millis(1500));
    let Fact::Ended { outcome, duration_ms, output } = &told[0].fact else { panic!("ended") };
    assert_eq!((*outcome, *duration_ms), (Outcome::AppliedButDrifted, 1500));
    assert_eq!(
        output.text(),
        "working…\n[applied without error, and the check still says no: not so]\n"
    );
}

#[test]
fn an_interrupted_apply_is_told_and_the_rest_is_left() {
    let held = held(&[("t", &["a", "b"]), ("u", &["c"])]);
    let Next::Judge(judging) = processing(&held, &[0, 1, 2]).next() else { panic!("due") };
    let Judged::Act(_, acting) = judging.found(verdict("no")) else { panic!("it drifted") };
    let stopped = acting.ended(Applied::Interrupted(Output::default()), Duration::ZERO);
    let Acted::Interrupted(told, report, _) = stopped else { panic!("interrupted") };
    assert_eq!(line(&held, &told), "t/a ended interrupted");
    assert_eq!(report.outcomes, [(StepIndex(0), Outcome::Interrupted)]);
}

#[test]
fn only_the_newest_of_what_waits_is_kept() {
    let first = held(&[("t", &["a"])]);
    let second = held(&[("t", &["a", "b"])]);
    let third = held(&[("t", &["c"])]);
    let Next::Judge(mut judging) = processing(&first, &[0]).next() else { panic!("due") };
    judging.waiting().hold(second.clone());
    judging.waiting().take_up(check(&second, 2));
    judging.waiting().hold(third.clone());
    judging.waiting().take_up(check(&third, 3));
    assert_eq!(judging.held(), &first, "works from the snapshot it started with");

    let Judged::Passed(_, processing) = judging.found(Verdict::Satisfied) else { panic!("ok") };
    let Next::Home(report, home) = processing.next() else { panic!("nothing is left") };
    assert_eq!(report.held, first);
    assert_eq!(home, Home { idle: Idle::new(Some(third.clone())), next: Some(check(&third, 3)) });
}

#[test]
fn a_lost_session_takes_its_orders_along_but_not_its_snapshot() {
    let first = held(&[("t", &["a"])]);
    let second = held(&[("t", &["a", "b"])]);
    let idle = Idle::new(Some(first.clone()));
    let TakenUp::Checking(mut checking) = idle.take_up(check(&first, 1)) else { panic!("checks") };
    checking.waiting().hold(second.clone());
    checking.waiting().take_up(check(&second, 2));
    checking.waiting().forget_orders();
    assert_eq!(checking.finish(), Home { idle: Idle::new(Some(second)), next: None });
}

#[test]
fn an_order_about_another_snapshot_does_nothing() {
    let (one, other) = (held(&[("t", &["a"])]), held(&[("t", &["b"])]));
    for idle in [Idle::new(Some(one)), Idle::new(None)] {
        let taken = idle.take_up(apply(&other, &[0]));
        assert!(matches!(taken, TakenUp::NotHeld(..)), "{taken:?}");
    }
}

#[test]
fn a_check_is_of_steps_that_exist_each_once() {
    let held = held(&[("t", &["a", "b", "c"])]);
    for (scope, steps) in [
        (Scope::All, &[0, 1, 2][..]),
        (Scope::Steps(vec![StepIndex(2), StepIndex(0), StepIndex(2), StepIndex(3)]), &[0, 2]),
        (Scope::Steps(vec![]), &[]),
    ] {
        let checking = Checking::new(held.clone(), None, scope);
        let found: Vec<u32> = checking.steps().iter().map(|step| step.0).collect();
        assert_eq!(found, steps);
    }
}
