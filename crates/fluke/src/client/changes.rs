//! The server's stream of changes, reduced to "look again".
//!
//! What a message says is not read: whoever waits asks the server for the whole truth anyway.
//! So any number of messages is one reason to look, and nothing is ever kept.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Client;

/// How long further changes are awaited before one look is taken at all of them.
const TOGETHER: Duration = Duration::from_millis(100);
/// The pauses before a stream that broke is opened again.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// Follows a server's changes for as long as it lives.
pub struct Changes {
    told: watch::Receiver<()>,
    /// Told of, but not handed out yet.
    pending: bool,
    task: JoinHandle<()>,
}

impl Changes {
    /// Starts to follow; the stream is opened, and opened again, behind the scenes.
    pub fn follow(client: Client) -> Self {
        let (tell, told) = watch::channel(());
        Self { told, pending: false, task: tokio::spawn(follow(client, tell)) }
    }

    /// Waits until something has changed, or may have while nobody was listening.
    ///
    /// Cancel safe: a change that was not handed out is handed out next time.
    pub async fn next(&mut self) {
        if !self.pending {
            if self.told.changed().await.is_err() {
                // Only while the program ends.
                std::future::pending::<()>().await;
            }
            self.pending = true;
        }
        sleep(TOGETHER).await;
        self.told.mark_unchanged();
        self.pending = false;
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(client: Client, tell: watch::Sender<()>) {
    let mut failures = 0;
    loop {
        if let Ok(mut stream) = client.stream().await {
            failures = 0;
            // Whatever happened before it was open is told by nobody else.
            tell.send_replace(());
            let mut messages = Messages::default();
            while let Ok(Some(bytes)) = stream.chunk().await {
                if messages.ends_in(&bytes) {
                    tell.send_replace(());
                }
            }
        }
        sleep(PAUSES[failures.min(PAUSES.len() - 1)]).await;
        failures += 1;
    }
}

/// Finds the ends of messages in a stream of server-sent events, whatever its pieces.
#[derive(Debug, Default)]
struct Messages {
    line: Line,
    /// A field was seen since the last empty line.
    began: bool,
    /// The last byte was a carriage return: a newline behind it belongs to it.
    after_return: bool,
}

/// What is known of the line at hand.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    Comment,
    Field,
}

impl Messages {
    /// Whether a message ends in these bytes.
    fn ends_in(&mut self, bytes: &[u8]) -> bool {
        let mut ended = false;
        for byte in bytes {
            ended |= self.ends_with(*byte);
        }
        ended
    }

    fn ends_with(&mut self, byte: u8) -> bool {
        let second_half = std::mem::replace(&mut self.after_return, byte == b'\r') && byte == b'\n';
        match byte {
            b'\n' if second_half => false,
            b'\r' | b'\n' => match std::mem::take(&mut self.line) {
                Line::Empty => std::mem::take(&mut self.began),
                Line::Comment => false,
                Line::Field => {
                    self.began = true;
                    false
                }
            },
            byte => {
                if self.line == Line::Empty {
                    self.line = if byte == b':' { Line::Comment } else { Line::Field };
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_at_empty_lines() {
        for (case, stream, ends) in [
            ("one", "event: drift\ndata: {}\n\n", 1),
            ("two", "data: 1\n\ndata: 2\n\n", 2),
            ("other line ends", "data: 1\r\n\r\ndata: 2\r\rdata: 3\n\n", 3),
            ("only a sign of life", ": ping\n\n: ping\n\n", 0),
            ("a comment within", "data: 1\n: ping\n\n", 1),
            ("unfinished", "data: 1\n", 0),
            ("empty lines", "\n\n\r\n\n", 0),
        ] {
            // In whatever pieces it comes.
            let mut whole = Messages::default();
            let found: usize = stream.bytes().map(|byte| usize::from(whole.ends_in(&[byte]))).sum();
            assert_eq!(found, ends, "{case}");
            assert_eq!(Messages::default().ends_in(stream.as_bytes()), ends > 0, "{case}");
        }
    }
}
