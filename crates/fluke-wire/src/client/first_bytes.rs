//! Remembers how the other side began, to tell afterwards what it is.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes it takes to tell.
const ENOUGH: usize = 8;

/// What speaks at the other end, judged by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// Nothing came, or too little to tell.
    Silent,
    /// HTTP/2, as it should be.
    Http2,
    /// An older HTTP.
    Http1,
    /// TLS, which answers plaintext with an alert.
    Tls,
    /// Something else.
    Other,
}

/// The first bytes that came over a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstBytes(Arc<Mutex<Vec<u8>>>);

impl FirstBytes {
    /// Adds what is still needed of `bytes`; true once there is enough.
    fn add(&self, bytes: &[u8]) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = ENOUGH.saturating_sub(seen.len()).min(bytes.len());
        seen.extend_from_slice(&bytes[..room]);
        seen.len() >= ENOUGH
    }

    pub(super) fn speaker(&self) -> Speaker {
        speaker(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn speaker(bytes: &[u8]) -> Speaker {
    match bytes {
        [] => Speaker::Silent,
        // A TLS record: alert or handshake, of any version.
        [0x15 | 0x16, 0x03, ..] => Speaker::Tls,
        [b'H', b'T', b'T', b'P', ..] => Speaker::Http1,
        // A frame that is short and is SETTINGS, which must come first.
        [0, _, _, 0x04, ..] => Speaker::Http2,
        short if short.len() < 4 => Speaker::Silent,
        _ => Speaker::Other,
    }
}

/// A byte stream that notes how the other side begins.
#[derive(Debug)]
pub(super) struct Noting<T> {
    io: T,
    first: FirstBytes,
    /// Enough was noted.
    full: bool,
    /// A write that failed, kept back while what the other side said last is read.
    failed: Option<io::Error>,
}

impl<T> Noting<T> {
    pub(super) fn new(io: T, first: FirstBytes) -> Self {
        Self { io, first, full: false, failed: None }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.full = self.first.add(bytes);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Noting<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        if !self.full {
            self.note(&buf.filled()[before..]);
        }
        polled
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Noting<T> {
    /// Passes a write's outcome on; a failure only once the other side's last words are noted.
    ///
    /// A TLS server answers plaintext with an alert and a reset. The reset fails the next write,
    /// and the alert, which says why, is still there to be read.
    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(Err(error)) = written else { return written };
        let mut space = [0; ENOUGH];
        while !self.full {
            let mut buf = ReadBuf::new(&mut space);
            match Pin::new(&mut self.io).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => self.note(buf.filled()),
                Poll::Ready(_) => break,
                Poll::Pending => {
                    self.failed = Some(error);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Err(error))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Noting<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match self.failed.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut self.io).poll_write(cx, bytes),
        };
        self.poll_written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match self.failed.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut self.io).poll_write_vectored(cx, slices),
        };
        self.poll_written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_who_speaks() {
        for (bytes, who) in [
            (&b""[..], Speaker::Silent),
            (b"\x00\x00", Speaker::Silent),
            (b"\x15\x03\x03\x00\x02\x02\x46", Speaker::Tls),
            (b"\x16\x03\x01\x02", Speaker::Tls),
            (b"\x00\x00\x1e\x04\x00\x00\x00\x00", Speaker::Http2),
            (b"HTTP/1.1 400 Bad Request", Speaker::Http1),
            (b"SSH-2.0-OpenSSH_9.2", Speaker::Other),
        ] {
            assert_eq!(speaker(bytes), who, "{bytes:?}");
        }
    }
}
