//! Sessions and sequence numbers: what keeps messages from being replayed.

use fluke_model::id::SessionId;

use crate::error::WireError;

/// The next message that is due in one direction of one stream.
#[derive(Debug)]
pub(crate) struct Sequence {
    session: SessionId,
    next: u64,
}

impl Sequence {
    /// After Hello and Welcome, which are number 0.
    pub(crate) fn after_greeting(session: SessionId) -> Self {
        Self { session, next: 1 }
    }

    /// Accepts a message with this envelope, if it is the one that is due.
    pub(crate) fn accept(&mut self, session: u64, number: u64) -> Result<(), WireError> {
        if session != self.session.0 {
            let found = SessionId(session);
            return Err(WireError::ForeignSession { expected: self.session, found });
        }
        if number != self.next {
            return Err(WireError::OutOfSequence { expected: self.next, found: number });
        }
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_next_message_of_the_same_session_is_accepted() {
        let session = SessionId(7);
        for (case, envelope, accepted) in [
            ("the next", (7, 3), true),
            ("repeated", (7, 2), false),
            ("skipped", (7, 4), false),
            ("from the start again", (7, 0), false),
            ("another session", (8, 3), false),
            ("no session", (0, 3), false),
        ] {
            let mut sequence = Sequence::after_greeting(session);
            sequence.accept(7, 1).expect("the first is due");
            sequence.accept(7, 2).expect("the second is due");
            assert_eq!(sequence.accept(envelope.0, envelope.1).is_ok(), accepted, "{case}");
        }
    }
}
