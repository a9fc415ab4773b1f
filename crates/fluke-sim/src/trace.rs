//! What happened in a simulation, in order: all that the laws get to see.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluke_model::event::Event;
use fluke_model::policy::Policy;
use fluke_server::alert::{Alert, News};
use tokio::time::Instant;

/// Which host, counted from zero.
pub type HostId = usize;
/// Which life of the server, counted from one.
pub type ServerLife = u64;

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Since the simulation began.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Debug, Clone)]
pub enum What {
    /// An action of the schedule was played.
    Played(String),
    /// All faults are over.
    Healed,
    /// A server put a commit in force.
    InForce(ServerLife, String),
    /// Somebody asked for a reconcile.
    Asked,
    /// A check gave its answer.
    Checked {
        /// Where.
        host: HostId,
        /// `task/step`.
        key: String,
        /// What it said.
        found: Found,
    },
    /// A command that changes the host began.
    ApplyBegan {
        /// Where.
        host: HostId,
        /// `task/step`.
        key: String,
        /// What the step is to become.
        value: String,
        /// The drift that it was begun for.
        drift: u64,
    },
    /// It ended, one way or another.
    ApplyEnded {
        /// Where.
        host: HostId,
        /// `task/step`.
        key: String,
        /// The drift that it was begun for.
        drift: u64,
        /// How.
        how: Ended,
    },
    /// An agent's process began.
    AgentBegan(HostId),
    /// An agent's process is no more.
    AgentGone(HostId),
    /// What an agent had not handed over is lost with its disk.
    JournalLost(HostId),
    /// A server's process began.
    ServerBegan(ServerLife),
    /// A server recorded an event.
    Event(ServerLife, Box<Event>),
    /// A server told people.
    Alert(ServerLife, Box<Alert>),
    /// How things stand in the end.
    Final(Box<Standing>),
}

/// A check's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It is so.
    Satisfied,
    /// It is not; each drift that was found has a number of its own.
    Drifted(u64),
    /// It could not be told.
    Error,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Without an error.
    Done,
    /// With one.
    Failed,
    /// It was killed.
    Killed,
}

/// How things stand in the end.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// What is not as it should be, one line each.
    pub wrong: Vec<String>,
    /// Connections that are open at both ends, or forgotten by one of them.
    pub connections: usize,
    /// How many agents there are.
    pub agents: usize,
    /// Manual reconciles of the last server that never ended.
    pub unfinished: Vec<String>,
    /// Tasks that drifted and wait for a human, by host and name.
    pub pending: Vec<(HostId, String)>,
}

/// What a commit says, as far as laws need to know.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// What each step is to become, by `task/step`.
    pub values: BTreeMap<String, String>,
    /// By task.
    pub policies: BTreeMap<String, Policy>,
}

/// All that happened, and what the commits said.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// In order.
    pub entries: Vec<Entry>,
    /// By commit; good ones only.
    pub commits: BTreeMap<String, Said>,
    /// The agents' names, by host.
    pub names: Vec<String>,
}

/// Where everybody writes down what happens.
#[derive(Debug, Clone)]
pub struct Trace {
    began: Instant,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Trace {
    /// Nothing has happened yet.
    pub fn begin() -> Self {
        Self { began: Instant::now(), entries: Arc::default() }
    }

    /// Writes it down.
    pub fn note(&self, what: What) {
        let at = self.began.elapsed();
        self.lock().push(Entry { at, what });
    }

    /// All of it so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3}  ", self.at.as_secs_f64())?;
        match &self.what {
            What::Played(action) => write!(f, "==> {action}"),
            What::Healed => write!(f, "==> all faults are over"),
            What::InForce(life, commit) => write!(f, "server {life}: {commit} in force"),
            What::Asked => write!(f, "a human asks"),
            What::Checked { host, key, found } => write!(f, "host {host}: check {key}: {found:?}"),
            What::ApplyBegan { host, key, value, drift } => {
                write!(f, "host {host}: apply {key} = {value} begins, for drift #{drift}")
            }
            What::ApplyEnded { host, key, drift, how } => {
                write!(f, "host {host}: apply {key} for drift #{drift}: {how:?}")
            }
            What::AgentBegan(host) => write!(f, "host {host}: agent begins"),
            What::AgentGone(host) => write!(f, "host {host}: agent is gone"),
            What::JournalLost(host) => write!(f, "host {host}: journal lost"),
            What::ServerBegan(life) => write!(f, "server {life} begins"),
            What::Event(life, event) => write_event(f, *life, event),
            What::Alert(life, alert) => {
                let news = match alert.news {
                    News::DriftDetected { .. } => "drift_detected",
                    News::DriftRemediated { success: true } => "drift_remediated",
                    News::DriftRemediated { success: false } => "remediation failed",
                    News::DriftResolved => "drift_resolved",
                };
                write!(f, "server {life}: alert {} {} {news}", alert.agent, alert.of.name())
            }
            What::Final(standing) => write!(f, "in the end: {standing:?}"),
        }
    }
}

fn write_event(f: &mut fmt::Formatter<'_>, life: ServerLife, event: &Event) -> fmt::Result {
    write!(f, "server {life}: event {}", event.kind.as_str())?;
    for part in [
        event.agent.as_ref().map(ToString::to_string),
        event.task.as_ref().map(ToString::to_string),
        event.step.as_ref().map(ToString::to_string),
        event.trigger.clone(),
        event.commit.as_ref().map(|commit| format!("@{}", commit.short())),
        event.outcome.map(|outcome| outcome.as_str().to_owned()),
        event.output.as_ref().map(|output| format!("{output:?}")),
    ]
    .into_iter()
    .flatten()
    {
        write!(f, " {part}")?;
    }
    Ok(())
}
