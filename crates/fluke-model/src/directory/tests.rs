use proptest::prelude::*;

use super::*;

type Small = Table<u8, u8>;

fn small() -> impl Strategy<Value = Small> {
    prop::collection::btree_map(0u8..20, 0u8..4, 0..12).prop_map(Table)
}

#[test]
fn an_edit_for_another_table_changes_nothing() {
    let (one, two) = (Table(BTreeMap::from([(1u8, 1u8)])), Table(BTreeMap::from([(2u8, 2u8)])));
    let mut other: Small = Table(BTreeMap::from([(3, 3)]));
    let before = other.clone();
    assert!(other.apply(two.since(&one)).is_err());
    assert_eq!(other, before);
}

#[test]
fn an_edit_that_was_garbled_changes_nothing() {
    let mut table: Small = Table::default();
    let mut edit = Table(BTreeMap::from([(1u8, 1u8)])).whole();
    edit.set.clear();
    assert!(table.apply(edit).is_err());
    assert_eq!(table, Table::default());
}

#[test]
fn every_subnet_has_addresses_of_its_own() {
    let all = (1..Subnet::COUNT).map(|number| Subnet::new(number).expect("in range"));
    let (mut hosts, mut networks) = (BTreeSet::new(), BTreeSet::new());
    for subnet in all {
        assert!(hosts.insert(subnet.host()) && networks.insert(subnet.network()));
        assert!(subnet.contains(subnet.gateway()) && !subnet.contains(subnet.host()));
    }
    let last = Subnet::new(Subnet::COUNT - 1).expect("in range");
    assert_eq!(last.network(), Ipv4Addr::new(10, 255, 255, 0));
    assert_eq!(Subnet::new(1).expect("in range").gateway(), Ipv4Addr::new(10, 200, 1, 1));
    assert!(Subnet::new(0).is_none() && Subnet::new(Subnet::COUNT).is_none());
}

proptest! {
    #[test]
    fn an_edit_makes_the_newer_of_the_older(older in small(), newer in small()) {
        let mut table = older.clone();
        prop_assert_eq!(table.apply(newer.since(&older)), Ok(()));
        prop_assert_eq!(&table, &newer);
        prop_assert_eq!(table.apply(older.whole()), Ok(()));
        prop_assert_eq!(table, older);
    }

    #[test]
    fn an_edit_is_as_large_as_the_change(older in small(), key in 0u8..20, value in 4u8..8) {
        let mut newer = older.clone();
        newer.0.insert(key, value);
        let edit = newer.since(&older);
        prop_assert_eq!((edit.set, edit.removed), (vec![(key, value)], vec![]));
    }
}
