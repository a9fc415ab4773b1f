//! Why the server gave no answer, and what to do about it.

use std::error::Error;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde::Deserialize;

use super::address::{DEFAULT_SOCKET, Server};
use crate::failure::Failure;
use crate::sanitise;

/// Anything beneath.
type Cause = Box<dyn Error + Send + Sync>;

/// Why the server gave no (usable) answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody said which server, and there is none on this host.
    #[error("no server to talk to: none was named, and there is no {DEFAULT_SOCKET} on this host")]
    NoServer,
    /// The address is none.
    #[error("`{given}` is not the address of a server: {reason}")]
    Address {
        /// As given, without credentials.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The token has characters that no token has.
    #[error("FLUKE_API_TOKEN cannot be used: it has characters that no token has")]
    UnusableToken,
    /// The certificates to trust cannot be read.
    #[error("could not read certificates from {file}, which FLUKE_CA_FILE names")]
    CaFile {
        /// Which file.
        file: String,
        /// Why.
        source: Cause,
    },
    /// The HTTP client could not be made.
    #[error("could not prepare the HTTP client")]
    Setup {
        /// Why.
        source: reqwest::Error,
    },
    /// Nobody listens there.
    #[error("could not connect to {server}")]
    Unreachable {
        /// Which server.
        server: String,
        /// How it failed.
        source: Cause,
        /// What to do.
        help: String,
    },
    /// Something was said, and then no more.
    #[error("lost the connection to {server}")]
    Lost {
        /// Which server.
        server: String,
        /// How it failed.
        source: Cause,
    },
    /// No answer in time.
    #[error("{server} did not answer in time")]
    TimedOut {
        /// Which server.
        server: String,
    },
    /// 401
    #[error("{server} did not let us in: {problem}")]
    Unauthorised {
        /// Which server.
        server: String,
        /// What it said.
        problem: Problem,
    },
    /// 403
    #[error("{server} does not allow this: {problem}")]
    Forbidden {
        /// Which server.
        server: String,
        /// What it said.
        problem: Problem,
    },
    /// 404
    #[error("{server} does not know this: {problem}")]
    NotFound {
        /// Which server.
        server: String,
        /// What it said.
        problem: Problem,
    },
    /// Any other error status.
    #[error("{server} refused: {problem}")]
    Refused {
        /// Which server.
        server: String,
        /// What it said.
        problem: Problem,
    },
    /// Not what the API says.
    #[error("{server} answered something that this version of fluke cannot read")]
    Strange {
        /// Which server.
        server: String,
        /// Where reading failed.
        source: serde_json::Error,
    },
    /// More than anybody can want.
    #[error("{server} answered more than 256 MiB")]
    TooLong {
        /// Which server.
        server: String,
    },
}

impl ClientError {
    /// Whether the same request may well succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::TimedOut { .. } => true,
            Self::Refused { problem, .. } => matches!(problem.status, 429 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// Whether the server answered that there is no such thing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    pub(super) fn from_transport(server: &Server, error: reqwest::Error) -> Self {
        let name = server.to_string();
        if error.is_timeout() && !error.is_connect() {
            return Self::TimedOut { server: name };
        }
        if !error.is_connect() {
            return Self::Lost { server: name, source: error.into() };
        }
        let help = connect_help(server, &error);
        let source = innermost(error);
        Self::Unreachable { server: name, source, help }
    }

