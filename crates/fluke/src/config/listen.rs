//! Addresses to listen on.

use std::fmt;
use std::str::FromStr;

/// `:7070` is every address of the host; else `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// None means every address.
    pub host: Option<String>,
    /// The port; 0 lets the system choose.
    pub port: u16,
}

/// Why a text is no address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not an address to listen on: {problem}")]
pub struct InvalidListen {
    given: String,
    problem: &'static str,
}

impl Listen {
    /// Every address, this port.
    pub fn everywhere(port: u16) -> Self {
        Self { host: None, port }
    }

    /// What to bind, best first: the next one only where the one before cannot be.
    pub fn candidates(&self) -> Vec<String> {
        match &self.host {
            Some(_) => vec![self.to_string()],
            // One socket for both families, unless the host has no IPv6.
            None => vec![format!("[::]:{}", self.port), format!("0.0.0.0:{}", self.port)],
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => write!(f, ":{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

impl FromStr for Listen {
    type Err = InvalidListen;

    fn from_str(text: &str) -> Result<Self, InvalidListen> {
        let wrong = |problem| InvalidListen { given: text.to_string(), problem };
        let (host, port) =
            text.rsplit_once(':').ok_or(wrong("it has no port; write host:port, or :port"))?;
        let port = port.parse().map_err(|_| wrong("its port is not a number up to 65535"))?;
        let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(Some(inner)) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
            Some(_) => return Err(wrong("what is in brackets is no IPv6 address")),
            None if host.contains(':') => {
                return Err(wrong("an IPv6 address stands in brackets: [::1]:7070"));
            }
            None => host,
        };
        if host.contains(|c: char| {
            !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%'))
        }) {
            return Err(wrong("its host is neither a name nor an IP address"));
        }
        Ok(Self { host: (!host.is_empty() && host != "*").then(|| host.to_string()), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_with_or_without_a_host() {
        for (text, bound) in [
            (":7070", vec!["[::]:7070", "0.0.0.0:7070"]),
            ("127.0.0.1:0", vec!["127.0.0.1:0"]),
            ("[::1]:7071", vec!["[::1]:7071"]),
            ("fluke.example:7070", vec!["fluke.example:7070"]),
        ] {
            let listen: Listen = text.parse().expect(text);
            assert_eq!(
                (listen.candidates(), listen.to_string().as_str()),
                (bound.iter().map(ToString::to_string).collect(), text)
            );
        }
    }

    #[test]
    fn what_is_no_address_is_told_apart() {
        for (text, says) in [
            ("7070", "no port"),
            (":x", "not a number"),
            (":70700", "not a number"),
            ("::1:7070", "in brackets"),
            ("[nope]:7070", "no IPv6 address"),
            ("http://x:7070", "in brackets"),
            ("a b:7070", "neither a name"),
        ] {
            let error = text.parse::<Listen>().expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
