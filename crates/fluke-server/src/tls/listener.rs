//! Accepts connections, plain or over TLS, without ever being held up by one of them.
//!
//! Handshakes run beside each other, each with a time limit. When too many are under way the
//! oldest is given up: an honest client is done in moments, so it is never the oldest for long.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fluke_wire::server::Accepted;
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::complaint::{explain, is_of_no_interest};
use super::{Certificates, Speaks, TlsError};
use crate::complaints::Complaints;

/// How long a client may take to say hello.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many clients may be saying hello at once.
const MAX_HANDSHAKES: usize = 1024;
/// How long accepting rests when the system has run out of something.
const REST: Duration = Duration::from_millis(200);
/// How much of a request is read that is not answered anyway.
const MAX_DRAINED: u64 = 64 * 1024;
/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// A connection, plain or over TLS.
#[derive(Debug)]
pub enum Connection {
    /// As it came.
    Plain(Plain),
    /// After the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection without TLS.
#[derive(Debug)]
pub struct Plain {
    stream: TcpStream,
    /// Until its first bytes are read: they tell a client that speaks TLS all the same.
    unread: Option<(Arc<Complaints>, SocketAddr)>,
}

/// A port that is listened on.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<Arc<Tls>>,
    complaints: Arc<Complaints>,
    handshakes: JoinSet<Option<(Connection, SocketAddr)>>,
    /// The handshakes under way, and some that are done, oldest first.
    started: VecDeque<AbortHandle>,
    max_handshakes: usize,
    /// Nothing is accepted before.
    resume: Instant,
    /// Whether that was said.
    resting: bool,
}

struct Tls {
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
}

impl Listener {
    /// Hands out connections as they come.
    pub fn plain(tcp: TcpListener) -> Self {
        Self {
            tcp,
            tls: None,
            complaints: Arc::default(),
            handshakes: JoinSet::new(),
            started: VecDeque::new(),
            max_handshakes: MAX_HANDSHAKES,
            resume: Instant::now(),
            resting: false,
        }
    }

    /// Hands out connections after their handshake.
    pub fn tls(
        tcp: TcpListener,
        certificates: Arc<Certificates>,
        speaks: Speaks,
    ) -> Result<Self, TlsError> {
        let acceptor = TlsAcceptor::from(certificates.server_config(speaks)?);
        let tls = Some(Arc::new(Tls { acceptor, certificates }));
        Ok(Self { tls, ..Self::plain(tcp) })
    }

    /// The address that is listened on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The next connection. Safe to cancel.
    pub async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let accepted = tokio::select! {
                Some(done) = self.handshakes.join_next() => match done {
                    Ok(Some(connection)) => return connection,
                    // Failed, or given up.
                    _ => continue,
                },
                accepted = accept_after(&self.tcp, self.resume) => accepted,
            };
            if accepted.is_ok() && std::mem::take(&mut self.resting) {
                tracing::info!("connections are accepted again");
            }
            match (accepted, &self.tls) {
                (Ok((stream, peer)), None) => {
                    let unread = Some((self.complaints.clone(), peer));
                    return (Connection::Plain(Plain { stream, unread }), peer);
                }
                (Ok((stream, peer)), Some(tls)) => {
                    let (tls, complaints) = (tls.clone(), self.complaints.clone());
                    let started = self.handshakes.spawn(handshake(tls, complaints, stream, peer));
                    self.started.push_back(started);
                    self.give_up_oldest();
                }
                (Err(error), _) => self.rest(&error),
            }
        }
    }

    /// All connections, one after the other, as the wire takes them.
    pub fn into_agents(self) -> impl Stream<Item = io::Result<Accepted>> + Send + 'static {
        futures_util::stream::unfold(self, |mut listener| async move {
            let (connection, peer) = listener.accept().await;
            Some((Ok(Accepted::over_socket(connection, Some(peer))), listener))
        })
    }

    fn give_up_oldest(&mut self) {
        if self.started.len() <= self.max_handshakes {
            return;
        }
        self.started.retain(|started| !started.is_finished());
        while self.started.len() > self.max_handshakes {
            if let Some(oldest) = self.started.pop_front() {
                oldest.abort();
            }
        }
    }

    /// A client that is gone again is its own affair; a lack of file handles is everybody's.
    fn rest(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
        ) {
            return;
        }
        if !std::mem::replace(&mut self.resting, true) {
            tracing::error!(
                %error,
                "cannot accept connections for now; check the limit of open files (`LimitNOFILE=`)"
            );
        }
        self.resume = Instant::now() + REST;
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        Listener::accept(self).await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Listener::local_addr(self)
    }
}

