//! Services: what should run, what does, and how it is reached.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentName, PortName, ServiceName, VolumeName};
use crate::label::Selector;
use crate::policy::Policy;
use crate::service::{DeploymentId, Health, HealthSpec, Phase, Port};
use crate::status::Status;

/// `GET services`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Services {
    /// By name.
    pub services: Vec<ServiceView>,
    /// To be given as `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ServiceName>,
}

/// `GET services/{name}`, and one of `GET services`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceView {
    /// The service's name.
    pub name: ServiceName,
    /// For people.
    pub description: Option<String>,
    /// What happens on drift, the server's default included.
    pub policy: Policy,
    /// Which hosts it may run on.
    pub selector: Selector,
    /// `file:line`
    pub defined: String,
    /// What should run.
    pub image: String,
    /// How many there should be; null: one on each matching host.
    pub replicas: Option<u32>,
    /// For how many milliseconds a host may be away before its replicas are started elsewhere;
    /// absent where they never are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_after_ms: Option<u64>,
    /// What runs instead of the image's own command. This, and all up to `memory`, is told only of a
    /// service that is asked for by its name: it may be large.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Names of variables. What they are is never told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Where each is found in the container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub volumes: BTreeMap<VolumeName, String>,
    /// How containers are asked whether they are well; without it, running counts as healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "HealthSpec")]
    pub health: Option<HealthSpec>,
    /// What a container may use, in thousandths of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// What a container may use, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The worst of its replicas on connected hosts; offline where all are.
    pub status: Status,
    /// How many replicas there are, and how they stand.
    pub counts: ReplicaCounts,
    /// How it is reached.
    pub ports: Vec<Port>,
    /// What it is called in the mesh.
    pub hostname: String,
    /// Where that name leads.
    pub addresses: Vec<Ipv4Addr>,
    /// What proxies bring to it.
    pub routes: Vec<RouteView>,
    /// Every replica that should be there, and every one that still is.
    pub deployments: Vec<DeploymentView>,
    /// What it waits for, where no replica can say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// How many replicas of a service stand how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaCounts {
    /// All that there should be.
    pub wanted: u32,
    /// Those of them whose container runs.
    pub running: u32,
    /// Those that names and routes lead to.
    pub serving: u32,
    /// Those whose last attempt failed, or that are not well.
    pub failed: u32,
}

/// What proxies bring to one port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteView {
    /// Which port.
    pub port: PortName,
    /// `http`, `tcp` or `udp`.
    pub protocol: String,
    /// Whose requests, or whose TLS connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Where proxies listen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<u16>,
    /// Where it goes.
    pub upstreams: Vec<SocketAddrV4>,
    /// How many connected proxies have it as it should be.
    pub loaded: u32,
    /// How many proxies are connected.
    pub proxies: u32,
    /// Those of them that do not come on with their routes, and why; nothing waits for them any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<String>,
}

/// One replica on one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeploymentView {
    /// Where.
    pub agent: AgentName,
    /// Whether that agent is connected.
    pub connected: bool,
    /// Its number; null: the host's own.
    pub replica: Option<u32>,
    /// Names the replica and its specification.
    pub deployment: DeploymentId,
    /// How it stands.
    pub status: Status,
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
    /// Whether names and routes may lead to it.
    pub serves: bool,
    /// What is under way, what it waits for, or why it failed.
    pub note: Option<String>,
    /// Whether the host's own config refuses it: nothing of it is touched there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// One service on one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentService {
    /// The service's name.
    pub name: ServiceName,
    /// What happens on drift.
    pub policy: Policy,
    /// How it stands there.
    pub status: Status,
    /// Its containers there, those that go included.
    pub deployments: Vec<AgentDeployment>,
}

/// One container of a service on one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentDeployment {
    /// Its number; null: the host's own.
    pub replica: Option<u32>,
    /// How it stands.
    pub status: Status,
    /// How far it is.
    pub phase: Phase,
    /// How it feels.
    pub health: Health,
    /// What was asked for.
    pub image: String,
    /// Its container, once there is one.
    pub container: Option<String>,
    /// Where it is reached, once it has an address.
    pub address: Option<Ipv4Addr>,
    /// What is under way, what it waits for, or why it failed.
    pub note: Option<String>,
    /// Whether the host's own config refuses it: nothing of it is touched there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// One part of what services need on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkPart {
    /// `names`, `routes` or `mesh`; `containers`, where some are left alone that should not be there.
    pub part: String,
    /// Why it is not as it should be, where that is so.
    pub problem: Option<String>,
    /// Whether the host's own config refuses it: nothing of it is touched there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}