    /// What to do about it, where one can tell.
    pub fn help(&self) -> Option<String> {
        let help = match self {
            Self::NoServer => {
                "name one with --server or FLUKE_SERVER (unix:///path/to/fluke.sock, or \
                 http(s)://host:7071 with a token in FLUKE_API_TOKEN); to start one here: \
                 `systemctl start fluke-server` where it is installed, `fluke server --config FILE` \
                 elsewhere, or `fluke dev` to try it out"
            }
            Self::Address { .. } => {
                "--server and FLUKE_SERVER take unix:///run/fluke/fluke.sock or http(s)://host:7071"
            }
            Self::UnusableToken => "set it to one of the server's api_tokens, and nothing else",
            Self::CaFile { .. } => "FLUKE_CA_FILE names a PEM file with the server's authority",
            Self::Unreachable { help, .. } => help,
            Self::Lost { .. } => "try again; if it happens again, look at the server's log",
            Self::TimedOut { .. } => "the server may be overloaded: look at its log, or try again",
            Self::Unauthorised { .. } if std::env::var_os("FLUKE_API_TOKEN").is_some() => {
                "FLUKE_API_TOKEN is not one of the server's api_tokens; has it been rotated?"
            }
            Self::Unauthorised { .. } => "put one of the server's api_tokens into FLUKE_API_TOKEN",
            Self::Forbidden { .. } => {
                "without api_tokens in its config, a server takes changes only through its local \
                 socket: run this on the server's host, or give it api_tokens"
            }
            Self::Strange { .. } => {
                "is it a fluke server, at its HTTP port (7071), and of about the same version? \
                 `curl …/healthz` tells"
            }
            Self::Refused { problem, .. } if problem.status == 400 => {
                "if the command line is newer than the server, it may ask for what the server does \
                 not know: compare `fluke version` here and there"
            }
            Self::Refused { problem, .. } if problem.status == 429 => {
                "wait a little, and try again"
            }
            Self::Refused { problem, .. } if problem.status >= 500 => {
                "`fluke get source` says whether a commit is in force; the server's log says more"
            }
            Self::NotFound { .. } => {
                "is it a fluke server of about the same version? Compare `fluke version` here and there"
            }
            Self::TooLong { .. } => "ask for less: with a filter, or --limit",
            // What was asked cannot be; the server has said why.
            Self::Refused { .. } | Self::Setup { .. } => return None,
        };
        Some(help.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let is_usage = matches!(error, ClientError::Address { .. });
        let failure = Failure::from_error(&error).usage(is_usage);
        match error.help() {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

/// RFC 9457: what the server says is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Problem {
    /// The status of the answer.
    #[serde(default)]
    pub status: u16,
    /// In a few words.
    #[serde(default)]
    pub title: Option<String>,
    /// In more.
    #[serde(default)]
    pub detail: Option<String>,
}

impl Problem {
    /// Reads problem details; or, where there are none, what was sent instead.
    pub(super) fn read(status: u16, text: &str) -> Self {
        let known = serde_json::from_str::<Problem>(text).ok();
        let known = known.filter(|problem| problem.title.is_some() || problem.detail.is_some());
        let mut problem = known.unwrap_or_else(|| Problem {
            detail: Some(sanitise::first_line(text).chars().take(200).collect()),
            ..Problem::default()
        });
        problem.status = status;
        problem
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let told =
            |text: &Option<String>| text.as_deref().map(sanitise::line).filter(|t| !t.is_empty());
        match (told(&self.title), told(&self.detail)) {
            (Some(title), Some(detail)) if detail.contains(&title) => f.write_str(&detail),
            (Some(title), Some(detail)) => write!(f, "{title}: {detail}"),
            (Some(text), None) | (None, Some(text)) => write!(f, "{text} (HTTP {})", self.status),
            (None, None) => write!(f, "HTTP {}", self.status),
        }
    }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>() {
        // An io::Error passes over what it wraps when asked for its source.
        Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    })
}

fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    chain(error).find_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

/// The layers above say only "error trying to connect".
fn innermost(error: reqwest::Error) -> Cause {
    if error.is_timeout() {
        return "nobody answered within 5 seconds".into();
    }
    chain(&error).last().map(ToString::to_string).unwrap_or_default().into()
}

fn connect_help(server: &Server, error: &reqwest::Error) -> String {
    let tls = chain(error).find_map(|error| error.downcast_ref::<rustls::Error>());
    match (server, io_kind(error)) {
        (Server::Http(url), _) if tls.is_some() => tls_help(url, tls),
        (Server::Unix(path), Some(io::ErrorKind::PermissionDenied)) => permission_help(path),
        (Server::Unix(path), Some(io::ErrorKind::NotFound)) => format!(
            "there is no {}: is the server running, and is this its `socket`? Another one is named \
             with --server or FLUKE_SERVER",
            path.display()
        ),
        (Server::Unix(_), _) => "the server that made this socket is gone: start it again".into(),
        (Server::Http(_), Some(io::ErrorKind::ConnectionRefused)) => {
            "nobody listens there: is the server running, and is this its `listen_http`?".into()
        }
        (Server::Http(_), _) => {
            "check the name and the port, and whether a firewall is between".into()
        }
    }
}

fn tls_help(url: &reqwest::Url, error: Option<&rustls::Error>) -> String {
    use rustls::CertificateError::*;
    match error {
        Some(rustls::Error::InvalidCertificate(UnknownIssuer)) => {
            "the server's certificate is signed by an authority that this host does not know: name \
             its PEM file in FLUKE_CA_FILE (or SSL_CERT_FILE)"
                .into()
        }
        Some(rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. })) => {
            "the server's certificate has expired: renew it; and is this host's clock right?".into()
        }
        Some(rustls::Error::InvalidCertificate(
            NotValidForName | NotValidForNameContext { .. },
        )) => {
            format!(
                "the server's certificate is not for `{}`: use a name that is in it",
                url.host_str().unwrap_or_default()
            )
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            format!("no TLS is spoken there; try http://{}", url.authority())
        }
        _ => "the connection is there, but TLS failed: is this the server's `listen_http`?".into(),
    }
}

/// Who may use the socket, and how to become one of them.
fn permission_help(path: &Path) -> String {
    let socket = path.display();
    let Ok(found) = std::fs::metadata(path) else {
        return format!("you may not enter the folder of {socket}; try with sudo");
    };
    let owner = user_name(found.uid());
    let group = nix::unistd::Group::from_gid(found.gid().into()).ok().flatten();
    let group = group.map_or_else(|| found.gid().to_string(), |group| group.name);
    format!(
        "{socket} has mode {:04o} and belongs to {owner}:{group}: use sudo, or become a member with \
         `sudo usermod -aG {group} {}`",
        found.permissions().mode() & 0o7777,
        user_name(nix::unistd::Uid::effective().as_raw()),
    )
}

fn user_name(id: u32) -> String {
    let user = nix::unistd::User::from_uid(id.into()).ok().flatten();
    user.map_or_else(|| id.to_string(), |user| user.name)
}
