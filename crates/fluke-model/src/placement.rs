//! Which host runs which replica: a pure function of what should run and of what hosts report.
//!
//! What runs stays where it is. What has to go somewhere goes to the host that has the fewest
//! replicas of the service; among equals rendezvous hashing decides, so that every server decides
//! the same. A replica that has volumes never leaves them: it belongs to the host that has them, also
//! while that is away, and also when the selector does not match it any more and it has to wait.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::gather::Gather;
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
    /// How long a host that is away keeps what it has, volumes aside.
    pub reschedule_after: Duration,
}

/// A host that the service may run on, or that has volumes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its agent.
    pub host: AgentName,
    /// Whether the selector matches it.
    pub matches: bool,
    /// How long it has been away; none: it is here.
    pub away: Option<Duration>,
    /// The replicas that it runs, or was given.
    pub holds: BTreeSet<u32>,
    /// How many it has of the volumes that the service asks for, by replica.
    pub volumes: BTreeMap<u32, usize>,
}

/// Where every replica belongs; the ones that nobody can take are not in it. A host that does not
/// match is there only for a replica whose volumes it has, which waits.
pub type Placement = BTreeMap<u32, AgentName>;

/// Places every replica. `candidates` are those that match or have volumes, each once, in any order.
pub fn place(wanted: Wanted<'_>, candidates: &[Candidate]) -> Placement {
    let mut placing = Placing::new(wanted, candidates);
    placing.keep_what_has_a_place(|_| true);
    placing.find_room_for_the_rest();
    placing.even_out();
    placing.placement
}

/// Leaves every replica where it is, and places none that is nowhere: for as long as it is not known
/// who is there. To have a volume of one is not enough: it may be an old one, and whoever runs the
/// replica may not have spoken yet.
pub fn keep(wanted: Wanted<'_>, candidates: &[Candidate]) -> Placement {
    let mut placing = Placing::new(wanted, candidates);
    placing.keep_what_has_a_place(|right| right.holds);
    placing.placement
}

/// How good a host's right to a replica is: what comes first here decides first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    /// Data is not left behind.
    has_volumes: bool,
    /// Of two that have data, the one that it runs with is the newer.
    holds: bool,
    volumes: usize,
    matches: bool,
    is_here: bool,
    weight: Hash256,
}

struct Placing<'a> {
    wanted: Wanted<'a>,
    hosts: &'a [Candidate],
    placement: Placement,
    loads: BTreeMap<&'a AgentName, u32>,
}

impl<'a> Placing<'a> {
    fn new(wanted: Wanted<'a>, hosts: &'a [Candidate]) -> Self {
        Self { wanted, hosts, placement: Placement::new(), loads: BTreeMap::new() }
    }

    /// Of several that have a right to a replica, the one that has the best; if that is good enough.
    fn keep_what_has_a_place(&mut self, is_enough: fn(&Right) -> bool) {
        let mut best: BTreeMap<u32, (Right, &'a Candidate)> = BTreeMap::new();
        for host in self.hosts {
            let has = host.volumes.range(..self.wanted.replicas).map(|(number, _)| number);
            for number in host.holds.range(..self.wanted.replicas).chain(has) {
                let Some(right) = self.right(host, *number) else { continue };
                match best.get(number) {
                    Some((known, _)) if *known >= right => {}
                    _ => drop(best.insert(*number, (right, host))),
                }
            }
        }
        best.retain(|_, (right, _)| is_enough(right));
        best.into_iter().for_each(|(number, (_, host))| self.put(number, host));
    }

    /// What right a host has to a replica. Whoever has a volume has one for good; what a host merely
    /// holds is its own for as long as it matches and is not away for too long.
    fn right(&self, host: &Candidate, number: u32) -> Option<Right> {
        let right = Right {
            has_volumes: host.volumes.get(&number).is_some_and(|count| *count > 0),
            holds: host.holds.contains(&number),
            volumes: host.volumes.get(&number).copied().unwrap_or_default(),
            matches: host.matches,
            is_here: host.away.is_none(),
            weight: weight(self.wanted.service, number, &host.host),
        };
        let patience = self.wanted.reschedule_after;
        let may_keep = host.matches && host.away.is_none_or(|away| away < patience);
        (right.has_volumes || (right.holds && may_keep)).then_some(right)
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
        // Mostly that is all there is to ask, and it is asked often.
        if self.least()? + 2 > fullest {
            return None;
        }
        let is_full = |host: &&Candidate| self.load(host) == fullest;
        let full: BTreeSet<&AgentName> = self.here().filter(is_full).map(|it| &it.host).gather();
        // The newest one is the one that is missed least.
        let (number, _) = self.placement.iter().rev().find(|(_, host)| full.contains(host))?;
        Some((*number, self.emptiest(*number)?))
    }

    /// Those that something new can be put on.
    fn here(&self) -> impl Iterator<Item = &'a Candidate> {
        self.hosts.iter().filter(|host| host.matches && host.away.is_none())
    }

    fn emptiest(&self, number: u32) -> Option<&'a Candidate> {
        let least = self.least()?;
        let emptiest = self.here().filter(|host| self.load(host) == least);
        emptiest.max_by_key(|host| weight(self.wanted.service, number, &host.host))
    }

    fn least(&self) -> Option<u32> {
        self.here().map(|host| self.load(host)).min()
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
