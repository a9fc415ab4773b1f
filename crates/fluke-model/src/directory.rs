//! What hosts must know of each other, and how they are told: names, routes, peers, placements.
//!
//! Snapshots come from Git; this comes from what runs. It is kept apart so that a container that
//! dies somewhere changes no host's snapshot. Each part is a table that the server keeps up to date
//! on the hosts by edits: what one change costs does not depend on how much there is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use serde::{Deserialize, Serialize};

use crate::id::{AgentName, Hash256, PortName, ServiceName, VolumeName};
use crate::service::Traffic;
use crate::time::Timestamp;

/// Service to the addresses of its healthy containers, anywhere.
pub type Names = Table<ServiceName, BTreeSet<Ipv4Addr>>;
/// What comes in, to where it goes; only proxies have these.
pub type Routes = Table<RouteKey, Route>;
/// Everybody else in the mesh.
pub type Peers = Table<AgentName, Peer>;
/// Where numbered replicas and their volumes are, so that a server that starts anew can be told.
pub type Placements = Table<ServiceName, Whereabouts>;

/// Rows under keys, named by the hash of their content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(K, V)>", into = "Vec<(K, V)>")]
#[serde(bound(
    serialize = "K: Clone + Serialize, V: Clone + Serialize",
    deserialize = "K: Deserialize<'de>, V: Deserialize<'de>"
))]
pub struct Table<K: Ord, V>(pub BTreeMap<K, V>);

impl<K: Ord, V> From<Vec<(K, V)>> for Table<K, V> {
    fn from(rows: Vec<(K, V)>) -> Self {
        Self(rows.into_iter().collect())
    }
}

impl<K: Ord, V> From<Table<K, V>> for Vec<(K, V)> {
    fn from(table: Table<K, V>) -> Self {
        table.0.into_iter().collect()
    }
}

impl<K: Ord, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// What makes one table of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit<K, V> {
    /// The table that it is for; none: it is all there is, whatever was before.
    pub from: Option<Hash256>,
    /// Rows that are new, or other than they were.
    pub set: Vec<(K, V)>,
    /// Rows that are gone.
    pub removed: Vec<K>,
    /// What comes of it.
    pub to: Hash256,
}

/// The edit is for another table than this one; the whole is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an edit of {from:?} to {to} does not fit a table that is {is}")]
pub struct DoesNotFit {
    /// What it is for.
    pub from: Option<Hash256>,
    /// What it would make.
    pub to: Hash256,
    /// What it met, or made.
    pub is: Hash256,
}

impl<K: Ord + Clone + Serialize, V: Clone + PartialEq + Serialize> Table<K, V> {
    /// Equal for equal content: over the rows in the order of their keys.
    pub fn hash(&self) -> Hash256 {
        let rows: Vec<(&K, &V)> = self.0.iter().collect();
        Hash256::of(&serde_json::to_vec(&rows).expect("a table is plain data"))
    }

    /// All of it.
    pub fn whole(&self) -> Edit<K, V> {
        let set = self.0.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Edit { from: None, set, removed: Vec::new(), to: self.hash() }
    }

    /// What makes this table of `older`.
    pub fn since(&self, older: &Self) -> Edit<K, V> {
        let is_new = |(key, value): &(&K, &V)| older.0.get(*key) != Some(*value);
        let set = self.0.iter().filter(is_new);
        let is_gone = |key: &&K| !self.0.contains_key(*key);
        Edit {
            from: Some(older.hash()),
            set: set.map(|(key, value)| (key.clone(), value.clone())).collect(),
            removed: older.0.keys().filter(is_gone).cloned().collect(),
            to: self.hash(),
        }
    }

    /// Does what `edit` says, or nothing where it does not fit.
    pub fn apply(&mut self, edit: Edit<K, V>) -> Result<(), DoesNotFit> {
        let Edit { from, set, removed, to } = edit;
        let mut rows = match from {
            None => BTreeMap::new(),
            Some(from) if from == self.hash() => self.0.clone(),
            Some(_) => return Err(DoesNotFit { from, to, is: self.hash() }),
        };
        rows.extend(set);
        removed.iter().for_each(|key| drop(rows.remove(key)));
        let made = Self(rows);
        match made.hash() {
            is if is == to => {
                *self = made;
                Ok(())
            }
            is => Err(DoesNotFit { from, to, is }),
        }
    }
}

/// Where the numbered replicas of one service are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Whereabouts {
    /// Whose each replica is.
    pub replicas: BTreeMap<u32, AgentName>,
    /// Who has volumes of which replica, also of those that there are no more.
    pub volumes: BTreeMap<u32, BTreeMap<AgentName, BTreeSet<VolumeName>>>,
}

/// Names a route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RouteKey {
    /// Of which service.
    pub service: ServiceName,
    /// By which of its ports.
    pub port: PortName,
}

/// From what comes in at a proxy to the containers that answer it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// What comes in.
    pub traffic: Traffic,
    /// Where it goes; each proxy prefers its own.
    pub upstreams: BTreeSet<SocketAddrV4>,
}

/// Another host of the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// WireGuard's, from its host; the private one never leaves it.
    pub public_key: PublicKey,
    /// Where it may be reached, best first; none: it comes to us.
    pub endpoints: Vec<SocketAddr>,
    /// Which numbers are its.
    pub subnet: Subnet,
}

/// A WireGuard key that may be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PublicKey(pub [u8; 32]);

/// A host's number in the mesh, from which all its addresses follow.
///
/// Containers: `10.200.0.0/24` to `10.255.255.0/24`. Hosts: `10.100.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Subnet(u16);

impl Subnet {
    /// How many there are: 56 second bytes, 256 third bytes each, but for number 0.
    pub const COUNT: u16 = 56 * 256;

    /// Subnet `number`, from 1 on.
    pub fn new(number: u16) -> Option<Self> {
        (1..Self::COUNT).contains(&number).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The host's own address in the mesh.
    pub fn host(self) -> Ipv4Addr {
        let [high, low] = self.0.to_be_bytes();
        Ipv4Addr::new(10, 100, high, low)
    }

    /// The network of its containers, a /24.
    pub fn network(self) -> Ipv4Addr {
        self.address(0)
    }

    /// Where containers find their host, and its DNS.
    pub fn gateway(self) -> Ipv4Addr {
        self.address(1)
    }

    /// One address of the network.
    pub fn address(self, last: u8) -> Ipv4Addr {
        let [high, low] = self.0.to_be_bytes();
        Ipv4Addr::new(10, 200 + high, low, last)
    }

    /// Whether a container here may have this address.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.octets()[..3] == self.network().octets()[..3]
    }
}

impl TryFrom<u16> for Subnet {
    type Error = String;
    fn try_from(number: u16) -> Result<Self, String> {
        Self::new(number)
            .ok_or_else(|| format!("{number} is not a subnet; there are 1 to {}", Self::COUNT - 1))
    }
}

impl From<Subnet> for u16 {
    fn from(subnet: Subnet) -> u16 {
        subnet.0
    }
}

/// A host's word that a subnet is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Which.
    pub subnet: Subnet,
    /// Since when; the earlier one of two keeps it.
    pub since: Timestamp,
}

#[cfg(test)]
mod tests;
