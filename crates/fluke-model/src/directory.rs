//! What hosts must know of each other, and how they are told: names, routes, peers, placements.
//!
//! Snapshots come from Git; this comes from what runs. It is kept apart so that a container that
//! dies somewhere changes no host's snapshot. Each part is a table that the server keeps up to date
//! on the hosts by edits: what one change costs does not depend on how much there is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use serde::{Deserialize, Serialize};

use crate::gather::Gather;
use crate::id::{AgentName, Hash256, PortName, ServiceName, VolumeName};
use crate::service::Traffic;
use crate::time::Timestamp;

/// The names of services, and the addresses of their healthy containers, anywhere: a row for each,
/// so that one which comes or goes is all there is to tell, however many there are.
pub type Names = Table<NameKey, ()>;
/// What comes in, to where it goes; only proxies have these.
pub type Routes = Table<RouteKey, Route>;
/// Everybody else in the mesh.
pub type Peers = Table<AgentName, Peer>;
/// Where numbered replicas and their volumes are, so that a server that starts anew can be told.
pub type Placements = Table<ServiceName, Whereabouts>;

/// Rows under keys, named by the hash of their content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Vec<(K, V)>", into = "Vec<(K, V)>")]
#[serde(bound(
    serialize = "K: Clone + Serialize, V: Clone + Serialize",
    deserialize = "K: Serialize + Deserialize<'de>, V: Serialize + Deserialize<'de>"
))]
pub struct Table<K: Ord, V> {
    rows: BTreeMap<K, V>,
    /// Of all rows; kept up to date with each.
    sum: Sum,
}

impl<K: Ord, V: PartialEq> PartialEq for Table<K, V> {
    fn eq(&self, other: &Self) -> bool {
        // Mostly that is all there is to compare.
        self.sum == other.sum && self.rows == other.rows
    }
}

impl<K: Ord, V: Eq> Eq for Table<K, V> {}

impl<K: Ord, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), sum: Sum::default() }
    }
}

impl<K: Ord + Serialize, V: Serialize> From<BTreeMap<K, V>> for Table<K, V> {
    fn from(rows: BTreeMap<K, V>) -> Self {
        let mut sum = Sum::default();
        rows.iter().for_each(|(key, value)| sum.add(Sum::of(key, value)));
        Self { rows, sum }
    }
}

impl<K: Ord + Serialize, V: Serialize> FromIterator<(K, V)> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(rows: I) -> Self {
        rows.into_iter().gather::<BTreeMap<K, V>>().into()
    }
}

impl<K: Ord + Serialize, V: Serialize> From<Vec<(K, V)>> for Table<K, V> {
    fn from(rows: Vec<(K, V)>) -> Self {
        rows.into_iter().collect()
    }
}

impl<K: Ord, V> From<Table<K, V>> for Vec<(K, V)> {
    fn from(table: Table<K, V>) -> Self {
        table.rows.into_iter().collect()
    }
}

/// What rows come to, in whatever order they came: the sum of their hashes. So a change costs what
/// changed, and not what there is.
///
/// It tells tables apart that differ by mistake. It is no proof against somebody who chooses rows,
/// and need not be: whoever sends a table is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum([u64; 4]);

impl Sum {
    fn of(key: &impl Serialize, value: &impl Serialize) -> Self {
        let row = serde_json::to_vec(&(key, value)).expect("a row is plain data");
        let hash = Hash256::of(&row);
        let (words, _) = hash.as_bytes().as_chunks::<8>();
        Self(std::array::from_fn(|at| u64::from_le_bytes(words[at])))
    }

    /// Adds, modulo 2^256.
    fn add(&mut self, other: Self) {
        let mut carry = false;
        for (word, other) in self.0.iter_mut().zip(other.0) {
            let (sum, over) = word.overflowing_add(other);
            let (sum, again) = sum.overflowing_add(carry.into());
            (*word, carry) = (sum, over || again);
        }
    }

    /// Undoes [`Sum::add`].
    fn take(&mut self, other: Self) {
        let mut borrow = false;
        for (word, other) in self.0.iter_mut().zip(other.0) {
            let (rest, under) = word.overflowing_sub(other);
            let (rest, again) = rest.overflowing_sub(borrow.into());
            (*word, borrow) = (rest, under || again);
        }
    }

