//! What a server tells as it happens, over its local socket: nothing has to be asked again and
//! again while something is timed.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::row::Trouble;

/// How long the server may say nothing of what is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// An open stream of the server's API.
pub struct Feed {
    stream: UnixStream,
    /// What was said and not looked at yet.
    heard: Vec<u8>,
}

impl Feed {
    /// Opens it: whatever happens from now on is told.
    pub(super) fn open(socket: &Path) -> Result<Self, Trouble> {
        let failed = |error| Trouble::failed("open the server's stream", error);
        let mut stream = UnixStream::connect(socket).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        write!(stream, "GET /api/v1/stream HTTP/1.0\r\nHost: localhost\r\n\r\n").map_err(failed)?;
        let mut feed = Self { stream, heard: Vec::new() };
        feed.until("\r\n\r\n")?;
        Ok(feed)
    }

    /// Waits until this is said.
    pub fn until(&mut self, words: &str) -> Result<(), Trouble> {
        let doing = || format!("wait until the server says {words:?}");
        let mut buffer = [0; 64 * 1024];
        loop {
            if let Some(end) = end_of(&self.heard, words.as_bytes()) {
                self.heard.drain(..end);
                return Ok(());
            }
            // What may be the words' beginning stays.
            let kept = self.heard.len().min(words.len() - 1);
            self.heard.drain(..self.heard.len() - kept);
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Trouble::failed(doing(), "the stream ended")),
                Ok(read) => self.heard.extend_from_slice(&buffer[..read]),
                Err(error) => return Err(Trouble::failed(doing(), error)),
            }
        }
    }
}

/// Where the words end in what was heard.
fn end_of(heard: &[u8], words: &[u8]) -> Option<usize> {
    heard.windows(words.len()).position(|window| window == words).map(|at| at + words.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_also_when_they_come_in_pieces() {
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        let mut feed = Feed { stream: ours, heard: Vec::new() };
        let speaker = std::thread::spawn(move || {
            for piece in ["abc wo", "rds and wor", "ds again"] {
                theirs.write_all(piece.as_bytes()).expect("heard");
            }
        });
        feed.until("words").expect("said once");
        feed.until("words").expect("and again");
        speaker.join().expect("said all");
        assert!(feed.until("words").is_err(), "not a third time");
    }
}
