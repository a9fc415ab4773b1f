//! The editions of the routes that there were, since which of them each route is what it is, and
//! since which nothing leads to what has to go. Pure.
//!
//! Where routes change all the time, a proxy has never loaded the newest ones; any edition since will
//! do.

use std::collections::{BTreeMap, BTreeSet};

use fluke_model::directory::RouteKey;
use fluke_model::id::{AgentName, Hash256};
use fluke_model::service::DeploymentId;

/// How many are known by their hash, besides those that somebody holds.
const MOST: u64 = 1024;

/// A deployment, on the host where it has to go.
pub type Leaver = (AgentName, DeploymentId);

/// Editions in the order in which they were given out.
#[derive(Debug, Default)]
pub struct Editions {
    numbers: BTreeMap<Hash256, u64>,
    newest: Option<(u64, Hash256)>,
    /// Since which one each route is what it is.
    since: BTreeMap<RouteKey, u64>,
    /// Since which one nothing leads there.
    without: BTreeMap<Leaver, u64>,
}

impl Editions {
    /// These routes are given out. Of each that is another now than it was: whether there is one.
    /// Old ones are forgotten, but for those that are held: a proxy that is stuck leads on by them.
    pub fn issue(
        &mut self,
        routes: Hash256,
        others: impl IntoIterator<Item = (RouteKey, bool)>,
        is_held: impl Fn(&Hash256) -> bool,
    ) {
        let number = match self.newest {
            Some((number, newest)) if newest == routes => number,
            Some((number, _)) => number + 1,
            None => 0,
        };
        self.newest = Some((number, routes));
        self.numbers.insert(routes, number);
        if self.numbers.len() as u64 > MOST {
            self.numbers.retain(|routes, of| *of + MOST > number || is_held(routes));
        }
        for (route, is_there) in others {
            match is_there {
                true => drop(self.since.insert(route, number)),
                false => drop(self.since.remove(&route)),
            }
        }
    }

    /// The newest ones lead to none of these, and to all others.
    pub fn lead_to_none_of(&mut self, leavers: BTreeSet<Leaver>) {
        let number = self.newest.map_or(0, |(number, _)| number);
        self.without.retain(|leaver, _| leavers.contains(leaver));
        for leaver in leavers {
            self.without.entry(leaver).or_insert(number);
        }
    }

    /// Which edition these routes are: the last one, where they were given out more than once.
    pub fn number(&self, routes: Hash256) -> Option<u64> {
        self.numbers.get(&routes).copied()
    }

    /// Whether these routes are this edition, or one since.
    pub fn has(&self, routes: Option<Hash256>, edition: u64) -> bool {
        routes.and_then(|routes| self.number(routes)).is_some_and(|number| number >= edition)
    }

    /// Since which edition a route is what it is.
    pub fn since(&self, route: &RouteKey) -> Option<u64> {
        self.since.get(route).copied()
    }

    /// The routes that there are.
    pub fn rows(&self) -> impl Iterator<Item = &RouteKey> {
        self.since.keys()
    }

    /// Since which edition nothing leads there; none where something does.
    pub fn without(&self, leaver: &Leaver) -> Option<u64> {
        self.without.get(leaver).copied()
    }

    /// All those that nothing leads to, and since which edition.
    pub fn leavers(&self) -> impl Iterator<Item = (&Leaver, u64)> {
        self.without.iter().map(|(leaver, since)| (leaver, *since))
    }

    /// Those that nothing leads to in this edition, and did not in any since.
    pub fn gone_by(&self, edition: u64) -> impl Iterator<Item = &Leaver> {
        self.without.iter().filter(move |(_, since)| **since <= edition).map(|(leaver, _)| leaver)
    }
}

#[cfg(test)]
mod tests {
    use fluke_model::id::{PortName, ServiceName};

    use super::*;

    fn routes(number: u64) -> Hash256 {
        Hash256::of(&number.to_be_bytes())
    }

    fn leaver(name: &str) -> Leaver {
        (AgentName::new("a").expect("a name"), DeploymentId(Hash256::of(name.as_bytes())))
    }

    impl Editions {
        fn leave(&mut self, number: u64, leavers: impl Into<BTreeSet<Leaver>>) {
            self.issue(routes(number), [], |_| false);
            self.lead_to_none_of(leavers.into());
        }
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
        editions.leave(0, []);
        editions.leave(1, [one.clone()]);
        editions.leave(2, [one.clone(), two.clone()]);
        editions.leave(2, [one.clone(), two.clone()]);
        editions.leave(3, [one.clone(), two.clone()]);
        for (loaded, expected) in [(0, 0), (1, 1), (2, 2), (3, 2), (9, 0)] {
            assert_eq!(gone(&editions, routes(loaded)).len(), expected, "{loaded}");
        }
        assert_eq!((editions.without(&one), editions.without(&two)), (Some(1), Some(2)));
    }

    #[test]
    fn a_route_is_what_it_is_since_it_last_changed_whatever_became_of_others() {
        let route = |text: &str| RouteKey {
            service: ServiceName::new(text).expect("a name"),
            port: PortName::new("http").expect("a name"),
        };
        let (one, two) = (route("one"), route("two"));
        let mut editions = Editions::default();
        let nobody = |_: &Hash256| false;
        editions.issue(routes(0), [(one.clone(), true), (two.clone(), true)], nobody);
        editions.issue(routes(1), [(two.clone(), true)], nobody);
        editions.issue(routes(1), [], nobody);
        assert_eq!((editions.since(&one), editions.since(&two)), (Some(0), Some(1)));
        editions.issue(routes(2), [(one.clone(), false), (two.clone(), true)], nobody);
        assert_eq!((editions.since(&one), editions.since(&two)), (None, Some(2)));
        assert_eq!(editions.rows().collect::<Vec<_>>(), [&two], "what is gone is forgotten");
    }

    #[test]
    fn one_who_came_back_meanwhile_leaves_anew() {
        let mut editions = Editions::default();
        let one = leaver("one");
        editions.leave(0, [one.clone()]);
        editions.leave(1, []);
        editions.leave(2, [one.clone()]);
        assert_eq!(gone(&editions, routes(0)), [], "it may load the next one yet");
        assert_eq!(gone(&editions, routes(2)), [one]);
    }

    #[test]
    fn only_so_many_are_known_and_always_the_newest() {
        let mut editions = Editions::default();
        let one = leaver("one");
        for number in 0..3 * MOST {
            editions.leave(number, [one.clone()]);
            assert!(editions.numbers.len() as u64 <= MOST);
            assert_eq!(gone(&editions, routes(number)), std::slice::from_ref(&one));
        }
        assert_eq!(gone(&editions, routes(0)), [], "nobody knows what that was");
    }

    #[test]
    fn those_that_somebody_holds_are_known_for_as_long_as_that() {
        let mut editions = Editions::default();
        for number in 0..3 * MOST {
            editions.issue(routes(number), [], |it| *it == routes(7));
        }
        assert_eq!(editions.number(routes(7)), Some(7));
        assert_eq!(editions.number(routes(8)), None);
        editions.issue(routes(3 * MOST), [], |_| false);
        assert_eq!(editions.number(routes(7)), None);
    }
}
