//! What a fleet says to those who watch it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::event::Event;
use fluke_model::id::{CommitId, InstanceId, SessionId, StepAddress, TaskName};
use fluke_model::label::Labels;
use fluke_model::message::{Checked, Hello, Holdings, NodeType, StepReport, ToServer};
use fluke_model::policy::Policy;
use fluke_model::snapshot::{Snapshot, SnapshotTask, StepIndex};
use fluke_model::task::{ExecutorSpec, OnFailure, ShellSpec, Step};
use fluke_model::verdict::{Drift, Verdict};
use tokio::sync::broadcast::error::TryRecvError;

use super::*;
use crate::reconcile::{Input, Machine, Now, Wanted};
use crate::registry::Registry;

const POLL: Duration = Duration::from_secs(60);

/// Nobody reads what happened.
struct Nowhere;

impl EventSink for Nowhere {
    fn record(&self, _: Event) {}
}

/// One agent, and those who watch it.
struct Lab {
    outlets: Outlets,
    machine: Machine,
    now: Now,
    check: Option<ToAgent>,
}

impl Lab {
    fn new() -> Self {
        let (events, changes) = (Arc::new(Nowhere), Changes::default());
        let registry = Arc::<Registry>::default();
        let reconciles = Reconciles::new(registry, events.clone(), changes.clone());
        let outlets = Outlets {
            events,
            alerts: None,
            reconciles: Arc::new(reconciles),
            changes,
            meter: Arc::default(),
        };
        let now = Now { instant: Instant::now(), wall: Timestamp(1_700_000_000_000) };
        let mut lab = Self { outlets, machine: Machine::new(hello(), POLL, now), now, check: None };
        let snapshot = Arc::new(Snapshot::new(vec![Arc::new(task())]));
        let wanted = Some(Wanted { commit: CommitId::new("c1"), snapshot });
        lab.step(Input::Connected { hello: hello(), session: SessionId(1), wanted });
        lab
    }

    fn step(&mut self, input: Input) {
        let effects = self.machine.step(input, self.now);
        let name = self.machine.name().clone();
        let sent = self.outlets.take(&name, effects, self.now.wall);
        let check = sent.into_iter().rfind(|message| matches!(message, ToAgent::Check { .. }));
        self.check = check.or(self.check.take());
    }

    /// The next poll, and what it finds.
    fn poll(&mut self, changes: Vec<StepReport>) {
        self.now.instant += POLL;
        self.now.wall = self.now.wall.after(POLL);
        self.step(Input::Wake);
        self.answer(changes);
    }

    fn answer(&mut self, changes: Vec<StepReport>) {
        let Some(ToAgent::Check { instruction, snapshot, .. }) = self.check.take() else {
            panic!("no check was asked for");
        };
        let checked = Checked { instruction, snapshot, changes, checked: 1 };
        self.step(Input::Message(ToServer::Checked(checked)));
    }
}

fn hello() -> Hello {
    Hello {
        name: AgentName::new("web-1").expect("name"),
        labels: Labels::default(),
        version: "0.1.0".into(),
        executors: vec!["shell".into()],
        node_type: NodeType::Worker,
        snapshot: None,
        instance: InstanceId(7),
        previous: None,
        tables: Holdings::default(),
    }
}

fn task() -> SnapshotTask {
    let spec = ShellSpec {
        check: "true".into(),
        command: "true".into(),
        working_dir: None,
        run_as: None,
        env: Default::default(),
    };
    let step = Step {
        address: StepAddress::new("shell", "it").expect("address"),
        on_failure: OnFailure::Abort,
        timeout: None,
        spec: ExecutorSpec::Shell(spec),
    };
    SnapshotTask {
        name: TaskName::new("certs").expect("name"),
        policy: Policy::AlertOnly,
        steps: [step].into(),
    }
}

#[test]
fn a_fleet_at_rest_is_silent() {
    let mut lab = Lab::new();
    lab.answer(vec![StepReport { step: StepIndex(0), verdict: Verdict::Satisfied }]);
    let mut told = lab.outlets.changes.listen();
    for _ in 0..60 {
        lab.poll(vec![]);
    }
    assert!(matches!(told.try_recv(), Err(TryRecvError::Empty)), "an hour without news");

    let verdict = Verdict::Drifted(Drift::because("not so"));
    lab.poll(vec![StepReport { step: StepIndex(0), verdict }]);
    assert!(matches!(told.try_recv(), Ok(Change::Agent(_))), "and then there are some");
}
