//! The editions of the routes that there were, and since which of them nothing leads to what has to
//! go. Pure.
//!
//! Where routes change all the time, a proxy has never loaded the newest ones; any edition without
//! what has to go will do.

use std::collections::{BTreeMap, BTreeSet};

use fluke_model::id::{AgentName, Hash256};
use fluke_model::service::DeploymentId;

/// How many are known by their hash; a proxy that has loaded an older one has time to load a newer.
const MOST: u64 = 1024;

/// A deployment, on the host where it has to go.
pub type Leaver = (AgentName, DeploymentId);

/// Editions in the order in which they were given out.
#[derive(Debug, Default)]
pub struct Editions {
    numbers: BTreeMap<Hash256, u64>,
    newest: Option<(u64, Hash256)>,
    /// Since which one nothing leads there.
    without: BTreeMap<Leaver, u64>,
}

impl Editions {
    /// These routes are given out, and lead to none of those.
    pub fn issue(&mut self, routes: Hash256, leavers: BTreeSet<Leaver>) {
        let number = match self.newest {
            Some((number, newest)) if newest == routes => number,
            Some((number, _)) => number + 1,
            None => 0,
        };
        self.newest = Some((number, routes));
        self.numbers.insert(routes, number);
        if self.numbers.len() as u64 > MOST {
            self.numbers.retain(|_, of| *of + MOST > number);
        }
        self.without.retain(|leaver, _| leavers.contains(leaver));
        for leaver in leavers {
            self.without.entry(leaver).or_insert(number);
        }
    }

    /// Which edition these routes are: the last one, where they were given out more than once.
    pub fn number(&self, routes: Hash256) -> Option<u64> {
        self.numbers.get(&routes).copied()
    }

    /// Since which edition nothing leads there; none where something does.
    pub fn without(&self, leaver: &Leaver) -> Option<u64> {
        self.without.get(leaver).copied()
    }

    /// Those that nothing leads to in this edition, and did not in any since.
    pub fn gone_by(&self, edition: u64) -> impl Iterator<Item = &Leaver> {
        self.without.iter().filter(move |(_, since)| **since <= edition).map(|(leaver, _)| leaver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(number: u64) -> Hash256 {
        Hash256::of(&number.to_be_bytes())
    }

    fn leaver(name: &str) -> Leaver {
        (AgentName::new("a").expect("a name"), DeploymentId(Hash256::of(name.as_bytes())))
    }

    /// Who is gone by what a proxy has that loaded these.
    fn gone(editions: &Editions, loaded: Hash256) -> Vec<Leaver> {
        let number = editions.number(loaded);
        number.into_iter().flat_map(|number| editions.gone_by(number)).cloned().collect()
    }

    #[test]
    fn any_edition_since_somebody_left_is_without_him() {
        let mut editions = Editions::default();
        let (one, two) = (leaver("one"), leaver("two"));
        editions.issue(routes(0), BTreeSet::new());
        editions.issue(routes(1), [one.clone()].into());
        editions.issue(routes(2), [one.clone(), two.clone()].into());
        editions.issue(routes(2), [one.clone(), two.clone()].into());
        editions.issue(routes(3), [one.clone(), two.clone()].into());
        for (loaded, expected) in [(0, 0), (1, 1), (2, 2), (3, 2), (9, 0)] {
            assert_eq!(gone(&editions, routes(loaded)).len(), expected, "{loaded}");
        }
        assert_eq!((editions.without(&one), editions.without(&two)), (Some(1), Some(2)));
    }

    #[test]
    fn one_who_came_back_meanwhile_leaves_anew() {
        let mut editions = Editions::default();
        let one = leaver("one");
        editions.issue(routes(0), [one.clone()].into());
        editions.issue(routes(1), BTreeSet::new());
        editions.issue(routes(2), [one.clone()].into());
        assert_eq!(gone(&editions, routes(0)), [], "it may load the next one yet");
        assert_eq!(gone(&editions, routes(2)), [one]);
    }

    #[test]
    fn only_so_many_are_known_and_always_the_newest() {
        let mut editions = Editions::default();
        let one = leaver("one");
        for number in 0..3 * MOST {
            editions.issue(routes(number), [one.clone()].into());
            assert!(editions.numbers.len() as u64 <= MOST);
            assert_eq!(gone(&editions, routes(number)), std::slice::from_ref(&one));
        }
        assert_eq!(gone(&editions, routes(0)), [], "nobody knows what that was");
    }
}
