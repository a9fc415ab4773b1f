//! The kernel's WireGuard, by generic netlink.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use fluke_model::directory::PublicKey;

use super::message::{Attributes, Message, attributes};
use crate::services::mesh::device::{Device, Order, PeerOrder};
use crate::services::mesh::net::Net;

/// The kernel's list of families is one itself.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Command, version, nothing.
const PART: usize = 4;
const VERSION: u8 = 1;
const GET_DEVICE: u8 = 0;
const SET_DEVICE: u8 = 1;

const DEVICE_NAME: u16 = 2;
const DEVICE_PRIVATE_KEY: u16 = 3;
const DEVICE_PUBLIC_KEY: u16 = 4;
const DEVICE_PORT: u16 = 6;
const DEVICE_PEERS: u16 = 8;

const PEER_KEY: u16 = 1;
const PEER_FLAGS: u16 = 3;
const PEER_ENDPOINT: u16 = 4;
const PEER_KEEPALIVE: u16 = 5;
const PEER_HANDSHAKE: u16 = 6;
const PEER_ALLOWED: u16 = 9;

const REMOVE: u32 = 1;
const REPLACE_ALLOWED: u32 = 2;
const UPDATE_ONLY: u32 = 4;

const ALLOWED_FAMILY: u16 = 1;
const ALLOWED_ADDRESS: u16 = 2;
const ALLOWED_BITS: u16 = 3;

const INET: u16 = 2;
const INET6: u16 = 10;

/// Asks for the number of WireGuard's family; also makes the kernel load the module, if there is one.
pub fn get_family() -> Message {
    let attributes = Attributes::new().text(FAMILY_NAME, "wireguard");
    Message::new(CONTROL, 0, &[GET_FAMILY, VERSION, 0, 0]).with(attributes)
}

