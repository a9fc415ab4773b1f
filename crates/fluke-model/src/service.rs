//! Services: containers on the hosts that a selector matches, and how they are reached.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gather::Gather;
use crate::id::{AgentName, Digest, Hash256, PortName, ServiceName, StepAddress, VolumeName};
use crate::label::Selector;
use crate::policy::Policy;
use crate::task::Location;
use crate::verdict::Verdict;

/// How long a host that is away keeps its replicas, where the manifest does not say.
pub const RESCHEDULE_AFTER: Duration = Duration::from_secs(300);
/// The longest that it may say: nobody remembers a host for longer that is away.
pub const LONGEST_ABSENCE: Duration = Duration::from_secs(7 * 24 * 3600);

/// A service as a manifest defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Unique across all manifests.
    pub name: ServiceName,
    /// For people; never part of what a host is.
    pub description: Option<String>,
    /// What happens on drift; the server's default where none is given.
    pub policy: Option<Policy>,
    /// Which hosts it may run on.
    pub selector: Selector,
    /// How many, spread over these hosts; one on each where none is given.
    pub replicas: Option<u32>,
    /// How long a host that is away keeps its replicas.
    pub reschedule_after: Duration,
    /// What runs.
    pub container: ContainerSpec,
    /// How it is reached, each by a name of its own; several may lead to one place in the container.
    pub ports: Vec<Port>,
    /// Where it is defined.
    pub defined: Location,
}

impl Service {
    /// Where its containers accept connections; sorted. Packets are accepted without a word.
    fn listens(&self) -> Vec<u16> {
        let connects = |port: &&Port| !matches!(port.traffic, Traffic::Udp { .. });
        let ports: BTreeSet<u16> =
            self.ports.iter().filter(connects).map(|port| port.container).gather();
        ports.into_iter().collect()
    }
}

/// What one container is made from: all of it, and nothing else, is its identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerSpec {
    /// As written: a tag may move, a digest may not.
    pub image: String,
    /// Instead of the image's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// `$NAME` in a value is read on the host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where each is found in the container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<VolumeName, String>,
    /// Without one, running counts as healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthSpec>,
    /// What it may use.
    #[serde(default)]
    pub resources: Resources,
}

impl ContainerSpec {
    /// Whether it must be stopped before its successor starts, and cannot move.
    pub fn is_stateful(&self) -> bool {
        !self.volumes.is_empty()
    }
}

/// How a container is asked whether it is well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthSpec {
    /// Run in the container by its shell; exit 0: well.
    pub command: String,
    /// From one to the next.
    pub interval_ms: u64,
    /// How long one may take.
    pub timeout_ms: u64,
    /// So many failures in a row mean unhealthy.
    pub retries: u32,
    /// In which failures do not count.
    pub start_period_ms: u64,
}

/// What a container may use; nothing given: what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// In thousandths of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

/// A port that a service listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// Unique within the service.
    pub name: PortName,
    /// Where it listens, in the container.
    pub container: u16,
    /// What comes in, and from where.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// What comes in by a port; without a domain or an external port, only from the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Traffic {
    /// Requests.
    Http {
        /// Whose requests proxies bring here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        domain: Option<String>,
    },
    /// Connections.
    Tcp {
        /// Where proxies listen for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external: Option<u16>,
        /// Only TLS connections to this name, passed through as they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        domain: Option<String>,
    },
    /// Packets.
    Udp {
        /// Where proxies listen for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        external: Option<u16>,
    },
}

impl Traffic {
    /// The name used in manifests.
    pub fn protocol(&self) -> &'static str {
        match self {
            Self::Http { .. } => "http",
            Self::Tcp { .. } => "tcp",
            Self::Udp { .. } => "udp",
        }
    }

    /// Whether proxies have anything to do with it.
    pub fn is_public(&self) -> bool {
        match self {
            Self::Http { domain } => domain.is_some(),
            Self::Tcp { external, .. } | Self::Udp { external } => external.is_some(),
        }
    }
}

/// What services are kept by on a host. Each is an executor with a name of its own, which a host's
/// config may refuse as it may refuse a kind of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceExecutor {
    /// Containers, their network and their images.
    Container,
    /// Answers for names.
    Dns,
    /// The proxy.
    Routes,
    /// The interface that leads to other hosts.
    Mesh,
}

impl ServiceExecutor {
    /// Every one there is.
    pub const ALL: [Self; 4] = [Self::Container, Self::Dns, Self::Routes, Self::Mesh];

    /// The name used in `allow`, in events and when an agent says what it has.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Dns => "dns",
            Self::Routes => "routes",
            Self::Mesh => "mesh",
        }
    }

    /// Those among the kinds that an agent says it has.
    pub fn among(kinds: &[String]) -> BTreeSet<Self> {
        let is_there = |it: &Self| kinds.iter().any(|kind| kind == it.as_str());
        Self::ALL.into_iter().filter(is_there).gather()
    }
}

/// Which one of a service's containers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Replica {
    /// The one that its host has, as every matching host does.
    Own,
    /// One of so many, wherever it is placed; counted from 0.
    Number(u32),
}

impl Replica {
    /// Its number; none for a host's own one.
    pub fn number(self) -> Option<u32> {
        match self {
            Self::Own => None,
            Self::Number(number) => Some(number),
        }
    }

    /// What this replica of `service` is called in events and among what has drifted.
    pub fn part(self, service: &ServiceName) -> StepAddress {
        let name = match self {
            Self::Own => service.to_string(),
            Self::Number(number) => format!("{service}-{number}"),
        };
        StepAddress::new("container", &name).expect("a word and a number keep to the grammar")
    }
}

