//! Alerts: drift, told to a webhook.
//!
//! What is said is here, as values; [`delivery`] says it and [`retry`] decides how often.

pub mod delivery;
pub mod retry;

use fluke_model::id::{AgentName, CommitId, StepAddress, TaskName};
use fluke_model::label::Labels;
use fluke_model::policy::Policy;
use fluke_model::time::Timestamp;
use serde::Serialize;

pub use delivery::{AlertCounts, AlertSettings, Alerter, AlerterError};

/// The longest reason that an alert carries, in bytes; the events have all of it.
const MAX_REASON: usize = 2048;

/// One thing worth telling people who are elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alert {
    /// A task is not as it should be; said once per drift.
    DriftDetected {
        /// When it was seen.
        at: Timestamp,
        /// Where.
        agent: AgentName,
        /// What the host is.
        labels: Labels,
        /// Which task.
        task: TaskName,
        /// What happens about it.
        policy: Policy,
        /// Whether something is being done.
        remediation: RemediationStatus,
        /// The commit that the host is held to.
        commit: Option<CommitId>,
        /// The steps that drifted.
        steps: Vec<StepAddress>,
        /// Why, as the check said.
        reason: Option<String>,
    },
    /// A drift that was told of was put right, or could not be.
    DriftRemediated {
        /// When it ended.
        at: Timestamp,
        /// Where.
        agent: AgentName,
        /// Which task.
        task: TaskName,
        /// How it ended.
        outcome: Remediation,
        /// The commit that the host is held to.
        commit: Option<CommitId>,
        /// The steps that were applied.
        steps: Vec<StepAddress>,
        /// Why it failed.
        reason: Option<String>,
    },
    /// A drift that was told of went away by itself.
    DriftResolved {
        /// When it was seen.
        at: Timestamp,
        /// Where.
        agent: AgentName,
        /// Which task.
        task: TaskName,
        /// The commit that the host is held to.
        commit: Option<CommitId>,
    },
}

/// Whether something is being done about a drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemediationStatus {
    /// It waits for a human.
    PendingManual,
    /// It is being put right.
    InProgress,
}

impl RemediationStatus {
    /// What a policy means for a drift that was just seen.
    pub fn under(policy: Policy) -> Self {
        match policy.remediates() {
            true => Self::InProgress,
            false => Self::PendingManual,
        }
    }
}

/// How putting a drift right ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remediation {
    /// As it should be.
    Success,
    /// Still not as it should be.
    Failure,
}

impl Alert {
    /// Where.
    pub fn agent(&self) -> &AgentName {
        match self {
            Self::DriftDetected { agent, .. }
            | Self::DriftRemediated { agent, .. }
            | Self::DriftResolved { agent, .. } => agent,
        }
    }

    /// Which task.
    pub fn task(&self) -> &TaskName {
        match self {
            Self::DriftDetected { task, .. }
            | Self::DriftRemediated { task, .. }
            | Self::DriftResolved { task, .. } => task,
        }
    }

    /// The body that is sent.
    pub fn payload(&self) -> Payload<'_> {
        let blank = Payload {
            event: "",
            timestamp: String::new(),
            agent: PayloadAgent { name: self.agent(), labels: None },
            task: self.task(),
            policy: None,
            remediation_status: None,
            outcome: None,
            commit: None,
            step: None,
            steps: &[],
            reason: None,
            text: self.text(),
        };
        match self {
            Self::DriftDetected {
                at, labels, policy, remediation, commit, steps, reason, ..
            } => Payload {
                event: "drift_detected",
                timestamp: to_the_second(*at),
                agent: PayloadAgent { labels: Some(labels), ..blank.agent },
                policy: Some(*policy),
                remediation_status: Some(*remediation),
                commit: commit.as_ref(),
                step: steps.first(),
                steps,
                reason: reason.as_deref().map(clip),
                ..blank
            },
            Self::DriftRemediated { at, outcome, commit, steps, reason, .. } => Payload {
                event: "drift_remediated",
                timestamp: to_the_second(*at),
                outcome: Some(*outcome),
                commit: commit.as_ref(),
                step: steps.first(),
                steps,
                reason: reason.as_deref().map(clip),
                ..blank
            },
            Self::DriftResolved { at, commit, .. } => Payload {
                event: "drift_resolved",
                timestamp: to_the_second(*at),
                commit: commit.as_ref(),
                ..blank
            },
        }
    }

    /// One line for people.
    pub fn text(&self) -> String {
        let (agent, task) = (self.agent(), self.task());
        match self {
            Self::DriftDetected { remediation, steps, reason, .. } => {
                let what = match remediation {
                    RemediationStatus::PendingManual => {
                        format!("it waits for `fluke reconcile task {task}`")
                    }
                    RemediationStatus::InProgress => "it is being put right".into(),
                };
                format!("{agent}: {task} has drifted{}; {what}", detail(steps, reason))
            }
            Self::DriftRemediated { outcome: Remediation::Success, .. } => {
                format!("{agent}: {task} has been put right")
            }
            Self::DriftRemediated { steps, reason, .. } => {
                format!("{agent}: {task} could not be put right{}", detail(steps, reason))
            }
            Self::DriftResolved { .. } => {
                format!("{agent}: {task} is as it should be again, by itself")
            }
        }
    }
}

/// ` (shell.a, shell.b: why)`, as far as it is known.
fn detail(steps: &[StepAddress], reason: &Option<String>) -> String {
    const SHOWN: usize = 3;
    let mut parts: Vec<String> = steps.iter().take(SHOWN).map(ToString::to_string).collect();
    if steps.len() > SHOWN {
        parts.push(format!("{} more", steps.len() - SHOWN));
    }
    let line = reason.as_deref().and_then(|reason| reason.lines().next()).unwrap_or_default();
    let line: String = line.chars().take(200).collect();
    match (parts.join(", "), line) {
        (steps, line) if steps.is_empty() && line.is_empty() => String::new(),
        (steps, line) if line.is_empty() => format!(" ({steps})"),
        (steps, line) if steps.is_empty() => format!(" ({line})"),
        (steps, line) => format!(" ({steps}: {line})"),
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
    task: &'a TaskName,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Policy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remediation_status: Option<RemediationStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Remediation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'a CommitId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a StepAddress>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    steps: &'a [StepAddress],
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
