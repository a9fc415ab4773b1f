//! What goes to an agent: a message of its own, or one that many are told alike, written down once
//! for all of them.
//!
//! What is large goes in parts. A stream keeps a buffer as large as the largest message that it ever
//! carried, and a server has as many streams as agents; parts are slices of what is there once.

use fluke_model::message::ToAgent;
use prost::Message;
use prost::bytes::Bytes;

use super::link::SendError;
use crate::convert::{MAX_STEPS, to_agent_to_proto};
use crate::proto::server_message::Body;
use crate::proto::{self, ServerMessage};
use crate::{MAX_TO_AGENT, PART};

/// A message for many. Clones share it.
#[derive(Debug, Clone)]
pub struct Circular(Bytes);

impl Circular {
    /// Writes it down.
    pub fn of(message: ToAgent) -> Self {
        Self::with(to_agent_to_proto(message))
    }

    fn with(body: Body) -> Self {
        // What is not set takes no room, so this is the body alone.
        Self(ServerMessage { session: 0, sequence: 0, body: Some(body) }.encode_to_vec().into())
    }
}

/// A message for one, or for many.
#[derive(Debug)]
pub enum Letter {
    /// Nobody else is told the same.
    Own(ToAgent),
    /// Others are, too.
    Circular(Circular),
}

impl From<ToAgent> for Letter {
    fn from(message: ToAgent) -> Self {
        Self::Own(message)
    }
}

impl From<Circular> for Letter {
    fn from(circular: Circular) -> Self {
        Self::Circular(circular)
    }
}

/// A letter that waits to be numbered.
#[derive(Debug)]
pub(super) enum Sealed {
    /// It goes as it is.
    Whole(Body),
    /// It goes part by part; never empty.
    Parts(Bytes),
}

impl Letter {
    pub(super) fn seal(self) -> Result<Sealed, SendError> {
        let body = match self {
            Self::Circular(Circular(content)) => return Ok(Sealed::Parts(content)),
            Self::Own(message) => to_agent_to_proto(message),
        };
        if let Body::Snapshot(snapshot) = &body {
            check(snapshot)?;
        }
        Ok(match body.encoded_len() > PART {
            true => Sealed::Parts(Circular::with(body).0),
            false => Sealed::Whole(body),
        })
    }
}

/// Whether any agent takes a snapshot.
fn check(snapshot: &proto::Snapshot) -> Result<(), SendError> {
    let steps = snapshot.tasks.iter().map(|task| task.steps.len()).sum();
    let bytes = snapshot.encoded_len();
    match steps > MAX_STEPS || bytes > MAX_TO_AGENT {
        true => Err(SendError::TooLarge { steps, bytes }),
        false => Ok(()),
    }
}

/// Takes the next part of what there is.
pub(super) fn next_part(rest: &mut Bytes) -> Body {
    let content = rest.split_to(rest.len().min(PART));
    Body::Part(proto::Part { content, more: !rest.is_empty() })
}