/// One service as one host gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotService {
    /// The service's name.
    pub name: ServiceName,
    /// The service's own, or the server's default.
    pub policy: Policy,
    /// What runs. Who is led to it is for the directory: nothing that a host runs depends on it.
    /// None where this version does not understand all of it: then nothing of it is touched.
    /// Hosts that have replicas of one service share it.
    pub container: Option<Arc<ContainerSpec>>,
    /// Which of its replicas are this host's; sorted, never empty.
    pub replicas: Vec<Replica>,
    /// Where each accepts connections, once it is ready; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listens: Vec<u16>,
}

impl SnapshotService {
    /// Resolves `service` for a server with this default policy, and for a host with these replicas.
    pub fn new(service: &Service, default_policy: Policy, replicas: Vec<Replica>) -> Self {
        Self {
            name: service.name.clone(),
            policy: service.policy.unwrap_or(default_policy),
            container: Some(Arc::new(service.container.clone())),
            replicas,
            listens: service.listens(),
        }
    }

    /// Names the content; equal content has equal hashes everywhere.
    pub fn hash(&self) -> Hash256 {
        ServiceHashes::of(self).each(&self.replicas)
    }

    /// The deployments that `host` should have of it.
    pub fn deployments(&self, host: &AgentName) -> impl Iterator<Item = (Replica, DeploymentId)> {
        let ids = |container: &Arc<_>| DeploymentIds::of(&self.name, container);
        let each = move |ids: DeploymentIds| {
            self.replicas.iter().map(move |replica| (*replica, ids.each(*replica, host)))
        };
        self.container.as_ref().map(ids).into_iter().flat_map(each)
    }
}

/// The hashes of one service for all hosts: what only their replicas tell apart is hashed once.
#[derive(Debug, Clone)]
pub struct ServiceHashes {
    shared: Digest,
}

impl ServiceHashes {
    /// Of `service`, whatever its replicas are.
    pub fn of(service: &SnapshotService) -> Self {
        let SnapshotService { name, policy, container, replicas: _, listens } = service;
        // Maps in the model are ordered, so its JSON is canonical.
        let shared = serde_json::to_vec(&(name, policy, container, listens));
        Self { shared: Digest::default().with(&shared.expect("a service is plain data")) }
    }

    /// Of a host that has these replicas.
    pub fn each(&self, replicas: &[Replica]) -> Hash256 {
        let replicas = serde_json::to_vec(replicas).expect("replicas are plain data");
        self.shared.clone().with(&replicas).hash()
    }
}

/// Names one replica of one specification; the same commit gives the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DeploymentId(pub Hash256);

impl DeploymentId {
    /// Of this replica of `container`; a host's own one is another on every host.
    pub fn of(
        service: &ServiceName,
        container: &ContainerSpec,
        replica: Replica,
        host: &AgentName,
    ) -> Self {
        DeploymentIds::of(service, container).each(replica, host)
    }

    /// The first characters, enough for people and for names of containers.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

/// The identities of all replicas of one specification, which is hashed once for all of them.
#[derive(Debug, Clone)]
pub struct DeploymentIds {
    specification: Digest,
}

impl DeploymentIds {
    /// Of `container`, as this service.
    pub fn of(service: &ServiceName, container: &ContainerSpec) -> Self {
        let (service, container) = (serde_json::json!(service), serde_json::json!(container));
        Self {
            specification: Digest::default().with(format!("[{service},{container},").as_bytes()),
        }
    }

    /// Of one replica; a host's own one is another on every host.
    pub fn each(&self, replica: Replica, host: &AgentName) -> DeploymentId {
        let place = match replica {
            Replica::Own => serde_json::json!({ "host": host }),
            Replica::Number(number) => serde_json::json!({ "number": number }),
        };
        DeploymentId(self.specification.clone().with(format!("{place}]").as_bytes()).hash())
    }
}

/// What an agent says of one of its deployments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentReport {
    /// Which.
    pub id: DeploymentId,
    /// Of which service.
    pub service: ServiceName,
    /// Which of its replicas.
    pub replica: Replica,
    /// Whether it is as it should be; of one that retires, that is not asked.
    pub verdict: Verdict,
    /// How far it is.
    pub phase: Phase,
    /// How it feels.
    pub health: Health,
    /// What was asked for.
    pub image: String,
    /// What it runs, once that is known.
    pub digest: Option<String>,
    /// Its container, once there is one.
    pub container: Option<String>,
    /// Where it is reached, once it has an address.
    pub address: Option<Ipv4Addr>,
    /// Whether names and routes shall lead to it.
    pub serves: bool,
    /// What is under way, what it waits for, or why it failed.
    pub note: Option<String>,
}

/// How far a deployment is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// There is no container, and nothing is under way.
    Missing,
    /// Its image is on its way.
    Pulling,
    /// Its container is there and does not run.
    Stopped,
    /// Its container runs and is not well yet.
    Starting,
    /// Its container runs.
    Running,
    /// Not wanted any more: serves until its successor does, then drains.
    Retiring,
    /// The last attempt failed; another one comes.
    Failed,
}

impl Phase {
    /// The name used in JSON and on the terminal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Pulling => "pulling",
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Retiring => "retiring",
            Self::Failed => "failed",
        }
    }
}

/// How a container feels.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Nobody asks it, or it does not run.
    #[default]
    None,
    /// Too early to tell.
    Starting,
    /// Well.
    Healthy,
    /// Not well.
    Unhealthy,
}

impl Health {
    /// The name used in JSON and on the terminal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Starting => "starting",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
        }
    }
}

#[cfg(test)]
mod tests;
