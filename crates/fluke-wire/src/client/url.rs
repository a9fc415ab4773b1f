//! Where a server is, and whether TLS is spoken there.

use std::fmt;
use std::str::FromStr;

use rustls::pki_types::ServerName;

use crate::DEFAULT_PORT;

/// A server's address: `grpcs://host:port`, or `grpc://host:port` for plaintext.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    tls: bool,
    host: String,
    port: u16,
}

/// Why a text is no server's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a server's address: {problem}; write grpcs://HOST:{DEFAULT_PORT}, or \
         grpc://HOST:{DEFAULT_PORT} for a server without TLS"
)]
pub struct InvalidUrl {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

impl ServerUrl {
    /// Whether TLS is spoken.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// A name or an IP address (of version 6 without its brackets).
    pub fn host(&self) -> &str {
        &self.host
    }

    /// [`DEFAULT_PORT`] where none was given.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`, as people write it.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "grpcs" } else { "grpc" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl FromStr for ServerUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        parse(text).map_err(|problem| InvalidUrl { text: text.to_owned(), problem })
    }
}

fn parse(text: &str) -> Result<ServerUrl, String> {
    let (scheme, rest) = text.split_once("://").ok_or("it does not begin with grpcs://")?;
    let tls = match scheme {
        "grpcs" => true,
        "grpc" => false,
        "http" | "https" => return Err(format!("agents do not speak {scheme}")),
        other => return Err(format!("the scheme `{other}` is not known")),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#', '@']) {
        return Err("nothing but a host and a port belongs behind the scheme".to_owned());
    }
    let (host, port) = split_authority(authority)?;
    if ServerName::try_from(host).is_err() {
        return Err(format!("`{host}` is neither a host's name nor an IP address"));
    }
    Ok(ServerUrl { tls, host: host.to_owned(), port })
}

fn split_authority(authority: &str) -> Result<(&str, u16), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("the bracket is not closed")?;
            (
                host,
                if rest.is_empty() { None } else { Some(rest.strip_prefix(':').unwrap_or(rest)) },
            )
        }
        None => match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address belongs in brackets, as in [::1]".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("the host is missing".to_owned());
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => return Err(format!("`{port}` is not a port")),
            Ok(port) => port,
        },
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for (text, tls, host, port, printed) in [
            ("grpc://localhost:7070", false, "localhost", 7070, "grpc://localhost:7070"),
            ("grpcs://fluke.example", true, "fluke.example", 7070, "grpcs://fluke.example:7070"),
            ("grpcs://fluke.example:443/", true, "fluke.example", 443, "grpcs://fluke.example:443"),
            ("grpc://127.0.0.1:1", false, "127.0.0.1", 1, "grpc://127.0.0.1:1"),
            ("grpcs://[::1]:7070", true, "::1", 7070, "grpcs://[::1]:7070"),
            ("grpcs://[fe80::1]", true, "fe80::1", 7070, "grpcs://[fe80::1]:7070"),
        ] {
            let url: ServerUrl = text.parse().expect(text);
            assert_eq!((url.is_tls(), url.host(), url.port()), (tls, host, port), "{text}");
            assert_eq!(url.to_string(), printed);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_to_write() {
        for (text, problem) in [
            ("", "does not begin"),
            ("localhost:7070", "does not begin"),
            ("http://localhost:7070", "do not speak http"),
            ("https://localhost", "do not speak https"),
            ("unix:///run/fluke.sock", "scheme `unix`"),
            ("grpc://", "host is missing"),
            ("grpc://:7070", "host is missing"),
            ("grpc://host:", "not a port"),
            ("grpc://host:0", "not a port"),
            ("grpc://host:70700", "not a port"),
            ("grpc://::1:7070", "brackets"),
            ("grpc://[::1", "not closed"),
            ("grpc://[::1]x", "not a port"),
            ("grpc://user@host", "nothing but a host"),
            ("grpc://host/path", "nothing but a host"),
            ("grpc://ho st", "neither a host's name"),
        ] {
            let error = text.parse::<ServerUrl>().expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
            assert!(error.contains("write grpcs://HOST:7070"), "{error}");
        }
    }
}
