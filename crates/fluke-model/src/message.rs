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

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::directory::{
    Claim, Edit, NameKey, Peer, Placements, PublicKey, Route, RouteKey, Whereabouts,
};
use crate::id::{
    AgentName, CommitId, Hash256, InstanceId, InstructionId, ServiceName, SessionId, StepAddress,
    TaskName,
};
use crate::label::Labels;
use crate::policy::Trigger;
use crate::service::{DeploymentId, DeploymentReport};
use crate::snapshot::{Snapshot, StepIndex};
use crate::time::Timestamp;
use crate::verdict::{Outcome, Output, Verdict};
use crate::volume::Volumes;

/// What an agent says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What it calls itself.
    pub name: AgentName,
    /// What it is.
    pub labels: Labels,
    /// Of the program.
    pub version: String,
    /// The kinds of steps it runs, and what it does for services; what its own config refuses is not
    /// among them.
    pub executors: Vec<String>,
    /// Whether it runs a proxy.
    pub node_type: NodeType,
    /// The snapshot it holds, if any.
    pub snapshot: Option<Hash256>,
    /// Tells a returning agent from another one with its name.
    pub instance: InstanceId,
    /// The session that this very process had before; a copy of the installation cannot name it.
    pub previous: Option<SessionId>,
    /// What it knows of others, which it need not be told again.
    #[serde(default)]
    pub tables: Holdings,
}

/// The tables that an agent holds, by their hashes; none where it was never told one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Holdings {
    /// What is called what.
    pub names: Option<Hash256>,
    /// What comes in goes where.
    pub routes: Option<Hash256>,
    /// Who is in the mesh.
    pub peers: Option<Hash256>,
    /// Which replica is where.
    pub placements: Option<Hash256>,
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
    /// How its deployments are.
    Services(ServicesReport),
    /// How names, routes and mesh are.
    Network(NetworkReport),
    /// What others need to reach it.
    Mesh(MeshReport),
    /// Where numbered replicas were when it last heard; for a server that starts anew.
    Placements(Placements),
    /// An edit did not fit; the whole table is needed.
    Resend(Section),
    /// Behind all else: the agent goes for good, and nobody looks after what its host runs any more.
    /// An agent that merely restarts says nothing.
    Leaving,
    /// The host goes down, and what it runs with it: nobody is to be led there any more.
    GoingDown,
    /// The answer to a [`ToAgent::Settle`], behind all its records.
    Settled {
        /// What was asked.
        instruction: InstructionId,
        /// What is not as it should be.
        problem: Option<String>,
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
        /// Whether the snapshot before was of the same commit, and only replicas have moved.
        is_moved: bool,
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
    /// What hosts must know of each other has changed.
    Directory(DirectoryEdit),
    /// This subnet is the host's, whatever it claimed.
    Subnet(Claim),
    /// No name and no route leads to these any more.
    Released(Vec<DeploymentId>),
    /// Put services right, whatever their policy, and answer with [`ToServer::Settled`].
    Settle {
        /// To be named in the answer.
        instruction: InstructionId,
        /// Only this one.
        service: Option<ServiceName>,
        /// Why, for the record.
        trigger: Trigger,
    },
}

/// How an agent's deployments are: what changed since it last said so in this session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServicesReport {
    /// Nothing that was said before holds any more. So is the first one of a session, which comes
    /// once the agent has looked at its containers, and behind its [`ToServer::Placements`]: before
    /// that no replica is placed on its host, and none that it has is taken to be gone.
    pub whole: bool,
    /// Those that are new, or other than they were.
    pub deployments: Vec<DeploymentReport>,
    /// Those that are no more.
    pub gone: Vec<DeploymentId>,
    /// All volumes of numbered replicas that are on the host; none: as was last said, or, where
    /// nothing was, not known.
    pub volumes: Option<Volumes>,
    /// Nobody could look since this agent was started: what is known of deployments from the one
    /// before holds, but for their verdicts and notes, and also if this is whole.
    pub unseen: bool,
}

/// How names, routes and mesh are on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkReport {
    /// What its DNS answers from.
    pub names: SectionReport,
    /// What its proxy has loaded; none on workers.
    pub routes: Option<SectionReport>,
    /// What its interface has.
    pub mesh: SectionReport,
}

impl NetworkReport {
    /// What names are called in events and among what has drifted.
    pub const NAMES: &str = "dns.records";
    /// What routes are called there.
    pub const ROUTES: &str = "routes.traefik";
    /// What the mesh is called there.
    pub const MESH: &str = "mesh.peers";
    /// All of them, in the order in which they are listed.
    pub const PARTS: [&str; 3] = [Self::NAMES, Self::ROUTES, Self::MESH];

    /// How the part of this name is, where the host has it.
    pub fn part(&self, name: &str) -> Option<&SectionReport> {
        match name {
            Self::NAMES => Some(&self.names),
            Self::ROUTES => self.routes.as_ref(),
            Self::MESH => Some(&self.mesh),
            _ => None,
        }
    }
}

/// How one part of the directory is on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionReport {
    /// Of the table that is in effect.
    pub hash: Hash256,
    /// Why it is not what it should be.
    pub problem: Option<String>,
    /// The routes that are not in effect though the table is: it says why among its problems.
    pub left_out: BTreeSet<RouteKey>,
}

/// What others need to reach a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshReport {
    /// Its own; the private one never leaves it.
    pub public_key: PublicKey,
    /// Where it may be reached, best first.
    pub endpoints: Vec<SocketAddr>,
    /// What it takes to be its own, if anything.
    pub claim: Option<Claim>,
}

/// A change of one part of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryEdit {
    /// Of names.
    Names(Edit<NameKey, ()>),
    /// Of routes.
    Routes(Edit<RouteKey, Route>),
    /// Of peers.
    Peers(Edit<AgentName, Peer>),
    /// Of placements.
    Placements(Edit<ServiceName, Whereabouts>),
}

/// A part of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// What is called what.
    Names,
    /// What comes in goes where.
    Routes,
    /// Who is in the mesh.
    Peers,
    /// Which replica is where.
    Placements,
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
    /// What it happened to.
    pub subject: Subject,
    /// Why.
    pub trigger: Trigger,
    /// What.
    pub fact: Fact,
}

/// What a record is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A step of a task.
    Step {
        /// Which task.
        task: TaskName,
        /// Which step.
        step: StepAddress,
        /// Its index in the record's snapshot.
        index: StepIndex,
    },
    /// A container, or what all services share: names, routes, mesh.
    Service {
        /// Which service, where it is about one.
        service: Option<ServiceName>,
        /// `container.web-0`, `dns.records`, `routes.traefik`, `mesh.peers`.
        part: StepAddress,
    },
}

impl Subject {
    /// A step's position in its snapshot.
    pub fn index(&self) -> Option<StepIndex> {
        match self {
            Self::Step { index, .. } => Some(*index),
            Self::Service { .. } => None,
        }
    }

    /// Which task and which service, and the part of it.
    pub fn names(&self) -> (Option<&TaskName>, Option<&ServiceName>, &StepAddress) {
        match self {
            Self::Step { task, step, .. } => (Some(task), None, step),
            Self::Service { service, part } => (None, service.as_ref(), part),
        }
    }

    /// Whether both are changed by turns: steps are, and so is each part of services, but a step
    /// and a service, or a container and names, may be changed at the same time.
    pub fn takes_turns_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Step { .. }, Self::Step { .. }) => true,
            (Self::Service { part, .. }, Self::Service { part: other, .. }) => part == other,
            _ => false,
        }
    }
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
