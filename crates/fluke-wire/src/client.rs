//! The agent's side of the wire.

mod error;
mod first_bytes;
mod parts;
mod tether;
mod tls;
mod url;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fluke_model::id::SessionId;
use fluke_model::message::{Hello, ToAgent, ToServer, Welcome};
use fluke_model::secret::Secret;
use futures_util::Stream;
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tonic::codegen::Service;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

pub use error::{Closed, ConnectError, SessionError};
pub use tls::{ClientTls, TlsProblem};
pub use url::{InvalidUrl, ServerUrl};

use crate::convert::{to_agent_from_proto, to_server_to_proto, welcome_from_proto};
use crate::error::WireError;
use crate::proto::fleet_client::FleetClient;
use crate::proto::{AgentMessage, ServerMessage, agent_message, server_message};
use crate::sequence::Sequence;
use crate::{MAX_TO_AGENT, MAX_TO_SERVER, tcp};
use first_bytes::{FirstBytes, Noting};
use parts::{Complete, Parts};
use tether::{Tether, tether};
use tls::HandshakeFailure;

/// How long it may take from the first packet to the server's welcome.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long one of several addresses of a name is tried before the next.
const ADDRESS_WITHIN: Duration = Duration::from_secs(3);
/// How many messages may wait for the network.
const QUEUE: usize = 64;
/// HTTP/2 flow control: a snapshot should not need a round trip for every 64 KiB.
const WINDOW: u32 = 1024 * 1024;

/// Whom to connect to, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where the server is.
    pub url: ServerUrl,
    /// What lets the agent in.
    pub token: Secret,
    /// Whom to trust; of no meaning for `grpc://`.
    pub tls: ClientTls,
}

/// A target for whoever connects to it often: whom to trust is worked out once.
#[derive(Debug, Clone)]
pub struct Prepared {
    target: Target,
    /// None for `grpc://`.
    tls: Option<Arc<ClientConfig>>,
}

impl Prepared {
    /// Reads the certificates; fails where [`connect`] would.
    pub fn new(target: Target) -> Result<Self, ConnectError> {
        let tls = match target.url.is_tls() {
            true => Some(Arc::new(trust(&target)?)),
            false => None,
        };
        Ok(Self { target, tls })
    }

    /// Opens a session, or tells within ten seconds why there is none.
    pub async fn connect(&self, hello: Hello) -> Result<Session, ConnectError> {
        self.connect_through(hello, |tcp| tcp).await
    }

    /// The same, over what `wrap` makes of the connection.
    pub async fn connect_through<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        hello: Hello,
        wrap: impl FnOnce(TcpStream) -> T,
    ) -> Result<Session, ConnectError> {
        open(&self.target, self.tls.clone(), hello, CONNECT_WITHIN, wrap).await
    }
}

/// A stream that a server has welcomed. Dropping both halves ends it.
#[derive(Debug)]
pub struct Session {
    /// What the server said.
    pub welcome: Welcome,
    /// To the server.
    pub outgoing: Outgoing,
    /// From the server.
    pub incoming: Incoming,
}

/// Opens a session, or tells within ten seconds why there is none.
pub async fn connect(target: &Target, hello: Hello) -> Result<Session, ConnectError> {
    connect_within(target, hello, CONNECT_WITHIN).await
}

/// Opens a session, or tells within `limit` why there is none.
pub async fn connect_within(
    target: &Target,
    hello: Hello,
    limit: Duration,
) -> Result<Session, ConnectError> {
    open(target, None, hello, limit, |tcp| tcp).await
}

