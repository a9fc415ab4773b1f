//! Networks, and which of them are the mesh's.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use fluke_model::directory::Subnet;

/// An IPv4 network, or one address of it with its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net {
    /// Its address.
    pub address: Ipv4Addr,
    /// How many bits of it are the network's.
    pub bits: u8,
}

impl Net {
    /// A host's own address in the mesh.
    pub fn of_host(subnet: Subnet) -> Self {
        Self { address: subnet.host(), bits: 32 }
    }

    /// The network of its containers.
    pub fn of_containers(subnet: Subnet) -> Self {
        Self { address: subnet.network(), bits: 24 }
    }

    /// Whether an address is one of its own.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        share(self.address.into(), address.into(), self.bits)
    }

    /// Reads `10.200.7.0/24`.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let bits = bits.parse().ok().filter(|bits| *bits <= 32)?;
        Some(Self { address: address.parse().ok()?, bits })
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Whether an address is one that only the mesh leads to: a tunnel through itself leads nowhere.
pub fn is_of_the_mesh(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [10, 100 | 200..=255, ..]),
        IpAddr::V6(_) => false,
    }
}

/// Whether two addresses have their first `bits` in common.
pub fn share(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let (one, other, length) = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return false,
    };
    let rest = u32::from(length - bits.min(length));
    one.checked_shr(rest) == other.checked_shr(rest)
}