/// Reads that number.
pub fn read_family(body: &[u8]) -> Option<u16> {
    let (_, value) = attributes(body, PART).find(|(kind, _)| *kind == FAMILY_ID)?;
    value.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// Asks for all that an interface has.
pub fn get_device(family: u16, name: &str) -> Message {
    let attributes = Attributes::new().text(DEVICE_NAME, name);
    Message::new(family, 0, &[GET_DEVICE, VERSION, 0, 0]).with(attributes)
}

/// Changes one thing of it.
pub fn set_device(family: u16, name: &str, order: &Order<'_>) -> Message {
    let attributes = Attributes::new().text(DEVICE_NAME, name);
    let attributes = match order {
        Order::Key(key) => attributes.put(DEVICE_PRIVATE_KEY, key.bytes()),
        Order::Port(port) => attributes.put(DEVICE_PORT, &port.to_ne_bytes()),
        Order::Peer(key, order) => {
            attributes.nest(DEVICE_PEERS, Attributes::new().nest(0, peer(key, order)))
        }
    };
    Message::new(family, 0, &[SET_DEVICE, VERSION, 0, 0]).with(attributes)
}

fn peer(key: &PublicKey, order: &PeerOrder) -> Attributes {
    let it = Attributes::new().put(PEER_KEY, &key.0);
    let flags = |flags: u32| it.clone().put(PEER_FLAGS, &flags.to_ne_bytes());
    match order {
        PeerOrder::Remove => flags(REMOVE),
        PeerOrder::Endpoint(to) => flags(UPDATE_ONLY).put(PEER_ENDPOINT, &endpoint(to)),
        PeerOrder::Keepalive(seconds) => {
            flags(UPDATE_ONLY).put(PEER_KEEPALIVE, &seconds.to_ne_bytes())
        }
        PeerOrder::Allowed(nets) => allow(flags(UPDATE_ONLY | REPLACE_ALLOWED), nets),
        PeerOrder::Add { endpoint: to, allowed, keepalive } => {
            let it = flags(REPLACE_ALLOWED).put(PEER_KEEPALIVE, &keepalive.to_ne_bytes());
            let it = match to {
                Some(to) => it.put(PEER_ENDPOINT, &endpoint(to)),
                None => it,
            };
            allow(it, allowed)
        }
    }
}

fn allow(peer: Attributes, nets: &BTreeSet<Net>) -> Attributes {
    let each = |all: Attributes, net: &Net| {
        let net = Attributes::new()
            .put(ALLOWED_FAMILY, &INET.to_ne_bytes())
            .put(ALLOWED_ADDRESS, &net.address.octets())
            .put(ALLOWED_BITS, &[net.bits]);
        all.nest(0, net)
    };
    peer.nest(PEER_ALLOWED, nets.iter().fold(Attributes::new(), each))
}

/// As C has it.
fn endpoint(to: &SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    match to {
        SocketAddr::V4(to) => {
            bytes.extend(INET.to_ne_bytes());
            bytes.extend(to.port().to_be_bytes());
            bytes.extend(to.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(to) => {
            bytes.extend(INET6.to_ne_bytes());
            bytes.extend(to.port().to_be_bytes());
            bytes.extend(to.flowinfo().to_be_bytes());
            bytes.extend(to.ip().octets());
            bytes.extend(to.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// Adds to `device` what one message says of it; many peers take several.
pub fn read_device(body: &[u8], device: &mut Device) {
    for (kind, value) in attributes(body, PART) {
        match kind {
            DEVICE_PUBLIC_KEY => device.key = value.first_chunk().copied().map(PublicKey),
            DEVICE_PORT => {
                device.port = value.first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
            }
            DEVICE_PEERS => {
                for (_, value) in attributes(value, 0) {
                    read_peer(value, device);
                }
            }
            _ => {}
        }
    }
}

fn read_peer(value: &[u8], device: &mut Device) {
    let key = attributes(value, 0).find(|(kind, _)| *kind == PEER_KEY);
    let Some(key) = key.and_then(|(_, key)| key.first_chunk()) else { return };
    // One with many networks is continued in the next message, without all the rest.
    let peer = device.peers.entry(PublicKey(*key)).or_default();
    for (kind, value) in attributes(value, 0) {
        match kind {
            PEER_ENDPOINT => peer.endpoint = read_endpoint(value),
            PEER_KEEPALIVE => {
                peer.keepalive = value.first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
            }
            PEER_HANDSHAKE => peer.handshake = read_handshake(value),
            PEER_ALLOWED => {
                for (_, value) in attributes(value, 0) {
                    match read_allowed(value) {
                        Some(net) => drop(peer.allowed.insert(net)),
                        None => peer.foreign = true,
                    }
                }
            }
            _ => {}
        }
    }
}

fn read_handshake(value: &[u8]) -> Option<Duration> {
    let seconds = u64::try_from(i64::from_ne_bytes(*value.first_chunk()?)).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn read_allowed(value: &[u8]) -> Option<Net> {
    let (mut address, mut bits) = (None, None);
    for (kind, value) in attributes(value, 0) {
        match kind {
            ALLOWED_ADDRESS => address = <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from),
            ALLOWED_BITS => bits = value.first().copied(),
            _ => {}
        }
    }
    Some(Net { address: address?, bits: bits? })
}

fn read_endpoint(value: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*value.first_chunk()?);
    let port = u16::from_be_bytes(*value.get(2..)?.first_chunk()?);
    match family {
        INET => {
            let ip = Ipv4Addr::from(*value.get(4..)?.first_chunk()?);
            Some(SocketAddrV4::new(ip, port).into())
        }
        INET6 => {
            let ip = Ipv6Addr::from(*value.get(8..)?.first_chunk()?);
            let scope = u32::from_ne_bytes(*value.get(24..)?.first_chunk()?);
            Some(match ip.to_ipv4_mapped() {
                Some(ip) => SocketAddr::new(IpAddr::V4(ip), port),
                None => SocketAddrV6::new(ip, port, 0, scope).into(),
            })
        }
        _ => None,
    }
}
