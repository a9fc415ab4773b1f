mod copies;

use std::time::Duration;

use fluke_model::time::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::services::mesh::endpoints::{Own, nearest_first};

const OWN: PublicKey = PublicKey([255; 32]);
const NOW: Duration = Duration::from_secs(1000);

fn subnet(number: u16) -> Subnet {
    Subnet::new(number).expect("a subnet")
}

fn name(text: &str) -> AgentName {
    AgentName::new(text).expect("a name")
}

fn key(number: u8) -> PublicKey {
    PublicKey([number; 32])
}

fn row(number: u8, endpoints: &[&str]) -> (AgentName, Peer) {
    let endpoints = endpoints.iter().map(|to| to.parse().expect("an endpoint")).collect();
    let (public_key, subnet) = (key(number), subnet(number.into()));
    let peer = Peer { public_key, endpoints, subnet, since: Timestamp(1) };
    (name(&format!("h{number}")), peer)
}

fn wanted(rows: &[(AgentName, Peer)]) -> Wanted {
    let rules = vec!["rules".to_owned()];
    Wanted::new(OWN, 51820, subnet(100), &Peers::from(rows.to_vec()), rules)
}

/// What an interface does when it is told; the kernel's part and WireGuard's.
fn tell(seen: &mut Seen, change: &Change, wanted: &Wanted) {
    if let Change::Create | Change::Replace = change {
        seen.stuck = false;
        seen.link = Some(SeenLink { mtu: 1420, ..SeenLink::default() });
        seen.device = Device { port: 40000, ..Device::default() };
        return;
    }
    match change {
        Change::Forwarding => return seen.forwarding = true,
        Change::Rules => return seen.rules.clone_from(&wanted.rules),
        Change::Open(opened) => return seen.shut.retain(|chain| chain != opened),
        _ => {}
    }
    let link = seen.link.as_mut().expect("nothing can be told to an interface that is not there");
    match change {
        Change::Key => seen.device.key = Some(wanted.key),
        Change::Port(port) => seen.device.port = *port,
        Change::Mtu(mtu) => link.mtu = *mtu,
        Change::Up => link.up = true,
        Change::AddAddress(net) => assert!(link.addresses.insert(*net), "it had {net}"),
        Change::RemoveAddress(net) => {
            assert!(link.addresses.remove(net), "it had no {net}");
            // Routes as from an address go with it.
            link.routes.retain(|_, source| *source != Some(net.address));
        }
        Change::AddRoute(net) => {
            assert!(link.up, "an interface that is down leads nowhere");
            assert!(link.addresses.iter().any(|own| own.address == wanted.address));
            let before = link.routes.insert((*net, OURS), Some(wanted.address));
            assert!(before.is_none(), "it led to {net}");
        }
        Change::RemoveRoute(net, metric) => drop(link.routes.remove(&(*net, *metric))),
        Change::Peer(key, order) => tell_peer(&mut seen.device, key, order),
        Change::Create | Change::Replace | Change::Forwarding | Change::Rules => {}
        Change::Open(_) => {}
    }
}

fn tell_peer(device: &mut Device, key: &PublicKey, order: &PeerOrder) {
    if let PeerOrder::Add { .. } = order {
        assert!(!device.peers.contains_key(key), "added twice");
        device.peers.insert(*key, SeenPeer::default());
    }
    if let PeerOrder::Add { allowed, .. } | PeerOrder::Allowed(allowed) = order {
        // A network is behind one peer only: whoever was told last has it.
        device
            .peers
            .values_mut()
            .for_each(|peer| peer.allowed.retain(|net| !allowed.contains(net)));
    }
    let peer = device.peers.get_mut(key).expect("it is there");
    match order {
        PeerOrder::Add { endpoint, allowed, keepalive } => {
            let allowed = allowed.clone();
            let (endpoint, keepalive) = (*endpoint, *keepalive);
            *peer = SeenPeer { endpoint, allowed, keepalive, ..SeenPeer::default() };
        }
        PeerOrder::Endpoint(to) => peer.endpoint = Some(*to),
        PeerOrder::Allowed(nets) => (peer.allowed, peer.foreign) = (nets.clone(), false),
        PeerOrder::Keepalive(seconds) => peer.keepalive = *seconds,
        PeerOrder::Remove => drop(device.peers.remove(key)),
    }
}

