//! The stream of changes, reduced to "look again".
//!
//! What a message says is not read: whoever waits asks the server for the whole truth anyway.
//! So any number of messages is one reason to look, and nothing is ever kept.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Client;
use super::error::ClientError;
use super::feed::{Feed, Heard};

/// How long further changes are awaited before one look is taken at all of them.
const TOGETHER: Duration = Duration::from_millis(100);
/// Looking takes at most one part in so many of the time.
const SHARE: u32 = 4;

/// Why to stop waiting.
#[derive(Debug)]
pub enum Change {
    /// Something has changed, or may have while nobody was listening.
    Look,
    /// Nothing is heard any more; what is shown may be out of date.
    Lost(ClientError),
}

/// Follows a server's changes for as long as it lives.
pub struct Changes {
    feed: Feed,
    concerns: fn(&str) -> bool,
    pause: Duration,
    /// When to look at what has changed already.
    due: Option<Instant>,
}

impl Changes {
    /// Starts to follow; the stream is opened, and opened again, behind the scenes. Messages of
    /// kinds that do not concern the caller are passed over.
    pub fn follow(client: Client, concerns: fn(&str) -> bool) -> Self {
        Self { feed: Feed::follow(client, None), concerns, pause: TOGETHER, due: None }
    }

    /// Says how long the last look took: what costs more is looked at less often.
    pub fn looked(&mut self, took: Duration) {
        self.pause = (took * SHARE).max(TOGETHER);
    }

    /// Waits for a change. Cancel safe: what was not handed out is handed out next time.
    pub async fn next(&mut self) -> Change {
        loop {
            let heard = match self.due {
                None => self.feed.next().await,
                Some(due) => match timeout_at(due, self.feed.next()).await {
                    Ok(heard) => heard,
                    Err(_) => {
                        self.due = None;
                        return Change::Look;
                    }
                },
            };
            match heard {
                // A reason to look stays one.
                Heard::Lost(error) => return Change::Lost(error),
                Heard::Message(message)
                    if message.kind != "lagged" && !(self.concerns)(&message.kind) => {}
                Heard::Connected | Heard::Message(_) => {
                    self.due.get_or_insert_with(|| Instant::now() + self.pause);
                }
            }
        }
    }
}
