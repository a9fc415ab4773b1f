//! Where Redis is, read from a URL that may hold a password.

use std::fmt;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// One Redis server, or some of the nodes of a Redis Cluster.
#[derive(Clone)]
pub struct RedisAddress {
    pub(super) nodes: Vec<ConnectionInfo>,
    pub(super) is_cluster: bool,
}

/// Why a URL does not say where Redis is. Never holds the URL: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It cannot be read.
    #[error(
        "it is no address of Redis ({0}); write redis://host:6379, rediss://host:6379 for TLS, or \
         redis+unix:///path/to/socket"
    )]
    Unreadable(String),
    /// Certificates are not to be checked.
    #[error("certificates are always checked; leave out `#insecure` and give the CA in `ca_file`")]
    Insecure,
    /// A cluster is elsewhere.
    #[error("a cluster is reached over TCP, not through a socket")]
    ClusterSocket,
    /// A cluster has one database.
    #[error("a cluster has database 0 only; leave the number out")]
    ClusterDatabase,
    /// A node is not a host and a port.
    #[error("the node number {0} is not \"host:port\"; user and password are those of `url`")]
    Node(usize),
}

impl RedisAddress {
    /// `redis://`, `rediss://` or `redis+unix://`, with user, password and database.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let info = url.into_connection_info().map_err(|error| {
            let words = error.to_string();
            AddressError::Unreadable(words.split(" - ").next().unwrap_or_default().to_lowercase())
        })?;
        if matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. }) {
            return Err(AddressError::Insecure);
        }
        Ok(Self { nodes: vec![info], is_cluster: false })
    }

    /// The same as a node of a cluster, with more nodes (`host:port`) to ask for the others.
    pub fn cluster(mut self, more: &[String]) -> Result<Self, AddressError> {
        let [first] = &self.nodes[..] else { return Ok(self) };
        let first = first.clone();
        if matches!(first.addr(), ConnectionAddr::Unix(_)) {
            return Err(AddressError::ClusterSocket);
        }
        if first.redis_settings().db() != 0 {
            return Err(AddressError::ClusterDatabase);
        }
        for (index, node) in more.iter().enumerate() {
            let (host, port) = host_and_port(node).ok_or(AddressError::Node(index + 1))?;
            let address = match first.addr() {
                ConnectionAddr::TcpTls { .. } => {
                    ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
                }
                _ => ConnectionAddr::Tcp(host, port),
            };
            self.nodes.push(first.clone().set_addr(address));
        }
        self.is_cluster = true;
        Ok(self)
    }

    pub(super) fn speaks_tls(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.addr(), ConnectionAddr::TcpTls { .. }))
    }
}

fn host_and_port(node: &str) -> Option<(String, u16)> {
    let (host, port) = node.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_host = !host.is_empty() && !host.contains(['/', '@']);
    is_host.then_some((host.to_string(), port.parse().ok()?))
}

/// For people: without user and password.
impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.nodes.first() else { return Ok(()) };
        let scheme = match first.addr() {
            ConnectionAddr::TcpTls { .. } => "rediss",
            ConnectionAddr::Unix(_) => "redis+unix",
            _ => "redis",
        };
        write!(f, "{scheme}://{}", first.addr())?;
        for node in self.nodes.iter().skip(1) {
            write!(f, ",{}", node.addr())?;
        }
        match first.redis_settings().db() {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}

impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> Result<String, String> {
        let address = RedisAddress::parse(url).map_err(|error| error.to_string())?;
        Ok(format!("{address} {address:?}"))
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, place) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://:s3cret@localhost:7000/2", "redis://localhost:7000/2"),
            ("rediss://fluke:s3cret@redis.example", "rediss://redis.example:6379"),
            ("redis+unix:///run/redis.sock?db=3&pass=s3cret", "redis+unix:///run/redis.sock/3"),
            ("unix:///run/redis.sock?user=me&pass=s3cret", "redis+unix:///run/redis.sock"),
        ] {
            assert_eq!(shown(url), Ok(format!("{place} RedisAddress({place})")), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, said) in [
            ("localhost:6379", "is no address of Redis"),
            ("http://u:s3cret@localhost", "is no address of Redis"),
            ("redis://u:s3cret@localhost/two", "invalid database number"),
            ("redis://u:s3cret@", "is no address of Redis"),
            ("rediss://u:s3cret@localhost/#insecure", "certificates are always checked"),
        ] {
            let error = shown(url).expect_err(url);
            assert!(error.contains(said) && !error.contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn a_cluster_is_known_by_some_of_its_nodes() {
        let address = RedisAddress::parse("rediss://u:s3cret@a.example:7000").expect("a url");
        let cluster = address.clone().cluster(&["b.example:7001".into(), "[::1]:7002".into()]);
        let cluster = cluster.expect("nodes");
        assert_eq!(cluster.to_string(), "rediss://a.example:7000,b.example:7001,::1:7002");
        assert!(cluster.nodes.iter().all(|node| node.redis_settings().password().is_some()));
        assert!(cluster.speaks_tls());
        for wrong in ["b.example", "b.example:x", ":7000", "redis://b:1", "u@b:1"] {
            let error = address.clone().cluster(&[wrong.into()]).err();
            assert_eq!(error, Some(AddressError::Node(1)));
        }
        let of = |url| RedisAddress::parse(url).expect("a url").cluster(&[]).err();
        assert_eq!(of("redis://a/1"), Some(AddressError::ClusterDatabase));
        assert_eq!(of("unix:///a"), Some(AddressError::ClusterSocket));
    }
}
