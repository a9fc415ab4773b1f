//! Events: lines of recent history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::id::{AgentName, CommitId, ServiceName, StepAddress, TaskName};
use crate::time::Timestamp;
use crate::verdict::Outcome;

/// An event's id: grows with time, unique per server, usable as a page mark.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^[0-9]{1,20}$"))]
pub struct EventId(pub u64);

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for EventId {
    type Error = std::num::ParseIntError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(EventId)
    }
}

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// What an event is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum EventKind { $($(#[$doc])* #[serde(rename = $text)] $name,)* }

        impl EventKind {
            /// Every kind there is.
            pub const ALL: &[EventKind] = &[$(Self::$name,)*];

            /// The name used in JSON and filters.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

event_kinds! {
    /// A commit parsed and is in force.
    CommitAccepted => "commit_accepted",
    /// A commit did not parse; the one before stays in force.
    CommitRejected => "commit_rejected",
    /// The repository cannot be read.
    SourceUnreachable => "source_unreachable",
    /// The repository can be read again.
    SourceRecovered => "source_recovered",
    /// An agent's session began.
    AgentConnected => "agent_connected",
    /// An agent's session ended.
    AgentDisconnected => "agent_disconnected",
    /// Somebody said that an agent will not come back.
    AgentForgotten => "agent_forgotten",
    /// Somebody was not let in: wrong token, taken name, labels not allowed.
    AgentRefused => "agent_refused",
    /// Somebody was not let in to the HTTP side: a wrong API token.
    CallerRefused => "caller_refused",
    /// A check said no where it said yes before.
    DriftDetected => "drift_detected",
    /// A drift went away by itself.
    DriftResolved => "drift_resolved",
    /// A step began to be applied.
    ApplyStarted => "apply_started",
    /// A step's apply ended; exactly one for each that started.
    ApplyFinished => "apply_finished",
    /// A step was passed over in an apply: healed, or behind a failure.
    ApplySkipped => "apply_skipped",
    /// A check could not tell.
    CheckFailed => "check_failed",
    /// A check that could not tell can again.
    CheckRecovered => "check_recovered",
    /// Somebody asked for a reconcile.
    ReconcileRequested => "reconcile_requested",
    /// A reconcile that somebody asked for is done.
    ReconcileFinished => "reconcile_finished",
    /// A numbered replica was on one host and is given to another.
    ReplicaMoved => "replica_moved",
    /// An alert could not be delivered.
    AlertFailed => "alert_failed",
    /// Events were lost, and how many.
    EventsLost => "events_lost",
}

/// A line of recent history: what ran, where, why, how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Set when the event is recorded.
    pub id: EventId,
    /// When it happened.
    pub time: Timestamp,
    /// What it is about.
    pub kind: EventKind,
    /// Where.
    pub agent: Option<AgentName>,
    /// Which task.
    pub task: Option<TaskName>,
    /// Which service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// Which step.
    pub step: Option<StepAddress>,
    /// Why: commit, placement, poll, connect, watch, retry, offline, manual.
    pub trigger: Option<String>,
    /// Under which commit.
    pub commit: Option<CommitId>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// A command's output, a drift's reason, an error's text.
    pub output: Option<String>,
    /// Who asked.
    pub by: Option<String>,
    /// What is wrong with a rejected commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

impl Event {
    /// An event with nothing but a kind and a time; its id is set when it is recorded.
    pub fn new(kind: EventKind, time: Timestamp) -> Self {
        Self {
            id: EventId(0),
            time,
            kind,
            agent: None,
            task: None,
            service: None,
            step: None,
            trigger: None,
            commit: None,
            outcome: None,
            duration_ms: None,
            output: None,
            by: None,
            diagnostics: Vec::new(),
        }
    }
}
