//! Whom the host asks: `resolv.conf`, read again when it may have changed.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where DNS is.
pub const PORT: u16 = 53;
/// As many as other resolvers heed.
const MOST: usize = 3;
/// A changed file is seen after this.
const FRESH: Duration = Duration::from_secs(5);
/// No honest file is longer.
const LONGEST: u64 = 64 * 1024;

/// The host's resolvers.
#[derive(Debug)]
pub struct Resolvers {
    path: PathBuf,
    /// Asking ourselves would never end.
    own: SocketAddr,
    known: Mutex<Option<(Instant, Arc<[SocketAddr]>)>>,
}

impl Resolvers {
    /// Those that the file at `path` names, but for `own`.
    pub fn new(path: PathBuf, own: SocketAddr) -> Self {
        Self { path, own, known: Mutex::new(None) }
    }

    /// Whom to ask, first things first.
    pub fn now(&self) -> Arc<[SocketAddr]> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, servers)) = known.as_ref().filter(|(read, _)| read.elapsed() < FRESH) {
            return servers.clone();
        }
        let servers: Arc<[SocketAddr]> = match read(&self.path) {
            Ok(text) => servers(&text, self.own, interface).into(),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "resolvers cannot be read");
                servers("", self.own, interface).into()
            }
        };
        *known = Some((Instant::now(), servers.clone()));
        servers
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut content = Vec::new();
    std::fs::File::open(path)?.take(LONGEST).read_to_end(&mut content)?;
    Ok(String::from_utf8_lossy(&content).into_owned())
}

fn interface(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| nix::net::if_::if_nametoindex(name).ok())
}

/// The servers that `text` names. One that names none means the host itself (`resolv.conf(5)`).
pub fn servers(
    text: &str,
    own: SocketAddr,
    interface: impl Fn(&str) -> Option<u32>,
) -> Vec<SocketAddr> {
    let named: Vec<SocketAddr> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next())?
        })
        .filter_map(|word| address(word, &interface))
        .collect();
    let named = match named.is_empty() {
        true => vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))],
        false => named,
    };
    let mut servers: Vec<SocketAddr> = Vec::new();
    for server in named.into_iter().filter(|server| *server != own).take(MOST) {
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    servers
}

/// An address, one with an interface (`fe80::1%eth0`), or, as OpenBSD has it, one with a port
/// (`[192.0.2.1]:5353`).
fn address(word: &str, interface: impl Fn(&str) -> Option<u32>) -> Option<SocketAddr> {
    let (address, port) = match word.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        Some((address, port)) => (address, port.parse().ok()?),
        None => (word, PORT),
    };
    match address.split_once('%') {
        Some((address, name)) => {
            let scope = interface(name)?;
            Some(SocketAddrV6::new(address.parse().ok()?, port, 0, scope).into())
        }
        None => Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let own = SocketAddr::from(([10, 200, 1, 1], PORT));
        let interface = |name: &str| (name == "eth0").then_some(2);
        servers(text, own, interface).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_file_says_whom_to_ask_and_we_are_never_among_them() {
        let cases: &[(&str, &[&str])] = &[
            ("", &["127.0.0.1:53"]),
            ("# nothing\nsearch example.com\n", &["127.0.0.1:53"]),
            ("nameserver 192.0.2.1\n", &["192.0.2.1:53"]),
            ("  nameserver\t192.0.2.1 trailing\r\n", &["192.0.2.1:53"]),
            ("nameserver 10.200.1.1\nnameserver 192.0.2.1", &["192.0.2.1:53"]),
            ("nameserver 10.200.1.1", &[]),
            ("nameserver nonsense\nnameserver 2001:db8::1", &["[2001:db8::1]:53"]),
            ("nameserver fe80::1%eth0", &["[fe80::1%2]:53"]),
            ("nameserver fe80::1%away\nnameserver 192.0.2.2", &["192.0.2.2:53"]),
            ("nameserver [192.0.2.1]:5353", &["192.0.2.1:5353"]),
            ("nameserver [10.200.1.1]:5353", &["10.200.1.1:5353"]),
            (";nameserver 192.0.2.1\n#nameserver 192.0.2.1", &["127.0.0.1:53"]),
            ("nameserver 192.0.2.1\nnameserver 192.0.2.1", &["192.0.2.1:53"]),
            (
                "nameserver 1.1.1.1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\nnameserver 4.4.4.4",
                &["1.1.1.1:53", "2.2.2.2:53", "3.3.3.3:53"],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_means_the_host_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = SocketAddr::from(([10, 200, 1, 1], PORT));
        let resolvers = Resolvers::new(dir.path().join("none"), own);
        assert_eq!(*resolvers.now(), [SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))]);
    }
}
