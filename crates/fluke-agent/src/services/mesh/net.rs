//! Networks, and where the mesh has its own.

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

/// Where the addresses of hosts are, and those of containers.
const RANGES: [Net; 2] = [
    Net { address: Ipv4Addr::new(10, 100, 0, 0), bits: 16 },
    Net { address: Ipv4Addr::new(10, 192, 0, 0), bits: 10 },
];

impl Net {
    /// A host's own address in the mesh.
    pub fn of_host(subnet: Subnet) -> Self {
        Self { address: subnet.host(), bits: 32 }
    }

    /// The network of its containers.
    pub fn of_containers(subnet: Subnet) -> Self {
        Self { address: subnet.network(), bits: 24 }
    }

    /// The network that an address with its length is in.
    pub fn around(address: Ipv4Addr, bits: u8) -> Self {
        let mask = u32::MAX.checked_shl(u32::from(32 - bits.min(32))).unwrap_or(0);
        Self { address: Ipv4Addr::from_bits(address.to_bits() & mask), bits }
    }

    /// Whether there are addresses that both have.
    pub fn overlaps(self, other: Self) -> bool {
        share(self.address.into(), other.address.into(), self.bits.min(other.bits))
    }

    /// Whether somebody who has it has what may be the mesh's. A network that is wider than all of
    /// that is a way out, and says nothing of what is there: what is more specific goes before it.
    pub fn is_in_the_way(self) -> bool {
        self.bits >= RANGES[1].bits && RANGES.iter().any(|range| range.overlaps(self))
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
