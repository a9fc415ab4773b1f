//! Why an agent has no session, said so that an operator knows what to do.

use std::io;
use std::time::Duration;

use tonic::{Code, Status};

use super::first_bytes::Speaker;
use super::tls::{HandshakeFailure, TlsProblem};
use crate::error::{WireError, told};
use crate::refusal::Refusal;

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no connection to be had.
    #[error(
        "the server at {address} cannot be reached; check that it runs, the address in \
         `server_url`, and firewalls in between"
    )]
    Unreachable {
        /// `host:port`.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// We speak TLS and the server does not.
    #[error(
        "the server at {address} does not speak TLS; use grpc:// in `server_url`, or switch TLS \
         on at the server"
    )]
    NotTls {
        /// `host:port`.
        address: String,
    },
    /// The server speaks TLS and we do not.
    #[error("the server at {address} speaks TLS; use grpcs:// in `server_url`")]
    NeedsTls {
        /// `host:port`.
        address: String,
    },
    /// Both speak TLS, and the server could not show who it is.
    #[error("the server at {address} is not trusted")]
    Tls {
        /// `host:port`.
        address: String,
        /// What is wrong, and what to do.
        #[source]
        source: TlsProblem,
    },
    /// The token is wrong or missing.
    #[error(
        "the server at {address} does not accept the token; compare `token` with the server's \
         `agent_tokens`"
    )]
    Unauthenticated {
        /// `host:port`.
        address: String,
    },
    /// Another agent of this name is connected.
    #[error("the name is taken: {reason}; give each agent its own `name`")]
    NameTaken {
        /// The server's words.
        reason: String,
    },
    /// The server turned the agent away.
    #[error("the server refused this agent: {reason}")]
    Refused {
        /// The server's words.
        reason: String,
    },
    /// The server is starting, stopping or overloaded.
    #[error("the server at {address} is not ready: {reason}")]
    Unavailable {
        /// `host:port`.
        address: String,
        /// The server's words.
        reason: String,
    },
    /// What answers is no fluke server, or one of another time.
    #[error(
        "what answers at {address} is not a fluke server that this agent understands: {reason}; \
         check host and port in `server_url`, and the versions of both"
    )]
    Incompatible {
        /// `host:port`.
        address: String,
        /// What it did.
        reason: String,
    },
    /// The server is there, and does not answer.
    #[error(
        "the server at {address} accepted the connection and did not answer within {} s; it may \
         be overloaded, or something else listens there",
        waited.as_secs_f32()
    )]
    NoAnswer {
        /// `host:port`.
        address: String,
        /// How long the agent waited.
        waited: Duration,
    },
    /// The connection broke before there was a session.
    #[error("the connection to {address} broke before a session began: {reason}")]
    Lost {
        /// `host:port`.
        address: String,
        /// As far as it is known.
        reason: String,
    },
}

impl ConnectError {
    /// Whether this may well pass by itself; otherwise an operator has to do something.
    pub fn is_retryable_soon(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::NameTaken { .. }
            | Self::Unavailable { .. }
            | Self::NoAnswer { .. }
            | Self::Lost { .. } => true,
            Self::NotTls { .. }
            | Self::NeedsTls { .. }
            | Self::Tls { .. }
            | Self::Unauthenticated { .. }
            | Self::Refused { .. }
            | Self::Incompatible { .. } => false,
        }
    }

    pub(super) fn of_handshake(address: String, failure: HandshakeFailure) -> Self {
        match failure {
            HandshakeFailure::NotTls => Self::NotTls { address },
            HandshakeFailure::Tls(source) => Self::Tls { address, source },
            HandshakeFailure::NotHttp2 => {
                Self::Incompatible { address, reason: "it does not speak HTTP/2".to_owned() }
            }
            HandshakeFailure::Broken(error) => Self::Lost {
                address,
                reason: format!("{error} (does the server have TLS switched on?)"),
            },
        }
    }

    /// The error behind a call that failed with `status`, at a server that began as `speaker`.
    pub(super) fn of_call(address: String, status: &Status, speaker: Speaker) -> Self {
        let incompatible = |reason: &str| Self::Incompatible {
            address: address.clone(),
            reason: reason.to_owned(),
        };
        if let Some(refusal) = Refusal::from_status(status) {
            return Self::of_refusal(address, refusal);
        }
        match (speaker, status.code()) {
            (Speaker::Tls, _) => Self::NeedsTls { address },
            (Speaker::Http1, _) => incompatible("it speaks HTTP/1, as a web server does"),
            (Speaker::Other, _) => incompatible("it does not speak HTTP/2"),
            (_, Code::Unimplemented) => incompatible("it does not know this service"),
            (_, Code::Internal) if is_no_grpc(status) => {
                incompatible("it answers, but not to agents; they connect to `listen_grpc`")
            }
            (Speaker::Silent | Speaker::Http2, _) => Self::Lost { address, reason: told(status) },
        }
    }

    fn of_refusal(address: String, refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unauthenticated => Self::Unauthenticated { address },
            Refusal::NameTaken(reason) => Self::NameTaken { reason },
            Refusal::Forbidden(reason) | Refusal::Invalid(reason) => Self::Refused { reason },
            Refusal::Unavailable(reason) => Self::Unavailable { address, reason },
        }
    }
}

/// Whether the answer is a page for browsers, which tonic takes for a malformed message.
fn is_no_grpc(status: &Status) -> bool {
    status.message().contains("invalid compression flag")
}

/// Why a session ended that had begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The server said so.
    #[error("the server ended the session: {0}")]
    Ended(Refusal),
    /// The stream broke, or the server broke a rule.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl SessionError {
    /// Whether the server only restarts, so that the agent may come back at once.
    pub fn is_restart(&self) -> bool {
        matches!(self, Self::Ended(Refusal::Unavailable(_)))
    }

    pub(super) fn of(status: &Status) -> Self {
        match Refusal::from_status(status) {
            Some(refusal) => Self::Ended(refusal),
            None => Self::Wire(WireError::broken(status)),
        }
    }
}

/// The session is over; nothing more can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is over")]
pub struct Closed;
