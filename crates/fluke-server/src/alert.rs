//! Alerts: drift, told to a webhook.
//!
//! What is said is here, as values; [`delivery`] says it and [`retry`] decides how often.

pub mod delivery;
pub mod retry;

use fluke_model::id::{AgentName, CommitId, ServiceName, TaskName};
use fluke_model::label::Labels;
use fluke_model::policy::Policy;
use fluke_model::time::Timestamp;
use serde::Serialize;

pub use delivery::{AlertCounts, AlertSettings, Alerter, AlerterError};

/// The longest reason that an alert carries, in bytes; the events have all of it.
const MAX_REASON: usize = 2048;

/// Where alerts go. Never blocks, never fails.
pub trait AlertSink: Send + Sync {
    /// Takes `alert`, to be delivered behind the caller's back.
    fn send(&self, alert: Alert);
}

/// Something that people are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// When it was decided.
    pub at: Timestamp,
    /// Where.
    pub agent: AgentName,
    /// What the host is.
    pub labels: Labels,
    /// What of.
    pub of: Owner,
    /// Under which commit.
    pub commit: Option<CommitId>,
    /// Why, in a line.
    pub reason: Option<String>,
    /// What.
    pub news: News,
}

/// What an alert is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A task.
    Task(TaskName),
    /// A service.
    Service(ServiceName),
}

impl Owner {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Task(task) => task.as_str(),
            Self::Service(service) => service.as_str(),
        }
    }
}

/// What an alert says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Something is not as it should be.
    DriftDetected {
        /// Its policy.
        policy: Policy,
        /// What happens about it.
        remediation_status: RemediationStatus,
    },
    /// It was tried to put it right.
    DriftRemediated {
        /// Whether that worked.
        success: bool,
    },
    /// It went away by itself.
    DriftResolved,
}

/// What happens about a drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemediationStatus {
    /// A human has to ask for it.
    PendingManual,
    /// It is being put right.
    InProgress,
}

impl Alert {
    /// The body that is sent.
    pub fn payload(&self) -> Payload<'_> {
        let mut payload = Payload {
            event: "drift_resolved",
            timestamp: to_the_second(self.at),
            agent: PayloadAgent { name: &self.agent, labels: None },
            task: None,
            service: None,
            policy: None,
            remediation_status: None,
            outcome: None,
            commit: self.commit.as_ref(),
            reason: self.reason.as_deref().map(clip),
            text: self.text(),
        };
        match &self.of {
            Owner::Task(task) => payload.task = Some(task),
            Owner::Service(service) => payload.service = Some(service),
        }
        match self.news {
            News::DriftDetected { policy, remediation_status } => {
                payload.event = "drift_detected";
                payload.agent.labels = Some(&self.labels);
                payload.policy = Some(policy);
                payload.remediation_status = Some(remediation_status);
            }
            News::DriftRemediated { success } => {
                payload.event = "drift_remediated";
                payload.outcome = Some(if success { "success" } else { "failure" });
            }
            News::DriftResolved => {}
        }
        payload
    }

    /// One line for people.
    pub fn text(&self) -> String {
        let agent = &self.agent;
        let name = self.of.name();
        match self.news {
            News::DriftDetected { remediation_status, .. } => {
                let next = match remediation_status {
                    RemediationStatus::PendingManual => {
                        let scope = match &self.of {
                            Owner::Task(task) => format!("task {task}"),
                            Owner::Service(service) => format!("service {service}"),
                        };
                        format!("it waits for `fluke reconcile {scope}`")
                    }
                    RemediationStatus::InProgress => "it is being put right".into(),
                };
                format!("{agent}: {name} has drifted{}; {next}", self.why())
            }
            News::DriftRemediated { success: true } => {
                format!("{agent}: {name} has been put right")
            }
            News::DriftRemediated { success: false } => {
                format!("{agent}: {name} could not be put right{}", self.why())
            }
            News::DriftResolved => {
                format!("{agent}: {name} is as it should be again, by itself")
            }
        }
    }

    /// ` (first line of the reason)`, if there is one.
    fn why(&self) -> String {
        let line = self.reason.as_deref().and_then(|reason| reason.lines().next());
        let line: String = line.unwrap_or_default().chars().take(200).collect();
        if line.is_empty() { line } else { format!(" ({line})") }
    }
}

fn clip(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(MAX_REASON)]
}

/// RFC 3339 without a fraction, as receivers are promised.
fn to_the_second(time: Timestamp) -> String {
    let text = time.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// The JSON of an alert; keys in the order that is documented.
#[derive(Debug, Serialize)]
pub struct Payload<'a> {
    event: &'static str,
    timestamp: String,
    agent: PayloadAgent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a TaskName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<&'a ServiceName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Policy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remediation_status: Option<RemediationStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'a CommitId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// Shown by receivers that speak Slack's format.
    text: String,
}

#[derive(Debug, Serialize)]
struct PayloadAgent<'a> {
    name: &'a AgentName,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a Labels>,
}

#[cfg(test)]
mod tests;
