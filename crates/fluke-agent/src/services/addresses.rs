//! Which container has which address. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use fluke_model::directory::Subnet;
use fluke_model::gather::Gather;
use fluke_model::id::{Hash256, ServiceName};
use fluke_model::service::{DeploymentId, Replica};
use serde::{Deserialize, Serialize};

/// The first one is the host's own, the last one is for broadcasts.
const FIRST: u8 = 2;
const LAST: u8 = 254;

/// The addresses that deployments have, wherever the host's subnet is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Given>", into = "Vec<Given>")]
pub struct Addresses(BTreeMap<DeploymentId, Given>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Given {
    deployment: DeploymentId,
    service: ServiceName,
    replica: Replica,
    /// The last byte.
    address: u8,
}

impl From<Vec<Given>> for Addresses {
    fn from(given: Vec<Given>) -> Self {
        Self(given.into_iter().map(|it| (it.deployment, it)).gather())
    }
}

impl From<Addresses> for Vec<Given> {
    fn from(addresses: Addresses) -> Self {
        addresses.0.into_values().collect()
    }
}

impl Addresses {
    /// The address of a deployment: the one that it had, if nobody took it, else the first free one
    /// from where its name leads, so that its versions take turns. None where all are taken.
    pub fn give(
        &mut self,
        deployment: DeploymentId,
        service: &ServiceName,
        replica: Replica,
        taken: &BTreeSet<u8>,
    ) -> Option<u8> {
        if let Some(given) = self.0.get(&deployment).filter(|it| !taken.contains(&it.address)) {
            return Some(given.address);
        }
        self.0.remove(&deployment);
        let [start, ..] = *Hash256::of(format!("{service} {replica:?}").as_bytes()).as_bytes();
        let count = u16::from(LAST - FIRST) + 1;
        let each = (0..count).map(|step| FIRST + ((u16::from(start) + step) % count) as u8);
        let is_free = |address: &u8| {
            !taken.contains(address) && !self.0.values().any(|given| given.address == *address)
        };
        let address = each.into_iter().find(is_free)?;
        let service = service.clone();
        self.0.insert(deployment, Given { deployment, service, replica, address });
        Some(address)
    }

    /// Whether nobody has one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes an address back from a deployment that cannot have it.
    pub fn take_back(&mut self, deployment: DeploymentId) -> Option<u8> {
        self.0.remove(&deployment).map(|given| given.address)
    }

    /// Forgets those that are neither wanted nor there.
    pub fn retain(&mut self, keep: impl Fn(&DeploymentId) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|deployment, _| keep(deployment));
        self.0.len() != before
    }
}

/// The last bytes of those that are of `subnet`.
pub fn last_bytes(subnet: Subnet, addresses: impl IntoIterator<Item = Ipv4Addr>) -> BTreeSet<u8> {
    let inside = addresses.into_iter().filter(|address| subnet.contains(*address));
    inside.map(|address| address.octets()[3]).gather()
}

/// The subnet that a host takes for its own before anybody says otherwise: the first from where its
/// name leads that is in nobody's way there.
pub fn own_choice(host: &str, is_in_the_way: impl Fn(Subnet) -> bool) -> Subnet {
    let [high, low, ..] = *Hash256::of(host.as_bytes()).as_bytes();
    let start = u16::from_be_bytes([high, low]) % Subnet::COUNT;
    let each = || (start.max(1)..Subnet::COUNT).chain(1..start).filter_map(Subnet::new);
    let free = each().find(|subnet| !is_in_the_way(*subnet));
    free.or_else(|| each().next()).expect("there are some")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(number: u8) -> DeploymentId {
        DeploymentId(Hash256::of(&[number]))
    }

    fn web() -> ServiceName {
        ServiceName::new("web").expect("a name")
    }

    #[test]
    fn a_deployment_keeps_its_address_over_restarts_and_versions_take_turns() {
        let mut addresses = Addresses::default();
        let none = BTreeSet::new();
        let first = addresses.give(id(1), &web(), Replica::Own, &none);
        let second = addresses.give(id(2), &web(), Replica::Own, &none);
        assert_ne!(first, second, "both are there at the same time");
        let kept = serde_json::to_vec(&addresses).expect("plain data");
        let mut addresses: Addresses = serde_json::from_slice(&kept).expect("plain data");
        assert_eq!(addresses.give(id(2), &web(), Replica::Own, &none), second);
        assert!(addresses.retain(|it| *it == id(2)));
        assert_eq!(addresses.give(id(3), &web(), Replica::Own, &none), first);
    }

    #[test]
    fn an_address_that_somebody_has_meanwhile_is_not_given_again() {
        let (mut addresses, none) = (Addresses::default(), BTreeSet::new());
        let first = addresses.give(id(1), &web(), Replica::Own, &none).expect("there are many");
        let taken = BTreeSet::from([first]);
        let second = addresses.give(id(1), &web(), Replica::Own, &taken).expect("there are many");
        assert_ne!(first, second);
        assert_eq!(addresses.give(id(1), &web(), Replica::Own, &none), Some(second), "it keeps it");
    }

    #[test]
    fn when_all_are_taken_there_is_none() {
        let taken: BTreeSet<u8> = (FIRST..=LAST).collect();
        let mut addresses = Addresses::default();
        assert_eq!(addresses.give(id(1), &web(), Replica::Own, &taken), None);
    }

    #[test]
    fn every_host_has_a_choice_and_the_same_one_always() {
        let free = |_| false;
        for host in ["h1", "h2", "web-01.example.org"] {
            assert_eq!(own_choice(host, free), own_choice(host, free));
        }
        assert_ne!(own_choice("h1", free), own_choice("h2", free));
    }

    #[test]
    fn a_host_takes_no_subnet_that_is_in_the_way_there_while_there_is_another() {
        let first = own_choice("h1", |_| false);
        // Its LAN has the same second byte.
        let lan = first.network().octets()[1];
        let next = own_choice("h1", |subnet| subnet.network().octets()[1] == lan);
        assert_ne!(next.network().octets()[1], lan);
        let last = own_choice("h1", |subnet| subnet.number() != 1);
        assert_eq!(last.number(), 1, "it looks everywhere");
        assert_eq!(own_choice("h1", |_| true), first, "and needs one in any case");
    }

    proptest! {
        #[test]
        fn no_two_deployments_have_one_address(
            given in prop::collection::vec((0u8..40, 0u32..3), 0..60),
            taken in prop::collection::btree_set(2u8..250, 0..100),
        ) {
            let mut addresses = Addresses::default();
            let mut known = BTreeMap::new();
            for (number, replica) in given {
                let address = addresses.give(id(number), &web(), Replica::Number(replica), &taken);
                let address = address.expect("there are enough");
                prop_assert!(!taken.contains(&address) && (FIRST..=LAST).contains(&address));
                prop_assert_eq!(*known.entry(number).or_insert(address), address);
            }
            let distinct: BTreeSet<u8> = known.values().copied().collect();
            prop_assert_eq!(distinct.len(), known.len());
        }
    }
}
