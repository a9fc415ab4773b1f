//! The machine against a scripted agent: what it is told, and what comes of it.

mod approving;
mod commits;
mod cycles;
mod dying;
mod laws;
mod returning;
mod services;
mod standing;

use std::collections::BTreeMap;

use fluke_model::id::{InstanceId, StepAddress, TaskName};
use fluke_model::label::Labels;
use fluke_model::message::{Checked, Fact, NodeType, Record, StepReport, Subject};
use fluke_model::policy::{self, Policy};
use fluke_model::snapshot::SnapshotTask;
use fluke_model::status::{Status, StepStatus};
use fluke_model::task::{ExecutorSpec, OnFailure, ShellSpec, Step};
use fluke_model::verdict::{Drift, Outcome, Output, Verdict};

use super::request::MAX_REQUESTS;
use super::*;
use crate::alert::{News, RemediationStatus};

const POLL: Duration = Duration::from_secs(60);

/// A machine, a clock that only moves when told, and everything that came out.
struct Lab {
    machine: Machine,
    now: Now,
    sessions: u64,
    records: u64,
    asked: usize,
    events: Vec<Event>,
    alerts: Vec<News>,
    progress: Vec<Progress>,
    last: Option<ToAgent>,
}

impl Lab {
    fn new() -> Self {
        let now = Now { instant: Instant::now(), wall: Timestamp(1_700_000_000_000) };
        Self {
            machine: Machine::new(hello(), POLL, now),
            now,
            sessions: 0,
            records: 0,
            asked: 0,
            events: vec![],
            alerts: vec![],
            progress: vec![],
            last: None,
        }
    }

    /// Connects to a server where Git says `tasks`.
    fn with(tasks: &[SnapshotTask]) -> Self {
        let mut lab = Self::new();
        lab.connect(tasks);
        lab
    }

    fn connect(&mut self, tasks: &[SnapshotTask]) -> Vec<ToAgent> {
        self.connect_as(hello(), tasks)
    }

    fn connect_as(&mut self, hello: Hello, tasks: &[SnapshotTask]) -> Vec<ToAgent> {
        self.sessions += 1;
        let session = SessionId(self.sessions);
        self.step(Input::Connected { hello, session, wanted: Some(wanted("c1", tasks)) })
    }

    fn commit(&mut self, id: &str, tasks: &[SnapshotTask]) -> Vec<ToAgent> {
        self.step(Input::Wanted(wanted(id, tasks)))
    }

    fn step(&mut self, input: Input) -> Vec<ToAgent> {
        let mut sent = Vec::new();
        for effect in self.machine.step(input, self.now) {
            match effect {
                Effect::Send(message) => sent.push(message),
                Effect::Record(event) => self.events.push(event),
                Effect::Alert(alert) => self.alerts.push(alert.news),
                Effect::Progress { progress, .. } => self.progress.push(progress),
            }
        }
        let instruction =
            |message: &&ToAgent| matches!(message, ToAgent::Check { .. } | ToAgent::Apply { .. });
        if let Some(message) = sent.iter().rfind(instruction) {
            self.last = Some(message.clone());
        }
        sent
    }

    /// Answers the check that was asked for last.
    fn answer(&mut self, verdicts: &[(u32, Verdict)]) -> Vec<ToAgent> {
        let Some(ToAgent::Check { instruction, snapshot, .. }) = self.last.clone() else {
            panic!("no check was asked for: {:?}", self.last);
        };
        let changes = verdicts
            .iter()
            .map(|(step, verdict)| StepReport { step: StepIndex(*step), verdict: verdict.clone() });
        let changes: Vec<_> = changes.collect();
        let checked = changes.len() as u32;
        let answer = Checked { instruction, snapshot, changes, checked };
        self.step(Input::Message(ToServer::Checked(answer)))
    }

    /// Goes through the apply that was asked for last, each step ending as given.
    fn perform(&mut self, outcome: Outcome) -> Vec<ToAgent> {
        let steps = self.applying();
        for step in &steps {
            self.record(*step, Fact::Began { reason: "drifted".into() });
            let output = Output::from_text("what it printed\n");
            self.record(*step, Fact::Ended { outcome, duration_ms: 1, output });
        }
        self.finish()
    }

    fn applying(&self) -> Vec<StepIndex> {
        match &self.last {
            Some(ToAgent::Apply { steps, .. }) => steps.clone(),
            other => panic!("no apply was asked for: {other:?}"),
        }
    }

    fn record(&mut self, index: StepIndex, fact: Fact) -> Vec<ToAgent> {
        self.records += 1;
        self.record_as(self.records, index, fact)
    }

