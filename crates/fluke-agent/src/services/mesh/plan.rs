//! What has to change so that an interface is what it should be. Pure.
//!
//! Changes are single: nothing that is as it should be is named in any of them, so that no tunnel is
//! taken down for another's sake.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fluke_model::directory::{Peer, Peers, PublicKey, Subnet};
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, Hash256};

use super::attempts::Attempts;
use super::device::{Device, PeerOrder, SeenPeer};
use super::net::Net;
use super::netlink::nftables::Chain;

/// What WireGuard leaves of 1500 bytes.
const MTU: u32 = 1420;
/// What it takes, over IPv6 as well.
const OVERHEAD: u32 = 80;
/// What everybody may rely on.
const LEAST: u32 = 1280;
/// Often enough for every NAT in between to remember.
pub const KEEPALIVE: u16 = 25;

/// The metric of the routes that are made here.
const OURS: u32 = 0;

/// What an interface should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Of the key that it should have.
    pub key: PublicKey,
    /// Where it should listen.
    pub port: u16,
    /// How long its packets may be.
    pub mtu: u32,
    /// Its only address.
    pub address: Ipv4Addr,
    /// Whom it should know.
    pub peers: BTreeMap<PublicKey, WantedPeer>,
    /// The comments of the rules that should be in force.
    pub rules: Vec<String>,
    /// Rows of the table that cannot be had, or not all of what they say, and why.
    pub left_out: BTreeMap<AgentName, String>,
    /// With what this host's own addresses clash.
    pub clash: Option<Clash>,
}

/// A network that a host has elsewhere, and that is in the way of its own subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clash {
    /// Which.
    pub with: Net,
    /// Whether any other subnet would clash as well, with this network or another.
    pub is_everywhere: bool,
}

/// What an interface should know of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPeer {
    /// Who it is.
    pub name: AgentName,
    /// Where the table says that it may be.
    pub said: Vec<SocketAddr>,
    /// Which of these are worth a try from here, best first.
    pub endpoints: Vec<SocketAddr>,
    /// Which networks are behind it.
    pub allowed: BTreeSet<Net>,
}

impl WantedPeer {
    /// Whoever can begin keeps it up; one that has no endpoint comes to us, and does so itself.
    fn keepalive(&self) -> u16 {
        if self.endpoints.is_empty() { 0 } else { KEEPALIVE }
    }
}

/// What an interface is, and what is around it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The interface; none: it is not there.
    pub link: Option<SeenLink>,
    /// What WireGuard has of it.
    pub device: Device,
    /// Whether the host forwards packets at all.
    pub forwarding: bool,
    /// The comments of the rules that are in force.
    pub rules: Vec<String>,
    /// Chains of iptables that keep out what is ours.
    pub shut: Vec<Chain>,
    /// Whether the program that serves the interface hangs: what WireGuard has nobody knows then.
    pub stuck: bool,
}

/// An interface as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenLink {
    /// Whether it may carry anything.
    pub up: bool,
    /// How long packets may be.
    pub mtu: u32,
    /// Its IPv4 addresses.
    pub addresses: BTreeSet<Net>,
    /// What it leads to, with which metric, and as whom.
    pub routes: BTreeMap<(Net, u32), Option<Ipv4Addr>>,
}

/// One thing to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Make the interface; without it there is nothing else.
    Create,
    /// The same, once the program that hangs is ended, and its interface with it.
    Replace,
    /// Give it its key.
    Key,
    /// Have it listen.
    Port(u16),
    /// Set how long packets may be.
    Mtu(u32),
    /// Give it an address.
    AddAddress(Net),
    /// Bring it up.
    Up,
    /// Lead there no more, by a route of this metric.
    RemoveRoute(Net, u32),
    /// Take an address away.
    RemoveAddress(Net),
    /// Tell it something of a peer.
    Peer(PublicKey, PeerOrder),
    /// Lead to a network.
    AddRoute(Net),
    /// Have the host forward packets.
    Forwarding,
    /// Put the rules in force.
    Rules,
    /// Let through what is ours.
    Open(Chain),
}

/// What is said of another that has the key of this host, and had it first.
const A_COPY: &str = "has the key of this host, which stays out of the mesh: was one a copy of the \
    other? Remove `services/mesh.key` in the `state_dir` of the agent here, and restart the agent";

/// All rows, those first that are right where two cannot both be: whoever had its subnet first.
fn by_age(table: &Peers) -> Vec<(&AgentName, &Peer)> {
    let mut rows: Vec<_> = table.rows().iter().collect();
    rows.sort_unstable_by_key(|(name, peer)| (peer.since, *name));
    rows
}

