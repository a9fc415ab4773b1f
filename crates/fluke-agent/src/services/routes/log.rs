//! The access log, kept within bounds.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

/// How big it gets; there are at most two of them.
pub const MOST: u64 = 64 << 20;
/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(30);

/// Looks at the log from time to time.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    most: u64,
    next: Instant,
}

impl Log {
    /// The log of the proxy in this folder.
    pub fn new(folder: &Path) -> Self {
        Self { path: folder.join("access.log"), most: MOST, next: Instant::now() + EVERY }
    }

    /// Returns when it is time to look. Cancel-safe.
    pub async fn is_due(&mut self) {
        tokio::time::sleep_until(self.next).await;
        self.next = Instant::now() + EVERY;
    }

    /// Puts a log aside that is big enough; true if Traefik is to begin another.
    ///
    /// A log that was put aside by somebody who got no further counts, too.
    pub fn put_aside(&self) -> io::Result<bool> {
        let aside = self.path.with_extension("log.1");
        match std::fs::metadata(&self.path) {
            Ok(log) if log.len() < self.most => Ok(false),
            Ok(_) => std::fs::rename(&self.path, aside).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(aside.exists()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_log_that_is_big_is_put_aside_until_another_one_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = Log { most: 10, ..Log::new(folder.path()) };
        let write = |text: &str| std::fs::write(folder.path().join("access.log"), text);
        assert!(!log.put_aside().expect("possible"), "there is none");
        write("short").expect("room");
        assert!(!log.put_aside().expect("possible"));
        write("long enough").expect("room");
        assert!(log.put_aside().expect("possible"));
        assert!(log.put_aside().expect("possible"), "nobody began another");
        write("new").expect("room");
        assert!(!log.put_aside().expect("possible"));
        let aside = std::fs::read_to_string(folder.path().join("access.log.1"));
        assert_eq!(aside.expect("kept"), "long enough");
    }
}