/// Makes `seen` as wanted, and tells what was done.
fn settle(seen: &mut Seen, wanted: &Wanted, attempts: &mut Attempts) -> Vec<Change> {
    let changes = plan(wanted, seen, attempts);
    for change in &changes {
        tell(seen, change, wanted);
        attempts.made(change, wanted, NOW);
    }
    attempts.seen(wanted, NOW);
    changes
}

fn settled(rows: &[(AgentName, Peer)]) -> (Seen, Attempts) {
    let (mut seen, mut attempts) = (Seen::default(), Attempts::default());
    settle(&mut seen, &wanted(rows), &mut attempts);
    (seen, attempts)
}

fn any_endpoint() -> impl Strategy<Value = SocketAddr> {
    (0_u8..4, 1_u16..4).prop_map(|(last, port)| SocketAddr::from(([192, 0, 2, last], port)))
}

/// Few keys and few subnets, so that they clash.
fn any_table() -> impl Strategy<Value = Peers> {
    let peer = (1_u8..6, 1_u16..6, proptest::collection::vec(any_endpoint(), 0..3), 0_u64..3);
    let peer = peer.prop_map(|(number, subnet, endpoints, since)| Peer {
        public_key: if number == 5 { OWN } else { key(number) },
        endpoints,
        subnet: super::tests::subnet(subnet),
        since: Timestamp(since),
    });
    let row = ("[a-e]", peer).prop_map(|(letter, peer)| (name(&letter), peer));
    proptest::collection::vec(row, 0..6).prop_map(Peers::from)
}

fn any_net() -> impl Strategy<Value = Net> {
    prop_oneof![
        (1_u16..6).prop_map(|number| Net::of_host(subnet(number))),
        (1_u16..6).prop_map(|number| Net::of_containers(subnet(number))),
        any::<u8>().prop_map(|last| Net { address: Ipv4Addr::new(172, 16, 0, last), bits: 32 }),
    ]
}

fn any_link() -> impl Strategy<Value = SeenLink> {
    let nets = proptest::collection::btree_set(any_net(), 0..4);
    let ways = proptest::collection::btree_set((any_net(), OURS..OURS + 2), 0..4);
    (any::<bool>(), 1418_u32..1422, nets, ways).prop_map(|(up, mtu, addresses, to)| {
        let source = addresses.first().map(|net| net.address);
        // What is down leads nowhere.
        let routes = to.into_iter().filter(|_| up).map(|way| (way, source)).collect();
        SeenLink { up, mtu, addresses, routes }
    })
}

fn any_seen() -> impl Strategy<Value = Seen> {
    let peer = (proptest::option::of(any_endpoint()), any_net(), any::<bool>(), 0_u16..2);
    let peers = proptest::collection::btree_map((1_u8..7).prop_map(key), peer, 0..4);
    let link = proptest::option::of(any_link());
    (link, peers, any::<[bool; 4]>()).prop_map(|(link, peers, [forwarding, shut, ours, stuck])| {
        let mut device = Device { key: ours.then_some(OWN), port: 51820, ..Device::default() };
        for (key, (endpoint, net, foreign, often)) in peers {
            let taken = device.peers.values().any(|peer| peer.allowed.contains(&net));
            let allowed = (!taken).then_some(net).into_iter().collect();
            let keepalive = often * KEEPALIVE;
            let (handshake, silence) = (None, None);
            let peer = SeenPeer { endpoint, allowed, foreign, keepalive, handshake, silence };
            device.peers.insert(key, peer);
        }
        if link.is_none() || stuck {
            device = Device::default();
        }
        let shut = if shut { Chain::ALL.to_vec() } else { Vec::new() };
        Seen { link, device, forwarding, shut, stuck, rules: Vec::new() }
    })
}

