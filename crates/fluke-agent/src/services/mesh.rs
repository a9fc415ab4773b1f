//! The mesh: WireGuard between all hosts, each with an address of its own and a network of its
//! containers.
//!
//! ```text
//!  table of peers ─▶ plan     what has to change? (pure)
//!                     │ ▲
//!                     ▼ │
//!                  interface ─▶ netlink      links, addresses, routes, rules; the kernel's WireGuard
//!                            └▶ uapi         a program's WireGuard, at its socket
//! ```
//!
//! What is in effect is read from the interface, every time. Peers come and go one by one.
//!
//! # Whose WireGuard
//!
//! The kernel's, by netlink, where there is one: since Linux 5.6 nearly everywhere. Else that of a
//! program, `wireguard-go`, over the protocol that all such programs share. Why none is built in:
//!
//! - Containers go on while the agent is replaced or dead, and so must what joins them. Tunnels
//!   within the agent's process would end with it.
//! - The libraries there are: `boringtun` has had little care for years; `gotatun`, its heir, is sound
//!   and alive, but before its 1.0, changes with each release, and brings its own kind of licence.
//!   All that for hosts with old or cut-down kernels.
//! - `wireguard-go` is WireGuard's own, and every distribution has it. Another program that speaks the
//!   same protocol can take its place.
//!
//! Messages of netlink are put together here: a dozen kinds, against some ten crates.

mod attempts;
mod device;
mod endpoints;
mod heard;
mod interface;
mod key;
mod net;
pub(super) mod netlink;
mod plan;
mod silence;
mod uapi;
mod userspace;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use fluke_model::directory::{Names, Peers, PublicKey, Subnet};
use fluke_model::id::Hash256;
use tokio::time::Instant;

pub use endpoints::parse as parse_endpoint;
pub use key::KeyError;
pub use userspace::Keeper;

use super::section::Found;
use attempts::Attempts;
use endpoints::Own;
use heard::Heard;
use interface::Interface;
use key::PrivateKey;
use net::Net;
use netlink::{Events, nftables, route};
use plan::{Change, Clash, Seen, Wanted, drift, plan};

/// What the interface is called.
pub const INTERFACE: &str = "fluke0";
/// Where WireGuard listens, if nothing else is said.
pub const PORT: u16 = 51820;
/// The table of nftables that is the mesh's.
pub const RULES: &str = nftables::TABLE;
/// The program for hosts whose kernel has no WireGuard.
pub const PROGRAM: &str = "wireguard-go";

/// What one apply reports of what went wrong.
const NAMED: usize = 4;

/// What a mesh needs to know of its host.
#[derive(Debug, Clone)]
pub struct Setup {
    /// [`INTERFACE`], but for tests.
    pub interface: String,
    /// Where WireGuard listens, by UDP.
    pub port: u16,
    /// Where others reach this host, if somebody said so; see [`parse_endpoint`].
    pub endpoint: Option<SocketAddr>,
    /// Where the private key is kept.
    pub key: PathBuf,
    /// [`PROGRAM`], or one that speaks the same at its socket.
    pub program: PathBuf,
    /// Who keeps that program running; see [`Keeper::here`].
    pub keeper: Keeper,
}

impl Setup {
    /// The usual one, with its key in the agent's `state_dir`.
    pub fn new(state_dir: &std::path::Path) -> Self {
        Self {
            interface: INTERFACE.to_owned(),
            port: PORT,
            endpoint: None,
            key: state_dir.join("mesh.key"),
            program: PROGRAM.into(),
            keeper: Keeper::here(),
        }
    }
}

/// Why the mesh is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// There is no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The kernel does not tell what happens.
    #[error("cannot hear of changes to interfaces: {0}")]
    Deaf(io::Error),
    /// It cannot be seen how things are.
    #[error("cannot see {what} of {interface}: {source}; the agent must be root to see it")]
    Unseen {
        /// Of which interface.
        interface: String,
        /// What.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The name is somebody else's.
    #[error(
        "{interface} is there, but is no WireGuard interface (`{kind}`); rename or remove it: \
         `ip -details link show {interface}`"
    )]
    Foreign {
        /// The name.
        interface: String,
        /// What it is, in the kernel's word.
        kind: String,
    },
    /// There is no WireGuard here.
    #[error(
        "the kernel has no WireGuard, and `{}` could not be started: {why}; install either",
        program.display()
    )]
    NoProgram {
        /// What was to be started.
        program: PathBuf,
        /// Why it was not.
        why: String,
    },
    /// Whoever serves the interface hangs, and goes on to do so.
    #[error(
        "the program that serves {interface} does not answer, and did not end: {why}; see who it is \
         with `fuser -v /dev/net/tun`, or reboot"
    )]
    Stuck {
        /// The interface.
        interface: String,
        /// What was tried.
        why: String,
    },
    /// One change was refused.
    #[error("{source}")]
    NotMade {
        /// In the kernel's words.
        source: io::Error,
    },
    /// Some changes came to nothing; all others were made.
    #[error("{interface}: {what}")]
    Incomplete {
        /// Of which interface.
        interface: String,
        /// What is not so, and why.
        what: String,
    },
}