    fn hash(self) -> Hash256 {
        Hash256::of(self.0.map(u64::to_le_bytes).as_flattened())
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

impl<K: Ord, V> Table<K, V> {
    /// What is in it.
    pub fn rows(&self) -> &BTreeMap<K, V> {
        &self.rows
    }

    /// What was in it.
    pub fn into_rows(self) -> BTreeMap<K, V> {
        self.rows
    }

    /// Names it: equal for equal content.
    pub fn hash(&self) -> Hash256 {
        self.sum.hash()
    }
}

impl<K: Ord + Clone + Serialize, V: Clone + PartialEq + Serialize> Table<K, V> {
    /// Puts a row there, or another one in its place.
    pub fn set(&mut self, key: K, value: V) {
        self.remove(&key);
        self.sum.add(Sum::of(&key, &value));
        self.rows.insert(key, value);
    }

    /// Takes a row away.
    pub fn remove(&mut self, key: &K) {
        if let Some(value) = self.rows.remove(key) {
            self.sum.take(Sum::of(key, &value));
        }
    }

    /// All of it.
    pub fn whole(&self) -> Edit<K, V> {
        let set = self.rows.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Edit { from: None, set, removed: Vec::new(), to: self.hash() }
    }

    /// What makes this table of `older`.
    pub fn since(&self, older: &Self) -> Edit<K, V> {
        let is_new = |(key, value): &(&K, &V)| older.rows.get(*key) != Some(*value);
        let set = self.rows.iter().filter(is_new);
        let is_gone = |key: &&K| !self.rows.contains_key(*key);
        Edit {
            from: Some(older.hash()),
            set: set.map(|(key, value)| (key.clone(), value.clone())).collect(),
            removed: older.rows.keys().filter(is_gone).cloned().collect(),
            to: self.hash(),
        }
    }

    /// Does what `edit` says, or nothing where it does not fit.
    pub fn apply(&mut self, edit: Edit<K, V>) -> Result<(), DoesNotFit> {
        let Edit { from, set, removed, to } = edit;
        let before = match from {
            None => Self::default(),
            Some(from) if from == self.hash() => std::mem::take(self),
            Some(_) => return Err(DoesNotFit { from, to, is: self.hash() }),
        };
        // What stands twice in an edit counts once, as it stands there last.
        let gone = removed.into_iter().map(|key| (key, None));
        let rows = set.into_iter().map(|(key, value)| (key, Some(value)));
        let rows: BTreeMap<K, Option<V>> = rows.chain(gone).gather();
        let (mut made, mut undo) = (before, Vec::new());
        for (key, value) in rows {
            undo.push((key.clone(), made.rows.get(&key).cloned()));
            made.put(key, value);
        }
        let is = made.hash();
        if is == to {
            *self = made;
            return Ok(());
        }
        if from.is_some() {
            undo.into_iter().for_each(|(key, value)| made.put(key, value));
            *self = made;
        }
        Err(DoesNotFit { from, to, is })
    }

    /// Has this row from now on, or none.
    pub fn put(&mut self, key: K, value: Option<V>) {
        match value {
            Some(value) => self.set(key, value),
            None => self.remove(&key),
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

/// That there is a name, or an address that it leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NameKey {
    /// Whose name.
    pub service: ServiceName,
    /// None: the name itself, which is there though nothing answers to it.
    pub address: Option<Ipv4Addr>,
}

impl NameKey {
    /// A name that leads to nothing.
    pub fn of(service: ServiceName) -> Self {
        Self { service, address: None }
    }

    /// All rows of a name that leads to these.
    pub fn rows(
        service: &ServiceName,
        addresses: impl IntoIterator<Item = Ipv4Addr>,
    ) -> impl Iterator<Item = (Self, ())> {
        let addresses = addresses.into_iter().map(Some);
        let key = |address| Self { service: service.clone(), address };
        [None].into_iter().chain(addresses).map(key).map(|key| (key, ()))
    }
}

impl Names {
    /// All rows of a name.
    pub fn named(&self, service: &ServiceName) -> impl Iterator<Item = &NameKey> + Clone {
        let rows = self.rows.range(NameKey::of(service.clone())..);
        rows.map(|(key, ())| key).take_while(move |key| key.service == *service)
    }

    /// Where a name leads; none where there is no such name.
    pub fn addresses(&self, service: &ServiceName) -> Option<Vec<Ipv4Addr>> {
        let mut rows = self.named(service).map(|key| key.address).peekable();
        rows.peek()?;
        Some(rows.flatten().collect())
    }
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
    /// Since when: of several with one key, it is the earliest's.
    #[serde(default)]
    pub since: Timestamp,
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

    /// The one that an address is in, if it is one of containers.
    pub fn of(address: Ipv4Addr) -> Option<Self> {
        let [10, second, low, _] = address.octets() else { return None };
        Self::new(u16::from_be_bytes([second.checked_sub(200)?, low]))
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