proptest! {
    #[test]
    fn whatever_there_is_becomes_what_is_wanted(seen in any_seen(), table in any_table()) {
        let wanted = Wanted::new(OWN, 51820, subnet(100), &table, vec!["rules".to_owned()]);
        let (mut now, mut attempts) = (seen.clone(), Attempts::default());
        let changes = settle(&mut now, &wanted, &mut attempts);
        prop_assert_eq!(plan(&wanted, &now, &attempts), vec![], "once is enough");

        let link = now.link.as_ref().expect("made");
        prop_assert!(link.up && link.mtu == wanted.mtu && now.forwarding && now.shut.is_empty() && now.rules == wanted.rules);
        let own = Net { address: wanted.address, bits: 32 };
        prop_assert_eq!(&link.addresses, &BTreeSet::from([own]));
        prop_assert_eq!((now.device.key, now.device.port), (Some(OWN), 51820));
        prop_assert!(now.device.peers.keys().eq(wanted.peers.keys()));
        for (key, peer) in &wanted.peers {
            let has = &now.device.peers[key];
            prop_assert_eq!(&has.allowed, &peer.allowed);
            prop_assert_eq!(has.endpoint.is_none(), peer.endpoints.is_empty() && has.endpoint.is_none());
            prop_assert!(peer.allowed.iter().all(|net| link.routes.contains_key(&(*net, OURS))));
        }
        prop_assert_eq!(link.routes.len(), 2 * wanted.peers.len());
        let all = in_effect(&table, &wanted, &now) == table.hash();
        prop_assert_eq!(all, wanted.left_out.is_empty());
        // What was as it should be is named in no change.
        for (key, has) in &seen.device.peers {
            let is_right = wanted.peers.get(key).is_some_and(|peer| {
                let is_placed = has.endpoint.is_some() || peer.endpoints.is_empty();
                is_placed && has.allowed == peer.allowed && !has.foreign && has.keepalive == peer.keepalive()
            });
            let is_touched = changes.iter().any(|c| matches!(c, Change::Peer(of, _) if of == key));
            prop_assert!(!(is_right && is_touched), "{changes:?}");
        }
    }

    #[test]
    fn a_table_that_changes_touches_only_those_whose_rows_changed(
        one in any_table(), other in any_table(),
    ) {
        let of = |table: &Peers| Wanted::new(OWN, 51820, subnet(100), table, vec![]);
        let (before, after) = (of(&one), of(&other));
        let (mut seen, mut attempts) = (Seen::default(), Attempts::default());
        settle(&mut seen, &before, &mut attempts);
        for change in settle(&mut seen, &after, &mut attempts) {
            if let Change::Peer(key, _) = change {
                prop_assert_ne!(before.peers.get(&key), after.peers.get(&key));
            } else {
                prop_assert!(matches!(change, Change::AddRoute(_) | Change::RemoveRoute(..)));
            }
        }
    }
}

#[test]
fn what_somebody_undoes_is_named_and_put_right() {
    let rows = [row(1, &["192.0.2.1:51820"]), row(2, &[])];
    let wanted = wanted(&rows);
    type Undo = fn(&mut Seen);
    fn link(seen: &mut Seen) -> &mut SeenLink {
        seen.link.as_mut().expect("it is there")
    }
    let undone: [(Undo, &str); 13] = [
        (|seen| (seen.link, seen.device) = Default::default(), "the interface is not there"),
        (
            |seen| (link(seen).up, link(seen).routes) = Default::default(),
            "it is down; it does not lead to 10.100.0.1/32; it does not lead to 10.200.1.0/24",
        ),
        (|seen| link(seen).mtu = 1500, "its MTU is not 1420"),
        (|seen| link(seen).addresses.clear(), "it has not the address 10.100.0.100/32"),
        (
            |seen| {
                assert!(link(seen).routes.remove(&(Net::of_containers(subnet(2)), OURS)).is_some())
            },
            "it does not lead to 10.200.2.0/24",
        ),
        (|seen| drop(seen.device.peers.remove(&key(1))), "peer h1 is missing"),
        (
            |seen| drop(seen.device.peers.insert(key(9), SeenPeer::default())),
            "peer with key CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk= should not be there",
        ),
        (
            |seen| seen.device.peers.get_mut(&key(1)).expect("there").allowed.clear(),
            "peer h1 has other networks",
        ),
        (|seen| seen.device.key = None, "it has another key"),
        (|seen| seen.forwarding = false, "the host does not forward packets"),
        (|seen| seen.shut = vec![Chain::Forward], "iptables keeps the mesh from containers"),
        (|seen| seen.shut = vec![Chain::Input], "iptables keeps containers from DNS"),
        (|seen| seen.rules.clear(), "the rules of `fluke-mesh` are others"),
    ];
    for (undo, words) in undone {
        let (mut seen, mut attempts) = settled(&rows);
        assert_eq!(drift(&plan(&wanted, &seen, &attempts), &wanted), None);
        undo(&mut seen);
        let said = drift(&plan(&wanted, &seen, &attempts), &wanted).expect("it is drift");
        assert!(said.starts_with(words), "{said}");
        settle(&mut seen, &wanted, &mut attempts);
        assert_eq!(drift(&plan(&wanted, &seen, &attempts), &wanted), None);
    }
}

