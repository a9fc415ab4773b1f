//! Sockets of this host that packets go out by, and their end.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::message::Message;

const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;
const INET: u8 = 2;
const UDP: u8 = 17;

/// How the kernel tells one from another: ports and addresses of both ends, and more.
pub type Id = [u8; 48];

/// Asks for all of them.
pub fn all() -> Message {
    Message::new(BY_FAMILY, 0, &request(&[0; 48]))
}

/// Ends one: whoever has it finds it broken.
pub fn destroy(id: &Id) -> Message {
    Message::new(DESTROY, 0, &request(id))
}

/// Where one of those that were asked for leads.
pub fn peer(body: &[u8]) -> Option<(SocketAddrV4, Id)> {
    let id: Id = *body.get(4..)?.first_chunk()?;
    let port = u16::from_be_bytes([id[2], id[3]]);
    Some((SocketAddrV4::new(Ipv4Addr::new(id[20], id[21], id[22], id[23]), port), id))
}

fn request(id: &Id) -> Vec<u8> {
    // In whatever state.
    [&[INET, UDP, 0, 0, 0xff, 0xff, 0xff, 0xff], &id[..]].concat()
}
