//! Manual reconciles: what is asked for, and how far it has come.

use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Serialize};

use crate::api::DriftEntry;
use crate::id::{AgentName, Hash256, ServiceName, StepAddress, TaskName};
use crate::time::Timestamp;
use crate::verdict::Outcome;

/// `POST reconcile`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = one_of_the_scopes)]
pub struct ReconcileRequest {
    /// What to put right.
    pub scope: ReconcileScope,
    /// The agent's, task's or service's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of a task or a service: on this agent only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Of a task on one agent: the drift that the caller saw and approves of putting right, all of
    /// it. If it is no longer so, nothing is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Vec<SeenDrift>>,
    /// Who asks, as the caller says; the server adds how they came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A drift as somebody saw it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeenDrift {
    /// Which step.
    pub step: StepAddress,
    /// Why it was not as it should be.
    #[serde(default)]
    pub reason: Option<String>,
    /// Names the task as it stood in Git. Without it, a commit that changed what the task does
    /// before this was asked for is not noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_hash: Option<Hash256>,
}

impl From<&DriftEntry> for SeenDrift {
    fn from(entry: &DriftEntry) -> Self {
        Self { step: entry.step.clone(), reason: entry.reason.clone(), task_hash: entry.task_hash }
    }
}

/// What a [`ReconcileRequest`] comes to, once its parts are known to go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileTarget<'a> {
    /// Every connected agent.
    All,
    /// All tasks and services of this agent.
    Agent(&'a str),
    /// This service on every connected agent that should run something of it.
    Service(&'a str),
    /// This service on this agent.
    ServiceOn {
        /// Which service.
        service: &'a str,
        /// Where.
        agent: &'a str,
    },
    /// This task on every connected agent that it matches.
    Task(&'a str),
    /// This task on this agent, if what is drifted there is what was seen.
    TaskOn {
        /// Which task.
        task: &'a str,
        /// Where.
        agent: &'a str,
        /// What was seen, if the caller says.
        seen: Option<&'a [SeenDrift]>,
    },
}

/// Why the parts of a [`ReconcileRequest`] do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// A scope that needs a name came without one.
    #[error("the scope `{0}` needs a name")]
    NameMissing(&'static str),
    /// A part that would have no meaning; whoever sent it meant something else.
    #[error("the scope `{scope}` takes no `{part}`")]
    Surplus {
        /// What was asked for.
        scope: &'static str,
        /// What goes with another scope.
        part: &'static str,
    },
    /// Drift is seen on one agent, and none was named.
    #[error("`seen` needs `agent`: a drift is seen on one agent")]
    SeenNowhere,
}

impl ReconcileRequest {
    /// Tells what is asked for, or what is wrong with the question.
    pub fn target(&self) -> Result<ReconcileTarget<'_>, InvalidRequest> {
        let scope = self.scope.as_str();
        let name = || self.name.as_deref().ok_or(InvalidRequest::NameMissing(scope));
        let none = |part, given: bool| match given {
            true => Err(InvalidRequest::Surplus { scope, part }),
            false => Ok(()),
        };
        if !matches!(self.scope, ReconcileScope::Task | ReconcileScope::Service) {
            none("agent", self.agent.is_some())?;
        }
        if self.scope != ReconcileScope::Task {
            none("seen", self.seen.is_some())?;
        }
        match (self.scope, self.agent.as_deref(), self.seen.as_deref()) {
            (ReconcileScope::All, ..) => {
                none("name", self.name.is_some())?;
                Ok(ReconcileTarget::All)
            }
            (ReconcileScope::Agent, ..) => Ok(ReconcileTarget::Agent(name()?)),
            (ReconcileScope::Service, None, _) => Ok(ReconcileTarget::Service(name()?)),
            (ReconcileScope::Service, Some(agent), _) => {
                Ok(ReconcileTarget::ServiceOn { service: name()?, agent })
            }
            (ReconcileScope::Task, None, None) => Ok(ReconcileTarget::Task(name()?)),
            (ReconcileScope::Task, None, Some(_)) => Err(InvalidRequest::SeenNowhere),
            (ReconcileScope::Task, Some(agent), seen) => {
                Ok(ReconcileTarget::TaskOn { task: name()?, agent, seen })
            }
        }
    }
}

/// Says in the schema what [`ReconcileRequest::target`] says in code: which parts go together.
fn one_of_the_scopes(schema: &mut Schema) {
    let Some(parts) = schema.remove("properties") else { return };
    for key in ["type", "required", "additionalProperties"] {
        schema.remove(key);
    }
    let absent = || json_schema!({ "type": "null" });
    let text = |about: &str| json_schema!({ "type": "string", "description": about });
    let variant = |scope: ReconcileScope, needed: &[&str], name: Schema, agent: Schema, seen| {
        json_schema!({
            "type": "object",
            "properties": {
                "scope": { "const": scope },
                "name": name,
                "agent": agent,
                "seen": seen,
                "by": parts["by"],
            },
            "required": needed,
            "additionalProperties": false,
        })
    };
    let (task, agent) = (text("The task's name."), text("The agent's name."));
    let service = text("The service's name.");
    let seen = || serde_json::json!(parts["seen"]);
    let none = || serde_json::json!({ "type": "null" });
    let variants = [
        variant(ReconcileScope::All, &["scope"], absent(), absent(), none()),
        variant(ReconcileScope::Agent, &["scope", "name"], agent.clone(), absent(), none()),
        variant(ReconcileScope::Service, &["scope", "name"], service.clone(), absent(), none()),
        variant(
            ReconcileScope::Service,
            &["scope", "name", "agent"],
            service,
            agent.clone(),
            none(),
        ),
        variant(ReconcileScope::Task, &["scope", "name"], task.clone(), absent(), none()),
        variant(ReconcileScope::Task, &["scope", "name", "agent"], task, agent, seen()),
    ];
    schema.insert("oneOf".into(), serde_json::json!(variants));
}

/// What a manual reconcile is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReconcileScope {
    /// Every connected agent.
    All,
    /// All tasks and services of one agent.
    Agent,
    /// One task, on every connected agent that it matches or on one of them.
    Task,
    /// One service, on every connected agent that should run something of it or on one of them.
    Service,
}

