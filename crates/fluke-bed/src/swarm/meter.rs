//! What goes over the wire, counted as it passes: what TLS makes of messages, without what is below
//! it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes, from the side of those who count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// To the server.
    pub sent: u64,
    /// From the server.
    pub received: u64,
}

impl Traffic {
    /// What was added since an earlier count.
    pub fn since(self, earlier: Self) -> Self {
        let Self { sent, received } = self;
        Self { sent: sent - earlier.sent, received: received - earlier.received }
    }
}

/// Counts for as many connections as share it.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Meter {
    /// How much it was so far.
    pub fn traffic(&self) -> Traffic {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Traffic { sent: of(&self.0.sent), received: of(&self.0.received) }
    }

    /// Counts a connection's bytes from now on.
    pub fn on<T>(&self, io: T) -> Metered<T> {
        Metered { io, counts: self.0.clone() }
    }
}

/// A connection whose bytes are counted.
#[derive(Debug)]
pub struct Metered<T> {
    io: T,
    counts: Arc<Counts>,
}

impl<T> Metered<T> {
    fn sent(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.counts.sent.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        self.counts.received.fetch_add(read as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buffer);
        self.sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, buffers);
        self.sent(written)
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_passes_is_counted_both_ways_and_for_all_together() {
        let meter = Meter::default();
        let (ours, mut theirs) = duplex(64);
        let (mut ours, mut other) = (meter.on(ours), meter.on(tokio::io::sink()));
        ours.write_all(b"hello").await.expect("heard");
        let pieces = [IoSlice::new(b"and "), IoSlice::new(b"more")];
        assert_eq!(other.write_vectored(&pieces).await.expect("heard"), 8);
        theirs.write_all(b"hi").await.expect("heard");
        let before = meter.traffic();
        assert_eq!(before, Traffic { sent: 13, received: 0 }, "what nobody has read is not here");
        ours.read_exact(&mut [0; 2]).await.expect("said");
        assert_eq!(meter.traffic().since(before), Traffic { sent: 0, received: 2 });
    }
}
