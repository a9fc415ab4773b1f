//! What a simulated host has to do with services: its containers, its tables, and what it says of
//! both, in the order in which an agent does. Pure, but for the shelves that all share.

pub(super) mod containers;
mod network;
pub(super) mod shelf;

use std::net::Ipv4Addr;
use std::sync::Arc;

use fluke_model::directory::{Claim, Names};
use fluke_model::id::{AgentName, ServiceName};
use fluke_model::message::{DirectoryEdit, Holdings, NodeType, ToServer};
use fluke_model::service::{DeploymentId, DeploymentReport};
use fluke_model::snapshot::Snapshot;
use fluke_model::time::Timestamp;

use containers::{Containers, Made, Mishap};
use network::Network;
use shelf::Shelves;

/// The services of one host.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// Who keeps its services as its snapshot says; none: it has what a story gives it.
    keeper: Option<AgentName>,
    node_type: NodeType,
    /// Whether a story has given it any.
    is_told: bool,
    containers: Containers,
    network: Network,
    shelves: Arc<Shelves>,
}

impl Services {
    /// A host that has what a story gives it.
    pub(super) fn told(node_type: NodeType, shelves: Arc<Shelves>) -> Self {
        Self { node_type, shelves, ..Self::default() }
    }

    /// A host that keeps its services as its snapshot says.
    pub(super) fn kept(host: AgentName, node_type: NodeType, shelves: Arc<Shelves>) -> Self {
        Self { keeper: Some(host), ..Self::told(node_type, shelves) }
    }

    /// In a new session all is said anew.
    pub(super) fn reconnects(&mut self) {
        self.containers.reconnects();
        self.network.reconnects();
    }

    /// What it need not be told again.
    pub(super) fn holdings(&self) -> Holdings {
        self.network.holdings()
    }

    /// All that is new, in the order in which an agent says it: where others are comes first.
    pub(super) fn says(&mut self, now: Timestamp) -> Vec<ToServer> {
        let Self { keeper, node_type, containers, network, .. } = self;
        let Some(host) = keeper else { return self.says_as_told() };
        let is_concerned = !containers.is_empty() || *node_type == NodeType::Proxy;
        if !is_concerned && !network.has_claimed() {
            // Nothing is wanted, and nothing was there.
            return Vec::new();
        }
        network.subnet(host, now);
        let mut said: Vec<_> = network.says_placements().into_iter().collect();
        said.extend(containers.says());
        if is_concerned {
            said.extend(network.says_mesh(host));
            said.extend(network.says_sections(*node_type));
        }
        said
    }

    /// A proxy of a story tells what it has loaded, and nobody says anything unasked.
    fn says_as_told(&mut self) -> Vec<ToServer> {
        let containers = self.is_told.then(|| self.containers.says()).flatten();
        let has_loaded = self.network.has_routes();
        let sections = has_loaded.then(|| self.network.says_sections(self.node_type)).flatten();
        containers.into_iter().chain(sections).collect()
    }

    /// These are all containers that there are; so a story says.
    pub(super) fn are(&mut self, deployments: Vec<DeploymentReport>) {
        self.is_told = true;
        self.containers.are(deployments);
    }

    /// Takes what a snapshot wants.
    pub(super) fn should_be(&mut self, snapshot: &Snapshot) {
        if let Some(host) = &self.keeper {
            self.containers.should_be(snapshot, host);
        }
    }

    /// What is to be made of one service, or of all, that somebody asked for.
    pub(super) fn due(&self, only: Option<&ServiceName>) -> Vec<Made> {
        self.containers.due(true, only)
    }

    /// It is made.
    pub(super) fn make(&mut self, is_asked: bool, only: Option<&ServiceName>, now: Timestamp) {
        let host = self.keeper.as_ref();
        let subnet = host.map(|host| self.network.subnet(host, now));
        self.containers.make(is_asked, only, subnet);
    }

    /// Something befalls a container; says where it was.
    pub(super) fn suffer(
        &mut self,
        mishap: Mishap,
        only: Option<&ServiceName>,
        turn: u64,
    ) -> Option<(ServiceName, Ipv4Addr)> {
        self.keeper.as_ref()?;
        self.containers.suffer(mishap, only, turn)
    }

    /// What is to be made unasked.
    pub(super) fn due_by_itself(&self) -> Vec<Made> {
        self.containers.due(false, None)
    }

    /// Whether containers of a service stay as they are until somebody asks.
    pub(super) fn hold_down(&mut self, service: &ServiceName, waits: bool) {
        self.containers.hold_down(service, waits);
    }

    /// Where a container of a service is that serves.
    pub(super) fn serves_at(&self, service: &ServiceName) -> Option<Ipv4Addr> {
        self.containers.serves_at(service)
    }

    /// The server told what hosts know of each other; what is answered at once.
    pub(super) fn edit(&mut self, edit: DirectoryEdit) -> Option<ToServer> {
        self.network.edit(edit, &self.shelves).map(ToServer::Resend)
    }

    /// The server ruled whose subnet is whose.
    pub(super) fn is_granted(&mut self, claim: Claim) {
        if self.network.is_granted(claim) {
            self.containers.move_to(claim.subnet);
        }
    }

    /// Nothing leads to these any more.
    pub(super) fn let_go(&mut self, released: &[DeploymentId]) {
        self.containers.let_go(released);
    }

    /// What it answers from when it is asked for a name.
    pub(super) fn names(&self) -> Option<&Names> {
        self.network.names.as_ref().map(|version| &version.table)
    }
}

#[cfg(test)]
mod tests;