/// Leaves the mesh: no interface, no rules. The key stays.
pub async fn leave(interface: &str) -> Result<(), MeshError> {
    Interface::called(interface).remove().await
}

/// Tells which subnets would be in the way of networks that this host has elsewhere.
pub fn clashes() -> impl Fn(Subnet) -> bool {
    // Where nothing can be seen, the mesh says so later.
    let foreign = Interface::called(INTERFACE).foreign().unwrap_or_default();
    move |subnet| plan::clash(subnet, &foreign).is_some()
}

/// Whether there is anything to leave, as far as whoever asks may see.
pub fn is_left(interface: &str) -> bool {
    Interface::called(interface).is_there()
}

/// This host's end of the mesh. The interface outlives it.
#[derive(Debug)]
pub struct Mesh {
    setup: Setup,
    key: PrivateKey,
    interface: Interface,
    events: Events,
    heard: Heard,
    attempts: Attempts,
    began: Instant,
    effect: Hash256,
}

impl Mesh {
    /// With the key that is kept, or a new one.
    pub fn open(setup: Setup) -> Result<Self, MeshError> {
        let key = PrivateKey::load_or_make(&setup.key)?;
        let events = Events::open().map_err(MeshError::Deaf)?;
        let interface = Interface {
            program: setup.program.clone(),
            keeper: setup.keeper,
            ..Interface::called(&setup.interface)
        };
        let (heard, attempts, began) = (Heard::default(), Attempts::default(), Instant::now());
        let effect = Peers::default().hash();
        Ok(Self { setup, key, interface, events, heard, attempts, began, effect })
    }

    /// What others may know of this host's key.
    pub fn public_key(&self) -> PublicKey {
        self.key.public()
    }

    /// Where others may reach this host now, best first; [`Mesh::changed`] tells when to look again.
    pub fn endpoints(&self) -> Result<Vec<SocketAddr>, MeshError> {
        let own = self.own_addresses()?;
        Ok(endpoints::reachable(self.setup.endpoint, &own, self.setup.port))
    }

    /// What differs from the table. A peer that is silent where it was tried is tried elsewhere: that
    /// is how it is found, and no drift. One that was tried everywhere is a problem if `names` lead
    /// to it.
    pub async fn check(
        &mut self,
        own: Subnet,
        table: &Peers,
        names: &Names,
    ) -> Result<Found, MeshError> {
        let (wanted, seen) = self.look(own, table).await?;
        self.effect = plan::in_effect(table, &wanted, &seen);
        let changes = plan(&wanted, &seen, &self.attempts);
        if self.takes_note(&changes, &wanted) {
            self.try_elsewhere(&wanted, &seen, own).await;
        }
        let in_vain = self.attempts.in_vain(&wanted, &seen.device, self.now());
        let silence = silence::words(in_vain, names, self.setup.port);
        let problems = [own_clash(own, &wanted), left_out(&wanted), silence].into_iter().flatten();
        let problems: Vec<String> = problems.collect();
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        Ok(Found { drift: drift(&changes, &wanted), problem })
    }

    /// Makes it as the table says. A change that fails does not stop those after it; what was done
    /// when this is dropped stays done.
    pub async fn apply(&mut self, own: Subnet, table: &Peers) -> Result<(), MeshError> {
        let (wanted, seen) = self.look(own, table).await?;
        let mut failed = Vec::new();
        for change in plan(&wanted, &seen, &self.attempts) {
            match self.interface.make(&change, &self.key, own).await {
                Ok(()) => self.attempts.made(&change, &wanted, self.now()),
                Err(error) if matches!(change, Change::Create | Change::Replace) => {
                    return Err(error);
                }
                Err(error) => failed.push(format!("{}: {error}", change.drift(&wanted))),
            }
        }
        // What was heard so far was our own doing; what is heard from here on was not looked at yet.
        self.events.forget();
        let seen = self.see(own).await?;
        self.effect = plan::in_effect(table, &wanted, &seen);
        let left = plan(&wanted, &seen, &self.attempts);
        self.takes_note(&left, &wanted);
        failed.truncate(NAMED);
        let what = match failed.is_empty() {
            true => drift(&left, &wanted),
            false => Some(failed.join("; ")),
        };
        let interface = self.setup.interface.clone();
        what.map_or(Ok(()), |what| Err(MeshError::Incomplete { interface, what }))
    }

