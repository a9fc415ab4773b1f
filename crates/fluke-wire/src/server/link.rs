//! One agent's session, as the server holds it.

use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fluke_model::id::SessionId;
use fluke_model::message::{ToServer, Welcome};
use futures_util::Stream;
use prost::bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::WatchStream;
use tonic::{Status, Streaming};

use super::accepted::Peer;
use super::letter::{Letter, Sealed, next_part};
use crate::MAX_TO_AGENT;
use crate::convert::{MAX_STEPS, to_server_from_proto, welcome_to_proto};
use crate::error::WireError;
use crate::proto::{AgentMessage, ServerMessage, server_message};
use crate::refusal::Refusal;
use crate::sequence::Sequence;

/// How many messages to one agent may wait for the network.
const QUEUE: usize = 32;

/// A session that has begun: the welcome is on its way.
#[derive(Debug)]
pub struct Link {
    /// To the agent.
    pub outgoing: Outgoing,
    /// From the agent.
    pub incoming: Incoming,
    peer: Option<Peer>,
}

impl Link {
    /// Another handle on the socket that the session goes over, to ask the kernel about; none where
    /// it goes over something else. Cancel-safe.
    pub async fn socket(&self) -> Option<OwnedFd> {
        self.peer.as_ref()?.socket().await
    }

    /// Ends the session, and tells the agent why.
    pub fn close(self, why: Refusal) {
        self.outgoing.close(why);
    }

    /// Takes up the agent's stream; what is sent comes out of the [`Downlink`].
    pub(super) fn new(
        welcome: Welcome,
        stream: Streaming<AgentMessage>,
        peer: Option<Peer>,
    ) -> (Self, Downlink, Ender) {
        let session = welcome.session;
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (ended, end) = watch::channel(None);
        let ender = Ender(Arc::new(ended));
        let outgoing = Outgoing { queue, ender: ender.clone() };
        let sequence = Sequence::after_greeting(session);
        let incoming = Incoming { stream, sequence, ender: ender.clone(), end: end.clone() };
        let downlink = Downlink {
            welcome: Some(Box::new(welcome_message(welcome))),
            session,
            waiting,
            rest: Bytes::new(),
            sent: 0,
            ending: WatchStream::new(end),
            end: None,
        };
        (Self { outgoing, incoming, peer }, downlink, ender)
    }
}

fn welcome_message(welcome: Welcome) -> ServerMessage {
    let session = welcome.session.0;
    let body = Some(server_message::Body::Welcome(welcome_to_proto(welcome)));
    ServerMessage { session, sequence: 0, body }
}

/// How a session ends.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// With nothing to say.
    Clean,
    /// With a reason.
    Refused(Refusal),
}

/// Brings a session to its end; whoever is first says how.
#[derive(Debug, Clone)]
pub(super) struct Ender(Arc<watch::Sender<Option<End>>>);

impl Ender {
    pub(super) fn end(&self, how: End) {
        self.0.send_if_modified(|end| {
            let first = end.is_none();
            end.get_or_insert(how);
            first
        });
    }
}

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The session is over.
    #[error("the session is over")]
    Closed,
    /// No agent would take it.
    #[error(
        "a snapshot of {steps} steps and {bytes} bytes is too large for an agent (at most \
         {MAX_STEPS} steps and {MAX_TO_AGENT} bytes); match fewer tasks, or smaller ones"
    )]
    TooLarge {
        /// How many steps it has.
        steps: usize,
        /// How large it is.
        bytes: usize,
    },
}

/// The way to an agent. Clones share one queue.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Boxed: a channel has room for many from the start, and mostly none wait.
    queue: mpsc::Sender<Box<Sealed>>,
    ender: Ender,
}

impl Outgoing {
    /// Hands a message over to the network; waits while too many are on their way.
    pub async fn send(&self, letter: impl Into<Letter>) -> Result<(), SendError> {
        let sealed = Box::new(letter.into().seal()?);
        self.queue.send(sealed).await.map_err(|_| SendError::Closed)
    }

