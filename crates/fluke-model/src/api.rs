//! The JSON of the HTTP API: written by the server, read by the command line.

mod reconcile;
mod services;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::event::{Event, EventId};
use crate::id::{AgentName, CommitId, Hash256, ServiceName, StepAddress, TaskName, check_name};
use crate::label::{Labels, Selector};
use crate::message::NodeType;
use crate::policy::Policy;
use crate::status::{Status, StepStatus};
use crate::task::Step;
use crate::time::Timestamp;

pub use reconcile::*;
pub use services::*;

/// `GET agents`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agents {
    /// By name.
    pub agents: Vec<Agent>,
    /// To be given as `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<AgentName>,
}

/// One agent, at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// How its services stand; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<TaskCounts>,
    /// Why nothing can be asked of it, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How many tasks, or services, of a host stand how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentDetail {
    /// The same as in the list.
    #[serde(flatten)]
    pub agent: Agent,
    /// The kinds of steps it can run.
    pub executors: Vec<String>,
    /// Each task that matches it.
    pub task_details: Vec<AgentTask>,
    /// Each service that has a replica there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_details: Vec<AgentService>,
    /// How names, routes and mesh are there; empty where nothing runs services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkPart>,
    /// Newest first.
    pub events: Vec<Event>,
    /// Why there are only those events that wait for the event store, if it is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_error: Option<String>,
}

/// One task on one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentTask {
    /// The task's name.
    pub name: TaskName,
    /// What happens on drift.
    pub policy: Policy,
    /// Names all that the task says, to approve of it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_hash: Option<Hash256>,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tasks {
    /// By name.
    pub tasks: Vec<TaskView>,
    /// To be given as `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<TaskName>,
}

/// `GET tasks/{name}`, and one of `GET tasks`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The worst of its connected agents; offline where all are.
    pub status: Status,
    /// How many agents stand how; statuses that none has are left out.
    #[serde(default)]
    pub counts: BTreeMap<Status, u32>,
    /// Every known agent that it matches; none where the list was not wanted.
    pub agents: Vec<TaskAgent>,
}

/// How a task stands on one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAgent {
    /// The agent's name.
    pub name: AgentName,
    /// How the task stands there.
    pub status: Status,
}

/// `GET drift`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftList {
    /// What is drifted now, by agent: steps by task, in declaration order; then containers by
    /// service; then names, routes and mesh.
    pub drift: Vec<DriftEntry>,
    /// To be given as `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<DriftMark>,
}

/// A place in the list of drift: `agent:task:step`, with a service in place of the task, or `-` for
/// what services share. What stood there may be gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = r"^[A-Za-z0-9._/-]{1,128}:[A-Za-z0-9._/-]{1,128}:[A-Za-z0-9_/-]{1,128}\.[A-Za-z0-9._/-]{1,128}$"))]
pub struct DriftMark {
    /// Where.
    pub agent: String,
    /// Which task or service; `-` for what services share.
    pub owner: String,
    /// Which step.
    pub step: StepAddress,
}

impl std::str::FromStr for DriftMark {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':').map(str::to_string);
        let mut part = || parts.next().ok_or("a place in the drift is `agent:task:step`");
        let (agent, owner, step) = (part()?, part()?, part()?);
        let words = |error: crate::id::InvalidName| error.to_string();
        check_name("an agent name", &agent).map_err(words)?;
        check_name("a task name", &owner).map_err(words)?;
        Ok(Self { agent, owner, step: step.try_into().map_err(words)? })
    }
}

impl TryFrom<String> for DriftMark {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DriftMark> for String {
    fn from(mark: DriftMark) -> String {
        format!("{}:{}:{}", mark.agent, mark.owner, mark.step)
    }
}

impl From<&DriftEntry> for DriftMark {
    fn from(entry: &DriftEntry) -> Self {
        let owner = entry.owner().unwrap_or(DriftMark::SHARED).to_string();
        Self { agent: entry.agent.to_string(), owner, step: entry.step.clone() }
    }
}

impl DriftMark {
    /// Stands where a task or a service would, for what services share.
    pub const SHARED: &str = "-";
}

/// One step, one container, or one part of what services share, that is not as it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftEntry {
    /// Where.
    pub agent: AgentName,
    /// Which task; null for what is of services.
    pub task: Option<TaskName>,
    /// Which service; absent for steps, and for what services share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// Which step; of services `container.NAME`, `dns.records`, `routes.traefik`, `mesh.peers`.
    pub step: StepAddress,
    /// What happens about it.
    pub policy: Policy,
    /// How it stands.
    pub status: StepStatus,
    /// Why.
    pub reason: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Names all that the task, or the service, says, to approve of it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_hash: Option<Hash256>,
}

impl DriftEntry {
    /// The task or the service, where it is of one.
    pub fn owner(&self) -> Option<&str> {
        let task = self.task.as_ref().map(TaskName::as_str);
        task.or(self.service.as_ref().map(ServiceName::as_str))
    }
}

/// `DELETE agents/{name}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Forgotten {
    /// Who.
    pub name: AgentName,
    /// The volumes on its host that no replica waits for any more, as Podman calls them.
    pub volumes: Vec<String>,
}

/// `GET events`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// `GET session`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