    /// The hash of the table that the interface had when it was last looked at.
    pub fn in_effect(&self) -> Hash256 {
        self.effect
    }

    /// Returns when something may have changed by itself: the interface, its addresses or routes, the
    /// program that serves it, or the host's own addresses. Cancel-safe.
    pub async fn changed(&mut self) {
        let (index, name) = (self.interface.index(), &self.setup.interface);
        let heard = self.events.heard(|kind, body| matters(kind, body, index, name)).await;
        if let Err(error) = heard {
            // Nobody may spin on it; the check that is made anyway finds what there is.
            tracing::error!(%error, "changes to interfaces are not heard of any more");
            std::future::pending().await
        }
    }

    /// Takes note of how peers are where all of them are as wanted, whatever else is not; whether
    /// they are.
    fn takes_note(&mut self, changes: &[Change], wanted: &Wanted) -> bool {
        let are_well = !changes.iter().any(|change| matches!(change, Change::Peer(..)));
        if are_well {
            self.attempts.seen(wanted, self.now());
        }
        are_well
    }

    async fn try_elsewhere(&mut self, wanted: &Wanted, seen: &Seen, own: Subnet) {
        for change in self.attempts.next(wanted, &seen.device, self.now()) {
            match self.interface.make(&change, &self.key, own).await {
                Ok(()) => self.attempts.made(&change, wanted, self.now()),
                Err(error) => {
                    tracing::warn!(?change, %error, "a silent peer was not tried elsewhere")
                }
            }
        }
    }

    /// What the interface should be here and now, and what it is.
    async fn look(&mut self, own: Subnet, table: &Peers) -> Result<(Wanted, Seen), MeshError> {
        let wanted = self.wanted(own, table)?;
        let seen = self.see(own).await?;
        let underlay = self.interface.underlay(wanted.places(&seen.device));
        let underlay = underlay.map_err(|source| self.unseen_host(source))?;
        Ok((wanted.fitting(underlay), seen))
    }

    async fn see(&mut self, own: Subnet) -> Result<Seen, MeshError> {
        let mut seen = self.interface.look(own).await?;
        let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        // Of a program that hangs nothing is known.
        if !seen.stuck {
            self.heard.date(&mut seen.device, self.began.elapsed(), since_epoch);
        }
        Ok(seen)
    }

    fn wanted(&self, own: Subnet, table: &Peers) -> Result<Wanted, MeshError> {
        let near = self.own_addresses()?;
        let foreign = self.interface.foreign().map_err(|source| self.unseen_host(source))?;
        let mut rules = nftables::tags(&self.setup.interface, Net::of_containers(own));
        rules.sort();
        let wanted = Wanted::new(self.public_key(), self.setup.port, own, table, rules);
        let mut wanted = wanted.beside(own, &foreign);
        for peer in wanted.peers.values_mut() {
            peer.endpoints = endpoints::nearest_first(&peer.endpoints, &near);
        }
        Ok(wanted)
    }

    fn own_addresses(&self) -> Result<Vec<Own>, MeshError> {
        self.interface.own_addresses().map_err(|source| self.unseen_host(source))
    }

    fn unseen_host(&self, source: io::Error) -> MeshError {
        let interface = self.setup.interface.clone();
        MeshError::Unseen { interface, what: "the host's addresses and routes", source }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

/// That this host's own containers have addresses of another network of its.
fn own_clash(own: Subnet, wanted: &Wanted) -> Option<String> {
    let (net, Clash { with, is_everywhere }) = (Net::of_containers(own), wanted.clash?);
    let advice = match is_everywhere {
        true => "all others that it could have clash as well: move that network",
        false => {
            "remove `services/claim.json` in the agent's `state_dir` and restart the agent, which \
             then takes others"
        }
    };
    Some(format!(
        "this host has {with} elsewhere (`ip route`), where it is {} in the mesh and its containers \
         are, {net}: {advice}",
        own.host()
    ))
}

/// Rows of the table that cannot be had.
fn left_out(wanted: &Wanted) -> Option<String> {
    let (name, why) = wanted.left_out.first_key_value()?;
    let more = match wanted.left_out.len() - 1 {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!("peer {name} {why}{more}"))
}

/// Whether an event is one of the interface, or of the host's own addresses.
fn matters(kind: u16, body: &[u8], index: Option<u32>, name: &str) -> bool {
    match kind {
        route::NEW_LINK | route::DEL_LINK => {
            route::read_link(body).is_none_or(|link| link.name == name)
        }
        route::NEW_ADDRESS | route::DEL_ADDRESS => {
            route::read_address(body).is_none_or(|address| address.global)
        }
        route::NEW_ROUTE | route::DEL_ROUTE => {
            route::read_route(body).is_some_and(|route| index.is_some() && route.index == index)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
