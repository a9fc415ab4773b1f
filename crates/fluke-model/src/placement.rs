//! Which host runs which replica: a pure function of what should run and of what hosts report.
//!
//! What runs stays where it is. What has to go somewhere goes to the host that has the fewest
//! replicas of the service; among equals rendezvous hashing decides, so that every server decides
//! the same. A replica that has volumes never leaves them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::{AgentName, Hash256, ServiceName};

/// What is to be placed.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The service.
    pub service: &'a ServiceName,
    /// How many replicas it has.
    pub replicas: u32,
    /// Whether they have volumes.
    pub is_stateful: bool,
    /// How long a host that is away keeps what it has.
    pub reschedule_after: Duration,
}

/// A host that the service may run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its agent.
    pub host: AgentName,
    /// How long it has been away; none: it is here.
    pub away: Option<Duration>,
    /// The replicas that it runs, was given, or has the volumes of.
    pub holds: Vec<u32>,
}

/// Where every replica is; the ones that nobody can take are not in it.
pub type Placement = BTreeMap<u32, AgentName>;

/// Places every replica. `candidates` are the hosts that match, each once, in any order.
pub fn place(wanted: Wanted<'_>, candidates: &[Candidate]) -> Placement {
    let mut placing = Placing::new(wanted, candidates);
    placing.keep_what_is_held();
    placing.find_room_for_the_rest();
    placing.even_out();
    placing.placement
}

/// Leaves every replica where it is, and places none that is nowhere: for as long as it is not known
/// who is there.
pub fn keep(wanted: Wanted<'_>, candidates: &[Candidate]) -> Placement {
    let mut placing = Placing::new(wanted, candidates);
    placing.keep_what_is_held();
    placing.placement
}

struct Placing<'a> {
    wanted: Wanted<'a>,
    hosts: Vec<&'a Candidate>,
    placement: Placement,
    loads: BTreeMap<&'a AgentName, u32>,
}

impl<'a> Placing<'a> {
    fn new(wanted: Wanted<'a>, candidates: &'a [Candidate]) -> Self {
        let keeps = |candidate: &&Candidate| {
            let patience = wanted.is_stateful.then_some(Duration::MAX);
            let patience = patience.unwrap_or(wanted.reschedule_after);
            candidate.away.is_none_or(|away| away < patience)
        };
        let hosts = candidates.iter().filter(keeps).collect();
        Self { wanted, hosts, placement: Placement::new(), loads: BTreeMap::new() }
    }

    /// Of several that hold a replica, one that is here; then the one that hashing prefers.
    fn keep_what_is_held(&mut self) {
        let mut holders: BTreeMap<u32, &'a Candidate> = BTreeMap::new();
        for host in &self.hosts {
            for number in host.holds.iter().filter(|number| **number < self.wanted.replicas) {
                let rank = |host: &Candidate| {
                    (host.away.is_none(), weight(self.wanted.service, *number, &host.host))
                };
                let best = holders.entry(*number).or_insert(host);
                if rank(host) > rank(best) {
                    *best = host;
                }
            }
        }
        holders.into_iter().for_each(|(number, host)| self.put(number, host));
    }

    fn find_room_for_the_rest(&mut self) {
        for number in 0..self.wanted.replicas {
            if self.placement.contains_key(&number) {
                continue;
            }
            match self.emptiest(number) {
                Some(host) => self.put(number, host),
                None => return,
            }
        }
    }

    /// Moves a replica where its host has two more than another one: each move makes the spread
    /// better, so this ends. A replica of a host that is away waits for it, or for its time to be up.
    fn even_out(&mut self) {
        if self.wanted.is_stateful {
            return;
        }
        while let Some((number, to)) = self.next_move() {
            let from = self.placement.get(&number).cloned();
            if let Some(load) = from.and_then(|from| self.loads.get_mut(&from)) {
                *load -= 1;
            }
            self.put(number, to);
        }
    }

    fn next_move(&self) -> Option<(u32, &'a Candidate)> {
        let fullest = self.here().map(|host| self.load(host)).max()?;
        let of_the_fullest = |host: &AgentName| {
            let candidate = self.here().find(|candidate| candidate.host == *host);
            candidate.is_some_and(|candidate| self.load(candidate) == fullest)
        };
        // The newest one is the one that is missed least.
        let (number, _) = self.placement.iter().rev().find(|(_, host)| of_the_fullest(host))?;
        let to = self.emptiest(*number)?;
        (self.load(to) + 2 <= fullest).then_some((*number, to))
    }

    fn here(&self) -> impl Iterator<Item = &'a Candidate> {
        self.hosts.iter().copied().filter(|host| host.away.is_none())
    }

    fn emptiest(&self, number: u32) -> Option<&'a Candidate> {
        let rank = |host: &&Candidate| {
            let weight = weight(self.wanted.service, number, &host.host);
            (std::cmp::Reverse(self.load(host)), weight)
        };
        self.here().max_by_key(rank)
    }

    fn load(&self, host: &Candidate) -> u32 {
        self.loads.get(&host.host).copied().unwrap_or_default()
    }

    fn put(&mut self, number: u32, host: &'a Candidate) {
        self.placement.insert(number, host.host.clone());
        *self.loads.entry(&host.host).or_default() += 1;
    }
}

/// How much a host is preferred for a replica: chance that everybody throws alike.
fn weight(service: &ServiceName, number: u32, host: &AgentName) -> Hash256 {
    Hash256::of(format!("{service}\0{number}\0{host}").as_bytes())
}

#[cfg(test)]
mod tests;
