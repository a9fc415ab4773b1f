//! A WireGuard interface, whoever serves it: what it has, and what it can be told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use fluke_model::directory::PublicKey;

use super::key::PrivateKey;
use super::net::Net;

/// What an interface has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// Of the private key that it has, if it has one.
    pub key: Option<PublicKey>,
    /// Where it listens.
    pub port: u16,
    /// Whom it knows.
    pub peers: BTreeMap<PublicKey, SeenPeer>,
}

/// What an interface knows of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenPeer {
    /// Where it was last heard, or was said to be.
    pub endpoint: Option<SocketAddr>,
    /// Which networks are behind it.
    pub allowed: BTreeSet<Net>,
    /// Whether there are others that cannot be spelled here.
    pub foreign: bool,
    /// Seconds between signs of life; 0: none.
    pub keepalive: u16,
    /// When the last handshake was, by the host's clock; none: there was none yet.
    pub handshake: Option<Duration>,
    /// How long ago it was; see [`Heard`](super::heard::Heard).
    pub silence: Option<Duration>,
}

/// A tunnel without a handshake for so long is not alive: WireGuard makes one every two minutes, and
/// gives keys up after three.
pub const SILENT: Duration = Duration::from_secs(180);

impl SeenPeer {
    /// Whether there is no tunnel to it.
    pub fn is_silent(&self) -> bool {
        self.silence.is_none_or(|silence| silence >= SILENT)
    }
}

/// One thing that an interface can be told.
#[derive(Debug)]
pub enum Order<'a> {
    /// Be this one.
    Key(&'a PrivateKey),
    /// Listen here.
    Port(u16),
    /// Of one peer.
    Peer(PublicKey, &'a PeerOrder),
}

/// One thing that an interface can be told of a peer. All but the first leave it alone if it is not
/// there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerOrder {
    /// Know it.
    Add {
        /// Where it may be.
        endpoint: Option<SocketAddr>,
        /// Which networks are behind it.
        allowed: BTreeSet<Net>,
        /// Seconds between signs of life; 0: none.
        keepalive: u16,
    },
    /// It is there now.
    Endpoint(SocketAddr),
    /// These networks are behind it, and no others.
    Allowed(BTreeSet<Net>),
    /// Seconds between signs of life; 0: none.
    Keepalive(u16),
    /// Forget it.
    Remove,
}