#[test]
fn where_a_peer_was_heard_stays_until_the_table_has_news() {
    let first = [row(1, &["192.0.2.1:51820"])];
    let (mut seen, mut attempts) = settled(&first);
    let roamed = "198.51.100.7:4711".parse().ok();
    seen.device.peers.get_mut(&key(1)).expect("there").endpoint = roamed;
    assert_eq!(plan(&wanted(&first), &seen, &attempts), vec![]);
    // An agent that starts anew knows nothing of before.
    assert_eq!(plan(&wanted(&first), &seen, &Attempts::default()), vec![]);

    let moved = [row(1, &["192.0.2.9:51820"])];
    let changes = settle(&mut seen, &wanted(&moved), &mut attempts);
    let there = "192.0.2.9:51820".parse().expect("an endpoint");
    assert_eq!(changes, vec![Change::Peer(key(1), PeerOrder::Endpoint(there))]);

    // News that name where it is already are none.
    let more = [row(1, &["192.0.2.1:51820", "192.0.2.9:51820"])];
    assert_eq!(settle(&mut seen, &wanted(&more), &mut attempts), vec![]);
}

#[test]
fn a_tunnel_that_is_alive_where_nobody_said_stays_there_whatever_is_said_anew() {
    let first = [row(1, &["192.0.2.1:51820", "192.0.2.2:51820"])];
    let to = |text: &str| text.parse::<SocketAddr>().expect("an endpoint");
    // Where it is, how long ago it was heard, what is said now, where it is tried then.
    let table: [(&str, u64, &[&str], Option<&str>); 5] = [
        ("198.51.100.7:4711", 60, &["192.0.2.9:51820"], None),
        ("198.51.100.7:4711", 600, &["192.0.2.9:51820"], Some("192.0.2.9:51820")),
        ("192.0.2.1:51820", 60, &["192.0.2.9:51820"], Some("192.0.2.9:51820")),
        ("192.0.2.1:51820", 60, &["192.0.2.2:51820", "192.0.2.1:51820"], None),
        ("198.51.100.7:4711", 60, &[], None),
    ];
    for (at, ago, said, expected) in table {
        let (mut seen, mut attempts) = settled(&first);
        let has = seen.device.peers.get_mut(&key(1)).expect("there");
        (has.endpoint, has.silence) = (Some(to(at)), Some(Duration::from_secs(ago)));
        let wanted = wanted(&[row(1, said)]);
        let changes = settle(&mut seen, &wanted, &mut attempts);
        let tried = changes.iter().find_map(|change| match change {
            Change::Peer(_, PeerOrder::Endpoint(to)) => Some(*to),
            _ => None,
        });
        assert_eq!(tried, expected.map(to), "{at} {ago} {said:?}");
        assert_eq!(plan(&wanted, &seen, &attempts), [], "once is enough");
    }
}

#[test]
fn an_address_that_this_host_gets_moves_no_tunnel_but_one_that_would_lead_back_to_it() {
    let said = ["172.31.5.5:51820", "172.18.0.1:51820", "192.0.2.1:51820"];
    let rows = [row(1, &said)];
    let own = Own { ip: [172, 18, 0, 1].into(), bits: 16, is_virtual: true };
    let mut beside = wanted(&rows);
    let peer = beside.peers.get_mut(&key(1)).expect("wanted");
    peer.endpoints = nearest_first(&peer.endpoints, &[own]);
    let table = [
        ("203.0.113.9:4711", None),
        ("192.0.2.1:51820", None),
        ("172.18.0.1:51820", Some("172.31.5.5:51820")),
    ];
    for (at, expected) in table {
        let (mut seen, mut attempts) = settled(&rows);
        seen.device.peers.get_mut(&key(1)).expect("there").endpoint = at.parse().ok();
        let expected = expected.map(|to| {
            let to = to.parse().expect("an endpoint");
            Change::Peer(key(1), PeerOrder::Endpoint(to))
        });
        let changes = settle(&mut seen, &beside, &mut attempts);
        assert_eq!(changes, Vec::from_iter(expected), "{at}");
        assert_eq!(plan(&beside, &seen, &attempts), [], "once is enough");
    }
}

