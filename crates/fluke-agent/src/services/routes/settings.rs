//! What a proxy is told once, by its host's config.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use fluke_model::directory::Subnet;

/// Where Traefik's API listens, on an address of `127.0.0.0/8`: only root may take this port.
pub const API_PORT: u16 = 781;

/// How a proxy is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Everything that Traefik reads and writes is here, and nothing else is.
    pub folder: PathBuf,
    /// Traefik; looked for in `PATH` where it is not given.
    pub program: Option<PathBuf>,
    /// The containers of this host; they are preferred.
    pub local: Network,
    /// Where it listens; everywhere if not given.
    pub listen: Option<IpAddr>,
    /// For requests: 80, but for tests.
    pub web: u16,
    /// For requests over TLS: 443, but for tests.
    pub secure: u16,
    /// For the agent alone: [`API_PORT`], but for tests.
    pub api: u16,
    /// Served to those who ask for a name that they are for.
    pub certificates: Vec<Certificate>,
    /// Where certificates come from that are not given.
    pub acme: Option<Acme>,
}

impl Settings {
    /// A proxy at the usual ports, without TLS.
    pub fn new(folder: PathBuf, subnet: Subnet) -> Self {
        Self {
            folder,
            program: None,
            local: subnet.into(),
            listen: None,
            web: 80,
            secure: 443,
            api: API_PORT,
            certificates: Vec::new(),
            acme: None,
        }
    }

    /// Whether requests come in over TLS; those that do not are sent there.
    pub fn has_tls(&self) -> bool {
        self.acme.is_some() || !self.certificates.is_empty()
    }
}

/// A certificate with its key, in PEM files that somebody else keeps up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, and those that lead to its root.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
}

/// Somebody who gives out certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// Who is told when something is wrong with them.
    pub email: String,
    /// Let's Encrypt if not given.
    pub directory: Option<String>,
    /// Whom to trust for the directory's own TLS, in PEM; the host's roots if not given.
    pub ca_file: Option<PathBuf>,
}

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// One of them.
    pub address: Ipv4Addr,
    /// How many bits they have in common; at most 32.
    pub prefix: u8,
}

impl Network {
    /// Whether an address is one of them.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0);
        (address.to_bits() ^ self.address.to_bits()) & mask == 0
    }
}

impl From<Subnet> for Network {
    fn from(subnet: Subnet) -> Self {
        Self { address: subnet.network(), prefix: 24 }
    }
}
