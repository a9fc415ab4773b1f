//! The server's stream of changes: opened, and opened again where it left off.

use std::time::Duration;

use fluke_model::event::EventId;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Client;
use super::error::ClientError;

/// The pauses before a stream that broke is opened again.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
];
/// How much of what was heard waits to be taken; then the server waits, or gives us up.
const WAITING: usize = 256;
/// The longest message that is read.
const LONGEST: usize = 64 * 1024 * 1024;

/// What is heard from a server.
#[derive(Debug)]
pub enum Heard {
    /// The stream is open. Events are told from where it left off, everything else from now on.
    Connected,
    /// It is not; it is being opened again.
    Lost(ClientError),
    /// Something changed.
    Message(Message),
}

/// One message of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// `agent`, `event`, `source`, `reconcile` or `lagged`.
    pub kind: String,
    /// What the API says of it now.
    pub data: String,
}

/// Follows a server's stream for as long as it lives.
pub struct Feed {
    heard: mpsc::Receiver<Heard>,
    task: JoinHandle<()>,
}

impl Feed {
    /// Starts to follow, with the events behind `last` where one is given.
    pub fn follow(client: Client, last: Option<EventId>) -> Self {
        let (tell, heard) = mpsc::channel(WAITING);
        Self { heard, task: tokio::spawn(follow(client, last, tell)) }
    }

    /// What comes next. Cancel safe.
    pub async fn next(&mut self) -> Heard {
        match self.heard.recv().await {
            Some(heard) => heard,
            // Only while the program ends.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(client: Client, last: Option<EventId>, tell: mpsc::Sender<Heard>) {
    let mut reader = Reader { last: last.map(|id| id.to_string()), ..Reader::default() };
    let mut failures = 0;
    // Nobody listens any more: there is nobody to tell.
    while !tell.is_closed() {
        let (heard, error) = listen(&client, &mut reader, &tell).await;
        failures = if heard { 0 } else { failures + 1 };
        let _ = tell.send(Heard::Lost(error)).await;
        sleep(PAUSES[failures.min(PAUSES.len() - 1)]).await;
    }
}

/// Tells what the stream says until it ends; whether it was open, and why it ended.
async fn listen(
    client: &Client,
    reader: &mut Reader,
    tell: &mpsc::Sender<Heard>,
) -> (bool, ClientError) {
    let mut stream = match client.stream(reader.last.as_deref()).await {
        Ok(stream) => stream,
        Err(error) => return (false, error),
    };
    reader.begin();
    let _ = tell.send(Heard::Connected).await;
    loop {
        let error = match stream.chunk().await {
            Ok(Some(bytes)) => {
                for message in reader.read(&bytes) {
                    let _ = tell.send(Heard::Message(message)).await;
                }
                match reader.is_too_long() {
                    false => continue,
                    true => ClientError::TooLong { server: client.server().to_string() },
                }
            }
            Ok(None) => client.ended(),
            Err(error) => client.trouble(error),
        };
        return (true, error);
    }
}

/// Reads server-sent events, whatever the pieces they come in.
#[derive(Debug, Default)]
struct Reader {
    /// The id to resume by.
    last: Option<String>,
    line: Vec<u8>,
    message: Message,
    has_data: bool,
    /// The last byte was a carriage return: a newline behind it belongs to it.
    after_return: bool,
}

impl Reader {
    /// Forgets what was begun, but not where it was.
    fn begin(&mut self) {
        *self = Self { last: self.last.take(), ..Self::default() };
    }

    fn is_too_long(&self) -> bool {
        self.line.len() + self.message.data.len() > LONGEST
    }

    /// The messages that end in these bytes.
    fn read(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        for &byte in bytes {
            let second_half =
                std::mem::replace(&mut self.after_return, byte == b'\r') && byte == b'\n';
            match byte {
                b'\n' if second_half => {}
                b'\r' | b'\n' => messages.extend(self.end_line()),
                byte => self.line.push(byte),
            }
        }
        messages
    }

    fn end_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return std::mem::take(&mut self.has_data).then_some(message);
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.message.kind = value.to_string(),
            "id" => self.last = Some(value.to_string()),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            // Comments are signs of life; `retry` is for browsers.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, data: &str) -> Message {
        Message { kind: kind.into(), data: data.into() }
    }

    #[test]
    fn messages_are_read_whatever_their_pieces() {
        for (case, stream, messages, last) in [
            ("one", "event: agent\ndata: {}\n\n", vec![message("agent", "{}")], None),
            (
                "two",
                "data: 1\n\nid: 7\ndata:2\n\n",
                vec![message("", "1"), message("", "2")],
                Some("7"),
            ),
            (
                "other line ends",
                "data: 1\r\n\r\ndata: 2\r\r",
                vec![message("", "1"), message("", "2")],
                None,
            ),
            ("only a sign of life", ": ping\n\n: ping\n\n", vec![], None),
            ("no data, but an id", "id: 9\nretry: 2000\n\n", vec![], Some("9")),
            ("several lines", "data: a\ndata: b\n: ping\n\n", vec![message("", "a\nb")], None),
            ("unfinished", "data: 1\n", vec![], None),
        ] {
            let mut whole = Reader::default();
            assert_eq!(whole.read(stream.as_bytes()), messages, "{case}");
            assert_eq!(whole.last.as_deref(), last, "{case}");
            let mut pieces = Reader::default();
            let read: Vec<_> = stream.bytes().flat_map(|byte| pieces.read(&[byte])).collect();
            assert_eq!(read, messages, "{case}, byte by byte");
        }
    }

    #[test]
    fn what_was_begun_is_forgotten_when_a_stream_is_opened_again() {
        let mut reader = Reader::default();
        reader.read(b"id: 3\nevent: agent\ndata: half");
        reader.begin();
        assert_eq!(reader.read(b"data: whole\n\n"), [message("", "whole")]);
        assert_eq!(reader.last.as_deref(), Some("3"));
    }
}
