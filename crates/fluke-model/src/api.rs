//! The JSON of the HTTP API: written by the server, read by the command line.

use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::event::{Event, EventId};
use crate::id::{AgentName, CommitId, Hash256, StepAddress, TaskName};
use crate::label::{Labels, Selector};
use crate::message::NodeType;
use crate::policy::Policy;
use crate::status::{Status, StepStatus};
use crate::task::Step;
use crate::time::Timestamp;
use crate::verdict::Outcome;

/// `GET agents`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agents {
    /// By name.
    pub agents: Vec<Agent>,
}

/// One agent, at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// What it calls itself.
    pub name: AgentName,
    /// What it is.
    pub labels: Labels,
    /// Whether its stream is open.
    pub connected: bool,
    /// How it stands.
    pub status: Status,
    /// Of its program.
    pub version: String,
    /// Worker or proxy.
    pub node_type: NodeType,
    /// When its stream was opened.
    pub connected_since: Option<Timestamp>,
    /// When it was last heard.
    pub last_seen: Timestamp,
    /// The commit it is held to.
    pub commit: Option<CommitId>,
    /// The snapshot it is held to.
    pub snapshot: Option<Hash256>,
    /// How its tasks stand.
    pub tasks: TaskCounts,
    /// Why nothing can be asked of it, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How many tasks of a host stand how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskCounts {
    /// All that match.
    pub total: u32,
    /// As they should be.
    pub in_sync: u32,
    /// Not as they should be, or being put right.
    pub drifted: u32,
    /// Could not be checked or put right.
    pub failed: u32,
}

/// `GET agents/{name}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentDetail {
    /// The same as in the list.
    #[serde(flatten)]
    pub agent: Agent,
    /// The kinds of steps it can run.
    pub executors: Vec<String>,
    /// Each task that matches it.
    pub task_details: Vec<AgentTask>,
    /// Newest first.
    pub events: Vec<Event>,
    /// Why there are only those events that wait for the event store, if it is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_error: Option<String>,
}

/// One task on one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentTask {
    /// The task's name.
    pub name: TaskName,
    /// What happens on drift.
    pub policy: Policy,
    /// How it stands.
    pub status: Status,
    /// How often its apply has failed in a row.
    pub failures: u32,
    /// When it is tried again, if it failed.
    pub retry_at: Option<Timestamp>,
    /// In declaration order.
    pub steps: Vec<AgentStep>,
}

/// One step on one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStep {
    /// `kind.name`
    pub step: StepAddress,
    /// How it stands.
    pub status: StepStatus,
    /// Why it is not in sync.
    pub reason: Option<String>,
    /// What differs, where the executor can tell.
    pub diff: Option<String>,
    /// Since when it stands so.
    pub since: Option<Timestamp>,
    /// When it was last checked.
    pub last_checked: Option<Timestamp>,
    /// When it was last applied.
    pub last_applied: Option<Timestamp>,
}

/// `GET tasks`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tasks {
    /// By name.
    pub tasks: Vec<TaskView>,
}

/// `GET tasks/{name}`, and one of `GET tasks`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// The task's name.
    pub name: TaskName,
    /// For people.
    pub description: Option<String>,
    /// What happens on drift, the server's default included.
    pub policy: Policy,
    /// Which hosts it is for.
    pub selector: Selector,
    /// `file:line`
    pub defined: String,
    /// In declaration order.
    pub steps: Vec<Step>,
    /// The worst of its agents.
    pub status: Status,
    /// Every known agent that it matches.
    pub agents: Vec<TaskAgent>,
}

/// How a task stands on one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskAgent {
    /// The agent's name.
    pub name: AgentName,
    /// How the task stands there.
    pub status: Status,
}

/// `GET drift`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriftList {
    /// What is drifted now.
    pub drift: Vec<DriftEntry>,
}

/// One step that is not as it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriftEntry {
    /// Where.
    pub agent: AgentName,
    /// Which task.
    pub task: TaskName,
    /// Which step.
    pub step: StepAddress,
    /// What happens about it.
    pub policy: Policy,
    /// How it stands.
    pub status: StepStatus,
    /// Why.
    pub reason: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// `GET events`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Events {
    /// Newest first.
    pub events: Vec<Event>,
    /// To be given as `before` for the next page; none on the last.
    pub next: Option<EventId>,
    /// How many events were left out because this version cannot read them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// `GET source`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Without credentials.
    pub url: String,
    /// The branch that is tracked.
    pub branch: Option<String>,
    /// The last good commit.
    pub commit: Option<CommitId>,
    /// Since when it is in force.
    pub commit_since: Option<Timestamp>,
    /// The newest commit, good or not.
    pub last_seen: Option<CommitId>,
    /// Whether the newest commit was rejected.
    pub rejected: bool,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
    /// The last time that the repository answered.
    pub last_poll: Option<Timestamp>,
    /// When it is asked next.
    pub next_poll: Option<Timestamp>,
    /// Why it did not answer last time, if it did not.
    pub error: Option<String>,
}

/// `POST reconcile`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReconcileRequest {
    /// What to put right.
    pub scope: ReconcileScope,
    /// The agent's or task's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who asks, as the caller says; the server adds how they came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a manual reconcile is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReconcileScope {
    /// Every connected agent.
    All,
    /// All tasks of one agent.
    Agent,
    /// One task on every connected agent that it matches.
    Task,
}

/// The answer to `POST reconcile`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconcileAccepted {
    /// To follow it by.
    pub id: String,
}

/// `GET reconcile/{id}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReconcileProgress {
    /// The same as was answered.
    pub id: String,
    /// What was asked.
    pub scope: ReconcileScope,
    /// The agent's or task's name.
    pub name: Option<String>,
    /// Who asked.
    pub by: String,
    /// Whether nothing of it is left to do.
    pub done: bool,
    /// Whether anything failed.
    pub failed: bool,
    /// When it was asked for.
    pub started: Timestamp,
    /// Each agent that it concerns.
    pub agents: Vec<ReconcileAgent>,
}

/// How far a manual reconcile has come on one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReconcileAgent {
    /// The agent's name.
    pub name: AgentName,
    /// How far.
    pub state: ReconcileState,
    /// What was applied, and how it ended.
    pub steps: Vec<ReconcileStep>,
    /// Why it failed, where no step says so.
    pub error: Option<String>,
}

/// How far a manual reconcile has come on one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReconcileState {
    /// Waits for the agent to finish what it is at.
    Waiting,
    /// Checks run.
    Checking,
    /// Steps are being applied.
    Applying,
    /// Everything is as it should be.
    Done,
    /// Something failed.
    Failed,
    /// The agent is away; it is brought up to date when it returns.
    Offline,
}

/// One step of a manual reconcile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReconcileStep {
    /// Which task.
    pub task: TaskName,
    /// Which step.
    pub step: StepAddress,
    /// How it ended; none while it runs.
    pub outcome: Option<Outcome>,
    /// The tail of what it printed.
    pub output: Option<String>,
}

/// `GET session`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Whether a valid token or session was shown.
    pub signed_in: bool,
    /// The name given at sign-in.
    pub name: Option<String>,
    /// Whether the caller may ask for changes.
    pub may_change: bool,
    /// Whether the server has `api_tokens`; without, the network may only look.
    pub tokens_configured: bool,
    /// The server's version, for those who may look.
    pub version: Option<String>,
    /// The local socket on the server's host, for those who may look.
    pub socket: Option<String>,
    /// Where people find the pages, for those who may look.
    pub page_url: Option<String>,
}