async fn accept_after(tcp: &TcpListener, moment: Instant) -> io::Result<(TcpStream, SocketAddr)> {
    tokio::time::sleep_until(moment).await;
    let (stream, peer) = tcp.accept().await?;
    // It works without these as well.
    let _ = fluke_wire::tcp::prepare(&stream);
    Ok((stream, peer))
}

async fn handshake(
    tls: Arc<Tls>,
    complaints: Arc<Complaints>,
    stream: TcpStream,
    peer: SocketAddr,
) -> Option<(Connection, SocketAddr)> {
    let greeted = tokio::time::timeout(HANDSHAKE, greet(tls, stream)).await;
    match greeted {
        Ok(Ok(stream)) => Some((Connection::Tls(Box::new(stream)), peer)),
        Ok(Err(error)) if is_of_no_interest(&error) => {
            tracing::debug!(%peer, %error, "a client left before TLS was spoken");
            None
        }
        Ok(Err(error)) => {
            let why = explain(&error).map_or_else(|| error.to_string(), str::to_string);
            complaints.make(peer.ip(), &why);
            None
        }
        Err(_) => {
            tracing::debug!(%peer, "TLS handshake took too long");
            None
        }
    }
}

async fn greet(tls: Arc<Tls>, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0; 1];
    if stream.peek(&mut first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if first[0] != TLS_HANDSHAKE {
        return Err(answer_plaintext(stream).await);
    }
    if tls.certificates.may_be_old() {
        let certificates = tls.certificates.clone();
        let refreshed = tokio::task::spawn_blocking(move || certificates.refresh());
        refreshed.await.map_err(io::Error::other)?;
    }
    tls.acceptor.accept(stream).await
}

const SPEAKS_TLS: &str = "This port speaks TLS: use https:// (or grpcs:// for agents).\n";

/// Tells somebody who forgot about TLS, if that can be said in a language they speak.
async fn answer_plaintext(mut stream: TcpStream) -> io::Error {
    let mut request = [0; 4096];
    let read = stream.read(&mut request).await.unwrap_or(0);
    if is_http_1(&request[..read]) {
        let answer = format!(
            "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{SPEAKS_TLS}",
            SPEAKS_TLS.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        // Closing with something unread would take the answer back.
        let _ = tokio::io::copy(&mut stream.take(MAX_DRAINED), &mut tokio::io::sink()).await;
    }
    let why =
        "the client does not speak TLS, and this port does: use https://, or grpcs:// for agents";
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn is_http_1(request: &[u8]) -> bool {
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.first().is_some_and(u8::is_ascii_uppercase)
        && line.windows(8).any(|part| part == b" HTTP/1.")
}

impl Plain {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_ready()
            && let Some((complaints, peer)) = self.unread.take()
            && buffer.filled().get(before) == Some(&TLS_HANDSHAKE)
        {
            let why = "the client speaks TLS, and this port does not: use http://, or grpc:// \
                       for agents, or switch TLS on here";
            complaints.make(peer.ip(), why);
        }
        polled
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(plain) => plain.stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_fd(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => plain.poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.stream).poll_write_vectored(context, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(plain) => plain.stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests;