#[test]
fn a_silent_peer_is_tried_at_each_of_its_endpoints_in_turn() {
    let ends = ["192.0.2.1:1", "192.0.2.2:2", "192.0.2.3:3"];
    let rows = [row(1, &ends)];
    let (mut seen, mut attempts) = settled(&rows);
    let wanted = wanted(&rows);
    assert_eq!(attempts.next(&wanted, &seen.device, NOW), vec![], "it has its time");
    let mut now = NOW;
    for expected in [ends[1], ends[2], ends[0], ends[1]] {
        now += Duration::from_secs(20);
        let next = attempts.next(&wanted, &seen.device, now);
        let to = expected.parse().expect("an endpoint");
        assert_eq!(next, vec![Change::Peer(key(1), PeerOrder::Endpoint(to))]);
        tell(&mut seen, &next[0], &wanted);
        attempts.made(&next[0], &wanted, now);
        assert_eq!(plan(&wanted, &seen, &attempts), vec![], "and it is no drift");
    }
    seen.device.peers.get_mut(&key(1)).expect("there").silence = Some(Duration::from_secs(100));
    assert_eq!(attempts.next(&wanted, &seen.device, now * 2), vec![], "it was heard");
}

fn net(text: &str) -> Net {
    Net::parse(text).expect("a network")
}

#[test]
fn a_tunnel_never_leads_through_itself_and_may_lead_anywhere_else() {
    let inside = ["10.100.0.1:51820", "10.200.1.1:51820", "10.100.0.100:51820", "10.200.100.1:1"];
    let outside = ["10.99.0.11:51820", "10.212.0.11:51820", "10.100.77.7:51820", "[fd00::1]:51820"];
    let rows = [row(1, &[inside, outside].concat()), row(2, &["10.200.1.9:51820"])];
    let wanted = wanted(&rows).beside(subnet(100), &BTreeSet::new());
    let texts = |number| -> Vec<String> {
        wanted.peers[&key(number)].endpoints.iter().map(ToString::to_string).collect()
    };
    assert_eq!(texts(1), outside);
    assert_eq!(texts(2), [""; 0], "it is another peer's container");
}

#[test]
fn what_a_host_has_elsewhere_stays_its_own_and_is_named() {
    // What it has, and what of the first peer is left.
    let table: [(&[&str], &[&str]); 6] = [
        (&[], &["10.100.0.1/32", "10.200.1.0/24"]),
        (&["10.200.1.0/24"], &["10.100.0.1/32"]),
        (&["10.200.0.0/18"], &["10.100.0.1/32"]),
        (&["10.200.1.128/25"], &["10.100.0.1/32"]),
        (&["10.100.0.0/30"], &["10.200.1.0/24"]),
        // Ways out of the host, and networks that are not in the way.
        (
            &["0.0.0.0/0", "10.0.0.0/8", "10.128.0.0/9", "10.210.0.0/16"],
            &["10.100.0.1/32", "10.200.1.0/24"],
        ),
    ];
    for (has, left) in table {
        let has: BTreeSet<Net> =
            has.iter().map(|it| net(it)).filter(|it| it.is_in_the_way()).collect();
        let rows = Peers::from(vec![row(1, &[]), row(70, &[])]);
        let wanted = wanted(&[row(1, &[]), row(70, &[])]).beside(subnet(100), &has);
        let of = |number| &wanted.peers[&key(number)].allowed;
        assert_eq!(*of(1), left.iter().map(|it| net(it)).collect(), "{has:?}");
        assert_eq!(of(70).len(), 2, "all others are as they were");
        assert_eq!(wanted.left_out.contains_key(&name("h1")), left.len() < 2, "{has:?}");
        let (mut seen, mut attempts) = (Seen::default(), Attempts::default());
        settle(&mut seen, &wanted, &mut attempts);
        assert_eq!(plan(&wanted, &seen, &attempts), [], "there is nothing to repair");
        assert_eq!(in_effect(&rows, &wanted, &seen) == rows.hash(), left.len() == 2);
    }
}

#[test]
fn packets_are_as_long_as_the_way_to_others_allows() {
    let table = [
        (None, 1420),
        (Some(9000), 1420),
        (Some(1500), 1420),
        (Some(1460), 1380),
        (Some(1400), 1320),
        (Some(1280), 1280),
        (Some(0), 1280),
    ];
    let rows = [row(1, &["192.0.2.1:1"])];
    for (underlay, mtu) in table {
        let (mut seen, mut attempts) = settled(&rows);
        let wanted = wanted(&rows).fitting(underlay);
        settle(&mut seen, &wanted, &mut attempts);
        assert_eq!(seen.link.expect("there").mtu, mtu, "{underlay:?}");
    }
}

