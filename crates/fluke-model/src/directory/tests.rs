use proptest::prelude::*;

use super::*;

type Small = Table<u8, u8>;

fn small() -> impl Strategy<Value = Small> {
    prop::collection::btree_map(0u8..20, 0u8..4, 0..12).prop_map(Table::from)
}

#[test]
fn an_edit_for_another_table_changes_nothing() {
    let (one, two) = (Table::from(vec![(1u8, 1u8)]), Table::from(vec![(2u8, 2u8)]));
    let mut other: Small = Table::from(vec![(3, 3)]);
    let before = other.clone();
    assert!(other.apply(two.since(&one)).is_err());
    assert_eq!(other, before);
}

#[test]
fn an_edit_that_was_garbled_changes_nothing() {
    let mut table: Small = Table::default();
    let mut edit = Table::from(vec![(1u8, 1u8)]).whole();
    edit.set.clear();
    assert!(table.apply(edit).is_err());
    assert_eq!(table, Table::default());
}

#[test]
fn a_name_is_there_before_it_leads_anywhere_and_one_address_more_is_one_row() {
    let [web, web2] = ["web", "web-2"].map(|name| ServiceName::new(name).expect("a name"));
    let address = |last| Ipv4Addr::new(10, 200, 1, last);
    let mut names: Names = NameKey::rows(&web, []).collect();
    assert_eq!(names.addresses(&web), Some(Vec::new()));
    assert_eq!(names.addresses(&web2), None);
    NameKey::rows(&web2, [address(2), address(3)]).for_each(|(key, row)| names.set(key, row));
    let before = names.clone();
    names.set(NameKey { service: web.clone(), address: Some(address(4)) }, ());
    assert_eq!(names.addresses(&web), Some(vec![address(4)]));
    assert_eq!(names.addresses(&web2), Some(vec![address(2), address(3)]));
    let edit = names.since(&before);
    assert_eq!((edit.set.len(), edit.removed.len()), (1, 0));
}

#[test]
fn every_subnet_has_addresses_of_its_own() {
    let all = (1..Subnet::COUNT).map(|number| Subnet::new(number).expect("in range"));
    let (mut hosts, mut networks) = (BTreeSet::new(), BTreeSet::new());
    for subnet in all {
        assert!(hosts.insert(subnet.host()) && networks.insert(subnet.network()));
        assert!(subnet.contains(subnet.gateway()) && !subnet.contains(subnet.host()));
        assert_eq!(
            (Subnet::of(subnet.address(9)), Subnet::of(subnet.host())),
            (Some(subnet), None)
        );
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
    fn a_table_has_one_name_however_it_came_to_be(
        steps in prop::collection::vec((0u8..6, prop::option::of(0u8..4)), 0..40),
        other in small(),
    ) {
        let mut table = Small::default();
        for (key, value) in steps {
            table.put(key, value);
            let anew = Table::from(table.rows().clone());
            prop_assert_eq!((&table, table.hash()), (&anew, anew.hash()));
        }
        prop_assert_eq!(table.hash() == other.hash(), table.rows() == other.rows());
    }

    #[test]
    fn an_edit_that_does_not_lead_where_it_says_changes_nothing(
        older in small(), newer in small(), to in small(),
    ) {
        prop_assume!(newer != to);
        let mut table = older.clone();
        let edit = Edit { to: to.hash(), ..newer.since(&older) };
        prop_assert!(table.apply(edit).is_err());
        prop_assert_eq!((&table, table.hash()), (&older, older.hash()));
        let edit = Edit { to: to.hash(), ..newer.whole() };
        prop_assert!(table.apply(edit).is_err());
        prop_assert_eq!(table, older);
    }

    #[test]
    fn an_edit_is_as_large_as_the_change(older in small(), key in 0u8..20, value in 4u8..8) {
        let mut newer = older.clone();
        newer.set(key, value);
        let edit = newer.since(&older);
        prop_assert_eq!((edit.set, edit.removed), (vec![(key, value)], vec![]));
    }
}
