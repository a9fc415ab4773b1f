use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use fluke_model::directory::PublicKey;
use proptest::prelude::*;

use super::message::{Attributes, attributes};
use super::*;
use crate::services::mesh::device::{Device, Order, PeerOrder, SeenPeer};
use crate::services::mesh::key::PrivateKey;
use crate::services::mesh::net::Net;

fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(4)
        .map(|four| four.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect::<Vec<String>>()
        .join(" ")
}

fn net(text: &str) -> Net {
    Net::parse(text).expect("a network")
}

/// As `strace -e write=all` shows them of `ip`, but for the order of attributes, numbers that nobody
/// needs, and the flag of those that hold others.
#[cfg(target_endian = "little")]
#[test]
fn messages_are_those_that_ip_sends() {
    let table = [
        (
            route::new_wireguard("fluke0"),
            "40000000 10000106 00000000 00000000 00000000 00000000 00000000 00000000 \
             0b000300 666c756b 65300000 14001280 0e000100 77697265 67756172 64000000",
        ),
        (
            route::link_up(7),
            "20000000 10000100 00000000 00000000 00000000 07000000 01000000 01000000",
        ),
        (
            route::add_address(7, net("10.100.0.3/32")),
            "28000000 14000106 00000000 00000000 02200000 07000000 \
             08000200 0a640003 08000100 0a640003",
        ),
        (
            route::add_route(7, net("10.200.4.0/24"), Ipv4Addr::new(10, 100, 0, 3)),
            "34000000 18000106 00000000 00000000 02180000 fe03fd01 00000000 \
             08000100 0ac80400 08000400 07000000 08000700 0a640003",
        ),
    ];
    for (message, expected) in table {
        let expected = expected.replace(' ', "");
        let bytes = hex(&message.bytes()).replace(' ', "");
        // The nested one is padded at its end.
        assert!(
            bytes.trim_end_matches('0') == expected.trim_end_matches('0'),
            "{bytes}\n{expected}"
        );
    }
}

/// What the kernel would answer, put together by what it would be told.
fn device(peers: Attributes) -> Vec<u8> {
    let all = Attributes::new()
        .put(1, &7_u32.to_ne_bytes())
        .text(2, "fluke0")
        .put(4, &[9; 32])
        .put(6, &51820_u16.to_ne_bytes())
        .nest(8, peers);
    super::message::Message::new(33, 0, &[0, 1, 0, 0]).with(all).bytes()[16..].to_vec()
}

fn allowed(nets: &[Net]) -> Attributes {
    nets.iter().fold(Attributes::new(), |all, net| {
        let net = Attributes::new()
            .put(1, &2_u16.to_ne_bytes())
            .put(2, &net.address.octets())
            .put(3, &[net.bits]);
        all.nest(0, net)
    })
}

