//! Links, addresses and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::message::{Attributes, CREATE, EXCLUSIVE, Message, attributes, number, text};
use crate::services::mesh::net::Net;

/// Links, IPv4 addresses and routes, IPv6 addresses.
pub const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100;

pub const NEW_LINK: u16 = 16;
pub const DEL_LINK: u16 = 17;
const GET_LINK: u16 = 18;
pub const NEW_ADDRESS: u16 = 20;
pub const DEL_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;
pub const NEW_ROUTE: u16 = 24;
pub const DEL_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;

const INET: u8 = 2;
const INET6: u8 = 10;
const LINK_PART: usize = 16;
const ADDRESS_PART: usize = 8;
const ROUTE_PART: usize = 12;

const UP: u32 = 0x1;
const LOOPBACK: u32 = 0x8;

const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_MTU: u16 = 2;
/// `RTM_F_FIB_MATCH`.
const AS_THE_TABLE_SAYS: u32 = 0x2000;
const RTA_TABLE: u16 = 15;

const MAIN: u8 = 254;
const BOOT: u8 = 3;
const SCOPE_LINK: u8 = 253;
/// To be removed, any scope.
const SCOPE_NOWHERE: u8 = 255;
const UNICAST: u8 = 1;

/// An interface as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// What it is called.
    pub name: String,
    /// What it is, in the kernel's word: `wireguard`, `tun`, `bridge`; empty for hardware.
    pub kind: String,
    /// Whether it may carry anything.
    pub up: bool,
    /// Whether it leads back to the host.
    pub loopback: bool,
    /// How long its packets may be.
    pub mtu: u32,
}

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Of which.
    pub index: u32,
    /// Itself.
    pub ip: IpAddr,
    /// Of how many bits its network is.
    pub bits: u8,
    /// Whether it is good for others; not so: for this link or host only.
    pub global: bool,
}

/// Asks for one interface.
pub fn get_link(name: &str) -> Message {
    let attributes = Attributes::new().text(IFLA_IFNAME, name);
    Message::new(GET_LINK, 0, &[0; LINK_PART]).with(attributes)
}

/// The same, by its number.
pub fn get_link_at(index: u32) -> Message {
    Message::new(GET_LINK, 0, &link_part(index, false))
}

/// Makes one that the kernel's WireGuard serves.
pub fn new_wireguard(name: &str) -> Message {
    let kind = Attributes::new().text(IFLA_INFO_KIND, "wireguard");
    let attributes = Attributes::new().text(IFLA_IFNAME, name).nest(IFLA_LINKINFO, kind);
    Message::new(NEW_LINK, CREATE | EXCLUSIVE, &[0; LINK_PART]).with(attributes)
}

/// Removes one.
pub fn delete_link(index: u32) -> Message {
    Message::new(DEL_LINK, 0, &link_part(index, false))
}

/// Brings one up.
pub fn link_up(index: u32) -> Message {
    Message::new(NEW_LINK, 0, &link_part(index, true))
}

/// Sets how long packets may be.
pub fn set_mtu(index: u32, mtu: u32) -> Message {
    let attributes = Attributes::new().put(IFLA_MTU, &mtu.to_ne_bytes());
    Message::new(NEW_LINK, 0, &link_part(index, false)).with(attributes)
}

/// Asks for the addresses of all interfaces.
pub fn get_addresses() -> Message {
    Message::new(GET_ADDRESS, 0, &[0; ADDRESS_PART])
}

/// Gives an interface an address.
pub fn add_address(index: u32, net: Net) -> Message {
    address(NEW_ADDRESS, CREATE | EXCLUSIVE, index, net)
}

/// Takes it away.
pub fn remove_address(index: u32, net: Net) -> Message {
    address(DEL_ADDRESS, 0, index, net)
}

