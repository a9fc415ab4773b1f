//! Stories of one agent and a scripted server, over real sockets.

use std::collections::BTreeMap;
use std::path::Path;

use fluke_model::id::{CommitId, InstructionId, StepAddress};
use fluke_model::message::{Record, Scope};
use fluke_model::policy::{Policy, Trigger};
use fluke_model::snapshot::{Snapshot, SnapshotTask};
use fluke_model::task::{ExecutorSpec, OnFailure, ShellSpec, Step};
use fluke_model::verdict::{Drift, Outcome};

use super::*;

mod applying;
mod checking;
mod coming_back;
mod hall;
mod handing_over;
mod stopping;

use hall::{Hall, Host};

/// A step of a task, from what it checks and what it does.
fn step(name: &str, check: &str, command: &str) -> Step {
    Step {
        address: StepAddress::new("shell", name).expect("a name"),
        on_failure: OnFailure::Abort,
        timeout: None,
        spec: ExecutorSpec::Shell(ShellSpec {
            check: check.into(),
            command: command.into(),
            working_dir: Some("/".into()),
            run_as: None,
            env: BTreeMap::new(),
        }),
    }
}

fn task(name: &str, policy: Policy, steps: Vec<Step>) -> Arc<SnapshotTask> {
    Arc::new(SnapshotTask {
        name: TaskName::new(name).expect("a name"),
        policy,
        steps: steps.into(),
    })
}

fn snapshot(tasks: Vec<Arc<SnapshotTask>>) -> Arc<Snapshot> {
    Arc::new(Snapshot::new(tasks))
}

/// One task with these steps.
fn one_task(steps: Vec<Step>) -> Arc<Snapshot> {
    snapshot(vec![task("t", Policy::Remediate, steps)])
}

/// A step that holds while a file is there.
fn file(path: &Path) -> Step {
    let path = path.display();
    step("file", &format!("test -f {path}"), &format!("touch {path}"))
}

/// A step whose apply waits at the pipe `gate`, which this makes.
fn slow(host: &Host) -> Arc<Snapshot> {
    let (gate, marker) = (host.path("gate"), host.path("marker"));
    hall::pipe(&gate);
    let (gate, marker) = (gate.display(), marker.display());
    let check = format!("test -f {marker}");
    one_task(vec![step("slow", &check, &format!("read go < {gate}; touch {marker}"))])
}

fn facts(records: &[Record]) -> Vec<String> {
    let line = |record: &Record| {
        let what = match &record.fact {
            Fact::Began { .. } => "began".to_owned(),
            Fact::Ended { outcome, .. } => format!("ended {}", outcome.as_str()),
            Fact::PassedOver { outcome, .. } => format!("passed over {}", outcome.as_str()),
        };
        format!("{} {what}", record.step.name())
    };
    records.iter().map(line).collect()
}

fn verdicts(checked: &Checked) -> Vec<(u32, &'static str)> {
    let word = |verdict: &Verdict| match verdict {
        Verdict::Satisfied => "ok",
        Verdict::Drifted(_) => "drifted",
        Verdict::Error { .. } => "error",
    };
    checked.changes.iter().map(|change| (change.step.0, word(&change.verdict))).collect()
}
