//! Ends a connection together with whoever wanted it.
//!
//! HTTP/2 runs on a task of its own, which wants to say goodbye before it ends. A server that takes
//! connections and reads nothing, as one does that was stopped or hangs, would otherwise cost an
//! agent one connection for every attempt, for ever.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a connection that was let go may take to say what is left, and to end by itself.
const LINGER: Duration = Duration::from_secs(5);

/// Holds a connection; soon after this is dropped, there is none.
#[derive(Debug)]
pub(super) struct Tether(Arc<Shared>);

/// A connection that somebody holds.
pub(super) struct Tethered<T> {
    io: T,
    shared: Arc<Shared>,
    linger: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug, Default)]
struct Shared {
    let_go: AtomicBool,
    connection: AtomicWaker,
}

/// Ties `io` to the tether.
pub(super) fn tether<T>(io: T) -> (Tethered<T>, Tether) {
    let shared = Arc::new(Shared::default());
    (Tethered { io, shared: shared.clone(), linger: None }, Tether(shared))
}

impl Drop for Tether {
    fn drop(&mut self) {
        self.0.let_go.store(true, Ordering::Release);
        self.0.connection.wake();
    }
}

impl<T> Tethered<T> {
    fn poll_held(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.shared.connection.register(cx.waker());
        if !self.shared.let_go.load(Ordering::Acquire) {
            return Ok(());
        }
        let linger = self.linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        match linger.as_mut().poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "nobody wants it any more"))
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Tethered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_held(cx)?;
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Tethered<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_held(cx)?;
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_held(cx)?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_held(cx)?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_held(cx)?;
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
