//! What a simulated host says of names, routes and mesh, and which tables it holds. Pure, but for the
//! shelves that all share.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use fluke_model::directory::{
    Claim, NameKey, Peer, PublicKey, Route, RouteKey, Subnet, Whereabouts,
};
use fluke_model::id::{AgentName, Hash256, ServiceName};
use fluke_model::message::{
    DirectoryEdit, Holdings, MeshReport, NetworkReport, NodeType, Section, SectionReport, ToServer,
};
use fluke_model::time::Timestamp;

use super::super::lock;
use super::shelf::{Held, Shelves, hash_of};

/// Where WireGuard listens.
const PORT: u16 = 51820;

/// The tables of one host, and its place in the mesh.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) names: Held<NameKey, ()>,
    routes: Held<RouteKey, Route>,
    peers: Held<AgentName, Peer>,
    placements: Held<ServiceName, Whereabouts>,
    claim: Option<Claim>,
    said: Said,
}

/// What was said in this session.
#[derive(Debug, Default)]
struct Said {
    placements: bool,
    claim: Option<Claim>,
    /// Names, routes, mesh.
    sections: Option<[Hash256; 3]>,
}

impl Network {
    /// A new session has heard nothing.
    pub(crate) fn reconnects(&mut self) {
        self.said = Said::default();
    }

    /// What it need not be told again.
    pub(crate) fn holdings(&self) -> Holdings {
        Holdings {
            names: self.names.as_ref().map(|version| version.hash),
            routes: self.routes.as_ref().map(|version| version.hash),
            peers: self.peers.as_ref().map(|version| version.hash),
            placements: self.placements.as_ref().map(|version| version.hash),
        }
    }

    /// Does what an edit says; where it does not fit, says which table is needed whole.
    pub(crate) fn edit(&mut self, edit: DirectoryEdit, shelves: &Shelves) -> Option<Section> {
        let (fits, section) = match edit {
            DirectoryEdit::Names(edit) => {
                (lock(&shelves.names).edit(&mut self.names, edit).is_ok(), Section::Names)
            }
            DirectoryEdit::Routes(edit) => {
                (lock(&shelves.routes).edit(&mut self.routes, edit).is_ok(), Section::Routes)
            }
            DirectoryEdit::Peers(edit) => {
                (lock(&shelves.peers).edit(&mut self.peers, edit).is_ok(), Section::Peers)
            }
            DirectoryEdit::Placements(edit) => (
                lock(&shelves.placements).edit(&mut self.placements, edit).is_ok(),
                Section::Placements,
            ),
        };
        (!fits).then_some(section)
    }

    /// The subnet of this host, which it takes by itself where nobody gave it one.
    pub(crate) fn subnet(&mut self, host: &AgentName, now: Timestamp) -> Subnet {
        self.claim.get_or_insert_with(|| Claim { subnet: own_choice(host), since: now }).subnet
    }

    /// The server ruled; whether the host has to move.
    pub(crate) fn is_granted(&mut self, claim: Claim) -> bool {
        let before = self.claim.replace(claim);
        before.is_some_and(|before| before.subnet != claim.subnet)
    }

    /// Whether it has a subnet, and so has had to do with services.
    pub(crate) fn has_claimed(&self) -> bool {
        self.claim.is_some()
    }

    /// Whether its proxy was told any routes.
    pub(crate) fn has_routes(&self) -> bool {
        self.routes.is_some()
    }

    /// Where replicas were when it last heard; once in a session.
    pub(crate) fn says_placements(&mut self) -> Option<ToServer> {
        let is_said = std::mem::replace(&mut self.said.placements, true);
        let known = self.placements.as_ref().filter(|_| !is_said)?;
        Some(ToServer::Placements(known.table.clone()))
    }

    /// How others reach it, where that is new.
    pub(crate) fn says_mesh(&mut self, host: &AgentName) -> Option<ToServer> {
        let claim = self.claim.filter(|_| self.said.claim != self.claim)?;
        self.said.claim = Some(claim);
        let (public_key, endpoints) = identity(host);
        Some(ToServer::Mesh(MeshReport { public_key, endpoints, claim: Some(claim) }))
    }

    /// Which tables it has in effect, where that is new: all that it holds, and at once.
    pub(crate) fn says_sections(&mut self, node_type: NodeType) -> Option<ToServer> {
        let hashes = [hash_of(&self.names), hash_of(&self.routes), hash_of(&self.peers)];
        if self.said.sections.replace(hashes) == Some(hashes) {
            return None;
        }
        let [names, routes, mesh] =
            hashes.map(|hash| SectionReport { hash, problem: None, left_out: [].into() });
        let routes = (node_type == NodeType::Proxy).then_some(routes);
        Some(ToServer::Network(NetworkReport { names, routes, mesh }))
    }
}

/// The subnet that a host takes for its own before anybody says otherwise; as agents choose it.
fn own_choice(host: &AgentName) -> Subnet {
    let [high, low, ..] = *Hash256::of(host.as_str().as_bytes()).as_bytes();
    let number = u16::from_be_bytes([high, low]) % Subnet::COUNT;
    Subnet::new(number.max(1)).expect("from 1 up to the count")
}

/// A key that is nobody's, and addresses that lead nowhere; the same for a host of the same name.
fn identity(host: &AgentName) -> (PublicKey, Vec<SocketAddr>) {
    let key = *Hash256::of(format!("{host} in the mesh").as_bytes()).as_bytes();
    let [a, b, c, d, ..] = key;
    let four = Ipv4Addr::new(172, 16 + a % 16, b, c);
    let last = u16::from_be_bytes([c, d]);
    let six = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, a.into(), b.into(), last);
    (PublicKey(key), vec![SocketAddr::new(four.into(), PORT), SocketAddr::new(six.into(), PORT)])
}