/// Whom this host is a copy of, as others see it. Not where the table does not know it yet as what it
/// is now: then it may be any of them.
fn original<'a>(
    key: PublicKey,
    own: Subnet,
    rows: &[(&'a AgentName, &Peer)],
) -> Option<&'a AgentName> {
    let mut have_it = rows.iter().filter(|(_, peer)| peer.public_key == key);
    let (name, first) = have_it.next()?;
    (first.subnet != own && have_it.any(|(_, peer)| peer.subnet == own)).then_some(*name)
}

impl Wanted {
    /// For a host with this key and port and subnet, among these peers.
    ///
    /// Two that claim the same networks would take them from each other without end: whoever had them
    /// first has them, until the server has settled it.
    pub fn new(
        key: PublicKey,
        port: u16,
        own: Subnet,
        table: &Peers,
        rules: impl Into<Vec<String>>,
    ) -> Self {
        let mut peers: BTreeMap<PublicKey, WantedPeer> = BTreeMap::new();
        let mut subnets = BTreeMap::from([(own, None)]);
        let mut left_out = BTreeMap::new();
        let rows = by_age(table);
        let original = original(key, own, &rows);
        left_out.extend(original.map(|name| (name.clone(), A_COPY.to_owned())));
        // Whoever speaks with the key of another takes what is sent to that one.
        let rows = rows.into_iter().filter(|_| original.is_none());
        // The table may have this host, too.
        for (name, peer) in rows.filter(|(_, peer)| peer.public_key != key) {
            if let Some(first) = peers.get(&peer.public_key) {
                let why = format!("has the key of {}: was one a copy of the other?", first.name);
                left_out.insert(name.clone(), why);
            } else if let Some(first) = subnets.get(&peer.subnet) {
                let whose = first.map_or("this host", AgentName::as_str);
                left_out.insert(name.clone(), format!("has the subnet of {whose}"));
            } else {
                subnets.insert(peer.subnet, Some(name));
                let wanted = WantedPeer {
                    name: name.clone(),
                    said: peer.endpoints.clone(),
                    endpoints: peer.endpoints.clone(),
                    allowed: [Net::of_host(peer.subnet), Net::of_containers(peer.subnet)].into(),
                };
                peers.insert(peer.public_key, wanted);
            }
        }
        let (address, rules) = (own.host(), rules.into());
        Self { key, port, mtu: MTU, address, peers, rules, left_out, clash: None }
    }

    /// On a host that has `foreign` networks elsewhere: nothing leads away from them. And no tunnel
    /// leads through itself, to what only the mesh leads to.
    pub fn beside(mut self, own: Subnet, foreign: &BTreeSet<Net>) -> Self {
        for peer in self.peers.values_mut() {
            let clash = |net: &Net| Some((*net, overlap(*net, foreign)?));
            if let Some((net, with)) = peer.allowed.iter().find_map(clash) {
                let why = format!(
                    "is not led to at {net}: this host has {with} elsewhere (`ip route`), which \
                     must not be where the mesh has its addresses"
                );
                self.left_out.insert(peer.name.clone(), why);
                peer.allowed.retain(|net| overlap(*net, foreign).is_none());
            }
        }
        self.clash = clash(own, foreign).map(|with| {
            let mut all = (1..Subnet::COUNT).filter_map(Subnet::new);
            Clash { with, is_everywhere: all.all(|it| clash(it, foreign).is_some()) }
        });
        let own = [Net::of_host(own), Net::of_containers(own)];
        let inside: BTreeSet<Net> = self.routes().copied().chain(own).gather();
        let is_inside = |to: &SocketAddr| match to.ip() {
            IpAddr::V4(ip) => [24, 32].iter().any(|bits| inside.contains(&Net::around(ip, *bits))),
            IpAddr::V6(_) => false,
        };
        self.peers.values_mut().for_each(|peer| peer.endpoints.retain(|to| !is_inside(to)));
        self
    }

    /// Where each peer is reached, or else would be called first.
    pub fn places(&self, device: &Device) -> impl Iterator<Item = IpAddr> {
        self.peers.iter().filter_map(|(key, peer)| {
            let heard = device.peers.get(key).filter(|has| !has.is_silent());
            let place = heard.and_then(|has| has.endpoint).or(peer.endpoints.first().copied());
            place.map(|to| to.ip())
        })
    }

    /// Where packets to others may be so long, if that is known, with WireGuard's own around them.
    pub fn fitting(mut self, underlay: Option<u32>) -> Self {
        self.mtu = underlay.map_or(MTU, |mtu| mtu.saturating_sub(OVERHEAD).clamp(LEAST, MTU));
        self
    }

