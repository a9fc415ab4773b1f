//! A connection that does not go on is ended: whoever neither says what they want nor reads
//! what they are told must not hold a place for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// As many bytes as it takes to tell which version of HTTP is spoken.
const OPENING: usize = 24;

/// Ends when the opening bytes, or the reading of an answer, take too long.
pub(super) struct Impatient<Io> {
    io: Io,
    /// Runs while something is awaited of the other side.
    timer: Pin<Box<Sleep>>,
    opening: usize,
    write_stall: Duration,
    writing: bool,
}

impl<Io> Impatient<Io> {
    pub fn new(io: Io, opening: Duration, write_stall: Duration) -> Self {
        Self { io, timer: Box::pin(sleep(opening)), opening: 0, write_stall, writing: false }
    }

    fn opened(&self) -> bool {
        self.opening >= OPENING
    }

    /// Notes whether a write goes on; fails if it has not for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        // Whoever is answered has said what they want.
        self.opening = OPENING;
        if polled.is_ready() {
            self.writing = false;
            return polled;
        }
        if !self.writing {
            self.writing = true;
            self.timer.as_mut().reset(Instant::now() + self.write_stall);
        }
        match self.timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Impatient<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        if self.opened() {
            return polled;
        }
        self.opening += buffer.filled().len() - before;
        if polled.is_pending() && self.timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Impatient<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(context, bytes);
        self.watch(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(context, bytes);
        self.watch(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(context);
        if polled.is_ready() && !self.writing {
            return polled;
        }
        self.watch(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_shutdown(context);
        self.watch(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_not_waited_for() {
        let (mut client, server) = duplex(64);
        let mut server = Impatient::new(server, SECOND, SECOND);
        client.write_all(b"PRI * HT").await.expect("written");
        let mut heard = Vec::new();
        let error = server.read_to_end(&mut heard).await.expect_err("too slow");
        assert_eq!((error.kind(), &heard[..]), (io::ErrorKind::TimedOut, &b"PRI * HT"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_said_what_they_want_may_take_their_time() {
        let (mut client, server) = duplex(64);
        let mut server = Impatient::new(server, SECOND, SECOND);
        client.write_all(&[b'x'; OPENING]).await.expect("written");
        server.read_exact(&mut [0; OPENING]).await.expect("read");
        let late = tokio::spawn(async move {
            sleep(100 * SECOND).await;
            client.write_all(b"more").await
        });
        server.read_exact(&mut [0; 4]).await.expect("still open");
        late.await.expect("ran").expect("written");
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_not_written_to() {
        let (_client, server) = duplex(64);
        let mut server = Impatient::new(server, SECOND, SECOND);
        let error = server.write_all(&[0; 1000]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_written_to_slowly() {
        let (mut client, server) = duplex(64);
        let mut server = Impatient::new(server, SECOND, SECOND);
        let reader = tokio::spawn(async move {
            for _ in 0..20 {
                sleep(SECOND / 2).await;
                client.read_exact(&mut [0; 50]).await.expect("read");
            }
        });
        server.write_all(&[0; 1000]).await.expect("it goes on");
        reader.await.expect("ran");
    }
}
