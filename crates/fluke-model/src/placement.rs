//! Which host runs which replica: a pure function of what should run and of what hosts report.
//!
//! What runs stays where it is. What has to go somewhere goes to the host that has the fewest
//! replicas of the service; among equals rendezvous hashing decides, so that every server decides
//! the same. Twice the replicas on twice the hosts take little more than twice the time. A replica
//! that has volumes never leaves them: it belongs to the host that has them, also while that is
//! away, and also when the selector does not match it any more and it has to wait.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
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
    pub holds: BTreeMap<u32, Hold>,
    /// Those of them that it was given, by whoever decides.
    pub given: BTreeSet<u32>,
    /// How many it has of the volumes that the service asks for, by replica.
    pub volumes: BTreeMap<u32, usize>,
}

/// How a host has a replica, volumes aside; what comes later counts for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// It runs there and was given to another host, which its own may not have heard yet: what was
    /// decided stays decided, but for want of a better one.
    Leaves,
    /// It was given to this one, or this one is found to want it; nothing of it has begun.
    Given,
    /// Its container is there, well or not.
    Runs,
    /// It serves there.
    Serves,
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
    placing.placement()
}

/// Leaves every replica where it is, and places none that is nowhere: for as long as it is not known
/// who is there. To have a volume of one is not enough: it may be an old one, and whoever runs the
/// replica may not have spoken yet.
pub fn keep(wanted: Wanted<'_>, candidates: &[Candidate]) -> Placement {
    let mut placing = Placing::new(wanted, candidates);
    placing.keep_what_has_a_place(|right| right.hold.is_some());
    placing.placement()
}

/// How good a host's right to a replica is: what comes first here decides first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    /// Data is not left behind.
    has_volumes: bool,
    /// Of two that have data, the one that it runs with is the newer.
    hold: Option<Hold>,
    volumes: usize,
    matches: bool,
    /// Of two that are as good, the one where everybody expects it, though its agent may just restart.
    is_given: bool,
    is_here: bool,
    weight: Hash256,
}

/// Where something can be put, by how well it is there: with few others, and then by weight.
type Room = BinaryHeap<(Reverse<usize>, Hash256, usize)>;

/// Hosts go by their position among the candidates.
struct Placing<'a> {
    wanted: Wanted<'a>,
    hosts: &'a [Candidate],
    /// How much each is preferred for what has no place.
    weights: Vec<Hash256>,
    places: BTreeMap<u32, usize>,
}

impl<'a> Placing<'a> {
    fn new(wanted: Wanted<'a>, hosts: &'a [Candidate]) -> Self {
        let weights = hosts.iter().map(|host| weight(wanted.service, &host.host)).collect();
        Self { wanted, hosts, weights, places: BTreeMap::new() }
    }

    /// Of several that have a right to a replica, the one that has the best; if that is good enough.
    fn keep_what_has_a_place(&mut self, is_enough: fn(&Right) -> bool) {
        let mut best: BTreeMap<u32, (Right, usize)> = BTreeMap::new();
        for (at, host) in self.hosts.iter().enumerate() {
            let held = host.holds.range(..self.wanted.replicas).map(|(number, _)| number);
            let has = host.volumes.range(..self.wanted.replicas).map(|(number, _)| number);
            for number in held.chain(has) {
                let Some(right) = self.right(at, *number) else { continue };
                match best.get(number) {
                    Some((known, _)) if *known >= right => {}
                    _ => drop(best.insert(*number, (right, at))),
                }
            }
        }
        best.retain(|_, (right, _)| is_enough(right));
        self.places.extend(best.into_iter().map(|(number, (_, at))| (number, at)));
    }

    /// What right a host has to a replica. Whoever has a volume has one for good; what a host merely
    /// holds is its own for as long as it matches and is not away for too long.
    fn right(&self, at: usize, number: u32) -> Option<Right> {
        let host = &self.hosts[at];
        let has_volumes = host.volumes.get(&number).is_some_and(|count| *count > 0);
        let hold = host.holds.get(&number).map(|hold| match hold {
            // Without data, to have begun is no better than to be about to.
            Hold::Runs if !has_volumes => Hold::Given,
            hold => *hold,
        });
        let right = Right {
            has_volumes,
            hold,
            volumes: host.volumes.get(&number).copied().unwrap_or_default(),
            matches: host.matches,
            is_given: host.given.contains(&number),
            is_here: host.away.is_none(),
            weight: self.weights[at],
        };
        let patience = self.wanted.reschedule_after;
        // What was taken from a host that is away is not waited for there.
        let is_waited_for = |away| away < patience && hold > Some(Hold::Leaves);
        let may_keep = host.matches && host.away.is_none_or(is_waited_for);
        (right.has_volumes || (right.hold.is_some() && may_keep)).then_some(right)
    }

    fn find_room_for_the_rest(&mut self) {
        let mut room = self.room(&self.held());
        for number in 0..self.wanted.replicas {
            if self.places.contains_key(&number) {
                continue;
            }
            match room.peek_mut() {
                Some(emptiest) => drop(self.places.insert(number, taken(emptiest))),
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
        let mut held = self.held();
        let mut room = self.room(&held);
        let full = |at: usize, held: &[Vec<u32>]| Some((held[at].len(), *held[at].last()?, at));
        let mut fullest: BinaryHeap<_> = self.here().filter_map(|at| full(at, &held)).collect();
        // Whoever gives stays among the fullest and whoever takes among the emptiest, so neither has
        // to be looked up on the other side.
        while let (Some((most, number, from)), Some(emptiest)) = (fullest.pop(), room.peek_mut())
            && emptiest.0.0 + 2 <= most
        {
            self.places.insert(number, taken(emptiest));
            // The newest one is the one that is missed least.
            held[from].pop();
            fullest.extend(full(from, &held));
        }
    }

    /// Those that something new can be put on.
    fn here(&self) -> impl Iterator<Item = usize> {
        let is_here = |host: &Candidate| host.matches && host.away.is_none();
        (0..self.hosts.len()).filter(move |at| is_here(&self.hosts[*at]))
    }

    fn room(&self, held: &[Vec<u32>]) -> Room {
        self.here().map(|at| (Reverse(held[at].len()), self.weights[at], at)).collect()
    }

    /// The replicas of each host, oldest first.
    fn held(&self) -> Vec<Vec<u32>> {
        let mut held = vec![Vec::new(); self.hosts.len()];
        self.places.iter().for_each(|(number, at)| held[*at].push(*number));
        held
    }

    fn placement(self) -> Placement {
        let named = |(number, at): (u32, usize)| (number, self.hosts[at].host.clone());
        self.places.into_iter().map(named).gather()
    }
}

/// Takes room for one; says on which host.
fn taken(mut room: PeekMut<'_, (Reverse<usize>, Hash256, usize)>) -> usize {
    room.0.0 += 1;
    room.2
}

/// How much a host is preferred for a service: chance that everybody throws alike.
fn weight(service: &ServiceName, host: &AgentName) -> Hash256 {
    Hash256::of(format!("{service}\0{host}").as_bytes())
}

#[cfg(test)]
mod tests;