    /// Who a key belongs to, for people.
    pub fn name_of(&self, key: &PublicKey) -> String {
        self.peers.get(key).map_or_else(|| format!("with key {}", Key(key)), |p| p.name.to_string())
    }

    fn routes(&self) -> impl Iterator<Item = &Net> {
        self.peers.values().flat_map(|peer| &peer.allowed)
    }
}

/// The network that a host with this subnet has elsewhere as well.
pub fn clash(own: Subnet, foreign: &BTreeSet<Net>) -> Option<Net> {
    let own = [Net::of_host(own), Net::of_containers(own)];
    own.into_iter().find_map(|net| overlap(net, foreign))
}

fn overlap(net: Net, foreign: &BTreeSet<Net>) -> Option<Net> {
    foreign.iter().copied().find(|it| it.overlaps(net))
}

/// All that has to be done, in order; nothing where all is well.
pub fn plan(wanted: &Wanted, seen: &Seen, attempts: &Attempts) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut device, mut link) = (&Device::default(), &SeenLink::default());
    match &seen.link {
        Some(_) if seen.stuck => changes.push(Change::Replace),
        Some(there) => (device, link) = (&seen.device, there),
        None => changes.push(Change::Create),
    }
    if !seen.forwarding {
        changes.push(Change::Forwarding);
    }
    // Before anything can come in.
    if seen.rules != wanted.rules {
        changes.push(Change::Rules);
    }
    changes.extend(seen.shut.iter().copied().map(Change::Open));
    if device.key != Some(wanted.key) {
        changes.push(Change::Key);
    }
    if device.port != wanted.port {
        changes.push(Change::Port(wanted.port));
    }
    bring_up(wanted, link, &mut changes);
    peers(wanted, device, attempts, &mut changes);
    let missing = wanted.routes().filter(|to| !is_right(wanted, link, to));
    changes.extend(missing.copied().map(Change::AddRoute));
    changes
}

/// The interface itself. Routes that are not wanted go before addresses do, which would take routes
/// with them.
fn bring_up(wanted: &Wanted, link: &SeenLink, changes: &mut Vec<Change>) {
    if link.mtu != wanted.mtu {
        changes.push(Change::Mtu(wanted.mtu));
    }
    let own = Net { address: wanted.address, bits: 32 };
    if !link.addresses.contains(&own) {
        changes.push(Change::AddAddress(own));
    }
    if !link.up {
        changes.push(Change::Up);
    }
    let right: BTreeSet<&Net> = wanted.routes().filter(|to| is_right(wanted, link, to)).gather();
    let wrong = link.routes.keys().filter(|(to, metric)| *metric != OURS || !right.contains(to));
    changes.extend(wrong.map(|(to, metric)| Change::RemoveRoute(*to, *metric)));
    let others = link.addresses.iter().filter(|address| **address != own);
    changes.extend(others.copied().map(Change::RemoveAddress));
}

fn is_right(wanted: &Wanted, link: &SeenLink, to: &Net) -> bool {
    link.routes.get(&(*to, OURS)) == Some(&Some(wanted.address))
}

/// Peers, one by one: those that go first, as others may get their networks.
fn peers(wanted: &Wanted, device: &Device, attempts: &Attempts, changes: &mut Vec<Change>) {
    let gone = device.peers.keys().filter(|key| !wanted.peers.contains_key(key));
    changes.extend(gone.map(|key| Change::Peer(*key, PeerOrder::Remove)));
    for (key, peer) in &wanted.peers {
        match device.peers.get(key) {
            None => changes.push(Change::Peer(*key, add(peer))),
            Some(has) => {
                let orders = update(peer, has, attempts.said_before(key));
                changes.extend(orders.map(|order| Change::Peer(*key, order)));
            }
        }
    }
}

fn add(peer: &WantedPeer) -> PeerOrder {
    PeerOrder::Add {
        endpoint: peer.endpoints.first().copied(),
        allowed: peer.allowed.clone(),
        keepalive: peer.keepalive(),
    }
}

fn update(
    peer: &WantedPeer,
    has: &SeenPeer,
    before: Option<&[SocketAddr]>,
) -> impl Iterator<Item = PeerOrder> + use<> {
    let is_there = has.endpoint.is_some_and(|at| stays(peer, has, at, before));
    let endpoint = peer.endpoints.first().filter(|_| !is_there);
    let allowed = has.allowed != peer.allowed || has.foreign;
    let keepalive = has.keepalive != peer.keepalive();
    [
        endpoint.copied().map(PeerOrder::Endpoint),
        allowed.then(|| PeerOrder::Allowed(peer.allowed.clone())),
        keepalive.then(|| PeerOrder::Keepalive(peer.keepalive())),
    ]
    .into_iter()
    .flatten()
}