/// Over TCP; `tls` is worked out from the target where it is not known yet.
async fn open<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    target: &Target,
    tls: Option<Arc<ClientConfig>>,
    hello: Hello,
    limit: Duration,
    wrap: impl FnOnce(TcpStream) -> T,
) -> Result<Session, ConnectError> {
    let deadline = Instant::now() + limit;
    let tcp = match timeout_at(deadline, open_tcp(&target.url)).await {
        Ok(opened) => opened,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    let tcp = tcp
        .map_err(|source| ConnectError::Unreachable { address: target.url.authority(), source })?;
    let session = async {
        match over(wrap(tcp), target, tls, hello).await {
            Err(ConnectError::Lost { address, .. })
                if !target.url.is_tls() && speaks_tls(&target.url).await =>
            {
                Err(ConnectError::NeedsTls { address })
            }
            outcome => outcome,
        }
    };
    timeout_at(deadline, session).await.unwrap_or_else(|_| {
        Err(ConnectError::NoAnswer { address: target.url.authority(), waited: limit })
    })
}

/// Opens a session over a byte stream that leads to the target, however long it takes.
pub async fn connect_over(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    target: &Target,
    hello: Hello,
) -> Result<Session, ConnectError> {
    over(io, target, None, hello).await
}

async fn over(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    target: &Target,
    tls: Option<Arc<ClientConfig>>,
    hello: Hello,
) -> Result<Session, ConnectError> {
    let first = FirstBytes::default();
    if !target.url.is_tls() {
        return greet(Noting::new(io, first.clone()), first, target, hello).await;
    }
    let tls = match tls {
        Some(tls) => tls,
        None => Arc::new(trust(target)?),
    };
    let io = speak_tls(io, target, tls).await?;
    greet(Noting::new(io, first.clone()), first, target, hello).await
}

/// Tries every address of the host, so that one dead address does not hide a living one.
async fn open_tcp(url: &ServerUrl) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((url.host(), url.port())).await?.collect();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for (n, address) in addresses.iter().enumerate() {
        let attempt = TcpStream::connect(address);
        let attempted = if n + 1 == addresses.len() {
            attempt.await
        } else {
            timeout(ADDRESS_WITHIN, attempt)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        match attempted {
            Ok(stream) => {
                tcp::prepare(&stream)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn speak_tls<T: AsyncRead + AsyncWrite + Unpin>(
    io: T,
    target: &Target,
    config: Arc<ClientConfig>,
) -> Result<tokio_rustls::client::TlsStream<T>, ConnectError> {
    let address = target.url.authority();
    let distrust = |source| ConnectError::Tls { address: address.clone(), source };
    let name = ServerName::try_from(target.url.host().to_owned())
        .map_err(|error| distrust(TlsProblem::Other(error.to_string())))?;
    let handshake = TlsConnector::from(config).connect(name, io).await;
    handshake.map_err(|error| ConnectError::of_handshake(address, HandshakeFailure::of(error)))
}

fn trust(target: &Target) -> Result<ClientConfig, ConnectError> {
    let address = target.url.authority();
    target.tls.config().map_err(|source| ConnectError::Tls { address, source })
}

/// Looks whether it was for lack of TLS that a server hung up without a word.
async fn speaks_tls(url: &ServerUrl) -> bool {
    let tls = ClientTls { insecure_skip_verify: true, ..ClientTls::default() };
    let (Ok(config), Ok(name)) = (tls.config(), ServerName::try_from(url.host().to_owned())) else {
        return false;
    };
    let Ok(tcp) = open_tcp(url).await else { return false };
    match TlsConnector::from(Arc::new(config)).connect(name, tcp).await {
        Ok(_) => true,
        Err(error) => match HandshakeFailure::of(error) {
            HandshakeFailure::Tls(_) | HandshakeFailure::NotHttp2 => true,
            HandshakeFailure::NotTls | HandshakeFailure::Broken(_) => false,
        },
    }
}

/// Says hello over a connection, and waits for the welcome.
async fn greet<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    io: T,
    first: FirstBytes,
    target: &Target,
    hello: Hello,
) -> Result<Session, ConnectError> {
    let address = || target.url.authority();
    let failed = |status: &Status| ConnectError::of_call(address(), status, first.speaker());
    let incompatible = |error: WireError| ConnectError::Incompatible {
        address: address(),
        reason: error.to_string(),
    };

    let (queue, waiting) = mpsc::channel(QUEUE);
    let uplink = Uplink { hello: Some(hello), waiting, sent: 0 };
    let mut request = Request::new(uplink);
    let bearer = format!("Bearer {}", target.token.expose()).parse();
    let mut bearer: tonic::metadata::AsciiMetadataValue =
        bearer.map_err(|_| ConnectError::Unauthenticated { address: address() })?;
    bearer.set_sensitive(true);
    request.metadata_mut().insert("authorization", bearer);

    let (io, tether) = tether(io);
    let channel = open_http2(io, &target.url).await.map_err(|status| failed(&status))?;
    let mut client = FleetClient::new(channel)
        .max_decoding_message_size(MAX_TO_AGENT)
        .max_encoding_message_size(MAX_TO_SERVER);
    let mut stream = client.connect(request).await.map_err(|status| failed(&status))?.into_inner();
    let first_message = stream.message().await.map_err(|status| failed(&status))?;
    let welcome = read_welcome(first_message).map_err(incompatible)?;

    let session = welcome.session;
    Ok(Session {
        welcome,
        outgoing: Outgoing { session, queue },
        incoming: Incoming {
            stream,
            sequence: Sequence::after_greeting(session),
            parts: Parts::default(),
            _connection: (client, tether),
        },
    })
}

fn read_welcome(message: Option<ServerMessage>) -> Result<Welcome, WireError> {
    let misplaced = |found| WireError::Misplaced { expected: "a Welcome", found };
    let message = message.ok_or_else(|| misplaced("the end"))?;
    match message.body {
        Some(server_message::Body::Welcome(_)) if message.sequence != 0 => {
            Err(WireError::OutOfSequence { expected: 0, found: message.sequence })
        }
        Some(server_message::Body::Welcome(welcome)) => {
            welcome_from_proto(message.session, welcome)
        }
        _ => Err(misplaced("another message")),
    }
}

async fn open_http2<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    io: T,
    url: &ServerUrl,
) -> Result<Channel, Status> {
    let scheme = if url.is_tls() { "https" } else { "http" };
    let uri: Uri = format!("{scheme}://{}", url.authority())
        .parse()
        .map_err(|error: http::uri::InvalidUri| Status::internal(error.to_string()))?;
    // No keepalive of its own: heartbeats and the kernel do that.
    Endpoint::from(uri)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect_with_connector(Once(Some(io)))
        .await
        .map_err(|error| Status::from_error(Box::new(error)))
}

/// Hands out one connection, once: a session that broke is opened anew, with a new hello.
struct Once<T>(Option<T>);

impl<T: AsyncRead + AsyncWrite> Service<Uri> for Once<T> {
    type Response = TokioIo<T>;
    type Error = io::Error;
    type Future = std::future::Ready<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let spent = || io::Error::new(io::ErrorKind::NotConnected, "the connection is over");
        std::future::ready(self.0.take().map(TokioIo::new).ok_or_else(spent))
    }
}

/// The way to the server. Clones share one queue; the stream ends when all are dropped.
#[derive(Debug, Clone)]
pub struct Outgoing {
    session: SessionId,
    /// Boxed: a channel has room for many from the start, and mostly none wait.
    queue: mpsc::Sender<Box<AgentMessage>>,
}

impl Outgoing {
    /// Hands a message over to the network; waits while too many are on their way.
    pub async fn send(&self, message: ToServer) -> Result<(), Closed> {
        let body = Some(to_server_to_proto(message));
        let message = AgentMessage { session: self.session.0, sequence: 0, body };
        self.queue.send(Box::new(message)).await.map_err(|_| Closed)
    }
}

/// What an agent says: its hello, then whatever is sent, numbered in the order of the queue.
struct Uplink {
    hello: Option<Hello>,
    waiting: mpsc::Receiver<Box<AgentMessage>>,
    sent: u64,
}

impl Stream for Uplink {
    type Item = AgentMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentMessage>> {
        if let Some(hello) = self.hello.take() {
            let body: agent_message::Body = to_server_to_proto(ToServer::Hello(hello));
            return Poll::Ready(Some(AgentMessage { session: 0, sequence: 0, body: Some(body) }));
        }
        self.waiting.poll_recv(cx).map(|message| {
            self.sent += 1;
            message.map(|message| AgentMessage { sequence: self.sent, ..*message })
        })
    }
}

/// The way from the server.
#[derive(Debug)]
pub struct Incoming {
    stream: Streaming<ServerMessage>,
    sequence: Sequence,
    parts: Parts,
    _connection: (FleetClient<Channel>, Tether),
}

impl Incoming {
    /// The next message; none when the server ended the session. Cancel-safe: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<ToAgent>, SessionError> {
        loop {
            let message =
                self.stream.message().await.map_err(|status| SessionError::of(&status))?;
            let Some(message) = message else { return Ok(None) };
            self.sequence.accept(message.session, message.sequence)?;
            let Complete::Yes(body) = self.parts.take(message.body)? else { continue };
            // What only newer servers say is passed over.
            if let Some(message) = to_agent_from_proto(body)? {
                return Ok(Some(message));
            }
        }
    }
}
