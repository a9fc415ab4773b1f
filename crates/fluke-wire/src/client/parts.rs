//! Messages that come in parts.

use prost::Message;

use crate::error::WireError;
use crate::proto::server_message::Body;
use crate::proto::{Part, ServerMessage};
use crate::{MAX_TO_AGENT, PART};

/// What has come of a message.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<u8>);

impl Parts {
    /// What a message says, once all of it is here.
    pub(super) fn take(&mut self, body: Option<Body>) -> Result<Complete, WireError> {
        let part = match body {
            Some(Body::Part(part)) => part,
            body => return Ok(Complete::Yes(body)),
        };
        if self.0.len() + part.content.len() > MAX_TO_AGENT + PART {
            let reason = format!("come to more than {MAX_TO_AGENT} bytes");
            return Err(WireError::invalid("parts", reason));
        }
        let Part { content, more } = part;
        if more {
            self.0.extend_from_slice(&content);
            return Ok(Complete::NotYet);
        }
        let whole = match std::mem::take(&mut self.0) {
            // Most come in one.
            before if before.is_empty() => ServerMessage::decode(content),
            mut before => {
                before.extend_from_slice(&content);
                ServerMessage::decode(&*before)
            }
        };
        match whole.map_err(|error| WireError::invalid("parts", error.to_string()))?.body {
            Some(Body::Part(_)) => Err(WireError::invalid("parts", "have parts themselves")),
            body => Ok(Complete::Yes(body)),
        }
    }
}

/// Whether there is all of a message.
#[derive(Debug)]
pub(super) enum Complete {
    /// It says this; nothing, where it says something that this version does not know.
    Yes(Option<Body>),
    /// More is on its way.
    NotYet,
}
