//! The server's side of the wire.
//!
//! ```text
//! Accepted ─▶ serve ─▶ admit(token) ─▶ Hello ─▶ enter(hello) ─▶ Welcome ─▶ run(Link)
//! ```
//!
//! Bounds what a client can make the server hold: streams a connection, headers, resets, message
//! sizes, time without a session. Who may enter is for the [`Fleet`] to say.

mod accepted;
mod letter;
mod link;
mod visitors;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::message::{Hello, Welcome};
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

pub use accepted::{Accepted, Peer};
pub use letter::{Circular, Letter};
pub use link::{Incoming, Link, Outgoing, SendError};

use crate::convert::hello_from_proto;
use crate::error::WireError;
use crate::proto::fleet_server::{self, FleetServer};
use crate::proto::{AgentMessage, agent_message};
use crate::refusal::Refusal;
use crate::{MAX_TO_AGENT, MAX_TO_SERVER};
use link::{Downlink, End};
use visitors::AgentsOnly;

/// How long an agent that was admitted may take to say hello.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// How long sessions may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// Streams that one connection may have open; an agent needs one.
const MAX_STREAMS: u32 = 4;
/// Bytes of HTTP/2 headers that one call may have.
const MAX_HEADERS: u32 = 16 * 1024;
/// Streams that one connection may open and reset before it is closed.
const MAX_RESETS: usize = 16;
/// HTTP/2 flow control: what one agent can have on its way without being read.
const WINDOW: u32 = 256 * 1024;

/// Those whom agents want to join.
pub trait Fleet: Send + Sync + 'static {
    /// What a token allows.
    type Pass: Send + 'static;

    /// Judges a token, before anything else of a call is looked at.
    ///
    /// May be dropped half-way, when the agent goes away.
    fn admit(
        &self,
        token: Option<&str>,
        from: Option<SocketAddr>,
    ) -> impl Future<Output = Result<Self::Pass, Refusal>> + Send;

    /// Judges who an agent says it is, and takes it in.
    ///
    /// May be dropped half-way, when the agent goes away; once it has returned an [`Entry`], its
    /// `run` is started.
    fn enter(
        &self,
        pass: Self::Pass,
        hello: Hello,
        from: Option<SocketAddr>,
    ) -> impl Future<Output = Result<Entry, Refusal>> + Send;
}

/// What an agent that was let in gets.
pub struct Entry {
    /// The first message.
    pub welcome: Welcome,
    /// Its session; the stream ends when this does.
    pub run: Run,
}

/// One session from beginning to end, on a task of its own.
pub type Run = Box<dyn FnOnce(Link) -> BoxFuture<'static, ()> + Send>;

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("welcome", &self.welcome).finish_non_exhaustive()
    }
}

/// Why a server stopped serving.
#[derive(Debug, thiserror::Error)]
#[error("agents are no longer served")]
pub struct ServeError(#[from] tonic::transport::Error);

/// Serves agents on every connection of `incoming`, until `shutdown`.
///
/// Then every session is ended with [`Refusal::Unavailable`], which agents take as "come back at
/// once", and what has not ended after five seconds is cut. An error in `incoming` is passed over,
/// so it is for the stream to pause after one.
pub async fn serve<F: Fleet>(
    fleet: Arc<F>,
    incoming: impl Stream<Item = io::Result<Accepted>> + Send,
    shutdown: impl Future + Send,
) -> Result<(), ServeError> {
    let (phase, phases) = watch::channel(Phase::Serving);
    let incoming = incoming.map(|accepted| {
        let phases = phases.clone();
        accepted.map(|accepted| accepted.until(reached(phases, Phase::Stopped)))
    });
    let service = FleetServer::new(Reception { fleet, phases: phases.clone() })
        .max_decoding_message_size(MAX_TO_SERVER)
        .max_encoding_message_size(MAX_TO_AGENT);
    let stop = async {
        shutdown.await;
        phase.send_replace(Phase::Stopping);
    };
    let service = AgentsOnly(service);
    let mut serving = pin!(bounded().serve_with_incoming_shutdown(service, incoming, stop));
    let served = tokio::select! {
        served = &mut serving => served,
        () = after_grace(phases.clone()) => Ok(()),
    };
    phase.send_replace(Phase::Stopped);
    Ok(served?)
}

fn bounded() -> Server {
    Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_max_pending_accept_reset_streams(Some(MAX_RESETS))
        .http2_max_local_error_reset_streams(Some(MAX_RESETS))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
}

/// How far a server is with stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    Stopping,
    Stopped,
}

/// Waits for a phase; that of a server that is gone is the last one.
async fn reached(mut phases: watch::Receiver<Phase>, phase: Phase) {
    let _ = phases.wait_for(|now| *now >= phase).await;
}

async fn after_grace(phases: watch::Receiver<Phase>) {
    reached(phases, Phase::Stopping).await;
    sleep(GRACE).await;
}

/// Where agents come in.
struct Reception<F> {
    fleet: Arc<F>,
    phases: watch::Receiver<Phase>,
}

#[tonic::async_trait]
impl<F: Fleet> fleet_server::Fleet for Reception<F> {
    type ConnectStream = Downlink;

    async fn connect(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Downlink>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let from = peer.as_ref().and_then(|peer| peer.address);
        if *self.phases.borrow() != Phase::Serving {
            return Err(shutting_down().into());
        }
        let pass = self.fleet.admit(bearer(request.metadata()), from).await?;
        let mut stream = request.into_inner();
        let hello = timeout(HELLO_WITHIN, read_hello(&mut stream)).await;
        let hello = hello.map_err(|_| Refusal::Invalid("no Hello came".to_owned()))??;
        let Entry { welcome, run } = self.fleet.enter(pass, hello, from).await?;

        // No await from here on: a session that was entered is run.
        let (link, downlink, ender) = Link::new(welcome, stream, peer.clone());
        let busy = peer.map(|peer| peer.begin_session());
        let stopping = reached(self.phases.clone(), Phase::Stopping);
        tokio::spawn(async move {
            let mut run = run(link);
            tokio::select! {
                () = &mut run => {}
                () = stopping => {
                    ender.end(End::Refused(shutting_down()));
                    run.await;
                }
            }
            ender.end(End::Clean);
            drop(busy);
        });
        Ok(Response::new(downlink))
    }
}

fn shutting_down() -> Refusal {
    Refusal::Unavailable("the server is shutting down".to_owned())
}

/// The token of `authorization: Bearer <token>`.
fn bearer(metadata: &MetadataMap) -> Option<&str> {
    let (scheme, token) = metadata.get("authorization")?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

async fn read_hello(stream: &mut Streaming<AgentMessage>) -> Result<Hello, Refusal> {
    let misplaced = |found| WireError::Misplaced { expected: "a Hello", found };
    let hello = match stream.message().await {
        Ok(Some(AgentMessage {
            session: 0,
            sequence: 0,
            body: Some(agent_message::Body::Hello(hello)),
        })) => hello_from_proto(hello),
        Ok(Some(_)) => Err(misplaced("another message")),
        Ok(None) => Err(misplaced("the end")),
        Err(status) => Err(WireError::broken(&status)),
    };
    hello.map_err(|error| Refusal::Invalid(error.to_string()))
}