/// Asks for all IPv4 routes.
pub fn get_routes() -> Message {
    Message::new(GET_ROUTE, 0, &[INET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// Asks how an address is reached, as the table says: what was learned of the way there comes and
/// goes.
pub fn get_way(to: IpAddr) -> Message {
    let (family, octets) = match to {
        IpAddr::V4(ip) => (INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (INET6, ip.octets().to_vec()),
    };
    let bits = if to.is_ipv4() { 32 } else { 128 };
    let mut part = [family, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    part[8..].copy_from_slice(&AS_THE_TABLE_SAYS.to_ne_bytes());
    Message::new(GET_ROUTE, 0, &part).with(Attributes::new().put(RTA_DST, &octets))
}

/// Reads how an address is reached: by which interface, and how long packets may be if that is said
/// of the route itself.
pub fn read_way(body: &[u8]) -> (Option<u32>, Option<u32>) {
    let value = |body, fixed, wanted| {
        let (_, value) = attributes(body, fixed).find(|(kind, _)| *kind == wanted)?;
        Some(value)
    };
    let index = value(body, ROUTE_PART, RTA_OIF).and_then(number);
    let metrics = value(body, ROUTE_PART, RTA_METRICS).unwrap_or_default();
    let mtu = value(metrics, 0, RTAX_MTU).and_then(number);
    (index.map(i32::cast_unsigned), mtu.map(i32::cast_unsigned))
}

/// Leads to a network by an interface, as `source`; not where somebody else's route leads there.
pub fn add_route(index: u32, net: Net, source: Ipv4Addr) -> Message {
    let attributes = route_attributes(index, net).put(RTA_PREFSRC, &source.octets());
    let part = [INET, net.bits, 0, 0, MAIN, BOOT, SCOPE_LINK, UNICAST, 0, 0, 0, 0];
    Message::new(NEW_ROUTE, CREATE | EXCLUSIVE, &part).with(attributes)
}

/// Leads there no more by the route of this metric, whoever made it, and as what. To the kernel,
/// none is any: it takes the least.
pub fn remove_route(index: u32, net: Net, metric: u32) -> Message {
    let part = [INET, net.bits, 0, 0, MAIN, 0, SCOPE_NOWHERE, 0, 0, 0, 0, 0];
    let attributes = route_attributes(index, net).put(RTA_PRIORITY, &metric.to_ne_bytes());
    Message::new(DEL_ROUTE, 0, &part).with(attributes)
}

/// Reads an interface.
pub fn read_link(body: &[u8]) -> Option<Link> {
    let index = u32::from_ne_bytes(*body.get(4..)?.first_chunk()?);
    let flags = u32::from_ne_bytes(*body.get(8..)?.first_chunk()?);
    let mut link = Link {
        index,
        name: String::new(),
        kind: String::new(),
        up: flags & UP != 0,
        loopback: flags & LOOPBACK != 0,
        mtu: 0,
    };
    for (kind, value) in attributes(body, LINK_PART) {
        match kind {
            IFLA_IFNAME => link.name = text(value),
            IFLA_MTU => link.mtu = number(value)?.cast_unsigned(),
            IFLA_LINKINFO => {
                let mut info = attributes(value, 0);
                let kind = info.find(|(kind, _)| *kind == IFLA_INFO_KIND);
                // Hardware that belongs to a bridge or a VRF has only what it is there.
                link.kind = kind.map(|(_, value)| text(value)).unwrap_or_default();
            }
            _ => {}
        }
    }
    Some(link)
}

/// Reads an address.
pub fn read_address(body: &[u8]) -> Option<Address> {
    let [family, bits, _, scope] = *body.first_chunk()?;
    let index = u32::from_ne_bytes(*body.get(4..)?.first_chunk()?);
    let (mut local, mut remote) = (None, None);
    for (kind, value) in attributes(body, ADDRESS_PART) {
        match kind {
            IFA_LOCAL => local = ip(family, value),
            // The other end's on a link between two, its own elsewhere.
            IFA_ADDRESS => remote = ip(family, value),
            _ => {}
        }
    }
    Some(Address { index, ip: local.or(remote)?, bits, global: scope == 0 })
}

/// A route of the main table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// By which interface, if it is a single one.
    pub index: Option<u32>,
    /// Where to.
    pub to: Net,
    /// Of several to the same network, the one with the least is taken.
    pub metric: u32,
    /// As whom the host goes there itself.
    pub source: Option<Ipv4Addr>,
}

/// Reads a route, if it is one of the main table.
pub fn read_route(body: &[u8]) -> Option<Route> {
    let [family, bits, _, _, table, ..] = *body.first_chunk::<ROUTE_PART>()?;
    let (mut to, mut index, mut source) = (Ipv4Addr::UNSPECIFIED, None, None);
    let (mut table, mut metric) = (u32::from(table), 0);
    for (kind, value) in attributes(body, ROUTE_PART) {
        match kind {
            RTA_DST => to = Ipv4Addr::from(*value.first_chunk()?),
            RTA_OIF => index = Some(number(value)?.cast_unsigned()),
            RTA_PRIORITY => metric = number(value)?.cast_unsigned(),
            RTA_PREFSRC => source = Some(Ipv4Addr::from(*value.first_chunk()?)),
            RTA_TABLE => table = number(value)?.cast_unsigned(),
            _ => {}
        }
    }
    (family == INET && table == u32::from(MAIN)).then_some(())?;
    Some(Route { index, to: Net { address: to, bits }, metric, source })
}

fn ip(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        INET => Some(Ipv4Addr::from(*value.first_chunk()?).into()),
        INET6 => Some(Ipv6Addr::from(*value.first_chunk()?).into()),
        _ => None,
    }
}

fn link_part(index: u32, up: bool) -> [u8; LINK_PART] {
    let mut part = [0; LINK_PART];
    let flags = if up { UP } else { 0 };
    part[4..8].copy_from_slice(&index.to_ne_bytes());
    part[8..12].copy_from_slice(&flags.to_ne_bytes());
    // Which flags are meant.
    part[12..16].copy_from_slice(&flags.to_ne_bytes());
    part
}

fn address(kind: u16, flags: u16, index: u32, net: Net) -> Message {
    let mut part = [INET, net.bits, 0, 0, 0, 0, 0, 0];
    part[4..8].copy_from_slice(&index.to_ne_bytes());
    let octets = net.address.octets();
    let attributes = Attributes::new().put(IFA_LOCAL, &octets).put(IFA_ADDRESS, &octets);
    Message::new(kind, flags, &part).with(attributes)
}

fn route_attributes(index: u32, net: Net) -> Attributes {
    Attributes::new().put(RTA_DST, &net.address.octets()).put(RTA_OIF, &index.to_ne_bytes())
}