/// Whether a peer is left where the interface has it. Where it was heard last is known better by the
/// interface than by any table; and what the table said of it `before` is not so any more once it
/// says something else.
fn stays(peer: &WantedPeer, has: &SeenPeer, at: SocketAddr, before: Option<&[SocketAddr]>) -> bool {
    if peer.said.contains(&at) {
        return peer.endpoints.contains(&at);
    }
    match before.filter(|before| *before != peer.said) {
        None => true,
        Some(before) => !has.is_silent() && !before.contains(&at),
    }
}

/// The hash of the table that is in effect: that of `table` itself when all of it is, and nothing
/// else.
pub fn in_effect(table: &Peers, wanted: &Wanted, seen: &Seen) -> Hash256 {
    let is_so = |name: &AgentName, key: &PublicKey| {
        let peer = wanted.peers.get(key).filter(|peer| peer.name == *name);
        match (peer, &seen.link) {
            (Some(peer), Some(link)) => {
                let has = seen.device.peers.get(key);
                has.is_some_and(|has| has.allowed == peer.allowed && !has.foreign)
                    && peer.allowed.iter().all(|to| is_right(wanted, link, to))
            }
            _ => false,
        }
    };
    let is_missing = |name: &AgentName, key: &PublicKey| {
        wanted.left_out.contains_key(name) || (*key != wanted.key && !is_so(name, key))
    };
    let missing = table.rows().iter().filter(|(name, row)| is_missing(name, &row.public_key));
    let missing: Vec<&AgentName> = missing.map(|(name, _)| name).collect();
    // Mostly none is, and the table is what is in effect.
    let mut rows = Cow::Borrowed(table);
    missing.into_iter().for_each(|name| rows.to_mut().remove(name));
    let strangers = seen.device.peers.keys().filter(|key| !wanted.peers.contains_key(key));
    let strangers: Vec<u8> = strangers.flat_map(|key| key.0).collect();
    match strangers.is_empty() {
        true => rows.hash(),
        false => Hash256::of(&[rows.hash().to_string().as_bytes(), &strangers].concat()),
    }
}

/// A key, as people know it.
struct Key<'a>(&'a PublicKey);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use base64::Engine;
        f.write_str(&base64::prelude::BASE64_STANDARD.encode(self.0.0))
    }
}

impl Change {
    /// What is not as it should be, in words.
    pub fn drift(&self, wanted: &Wanted) -> String {
        match self {
            Self::Create => "the interface is not there".to_owned(),
            Self::Replace => "the program that serves it does not answer".to_owned(),
            Self::Key => "it has another key".to_owned(),
            Self::Port(port) => format!("it does not listen at port {port}"),
            Self::Mtu(mtu) => format!("its MTU is not {mtu}"),
            Self::AddAddress(net) => format!("it has not the address {net}"),
            Self::Up => "it is down".to_owned(),
            Self::RemoveRoute(net, _) => format!("it leads to {net}, as nobody should"),
            Self::RemoveAddress(net) => format!("it has the address {net} as well"),
            Self::AddRoute(net) => format!("it does not lead to {net}"),
            Self::Forwarding => "the host does not forward packets".to_owned(),
            Self::Rules => format!("the rules of `{}` are others", super::RULES),
            Self::Open(Chain::Forward) => "iptables keeps the mesh from containers".to_owned(),
            Self::Open(Chain::Input) => "iptables keeps containers from DNS".to_owned(),
            Self::Peer(key, order) => {
                let name = wanted.name_of(key);
                match order {
                    PeerOrder::Add { .. } => format!("peer {name} is missing"),
                    PeerOrder::Remove => format!("peer {name} should not be there"),
                    PeerOrder::Endpoint(_) => format!("peer {name} is elsewhere"),
                    PeerOrder::Allowed(_) => format!("peer {name} has other networks"),
                    PeerOrder::Keepalive(_) => format!("peer {name} has another keepalive"),
                }
            }
        }
    }
}

/// Several changes in words, the first of them by name.
pub fn drift(changes: &[Change], wanted: &Wanted) -> Option<String> {
    const NAMED: usize = 4;
    // All else is not known to be otherwise, but will have to be made anew.
    let changes = if let [Change::Replace, ..] = changes { &changes[..1] } else { changes };
    let mut words: Vec<String> = changes.iter().take(NAMED).map(|c| c.drift(wanted)).collect();
    match changes.len().saturating_sub(NAMED) {
        0 => {}
        more => words.push(format!("and {more} more")),
    }
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests;
