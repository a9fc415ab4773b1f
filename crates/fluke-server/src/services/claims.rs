//! Whose subnet is whose: the earliest claim wins, and who loses gets another one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use fluke_model::directory::{Claim, Subnet};
use fluke_model::id::{AgentName, Hash256};
use fluke_model::time::Timestamp;

/// What people are told of a host that has to do without.
pub const NONE_LEFT: &str = "this host asked for a subnet, and none is left: all 14,335 are taken, \
    also by hosts that are away. It is not in the mesh, and nothing leads to its containers. Forget \
    hosts that will not come back (`fluke get agents --status offline`, `fluke forget agent NAME`): \
    it gets the first subnet that is free";

/// Every subnet that is taken, and by whom. Kept for hosts that are away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    by_host: BTreeMap<AgentName, Claim>,
    by_subnet: BTreeMap<Subnet, AgentName>,
    /// Those for whom none was left, and since when.
    without: BTreeMap<AgentName, Timestamp>,
    /// Those that were taken, or became free, since that was last asked.
    changed: BTreeSet<Subnet>,
}

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What is the host's from now on; none where all subnets are taken.
    pub granted: Option<Claim>,
    /// Another host that must give its subnet up for this one, and what it gets instead.
    pub displaced: Option<(AgentName, Option<Claim>)>,
}

impl Claims {
    /// The subnet of a host.
    pub fn subnet(&self, host: &AgentName) -> Option<Subnet> {
        self.by_host.get(host).map(|claim| claim.subnet)
    }

    /// What is a host's.
    pub fn of(&self, host: &AgentName) -> Option<Claim> {
        self.by_host.get(host).copied()
    }

    /// Whether a container of `host` may be there. One that has no subnet yet may have chosen any,
    /// but for those of others; where one has to do without, it is among another's.
    pub fn may_be_at(&self, host: &AgentName, address: Ipv4Addr) -> bool {
        let is_free = |subnet: &Subnet| !self.by_subnet.contains_key(subnet);
        match self.subnet(host) {
            Some(subnet) => subnet.contains(address),
            None => !self.is_without(host) && Subnet::of(address).as_ref().is_some_and(is_free),
        }
    }

    /// Those that were taken, or became free, since this was last asked: who has none of its own may
    /// be there no more, or from now on.
    pub fn take_changed(&mut self) -> BTreeSet<Subnet> {
        std::mem::take(&mut self.changed)
    }

    /// Whether none was left for a host.
    pub fn is_without(&self, host: &AgentName) -> bool {
        self.without.contains_key(host)
    }

    /// How many are free, and for how many hosts none was left.
    pub fn counts(&self) -> (usize, usize) {
        (usize::from(Subnet::COUNT) - 1 - self.by_subnet.len(), self.without.len())
    }

    /// Gives what has become free to whoever has waited longest; says who that is.
    pub fn help_next(&mut self) -> Option<AgentName> {
        let (host, since) = self.without.iter().min_by_key(|(_, since)| **since)?;
        let (host, since) = (host.clone(), *since);
        self.grant_free(&host, since).map(|_| host)
    }

    /// Rules on what `host` takes to be its own, if anything.
    pub fn claim(&mut self, host: &AgentName, claim: Option<Claim>, now: Timestamp) -> Ruling {
        self.give_up(host);
        let Some(claim) = claim else {
            return Ruling { granted: self.grant_free(host, now), displaced: None };
        };
        let holder = self.by_subnet.get(&claim.subnet).cloned();
        match holder {
            None => {
                self.grant(host, claim);
                Ruling { granted: Some(claim), displaced: None }
            }
            Some(holder) if self.is_earlier(&claim, &holder) => {
                self.give_up(&holder);
                self.grant(host, claim);
                let instead = self.grant_free(&holder, now);
                Ruling { granted: Some(claim), displaced: Some((holder, instead)) }
            }
            // A copy is never older than what it was made of, whatever clock that had.
            Some(_) => {
                let since = now.max(Timestamp(claim.since.0.saturating_add(1)));
                Ruling { granted: self.grant_free(host, since), displaced: None }
            }
        }
    }

