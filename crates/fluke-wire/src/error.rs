//! What can be wrong with a message that came in.

use fluke_model::id::SessionId;

/// Why a message, and with it the stream, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A field breaks the grammar or its bound.
    #[error("a message was refused: `{field}` {reason}")]
    Invalid {
        /// Where, as a path from the message down.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A message carries the identity of another stream.
    #[error(
        "a message of session {:016x} came in session {:016x}; messages cannot be replayed",
        found.0,
        expected.0
    )]
    ForeignSession {
        /// This stream's.
        expected: SessionId,
        /// The message's.
        found: SessionId,
    },
    /// A message was repeated or left out.
    #[error(
        "message {found} came where {expected} was due; messages cannot be repeated or left out"
    )]
    OutOfSequence {
        /// The number that was due.
        expected: u64,
        /// The message's.
        found: u64,
    },
    /// A message that belongs at the beginning came later, or the other way round.
    #[error("{found} came where {expected} was due")]
    Misplaced {
        /// What was due.
        expected: &'static str,
        /// What came.
        found: &'static str,
    },
    /// The stream broke, or what came is no message of this protocol.
    #[error("the stream broke: {reason}")]
    Broken {
        /// As far as it is known.
        reason: String,
    },
}

impl WireError {
    /// A complaint about one field.
    pub(crate) fn invalid(field: impl Into<String>, reason: impl ToString) -> Self {
        Self::Invalid { field: field.into(), reason: reason.to_string() }
    }

    /// The same complaint, seen from the message around the field.
    pub(crate) fn within(self, outer: impl std::fmt::Display) -> Self {
        match self {
            Self::Invalid { field, reason } => {
                Self::Invalid { field: format!("{outer}.{field}"), reason }
            }
            other => other,
        }
    }

    /// What became of a stream that ended with `status`.
    pub(crate) fn broken(status: &tonic::Status) -> Self {
        Self::Broken { reason: told(status) }
    }
}

/// A status and its causes, as one line.
pub(crate) fn told(status: &tonic::Status) -> String {
    let mut line = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line = if line.is_empty() { text } else { format!("{line}: {text}") };
        }
        cause = error.source();
    }
    if line.is_empty() { status.code().description().to_owned() } else { line }
}
