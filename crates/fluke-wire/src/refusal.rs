//! Why a server turns an agent away, or ends its session.

use tonic::{Code, Status};

/// A server's no, carried to the agent with its text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The token is wrong or missing; deliberately without a reason.
    #[error("the token is wrong or missing")]
    Unauthenticated,
    /// An agent of this name is connected.
    #[error("{0}")]
    NameTaken(String),
    /// The token does not allow this name or these labels.
    #[error("{0}")]
    Forbidden(String),
    /// A message breaks a rule of the protocol.
    #[error("{0}")]
    Invalid(String),
    /// The server starts, stops or is overloaded; the agent is to come back.
    #[error("{0}")]
    Unavailable(String),
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        let code = match &refusal {
            Refusal::Unauthenticated => Code::Unauthenticated,
            Refusal::NameTaken(_) => Code::AlreadyExists,
            Refusal::Forbidden(_) => Code::PermissionDenied,
            Refusal::Invalid(_) => Code::InvalidArgument,
            Refusal::Unavailable(_) => Code::Unavailable,
        };
        Status::new(code, refusal.to_string())
    }
}

impl Refusal {
    /// The refusal that a server sent as `status`; none if it is of our own side's making.
    pub(crate) fn from_status(status: &Status) -> Option<Self> {
        // What a transport makes up has the transport's error as its source.
        if std::error::Error::source(status).is_some() {
            return None;
        }
        let reason = status.message().to_owned();
        match status.code() {
            Code::Unauthenticated => Some(Self::Unauthenticated),
            Code::AlreadyExists => Some(Self::NameTaken(reason)),
            Code::PermissionDenied => Some(Self::Forbidden(reason)),
            Code::InvalidArgument => Some(Self::Invalid(reason)),
            Code::Unavailable | Code::ResourceExhausted => Some(Self::Unavailable(reason)),
            _ => None,
        }
    }
}
