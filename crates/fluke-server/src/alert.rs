//! Alerts: what people are told.

use fluke_model::id::{AgentName, CommitId, TaskName};
use fluke_model::label::Labels;
use fluke_model::policy::Policy;
use fluke_model::time::Timestamp;
use serde::Serialize;

/// Something that people are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// When it was decided.
    pub at: Timestamp,
    /// Where.
    pub agent: AgentName,
    /// What the host is.
    pub labels: Labels,
    /// Which task.
    pub task: TaskName,
    /// Under which commit.
    pub commit: Option<CommitId>,
    /// Why, in a line.
    pub reason: Option<String>,
    /// What.
    pub news: News,
}

/// What an alert says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Something is not as it should be.
    DriftDetected {
        /// The task's policy.
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