    fn record_as(&mut self, id: u64, index: StepIndex, fact: Fact) -> Vec<ToAgent> {
        let Some(ToAgent::Apply { instruction, snapshot, trigger, .. }) = self.last.clone() else {
            panic!("no apply was asked for");
        };
        let board = self.machine.board.as_ref().expect("a snapshot");
        let (task, step) = board.snapshot.step(index).expect("a step");
        let record = Record {
            id: RecordId(id),
            at: self.now.wall,
            instruction: Some(instruction),
            snapshot,
            commit: board.commit.clone(),
            subject: Subject::Step {
                task: board.snapshot.tasks()[task].name.clone(),
                step: step.address.clone(),
                index,
            },
            trigger,
            fact,
        };
        self.step(Input::Message(ToServer::Record(record)))
    }

    fn finish(&mut self) -> Vec<ToAgent> {
        let Some(ToAgent::Apply { instruction, .. }) = self.last.clone() else {
            panic!("no apply was asked for");
        };
        self.step(Input::Message(ToServer::Finished { instruction }))
    }

    fn pass(&mut self, time: Duration) -> Vec<ToAgent> {
        self.now.instant += time;
        self.now.wall = self.now.wall.after(time);
        self.step(Input::Wake)
    }

    fn ask(&mut self, task: Option<&str>) -> Vec<ToAgent> {
        self.request(task, None)
    }

    /// Somebody sees what has drifted of the task, and asks for that to be put right.
    fn approve(&mut self, task: &str) -> Vec<ToAgent> {
        let approval = self.machine.approval(&TaskName::new(task).expect("name"));
        self.request(Some(task), Some(approval.expect("the task is for this host")))
    }

    /// Why the last request came to nothing.
    fn refusal(&self) -> &str {
        match self.progress.last() {
            Some(Progress::Ended { error: Some(why) }) => why,
            other => panic!("it was not refused: {other:?}"),
        }
    }

    fn request(&mut self, task: Option<&str>, approved: Option<Approval>) -> Vec<ToAgent> {
        let name = task.map(|task| TaskName::new(task).expect("name"));
        self.wish(name.map_or(What::Host, |name| What::Task { name, approved }))
    }

    fn wish(&mut self, what: What) -> Vec<ToAgent> {
        self.asked += 1;
        let request = Request { id: format!("r{}", self.asked), by: "eve".into(), what };
        assert!(self.machine.ask(request));
        self.step(Input::Wake)
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.kind.as_str()).collect()
    }

    fn status(&self) -> Status {
        self.machine.status()
    }
}

fn hello() -> Hello {
    Hello {
        name: AgentName::new("web-1").expect("name"),
        labels: Labels::default(),
        version: "0.1.0".into(),
        executors: vec!["shell".into(), "container".into()],
        node_type: NodeType::Worker,
        snapshot: None,
        instance: InstanceId(7),
        previous: None,
        tables: fluke_model::message::Holdings::default(),
    }
}

fn task(name: &str, policy: Policy, commands: &[&str]) -> SnapshotTask {
    let step = |(n, command): (usize, &&str)| Step {
        address: StepAddress::new("shell", &format!("s{n}")).expect("address"),
        on_failure: OnFailure::Abort,
        timeout: None,
        spec: ExecutorSpec::Shell(ShellSpec {
            check: "false".into(),
            command: command.to_string(),
            working_dir: None,
            run_as: None,
            env: BTreeMap::new(),
        }),
    };
    let steps = commands.iter().enumerate().map(step).collect();
    SnapshotTask { name: TaskName::new(name).expect("name"), policy, steps }
}

fn quiet(name: &str) -> SnapshotTask {
    task(name, Policy::Remediate, &["x"])
}

fn wanted(commit: &str, tasks: &[SnapshotTask]) -> Wanted {
    let tasks = tasks.iter().cloned().map(Arc::new).collect();
    Wanted { commit: CommitId::new(commit), snapshot: Arc::new(Snapshot::new(tasks)) }
}

fn ok(step: u32) -> (u32, Verdict) {
    (step, Verdict::Satisfied)
}

fn off(step: u32) -> (u32, Verdict) {
    (step, Verdict::Drifted(Drift::because("check exited 1")))
}

fn unsure(step: u32) -> (u32, Verdict) {
    (step, Verdict::Error { reason: "timed out".into() })
}

/// What was sent, in short: `snapshot`, `check 0,1`, `check all`, `apply 0`, `ack 3`.
fn told(sent: &[ToAgent]) -> Vec<String> {
    let list = |steps: &[StepIndex]| {
        steps.iter().map(|step| step.0.to_string()).collect::<Vec<_>>().join(",")
    };
    let short = |message: &ToAgent| match message {
        ToAgent::Welcome(_) => "welcome".to_string(),
        ToAgent::Heartbeat => "heartbeat".to_string(),
        ToAgent::Snapshot { .. } => "snapshot".to_string(),
        ToAgent::Check { steps: Scope::All, .. } => "check all".to_string(),
        ToAgent::Check { steps: Scope::Steps(steps), .. } => format!("check {}", list(steps)),
        ToAgent::Apply { steps, .. } => format!("apply {}", list(steps)),
        ToAgent::Ack { record } => format!("ack {}", record.0),
        other => panic!("a machine does not say {other:?}"),
    };
    sent.iter().map(short).collect()
}