    /// Ends the session behind what was sent so far, and tells the agent why.
    pub fn close(&self, why: Refusal) {
        self.ender.end(End::Refused(why));
    }
}

/// The way from an agent.
#[derive(Debug)]
pub struct Incoming {
    stream: Streaming<AgentMessage>,
    sequence: Sequence,
    ender: Ender,
    end: watch::Receiver<Option<End>>,
}

impl Incoming {
    /// The next message; none when the session was ended, by either side. Cancel-safe.
    ///
    /// An agent that breaks a rule is told so, and its session ends.
    pub async fn next(&mut self) -> Result<Option<ToServer>, WireError> {
        loop {
            let message = tokio::select! {
                biased;
                () = ended(&mut self.end) => return Ok(None),
                message = self.stream.message() => message,
            };
            match message {
                Ok(None) => return Ok(None),
                Ok(Some(message)) => match self.read(message) {
                    Ok(Some(message)) => return Ok(Some(message)),
                    Ok(None) => {}
                    Err(error) => return Err(self.refuse(error)),
                },
                Err(status) => return Err(self.refuse(WireError::broken(&status))),
            }
        }
    }

    /// None for what only newer agents say.
    fn read(&mut self, message: AgentMessage) -> Result<Option<ToServer>, WireError> {
        self.sequence.accept(message.session, message.sequence)?;
        match to_server_from_proto(message.body)? {
            Some(ToServer::Hello(_)) => {
                Err(WireError::Misplaced { expected: "a message", found: "a second Hello" })
            }
            message => Ok(message),
        }
    }

    fn refuse(&self, error: WireError) -> WireError {
        self.ender.end(End::Refused(Refusal::Invalid(error.to_string())));
        error
    }
}

async fn ended(end: &mut watch::Receiver<Option<End>>) {
    // An error means that nobody is left who could end it, which is an end as well.
    let _ = end.wait_for(Option::is_some).await;
}

/// What an agent hears: the welcome, then whatever is sent, numbered in the order of the queue.
pub(super) struct Downlink {
    welcome: Option<Box<ServerMessage>>,
    session: SessionId,
    waiting: mpsc::Receiver<Box<Sealed>>,
    /// What is left of a letter that goes in parts.
    rest: Bytes,
    sent: u64,
    ending: WatchStream<Option<End>>,
    end: Option<End>,
}

impl Downlink {
    fn number(&mut self, body: server_message::Body) -> ServerMessage {
        self.sent += 1;
        ServerMessage { session: self.session.0, sequence: self.sent, body: Some(body) }
    }

    /// Once an end is decided, nothing more is taken and what waits still goes out.
    fn poll_end(&mut self, cx: &mut Context<'_>) {
        while self.end.is_none()
            && let Poll::Ready(Some(end)) = Pin::new(&mut self.ending).poll_next(cx)
        {
            if end.is_some() {
                self.waiting.close();
                self.end = end;
            }
        }
    }
}

impl Stream for Downlink {
    type Item = Result<ServerMessage, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(welcome) = self.welcome.take() {
            return Poll::Ready(Some(Ok(*welcome)));
        }
        self.poll_end(cx);
        if self.rest.is_empty() {
            match ready!(self.waiting.poll_recv(cx)).map(|sealed| *sealed) {
                Some(Sealed::Whole(body)) => return Poll::Ready(Some(Ok(self.number(body)))),
                Some(Sealed::Parts(content)) => self.rest = content,
                None => {
                    return Poll::Ready(match self.end.replace(End::Clean) {
                        Some(End::Refused(why)) => Some(Err(why.into())),
                        Some(End::Clean) | None => None,
                    });
                }
            }
        }
        let part = next_part(&mut self.rest);
        Poll::Ready(Some(Ok(self.number(part))))
    }
}