impl ReconcileScope {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Agent => "agent",
            Self::Task => "task",
            Self::Service => "service",
        }
    }
}

/// The answer to `POST reconcile`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReconcileAccepted {
    /// To follow it by.
    pub id: String,
}

/// `GET reconcile/{id}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReconcileProgress {
    /// The same as was answered.
    pub id: String,
    /// What was asked.
    pub scope: ReconcileScope,
    /// The agent's, task's or service's name.
    pub name: Option<String>,
    /// The agent that a task or a service was narrowed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The agent is away; when it returns it is checked, and put right as its policies say.
    Offline,
}

/// One step of a manual reconcile, or one container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReconcileStep {
    /// Which task; null for what is of services.
    pub task: Option<TaskName>,
    /// Which service; absent for steps, and for what services share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// Which step; of services `container.NAME`, `dns.records`, `routes.traefik`, `mesh.peers`.
    pub step: StepAddress,
    /// How it ended; none while it runs.
    pub outcome: Option<Outcome>,
    /// The tail of what it printed.
    pub output: Option<String>,
}

impl ReconcileStep {
    /// The task or the service, where it is of one.
    pub fn owner(&self) -> Option<&str> {
        let task = self.task.as_ref().map(TaskName::as_str);
        task.or(self.service.as_ref().map(ServiceName::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_has_parts_that_go_together() {
        for (json, target) in [
            (r#"{"scope":"all","by":"ann"}"#, "All"),
            (r#"{"scope":"all","name":"web"}"#, "the scope `all` takes no `name`"),
            (r#"{"scope":"agent","name":"web"}"#, r#"Agent("web")"#),
            (r#"{"scope":"agent"}"#, "the scope `agent` needs a name"),
            (
                r#"{"scope":"agent","name":"web","agent":"web"}"#,
                "the scope `agent` takes no `agent`",
            ),
            (r#"{"scope":"agent","name":"web","seen":[]}"#, "the scope `agent` takes no `seen`"),
            (r#"{"scope":"service","name":"shop"}"#, r#"Service("shop")"#),
            (
                r#"{"scope":"service","name":"shop","agent":"web"}"#,
                r#"ServiceOn { service: "shop", agent: "web" }"#,
            ),
            (r#"{"scope":"service"}"#, "the scope `service` needs a name"),
            (
                r#"{"scope":"service","name":"shop","agent":"web","seen":[]}"#,
                "the scope `service` takes no `seen`",
            ),
            (r#"{"scope":"task","name":"t"}"#, r#"Task("t")"#),
            (
                r#"{"scope":"task","name":"t","seen":[]}"#,
                "`seen` needs `agent`: a drift is seen on one agent",
            ),
            (
                r#"{"scope":"task","name":"t","agent":"web"}"#,
                r#"TaskOn { task: "t", agent: "web", seen: None }"#,
            ),
            (
                r#"{"scope":"task","name":"t","agent":"web","seen":[{"step":"shell.x"}]}"#,
                r#"TaskOn { task: "t", agent: "web", seen: Some([SeenDrift { step: shell.x, reason: None, task_hash: None }]) }"#,
            ),
        ] {
            let request: ReconcileRequest = serde_json::from_str(json).expect("JSON");
            let said = match request.target() {
                Ok(target) => format!("{target:?}"),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, target, "{json}");
        }
    }
}
