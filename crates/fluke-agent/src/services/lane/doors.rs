//! When to knock at which port of which container. Pure.
//!
//! A container that runs need not listen yet. Where nobody said how to ask it whether it is well,
//! it is tried whether it accepts connections: at once, then ever so often while somebody waits for
//! it, and with growing pauses later, until it does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use fluke_model::gather::Gather;

use crate::services::plan::{Container, Deployment, Origin, State, TIME_TO_LISTEN};

/// After the first try.
const SOONEST: Duration = Duration::from_millis(10);
/// While it is waited for.
const EARLY: Duration = Duration::from_millis(200);
/// However often it was tried.
const LATEST: Duration = Duration::from_secs(60);

/// All containers that may not listen yet, or were found to.
#[derive(Debug, Default)]
pub struct Doors(BTreeMap<String, Door>);

#[derive(Debug)]
struct Door {
    /// Tells one life of a container from the next.
    process: i32,
    address: Ipv4Addr,
    ports: Vec<u16>,
    /// Those of them at which somebody was found.
    open: BTreeSet<u16>,
    /// Until when it is waited for.
    until: Instant,
    pause: Duration,
    /// None while it is being tried.
    next: Option<Instant>,
}

/// A container that is to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knock {
    /// Which.
    pub container: String,
    /// In which of its lives.
    pub process: i32,
    /// Where it is.
    pub address: Ipv4Addr,
    /// In this order; the rest need not be tried once one is silent.
    pub ports: Vec<u16>,
}

impl Doors {
    /// Takes note of who is there now. One that is not wanted any more is tried on: it may have to
    /// serve until its successor does. In another life it is tried where that one is to listen:
    /// nobody knows more of its ports.
    pub fn see(&mut self, containers: &[Container], wanted: &[Deployment], now: Instant) {
        let running = containers.iter().filter(|it| it.is_ours && it.state == State::Running);
        let running: BTreeMap<&str, &Container> = running.map(|it| (it.id.as_str(), it)).gather();
        self.0.retain(|id, door| {
            running.get(id.as_str()).is_some_and(|it| it.process == Some(door.process))
        });
        for (id, it) in running {
            let wanted = wanted.iter().find(|of| is_in_place_of(of, it));
            let wanted = wanted.filter(|_| it.check.is_none());
            let (Some(wanted), Some(process), Some(address)) = (wanted, it.process, it.address)
            else {
                continue;
            };
            if Some(wanted.id) == it.origin.deployment || !self.0.contains_key(id) {
                let door = self.0.entry(id.to_owned());
                let door = door.or_insert_with(|| Door::new(process, address, now));
                door.shall_have(&wanted.listens, now);
            }
        }
    }

    /// Whom to try now; they count as being tried.
    pub fn due(&mut self, now: Instant) -> Vec<Knock> {
        let is_due = |door: &Door| door.is_shut() && door.next.is_some_and(|next| next <= now);
        let due = self.0.iter_mut().filter(|(_, door)| is_due(door));
        let knock = |(id, door): (&String, &mut Door)| {
            door.next = None;
            let (container, ports) = (id.clone(), door.silent().collect());
            Knock { container, process: door.process, address: door.address, ports }
        };
        due.map(knock).collect()
    }

    /// When somebody is to be tried next.
    pub fn next(&self) -> Option<Instant> {
        self.0.values().filter(|door| door.is_shut()).filter_map(|door| door.next).min()
    }

    /// What a try told: the first port that was silent. Whether it is worth a look.
    pub fn answered(&mut self, knock: &Knock, silent_at: Option<u16>, now: Instant) -> bool {
        let door = self.0.get_mut(&knock.container);
        let Some(door) = door.filter(|door| door.process == knock.process) else { return false };
        door.next = Some(now + door.pause);
        let longest = if now < door.until { EARLY } else { LATEST };
        door.pause = (door.pause * 2).min(longest);
        door.open.extend(knock.ports.iter().take_while(|port| Some(**port) != silent_at));
        !door.is_shut()
    }

    /// The first port at which a container was not found to listen yet.
    pub fn silent_at(&self, container: &str) -> Option<u16> {
        self.0.get(container)?.silent().next()
    }
}

impl Door {
    fn new(process: i32, address: Ipv4Addr, now: Instant) -> Self {
        let (ports, open) = (Vec::new(), BTreeSet::new());
        let (until, pause) = (now + TIME_TO_LISTEN, SOONEST);
        Self { process, address, ports, open, until, pause, next: Some(now) }
    }

    /// The same container may get other ports: that needs no other one.
    fn shall_have(&mut self, ports: &[u16], now: Instant) {
        if self.ports != ports {
            self.ports = ports.to_vec();
            (self.until, self.pause) = (now + TIME_TO_LISTEN, SOONEST);
            self.next = self.next.map(|_| now);
        }
    }

    fn silent(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().copied().filter(|port| !self.open.contains(port))
    }

    fn is_shut(&self) -> bool {
        self.silent().next().is_some()
    }
}

/// Whether this is wanted where a container is: as it is, or as another version.
fn is_in_place_of(wanted: &Deployment, container: &Container) -> bool {
    let Origin { service, replica, .. } = &container.origin;
    service.as_ref() == Some(&wanted.service) && *replica == Some(wanted.replica)
}

#[cfg(test)]
mod tests;
