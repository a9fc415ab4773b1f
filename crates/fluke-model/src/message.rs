//! The conversation between server and agent, as values.
//!
//! ```text
//! agent                                   server
//!   Hello ──────────────────────────────▶
//!   ◀────────────────────────────── Welcome
//!   ◀───────── Snapshot (if it differs), Check
//!   Checked ────────────────────────────▶        decides
//!   ◀──────────────────────────────── Apply
//!   Record Began, Record Ended … ───────▶
//!   ◀────────────────────────────────── Ack
//!   Finished ───────────────────────────▶
//! ```
//!
//! The server has at most one instruction under way with an agent. Heartbeats go both ways.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{
    AgentName, CommitId, Hash256, InstanceId, InstructionId, SessionId, StepAddress, TaskName,
};
use crate::label::Labels;
use crate::policy::Trigger;
use crate::snapshot::{Snapshot, StepIndex};
use crate::time::Timestamp;
use crate::verdict::{Outcome, Output, Verdict};

/// What an agent says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What it calls itself.
    pub name: AgentName,
    /// What it is.
    pub labels: Labels,
    /// Of the program.
    pub version: String,
    /// The kinds of steps it can run.
    pub executors: Vec<String>,
    /// Whether it runs a proxy.
    pub node_type: NodeType,
    /// The snapshot it holds, if any.
    pub snapshot: Option<Hash256>,
    /// Tells a returning agent from another one with its name.
    pub instance: InstanceId,
    /// The session that this very process had before; a copy of the installation cannot name it.
    pub previous: Option<SessionId>,
}

/// What part a host plays for services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeType {
    /// Runs containers.
    #[default]
    Worker,
    /// Runs containers, and takes public traffic.
    Proxy,
}

impl NodeType {
    /// The name used in JSON and on the terminal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Proxy => "proxy",
        }
    }
}

/// From agent to server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToServer {
    /// First, and once.
    Hello(Hello),
    /// "I am here."
    Heartbeat,
    /// The answer to a [`ToAgent::Check`].
    Checked(Checked),
    /// Something that happened while applying; repeated until acknowledged.
    Record(Record),
    /// The answer to a [`ToAgent::Apply`], behind all its records: the agent is IDLE again.
    Finished {
        /// What was asked.
        instruction: InstructionId,
    },
    /// The agent saw something change; asks for a check of just these steps.
    LookAgain {
        /// Of which snapshot.
        snapshot: Hash256,
        /// Which steps.
        steps: Vec<StepIndex>,
    },
    /// Records were dropped, because too many waited for a server that was away.
    Lost {
        /// How many.
        records: u64,
    },
}

/// From server to agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToAgent {
    /// First, and once.
    Welcome(Welcome),
    /// "I am here."
    Heartbeat,
    /// What the host should be from now on.
    Snapshot {
        /// The commit that first said so.
        commit: CommitId,
        /// All of it.
        snapshot: Arc<Snapshot>,
    },
    /// Run checks and answer with [`ToServer::Checked`].
    Check {
        /// To be named in the answer.
        instruction: InstructionId,
        /// Against this snapshot, which the agent holds.
        snapshot: Hash256,
        /// Which steps.
        steps: Scope,
    },
    /// Put these steps right and answer with [`ToServer::Finished`].
    Apply {
        /// To be named in the answer.
        instruction: InstructionId,
        /// Of this snapshot, which the agent holds.
        snapshot: Hash256,
        /// The steps that drifted, in order.
        steps: Vec<StepIndex>,
        /// Why, for the record.
        trigger: Trigger,
    },
    /// Records up to and including this one are safe; the agent may forget them.
    Ack {
        /// The newest one.
        record: RecordId,
    },
}

/// What a server answers a [`Hello`] with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Carried by every later message of this stream, both ways.
    pub session: SessionId,
    /// How often each side says that it is here; three missed means gone.
    pub heartbeat: Duration,
    /// How often to check while the server is away.
    pub poll_interval: Duration,
    /// Of the program.
    pub version: String,
}

/// Which steps an instruction is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All of the snapshot.
    All,
    /// Only these.
    Steps(Vec<StepIndex>),
}

/// The outcome of a round of checks: what changed since the last answer about this snapshot. A
/// [`ToAgent::Snapshot`] begins anew: a check that it replaced may have been answered in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What was asked.
    pub instruction: InstructionId,
    /// Against which snapshot.
    pub snapshot: Hash256,
    /// The steps whose verdict is not the one that was last reported in this session and since
    /// this snapshot was sent.
    pub changes: Vec<StepReport>,
    /// How many steps were checked.
    pub checked: u32,
}

/// One step's check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReport {
    /// Which step.
    pub step: StepIndex,
    /// What its check said.
    pub verdict: Verdict,
}

/// Counts an agent's records, from its first day on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RecordId(pub u64);

/// Something that happened while a step was put right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Grows by one with every record of the agent.
    pub id: RecordId,
    /// When.
    pub at: Timestamp,
    /// What it was done for; none when the agent acted on its own.
    pub instruction: Option<InstructionId>,
    /// Under which snapshot.
    pub snapshot: Hash256,
    /// Under which commit.
    pub commit: CommitId,
    /// Which task.
    pub task: TaskName,
    /// Which step.
    pub step: StepAddress,
    /// Its index in that snapshot.
    pub index: StepIndex,
    /// Why.
    pub trigger: Trigger,
    /// What.
    pub fact: Fact,
}

/// What happened to a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// Its apply began.
    Began {
        /// Why it is drifted.
        reason: String,
    },
    /// Its apply ended; exactly one for each that began.
    Ended {
        /// How.
        outcome: Outcome,
        /// How long the apply and the check after it took.
        duration_ms: u64,
        /// The tail of what was printed, or why it could not be run.
        output: Output,
    },
    /// Its turn came and nothing was run.
    PassedOver {
        /// `Healed`, `Skipped`, or `Failure` when its check could not tell.
        outcome: Outcome,
        /// Why.
        reason: String,
    },
}