#[test]
fn what_the_kernel_says_of_a_peer_is_read_over_several_messages() {
    let mut endpoint = 2_u16.to_ne_bytes().to_vec();
    endpoint.extend(4711_u16.to_be_bytes());
    endpoint.extend([192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut handshake = 1000_i64.to_ne_bytes().to_vec();
    handshake.extend(5_i64.to_ne_bytes());
    let (one, other) = (net("10.100.0.7/32"), net("10.200.7.0/24"));
    let first = Attributes::new()
        .put(1, &[7; 32])
        .put(4, &endpoint)
        .put(5, &25_u16.to_ne_bytes())
        .put(6, &handshake)
        .nest(9, allowed(&[one]));
    let rest = Attributes::new().put(1, &[7; 32]).nest(9, allowed(&[other]));
    let mut read = Device::default();
    for peer in [first, rest] {
        let body = device(Attributes::new().nest(0, peer));
        wireguard::read_device(&body, &mut read);
    }
    let peer = SeenPeer {
        endpoint: "192.0.2.1:4711".parse().ok(),
        allowed: [one, other].into(),
        foreign: false,
        keepalive: 25,
        handshake: Some(Duration::from_secs(1000)),
        silence: None,
    };
    let expected = Device {
        key: Some(PublicKey([9; 32])),
        port: 51820,
        peers: [(PublicKey([7; 32]), peer)].into(),
    };
    assert_eq!(read, expected);
}

#[test]
fn the_kernel_is_told_of_one_peer_at_a_time() {
    let nets: BTreeSet<Net> = [net("10.100.0.7/32"), net("10.200.7.0/24")].into();
    let to = "192.0.2.1:51820".parse().expect("an endpoint");
    let add = PeerOrder::Add { endpoint: Some(to), allowed: nets.clone(), keepalive: 25 };
    let told = |order: &PeerOrder| {
        let order = Order::Peer(PublicKey([7; 32]), order);
        wireguard::set_device(33, "fluke0", &order).bytes()[16..].to_vec()
    };
    // The form is that of what the kernel says; so it reads as such.
    let mut read = Device::default();
    wireguard::read_device(&told(&add), &mut read);
    let peer = &read.peers[&PublicKey([7; 32])];
    assert_eq!((peer.endpoint, &peer.allowed, peer.keepalive), (Some(to), &nets, 25));
    assert_eq!(read.key, None);

    let flags = |order: &PeerOrder| {
        let body = told(order);
        let find = |body: &[u8], fixed: usize, kind: u16| {
            attributes(body, fixed).find(|(it, _)| *it == kind).map(|(_, value)| value.to_vec())
        };
        let peers = find(&body, 4, 8).expect("peers");
        let peer = find(&peers, 0, 0).expect("one");
        message::number(&find(&peer, 0, 3).expect("flags"))
    };
    let (remove, replace, update) = (1, 2, 4);
    assert_eq!(flags(&add), Some(replace));
    assert_eq!(flags(&PeerOrder::Remove), Some(remove));
    assert_eq!(flags(&PeerOrder::Endpoint(to)), Some(update));
    assert_eq!(flags(&PeerOrder::Keepalive(0)), Some(update));
    assert_eq!(flags(&PeerOrder::Allowed(nets)), Some(update | replace));
}

#[test]
fn the_key_goes_to_the_kernel_as_it_is() {
    let key = PrivateKey::new([0x48; 32]);
    let body = wireguard::set_device(33, "fluke0", &Order::Key(&key)).bytes()[16..].to_vec();
    let sent = attributes(&body, 4).find(|(kind, _)| *kind == 3).map(|(_, value)| value.to_vec());
    assert_eq!(sent.as_deref(), Some(&[0x48; 32][..]));
}

#[test]
fn a_kernel_without_wireguard_says_so() {
    let asked =
        Socket::open(Family::Generic).and_then(|socket| socket.ask(wireguard::get_family()));
    match asked {
        Ok((_, body)) => assert!(wireguard::read_family(&body).is_some()),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}"),
    }
}

#[test]
fn the_loopback_is_what_the_kernel_says_it_is() {
    let socket = Socket::open(Family::Route).expect("a socket");
    let (_, body) = socket.ask(route::get_link("lo")).expect("every host has one");
    let link = route::read_link(&body).expect("sound");
    assert_eq!((link.name.as_str(), link.loopback, link.index), ("lo", true, 1));
    let error = socket.ask(route::get_link("there-is-none")).expect_err("no such link");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NODEV.raw_os_error()));
}

proptest! {
    #[test]
    fn nothing_is_too_odd_to_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for part in parts(&bytes) {
            let _ = format!("{part:?}");
        }
        let _ = (route::read_link(&bytes), route::read_address(&bytes), route::read_route(&bytes));
        let _ = (wireguard::read_family(&bytes), nftables::read_rule(&bytes));
        wireguard::read_device(&bytes, &mut Device::default());
    }

    /// Garbage within sound attributes gets further in.
    #[test]
    fn nothing_within_is_too_odd_either(kind in 0_u16..20, bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let inner = Attributes::new().put(1, &[7; 32]).put(kind, &bytes).nest(kind, Attributes::new().put(kind, &bytes));
        let body = device(Attributes::new().nest(0, inner));
        wireguard::read_device(&body, &mut Device::default());
        let message = super::message::Message::new(1, 0, &[2; 16]);
        let body = message.with(Attributes::new().put(kind, &bytes)).bytes();
        let _ = (route::read_link(&body[16..]), route::read_address(&body[16..]), route::read_route(&body[16..]));
    }
}

#[test]
fn hardware_that_is_part_of_something_is_read_like_any_other() {
    let part_of = Attributes::new().text(4, "vrf");
    let attributes = Attributes::new().text(3, "eth0").nest(18, part_of);
    let message = super::message::Message::new(route::NEW_LINK, 0, &[0; 16]).with(attributes);
    let link = route::read_link(&message.bytes()[16..]).expect("a link");
    assert_eq!((link.name.as_str(), link.kind.as_str()), ("eth0", ""));
}