    /// Forgets a host.
    pub fn give_up(&mut self, host: &AgentName) {
        self.without.remove(host);
        if let Some(claim) = self.by_host.remove(host) {
            self.by_subnet.remove(&claim.subnet);
            self.changed.insert(claim.subnet);
        }
    }

    /// A claim that was copied with its disk is as old as the one that is held: whoever is there stays.
    fn is_earlier(&self, claim: &Claim, holder: &AgentName) -> bool {
        self.by_host.get(holder).is_none_or(|held| claim.since < held.since)
    }

    fn grant(&mut self, host: &AgentName, claim: Claim) {
        self.without.remove(host);
        self.changed.insert(claim.subnet);
        self.by_host.insert(host.clone(), claim);
        self.by_subnet.insert(claim.subnet, host.clone());
    }

    /// The first one that is free from where the host's name says on: two servers that know the same
    /// say the same.
    fn grant_free(&mut self, host: &AgentName, now: Timestamp) -> Option<Claim> {
        if self.counts().0 == 0 {
            self.without.insert(host.clone(), now);
            return None;
        }
        let [high, low, ..] = *Hash256::of(host.as_str().as_bytes()).as_bytes();
        let start = u32::from(u16::from_be_bytes([high, low]));
        let count = u32::from(Subnet::COUNT);
        let numbers = (0..count).filter_map(|step| Subnet::new(((start + step) % count) as u16));
        let free = numbers.into_iter().find(|subnet| !self.by_subnet.contains_key(subnet))?;
        let claim = Claim { subnet: free, since: now };
        self.grant(host, claim);
        Some(claim)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(number: u8) -> AgentName {
        AgentName::new(format!("h{number}")).expect("a name")
    }

    fn claim(number: u16, since: u64) -> Claim {
        Claim { subnet: Subnet::new(number).expect("in range"), since: Timestamp(since) }
    }

    #[test]
    fn the_earlier_of_two_keeps_its_subnet_whoever_comes_first() {
        let mut claims = Claims::default();
        let late = claims.claim(&name(1), Some(claim(7, 200)), Timestamp(300));
        assert_eq!(late.granted, Some(claim(7, 200)));
        let early = claims.claim(&name(2), Some(claim(7, 100)), Timestamp(301));
        assert_eq!(early.granted, Some(claim(7, 100)));
        let (displaced, instead) = early.displaced.expect("the other one must go");
        assert_eq!(displaced, name(1));
        assert!(instead.is_some_and(|instead| instead.subnet != claim(7, 0).subnet));
    }

    #[test]
    fn who_comes_with_a_copy_of_a_claim_takes_it_from_nobody() {
        for (original, copy) in [(1, 2), (2, 1)] {
            let mut claims = Claims::default();
            claims.claim(&name(original), Some(claim(7, 100)), Timestamp(100));
            let ruling = claims.claim(&name(copy), Some(claim(7, 100)), Timestamp(300));
            assert!(ruling.displaced.is_none() && ruling.granted != Some(claim(7, 100)));
            assert!(ruling.granted.is_some_and(|it| it.since == Timestamp(300)), "a later one");
            // The original's clock was ahead.
            let ruling = claims.claim(&name(3), Some(claim(7, 100)), Timestamp(50));
            assert!(ruling.granted.is_some_and(|it| it.since > Timestamp(100)));
        }
    }

    #[test]
    fn containers_are_in_the_subnet_of_their_host() {
        let mut claims = Claims::default();
        claims.claim(&name(1), Some(claim(7, 1)), Timestamp(1));
        assert!(claims.may_be_at(&name(1), [10, 200, 7, 9].into()));
        for elsewhere in [[10, 200, 8, 9], [10, 100, 0, 7], [192, 0, 2, 1]] {
            assert!(!claims.may_be_at(&name(1), elsewhere.into()), "{elsewhere:?}");
        }
    }

    #[test]
    fn containers_of_a_host_that_has_no_subnet_yet_are_where_nobody_else_is() {
        let mut claims = Claims::default();
        assert!(claims.may_be_at(&name(2), [10, 200, 7, 9].into()), "it may have chosen that");
        for nowhere in [
            [127, 0, 0, 1],
            [169, 254, 169, 254],
            [192, 0, 2, 1],
            [10, 100, 0, 7],
            [10, 199, 7, 9],
            [10, 200, 0, 9],
            [11, 200, 7, 9],
        ] {
            assert!(!claims.may_be_at(&name(2), nowhere.into()), "{nowhere:?}");
        }
        claims.claim(&name(1), Some(claim(7, 1)), Timestamp(1));
        assert!(!claims.may_be_at(&name(2), [10, 200, 7, 9].into()), "that is another's");
        claims.give_up(&name(1));
        assert!(claims.may_be_at(&name(2), [10, 200, 7, 9].into()));
    }

    #[test]
    fn who_claims_nothing_gets_one_and_gets_it_again() {
        let (mut one, mut other) = (Claims::default(), Claims::default());
        let ruling = one.claim(&name(1), None, Timestamp(5));
        assert_eq!(ruling, other.claim(&name(1), None, Timestamp(5)));
        let granted = ruling.granted.expect("there are free ones");
        let again = one.claim(&name(1), Some(granted), Timestamp(9));
        assert_eq!(again, Ruling { granted: Some(granted), displaced: None });
    }

    #[test]
    fn when_all_are_taken_the_next_one_gets_none_until_one_is_free() {
        let mut claims = Claims::default();
        let holder = |number: u16| AgentName::new(format!("x{number}")).expect("a name");
        for number in 1..Subnet::COUNT {
            let ruling = claims.claim(&holder(number), Some(claim(number, 1)), Timestamp(1));
            assert!(ruling.granted.is_some());
        }
        assert_eq!(claims.claim(&name(0), Some(claim(7, 2)), Timestamp(9)).granted, None);
        assert_eq!(claims.claim(&name(1), None, Timestamp(8)).granted, None);
        assert_eq!(claims.counts(), (0, 2));
        assert!(!claims.may_be_at(&name(0), [10, 200, 7, 9].into()), "that is x7's");
        assert_eq!(claims.help_next(), None);
        claims.give_up(&holder(7));
        assert_eq!(claims.help_next(), Some(name(1)), "it asked first");
        assert_eq!(claims.of(&name(1)), Some(claim(7, 8)));
        claims.give_up(&name(0));
        assert_eq!((claims.counts(), claims.help_next()), ((0, 0), None));
        // One that has to go for an earlier claim has to do without, too.
        let early = claims.claim(&name(0), Some(claim(9, 0)), Timestamp(9));
        assert_eq!(early.displaced, Some((holder(9), None)));
        assert!(claims.is_without(&holder(9)));
    }

    proptest! {
        #[test]
        fn no_two_hosts_ever_have_one_subnet(
            made in prop::collection::vec((0u8..8, prop::option::of((1u16..5, 0u64..4))), 0..40)
        ) {
            let mut claims = Claims::default();
            for (host, claimed) in made {
                let claimed = claimed.map(|(number, since)| claim(number, since));
                claims.claim(&name(host), claimed, Timestamp(10));
                let held: std::collections::BTreeSet<_> =
                    claims.by_host.values().map(|claim| claim.subnet).collect();
                prop_assert_eq!(held.len(), claims.by_host.len());
                prop_assert_eq!(claims.by_subnet.len(), claims.by_host.len());
                prop_assert_eq!(claims.counts().1, 0, "there are enough");
            }
        }
    }
}
