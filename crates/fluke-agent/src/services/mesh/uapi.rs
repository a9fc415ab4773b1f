//! The text that every userspace WireGuard speaks at its socket; see
//! <https://www.wireguard.com/xplatform/#configuration-protocol>.

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fluke_model::directory::PublicKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::device::{Device, Order, PeerOrder, SeenPeer};
use super::key::PrivateKey;
use super::net::Net;

/// What is asked to be told all.
pub const GET: &str = "get=1\n\n";

/// An answer is as long as there are peers, each a few hundred bytes; there are some 14 000 at most.
const LONGEST: u64 = 16 * 1024 * 1024;
/// It answers at once, or is stuck.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two calls of one that takes none.
const PAUSE: Duration = Duration::from_millis(50);

/// Says something at the socket; what comes back.
pub async fn say(socket: &Path, words: &str) -> io::Result<String> {
    let said = async {
        let mut stream = connect(socket).await?;
        stream.write_all(words.as_bytes()).await?;
        // One thing a connection: its end is the answer's.
        stream.shutdown().await?;
        let mut answer = String::new();
        stream.take(LONGEST).read_to_string(&mut answer).await?;
        Ok(answer)
    };
    tokio::time::timeout(PATIENCE, said).await.map_err(|_| io::ErrorKind::TimedOut)?
}

/// Waits while so many call that it takes no more.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(PAUSE).await;
            }
            connected => return connected,
        }
    }
}

/// An order in words.
pub fn words(order: &Order<'_>) -> String {
    let mut words = String::from("set=1\n");
    // Writing to a string cannot fail.
    let _ = match order {
        Order::Key(key) => writeln!(words, "private_key={}", hex(key.bytes())),
        Order::Port(port) => writeln!(words, "listen_port={port}"),
        Order::Peer(key, order) => {
            let _ = writeln!(words, "public_key={}", hex(&key.0));
            peer(&mut words, order)
        }
    };
    words.push('\n');
    words
}

fn peer(words: &mut String, order: &PeerOrder) -> std::fmt::Result {
    if !matches!(order, PeerOrder::Add { .. }) {
        words.push_str("update_only=true\n");
    }
    match order {
        PeerOrder::Remove => writeln!(words, "remove=true"),
        PeerOrder::Endpoint(to) => writeln!(words, "endpoint={to}"),
        PeerOrder::Keepalive(seconds) => {
            writeln!(words, "persistent_keepalive_interval={seconds}")
        }
        PeerOrder::Allowed(nets) => allow(words, nets.iter()),
        PeerOrder::Add { endpoint, allowed, keepalive } => {
            if let Some(to) = endpoint {
                writeln!(words, "endpoint={to}")?;
            }
            writeln!(words, "persistent_keepalive_interval={keepalive}")?;
            allow(words, allowed.iter())
        }
    }
}

fn allow<'a>(words: &mut String, nets: impl Iterator<Item = &'a Net>) -> std::fmt::Result {
    words.push_str("replace_allowed_ips=true\n");
    for net in nets {
        writeln!(words, "allowed_ip={net}")?;
    }
    Ok(())
}

/// What the answer to an order comes down to.
pub fn accepted(answer: &str) -> io::Result<()> {
    let code = answer.lines().find_map(|line| line.strip_prefix("errno="));
    match code.and_then(|code| code.parse::<i32>().ok()) {
        Some(0) => Ok(()),
        // Some count downwards.
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_abs())),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "it did not say what came of it")),
    }
}

/// Reads what the answer to [`GET`] says.
pub fn read(answer: &str) -> io::Result<Device> {
    accepted(answer)?;
    let mut device = Device::default();
    let mut peer: Option<PublicKey> = None;
    for line in answer.lines() {
        let Some((name, value)) = line.split_once('=') else { continue };
        let known = match (name, peer) {
            ("public_key", _) => {
                let key = unhex(value).map(PublicKey);
                peer = key;
                key.map(|key| drop(device.peers.insert(key, SeenPeer::default())))
            }
            ("private_key", _) => unhex(value).map(|bytes| {
                // None is all zeros.
                device.key = (bytes != [0; 32]).then(|| PrivateKey::new(bytes).public());
            }),
            ("listen_port", _) => value.parse().ok().map(|port| device.port = port),
            (name, Some(key)) => {
                device.peers.get_mut(&key).and_then(|peer| read_peer(peer, name, value))
            }
            _ => Some(()),
        };
        let odd = || io::Error::new(io::ErrorKind::InvalidData, format!("`{name}` is odd"));
        known.ok_or_else(odd)?;
    }
    Ok(device)
}

fn read_peer(peer: &mut SeenPeer, name: &str, value: &str) -> Option<()> {
    match name {
        "endpoint" => peer.endpoint = Some(value.parse::<SocketAddr>().ok()?),
        "persistent_keepalive_interval" => peer.keepalive = value.parse().ok()?,
        "last_handshake_time_sec" => {
            let at = Duration::from_secs(value.parse().ok()?);
            peer.handshake = (!at.is_zero()).then_some(at);
        }
        "allowed_ip" => match Net::parse(value) {
            Some(net) => drop(peer.allowed.insert(net)),
            None => peer.foreign = true,
        },
        _ => {}
    }
    Some(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect();
    (digits.len() == 64).then_some(())?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests;
