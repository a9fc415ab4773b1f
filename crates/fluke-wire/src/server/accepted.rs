//! A connection as the server takes it: any byte stream, and a limit to idleness.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

/// How long a connection may be open without a session on it.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + Any {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + Any> ByteStream for T {}

/// An accepted connection: plain TCP, TLS, or a pipe in memory.
pub struct Accepted {
    io: Box<dyn ByteStream>,
    /// How to find the socket under it.
    socket: fn(&dyn Any) -> Option<BorrowedFd<'_>>,
    peer: Peer,
    idle: Option<Pin<Box<Sleep>>>,
    cut: Cut,
}

fn socket_of<T: AsFd + 'static>(io: &dyn Any) -> Option<BorrowedFd<'_>> {
    io.downcast_ref::<T>().map(AsFd::as_fd)
}

/// When a connection is broken off, whatever goes on over it.
enum Cut {
    Never,
    When(Pin<Box<dyn Future<Output = ()> + Send>>),
    Done,
}

impl Accepted {
    /// Wraps a byte stream that came from `peer`.
    pub fn new(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: Option<SocketAddr>,
    ) -> Self {
        let peer = Peer { address: peer, sessions: Arc::default() };
        Self { io: Box::new(io), socket: |_| None, peer, idle: None, cut: Cut::Never }
    }

    /// The same of a connection of which the kernel can be asked: see [`super::Link::socket`].
    pub fn over_socket<T>(io: T, peer: Option<SocketAddr>) -> Self
    where
        T: AsyncRead + AsyncWrite + AsFd + Send + Unpin + 'static,
    {
        Self { socket: socket_of::<T>, ..Self::new(io, peer) }
    }

    /// Hands the socket to a session that asked for it.
    fn lend_socket(&self) {
        if let Some(asked) = self.peer.sessions.take_question() {
            let io: &dyn Any = &*self.io;
            let socket = (self.socket)(io).and_then(|socket| socket.try_clone_to_owned().ok());
            // Whoever asked may be gone; without an answer there is no socket.
            let _ = socket.map(|socket| asked.send(socket));
        }
    }

    /// Breaks the connection off when `cut` is ready.
    pub(super) fn until(mut self, cut: impl Future<Output = ()> + Send + 'static) -> Self {
        self.cut = Cut::When(Box::pin(cut));
        self
    }

    /// An error once the connection was broken off, or has been idle for too long.
    fn poll_alive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Cut::When(cut) = &mut self.cut
            && cut.as_mut().poll(cx).is_ready()
        {
            self.cut = Cut::Done;
        }
        if let Cut::Done = self.cut {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the server stopped"));
        }
        if self.peer.sessions.are_there(cx) {
            self.lend_socket();
            self.idle = None;
            return Ok(());
        }
        let idle = self.idle.get_or_insert_with(|| Box::pin(sleep(IDLE_LIMIT)));
        match idle.as_mut().poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "there is no session on the connection",
            )),
        }
    }

    /// What waits for the other side to take it waits for no longer than the connection lives. What
    /// does not wait need not look: whoever writes reads as well.
    fn unless_cut<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_pending() {
            self.poll_alive(cx)?;
        }
        written
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepted").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Who is at the other end of a connection, and whether it has sessions.
#[derive(Debug, Clone)]
pub struct Peer {
    pub(super) address: Option<SocketAddr>,
    sessions: Arc<Sessions>,
}

impl Peer {
    /// Keeps the connection from being idle.
    pub(super) fn begin_session(&self) -> Busy {
        self.sessions.count.fetch_add(1, Ordering::AcqRel);
        Busy(self.sessions.clone())
    }

    /// Another handle on the connection's socket, if there is one. Cancel-safe.
    pub(super) async fn socket(&self) -> Option<OwnedFd> {
        let (asked, answer) = oneshot::channel();
        self.sessions.ask(asked);
        answer.await.ok()
    }
}

/// The sessions on a connection.
#[derive(Debug, Default)]
struct Sessions {
    count: AtomicUsize,
    /// The connection, which begins to be idle when the last one ends.
    connection: AtomicWaker,
    /// Whether one of them wants to have the socket.
    is_asked: AtomicBool,
    question: Mutex<Option<oneshot::Sender<OwnedFd>>>,
}

impl Sessions {
    /// If there are, the task is woken when one ends.
    fn are_there(&self, cx: &Context<'_>) -> bool {
        self.connection.register(cx.waker());
        self.count.load(Ordering::Acquire) > 0
    }

    fn ask(&self, question: oneshot::Sender<OwnedFd>) {
        *self.question.lock().unwrap_or_else(PoisonError::into_inner) = Some(question);
        self.is_asked.store(true, Ordering::Release);
        self.connection.wake();
    }

    fn take_question(&self) -> Option<oneshot::Sender<OwnedFd>> {
        if !self.is_asked.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.question.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A session on a connection, for as long as it lives.
pub(super) struct Busy(Arc<Sessions>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.connection.wake();
    }
}

impl Connected for Accepted {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_alive(cx)?;
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.unless_cut(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.unless_cut(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.unless_cut(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
