//! Where the server is.

use std::fmt;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::error::ClientError;

/// Where a server on this host listens, unless its config says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/fluke/fluke.sock";

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// A socket on this host.
    Unix(PathBuf),
    /// `http://` or `https://`
    Http(Url),
}

impl Server {
    /// The server that was named, or the one of this host.
    pub fn choose(named: Option<&str>) -> Result<Self, ClientError> {
        match named.map(str::trim).filter(|named| !named.is_empty()) {
            Some(named) => Self::parse(named),
            // Whether it may be used is found out, and said better, when it is.
            None if Path::new(DEFAULT_SOCKET).try_exists().unwrap_or(true) => {
                Ok(Self::Unix(DEFAULT_SOCKET.into()))
            }
            None => Err(ClientError::NoServer),
        }
    }

    /// Reads `unix:///path` or `http(s)://host:port`.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let wrong = |reason: String| ClientError::Address { given: hide_credentials(text), reason };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => Err(wrong(
                    "the path of a socket is absolute: unix:///run/fluke/fluke.sock".into(),
                )),
            };
        }
        if text.starts_with('/') {
            return Err(wrong(format!("for a socket, write unix://{text}")));
        }
        if !text.contains("://") {
            return Err(wrong(format!("it has no scheme; write http://{text} or https://{text}")));
        }
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        match url.scheme() {
            "http" | "https" if !url.username().is_empty() || url.password().is_some() => {
                Err(wrong("it holds credentials; put a token into FLUKE_API_TOKEN instead".into()))
            }
            "http" | "https" => Ok(Self::Http(url)),
            "grpc" | "grpcs" => Err(wrong(
                "that port is for agents; this wants the HTTP port, http(s)://host:7071".into(),
            )),
            other => Err(wrong(format!("`{other}` is not spoken; use unix, http or https"))),
        }
    }

    /// What paths are put behind.
    pub(super) fn base(&self) -> Result<Url, ClientError> {
        match self {
            Self::Http(url) => Ok(url.clone()),
            // The name reaches nobody: the socket is the address.
            Self::Unix(_) => Self::parse("http://localhost")?.base(),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Http(url) => f.write_str(url.as_str().trim_end_matches('/')),
        }
    }
}

fn hide_credentials(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}://…{}", &text[..scheme], &text[at..])
        }
        _ => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_sockets_and_urls() {
        for (text, shown) in [
            ("unix:///run/fluke/fluke.sock", "unix:///run/fluke/fluke.sock"),
            ("unix:/tmp/s", "unix:///tmp/s"),
            ("http://localhost:7071", "http://localhost:7071"),
            ("https://fluke.example/prefix/", "https://fluke.example/prefix"),
        ] {
            assert_eq!(Server::parse(text).expect(text).to_string(), shown);
        }
    }

    #[test]
    fn wrong_addresses_are_explained() {
        for (text, says) in [
            ("/run/fluke.sock", "write unix:///run/fluke.sock"),
            ("unix://fluke.sock", "absolute"),
            ("fluke.example:7071", "write http://fluke.example:7071"),
            ("grpcs://fluke.example:7070", "that port is for agents"),
            ("ftp://x", "`ftp` is not spoken"),
            ("http://", "empty host"),
            ("http://u:secret@h:7071", "FLUKE_API_TOKEN"),
        ] {
            let error = Server::parse(text).expect_err(text).to_string();
            let cause = Server::parse(text).expect_err(text);
            let all = format!(
                "{error} {}",
                std::error::Error::source(&cause).map(ToString::to_string).unwrap_or_default()
            );
            assert!(all.contains(says), "{text}: {all}");
            assert!(!all.contains("secret"), "{all}");
        }
    }
}