#[test]
fn the_way_to_a_peer_is_the_one_that_its_tunnel_takes_or_the_first_that_is_tried() {
    let rows = [row(1, &["192.0.2.1:1", "192.0.2.9:1"]), row(2, &[])];
    let (mut seen, _) = settled(&rows);
    let places = |seen: &Seen| -> Vec<String> {
        wanted(&rows).places(&seen.device).map(|ip| ip.to_string()).collect()
    };
    assert_eq!(places(&Seen::default()), ["192.0.2.1"]);
    let mut is_at = |number, endpoint: &str, ago| {
        let peer = seen.device.peers.get_mut(&key(number)).expect("there");
        (peer.endpoint, peer.silence) = (endpoint.parse().ok(), Some(Duration::from_secs(ago)));
    };
    is_at(1, "192.0.2.9:1", 600);
    is_at(2, "198.51.100.2:4711", 3);
    assert_eq!(places(&seen), ["192.0.2.1", "198.51.100.2"], "one is tried there, one came");
    let peer = seen.device.peers.get_mut(&key(1)).expect("there");
    peer.silence = Some(Duration::from_secs(3));
    assert_eq!(places(&seen), ["192.0.2.9", "198.51.100.2"]);
}

#[test]
fn a_host_whose_own_subnet_is_in_its_own_network_is_told() {
    let clash = |text| clash(subnet(2560), &[net(text)].into());
    assert_eq!(subnet(2560).network(), Ipv4Addr::new(10, 210, 0, 0));
    assert_eq!(clash("10.210.0.0/16"), Some(net("10.210.0.0/16")));
    assert_eq!(clash("10.100.10.0/24"), Some(net("10.100.10.0/24")), "its own address");
    assert_eq!(clash("10.211.0.0/16"), None);
    let says = |foreign: &[&str]| {
        let foreign = foreign.iter().map(|text| net(text)).collect();
        let own = subnet(2560);
        let wanted =
            Wanted::new(OWN, 51820, own, &Peers::default(), ["rules".into()]).beside(own, &foreign);
        super::super::own_clash(own, &wanted)
    };
    assert_eq!(says(&["10.211.0.0/16"]), None);
    let is_advised =
        |words: Option<String>, what: &str| words.is_some_and(|words| words.contains(what));
    assert!(is_advised(says(&["10.210.0.0/16"]), "remove `services/claim.json`"));
    // No number helps where the host's own address is in such a network whatever it is.
    for foreign in [&["10.100.0.0/16"][..], &["10.100.0.0/19", "10.100.32.0/19"]] {
        assert!(is_advised(says(foreign), "all others that it could have clash as well"));
    }
}

#[test]
fn a_peer_that_comes_to_us_keeps_the_tunnel_up_itself() {
    let (seen, _) = settled(&[row(1, &[]), row(2, &["192.0.2.1:1"])]);
    let keepalive = |number| seen.device.peers[&key(number)].keepalive;
    assert_eq!((keepalive(1), keepalive(2)), (0, 25));
}

#[test]
fn another_subnet_of_our_own_leaves_tunnels_alone() {
    let rows = [row(1, &["192.0.2.1:1"])];
    let (mut seen, mut attempts) = settled(&rows);
    let moved = Wanted::new(OWN, 51820, subnet(101), &Peers::from(rows.to_vec()), ["rules".into()]);
    let changes = settle(&mut seen, &moved, &mut attempts);
    assert!(!changes.iter().any(|change| matches!(change, Change::Peer(..))), "{changes:?}");
    assert_eq!(plan(&moved, &seen, &attempts), vec![]);
}

#[test]
fn a_program_that_hangs_is_replaced_and_nothing_else_is_said_of_it() {
    let wanted = wanted(&[row(1, &["192.0.2.1:51820"])]);
    let mut seen = Seen { link: Some(SeenLink::default()), stuck: true, ..Seen::default() };
    let changes = plan(&wanted, &seen, &Attempts::default());
    let words = drift(&changes, &wanted);
    assert_eq!(words.as_deref(), Some("the program that serves it does not answer"));
    for change in &changes {
        tell(&mut seen, change, &wanted);
    }
    assert_eq!(plan(&wanted, &seen, &Attempts::default()), []);
}
