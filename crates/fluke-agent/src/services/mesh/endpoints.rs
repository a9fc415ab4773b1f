//! Where this host may be reached. Pure.

use std::net::{IpAddr, SocketAddr};

use super::net::share;

/// More than that are not told: who has more, names the one that is good.
pub const MOST: usize = 8;

/// An address of the host, on an interface that leads out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// Itself.
    pub ip: IpAddr,
    /// Of how many bits its network is.
    pub bits: u8,
    /// Whether its interface is made of software, and may lead to nothing but containers.
    pub is_virtual: bool,
}

/// Reads what somebody wrote in a config: an address, with or without a port.
pub fn parse(text: &str, port: u16) -> Option<SocketAddr> {
    let bare = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port));
    bare.or_else(|_| text.parse::<SocketAddr>()).ok()
}

/// Where others may try: what somebody said, then public addresses, then private ones, and those of
/// bridges and the like last.
pub fn reachable(said: Option<SocketAddr>, own: &[Own], port: u16) -> Vec<SocketAddr> {
    let mut found: Vec<&Own> = own.iter().filter(|own| is_usable(own.ip)).collect();
    found.sort_by_key(|own| (own.is_virtual, is_private(own.ip), own.ip.is_ipv6(), own.ip));
    let found = found.into_iter().map(|own| SocketAddr::new(own.ip, port));
    let found = found.filter(|to| Some(*to) != said);
    said.into_iter().chain(found).take(MOST).collect()
}

/// In which order to try them from here: what is on one of our own networks is near. What is an
/// address of our own is nobody else, however many hosts have a bridge with the same one.
pub fn nearest_first(endpoints: &[SocketAddr], own: &[Own]) -> Vec<SocketAddr> {
    let is_us = |to: &SocketAddr| own.iter().any(|own| own.ip == to.ip());
    let is_far = |to: &SocketAddr| !own.iter().any(|own| share(own.ip, to.ip(), own.bits));
    let mut ordered: Vec<SocketAddr> = endpoints.iter().copied().filter(|to| !is_us(to)).collect();
    ordered.sort_by_key(is_far);
    ordered
}

fn is_usable(ip: IpAddr) -> bool {
    let is_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(is_local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || matches!(ip.octets(), [100, 64..=127, ..]),
        IpAddr::V6(ip) => ip.is_unique_local(),
    }
}

#[cfg(test)]
mod tests;
