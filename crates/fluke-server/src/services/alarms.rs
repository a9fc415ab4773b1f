//! When something changes for a host though nobody says anything. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use fluke_model::id::AgentName;

/// The moments of every host, the next one first.
#[derive(Debug, Default)]
pub struct Alarms {
    next: BTreeSet<(Instant, AgentName)>,
    of: BTreeMap<AgentName, BTreeSet<Instant>>,
}

impl Alarms {
    /// These are all the moments of a host from now on.
    pub fn set(&mut self, host: &AgentName, moments: BTreeSet<Instant>) {
        let before = match moments.is_empty() {
            true => self.of.remove(host),
            false => self.of.insert(host.clone(), moments.clone()),
        };
        for moment in before.into_iter().flatten() {
            self.next.remove(&(moment, host.clone()));
        }
        self.next.extend(moments.into_iter().map(|moment| (moment, host.clone())));
    }

    /// The first one that is still to come.
    pub fn first(&self) -> Option<Instant> {
        self.next.first().map(|(moment, _)| *moment)
    }

    /// Those for whom a moment has come, each once; it does not come again.
    pub fn ring(&mut self, now: Instant) -> BTreeSet<AgentName> {
        let mut hosts = BTreeSet::new();
        while self.first().is_some_and(|moment| moment <= now)
            && let Some((_, host)) = self.next.pop_first()
        {
            hosts.insert(host);
        }
        for host in &hosts {
            if let Some(moments) = self.of.get_mut(host) {
                moments.retain(|moment| *moment > now);
            }
        }
        hosts
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::services::fixture::name;

    #[test]
    fn a_moment_comes_once_and_only_if_it_still_holds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut alarms = Alarms::default();
        alarms.set(&name("a"), [at(1), at(2), at(9)].into());
        alarms.set(&name("b"), [at(2)].into());
        alarms.set(&name("c"), [at(3)].into());
        alarms.set(&name("c"), BTreeSet::new());
        assert_eq!((alarms.first(), alarms.ring(at(0)).len()), (Some(at(1)), 0));
        assert_eq!(alarms.ring(at(5)), [name("a"), name("b")].into());
        assert_eq!((alarms.first(), alarms.ring(at(5)).len()), (Some(at(9)), 0));
        alarms.set(&name("a"), [at(7)].into());
        assert_eq!(alarms.ring(at(8)), [name("a")].into());
        assert_eq!(alarms.first(), None, "the one before holds no more");
    }
}
