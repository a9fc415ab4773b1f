//! Whose subnet is whose, and what becomes of a host for which none is left.

use fluke_model::service::ServiceExecutor;

use super::*;
use crate::services::fixture::take_all;

#[test]
fn two_hosts_that_claim_one_subnet_get_one_each() {
    let mut lab = Lab::settled(None);
    let mesh = |key: u8, since: u64| {
        let subnet = Subnet::new(7).expect("in range");
        let claim = Some(Claim { subnet, since: Timestamp(since) });
        Word::Mesh(MeshReport { public_key: PublicKey([key; 32]), endpoints: vec![], claim })
    };
    lab.comes("late", NodeType::Worker);
    lab.says("late", mesh(1, 200));
    assert_eq!(lab.told[&name("late")].subnet.map(|claim| claim.subnet.number()), Some(7));
    lab.comes("early", NodeType::Worker);
    lab.says("early", mesh(2, 100));
    let subnet = |host: &str| lab.told[&name(host)].subnet.map(|claim| claim.subnet.number());
    assert_eq!(subnet("early"), Some(7));
    assert_ne!(subnet("late"), Some(7));
    assert_eq!(lab.book.directory.peers.table().rows().len(), 2);
}

#[test]
fn a_host_for_which_no_subnet_is_left_is_told_of_once_and_gets_the_first_that_is_free() {
    let mut lab = Lab::settled(None);
    lab.joins("a", vec![deployment("a", Replica::Own, [10, 200, 7, 2])]);
    lab.says("a", mesh(7));
    take_all(lab.book.claims_mut());
    lab.joins("b", vec![deployment("b", Replica::Own, [10, 200, 7, 3])]);
    lab.says("b", mesh(7));
    assert!(lab.told[&name("b")].is_without_subnet);
    assert_eq!(lab.told[&name("b")].subnet, None);
    assert_eq!(lab.addresses(), ["10.200.7.2"], "that is another's subnet");
    lab.joins("b", vec![deployment("b", Replica::Own, [10, 200, 7, 3])]);
    lab.says("b", mesh(7));
    assert_eq!(lab.without_subnet, [name("b")]);

    lab.says("a", Word::Left);
    assert!(lab.told[&name("b")].is_without_subnet, "the other one keeps its own");
    lab.says("a", Word::Forgotten);
    let own = &lab.told[&name("b")];
    assert_eq!(own.subnet.map(|claim| claim.subnet.number()), Some(7));
    assert!(!own.is_without_subnet);
    assert_eq!(lab.addresses(), ["10.200.7.3"]);
    assert!(lab.book.directory.peers.table().rows().contains_key(&name("b")));
}

#[test]
fn a_host_that_never_says_which_subnet_is_its_own_is_not_led_to_where_others_are() {
    let mut lab = Lab::settled(None);
    let at = |last: u8| deployment(&last.to_string(), Replica::Own, [10, 200, 7, last]);
    lab.joins("mute", vec![at(2)]);
    assert_eq!(lab.addresses(), ["10.200.7.2"], "it may be about to say so");
    lab.joins("a", vec![at(3)]);
    lab.says("a", mesh(7));
    assert_eq!(lab.addresses(), ["10.200.7.3"], "that is another's subnet");
    for elsewhere in [[127, 0, 0, 1], [169, 254, 169, 254], [10, 200, 7, 3], [10, 100, 0, 7]] {
        lab.reports("mute", vec![deployment("mute", Replica::Own, elsewhere)]);
        assert_eq!(lab.addresses(), ["10.200.7.3"], "{elsewhere:?}");
    }
    lab.reports("mute", vec![at(2)]);
    lab.says("a", Word::Departs);
    assert_eq!(lab.addresses(), ["10.200.7.2"], "nobody else is there any more");
}

#[test]
fn a_replica_is_not_placed_where_no_subnet_is_left_and_leaves_where_there_is_none_any_more() {
    let mut lab = Lab::settled(Some(1));
    lab.joins("a", vec![deployment("0", Replica::Number(0), [10, 200, 7, 2])]);
    lab.says("a", mesh(7));
    take_all(lab.book.claims_mut());
    lab.joins("b", vec![]);
    lab.says("b", mesh(8));
    assert!(!lab.told[&name("b")].is_without_subnet, "its claim is older than that of x8");
    let claim = Some(Claim { subnet: Subnet::new(7).expect("one"), since: Timestamp(0) });
    lab.comes("c", NodeType::Worker);
    let mesh = MeshReport { public_key: PublicKey([9; 32]), endpoints: vec![], claim };
    lab.says("c", Word::Mesh(mesh));
    assert_eq!(lab.without_subnet, [name("a")]);
    assert_eq!(lab.placed(), BTreeMap::from([(0, name("b"))]));
}

#[test]
fn a_host_that_gave_its_subnet_up_is_not_told_to_take_it_back() {
    let mut lab = Lab::settled(None);
    let subnet = |lab: &Lab| lab.told[&name("a")].subnet.map(|claim| claim.subnet.number());
    lab.comes("a", NodeType::Worker);
    lab.says("a", mesh(7));
    assert_eq!(subnet(&lab), Some(7));
    lab.says("a", Word::Left);
    lab.comes("a", NodeType::Worker);
    assert_eq!(subnet(&lab), None, "it has not said which it takes to be its own");
    lab.says("a", mesh(9));
    assert_eq!(subnet(&lab), Some(9));
}

#[test]
fn a_host_that_is_forgotten_leaves_its_subnet_also_if_it_refused_the_mesh_at_last() {
    let mut lab = Lab::settled(None);
    lab.joins("a", vec![]);
    lab.says("a", mesh(7));
    take_all(lab.book.claims_mut());
    let executors = ServiceExecutor::ALL.into_iter().filter(|it| *it != ServiceExecutor::Mesh);
    let (labels, node_type) = (Labels::default(), NodeType::Worker);
    lab.comes_as("a", Word::Came(Came { labels, node_type, executors: executors.collect() }));
    lab.reports("a", vec![deployment("a", Replica::Own, [10, 200, 7, 2])]);
    lab.says("a", Word::Left);
    lab.passes(REMEMBERED);
    assert!(!lab.book.view().hosts.contains_key(&name("a")));
    lab.joins("b", vec![]);
    lab.says("b", mesh(7));
    assert_eq!(lab.told[&name("b")].subnet.map(|claim| claim.subnet.number()), Some(7));
}
