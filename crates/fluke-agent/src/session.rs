//! The server, seen from here: connects, stays connected, comes back.
//!
//! Runs on a task of its own, so that neither a slow disk nor a long apply ever delays a heartbeat.
//! Decides nothing about messages: they go to the agent and come from it, in order.
//!
//! ```text
//!  connect ─▶ Connected ─▶ Message … ─▶ Lost ─▶ pause ─▶ connect ─▶ …
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::Hash256;
use fluke_model::message::{Hello, Holdings, ToAgent, ToServer, Welcome};
use fluke_wire::client::{ConnectError, Incoming, Outgoing, Session, Target};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

mod pause;

use crate::world::World;
use pause::Pauses;

/// How many messages may wait for the network, or for the agent.
const QUEUE: usize = 64;
/// So many heartbeats may be missed.
const MISSED: u32 = 3;
/// What a server may sensibly ask for.
const HEARTBEATS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(600));
/// A session that lasted this long was a good one: trouble after it is new trouble.
const GOOD: Duration = Duration::from_secs(5);
/// How long the server may take to see that the agent has left.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the agent hears of its server.
#[derive(Debug)]
pub(crate) enum Event {
    /// An attempt begins.
    Connecting,
    /// A session has begun; what is sent into `to_server` belongs to it.
    Connected { welcome: Welcome, to_server: mpsc::Sender<ToServer> },
    /// The server said something.
    Message(ToAgent),
    /// The session is over.
    Lost { reason: String },
    /// There is no session to be had for now.
    Failed { reason: String, refused: bool, retry: Duration },
}

/// What connecting takes.
pub(crate) struct Connector<W> {
    /// Where the server is to be found.
    pub(crate) world: Arc<W>,
    /// Whom to connect to.
    pub(crate) target: Target,
    /// What to say first, but for what the agent holds and the session before.
    pub(crate) hello: Hello,
    /// The newest snapshot that the agent has been given.
    pub(crate) snapshot: watch::Receiver<Option<Hash256>>,
    /// What it has been told of others.
    pub(crate) tables: watch::Receiver<Holdings>,
    /// Where the agent listens.
    pub(crate) events: mpsc::Sender<Event>,
}

/// How a session ended.
enum End {
    /// The agent has nothing more to say, for good.
    AgentLeft,
    /// The server only restarts.
    Restart(String),
    /// Anything else.
    Broken(String),
}

/// A channel for what the agent hears.
pub(crate) fn events() -> (mpsc::Sender<Event>, mpsc::Receiver<Event>) {
    mpsc::channel(QUEUE)
}

/// Keeps a session open until the agent is gone.
pub(crate) async fn run<W: World>(connector: Connector<W>) {
    let Connector { world, .. } = &connector;
    let mut pauses = Pauses::default();
    let mut logged = String::new();
    // In memory only: on disk it would be in every copy of the disk.
    let mut previous = None;
    loop {
        if connector.events.send(Event::Connecting).await.is_err() {
            return;
        }
        let snapshot = *connector.snapshot.borrow();
        let tables = *connector.tables.borrow();
        let hello = Hello { snapshot, previous, tables, ..connector.hello.clone() };
        let event = match world.connect(&connector.target, hello).await {
            Ok(session) => {
                logged.clear();
                let began = Instant::now();
                previous = Some(session.welcome.session);
                let end = talk(session, &connector.events).await;
                if began.elapsed() >= GOOD {
                    pauses.reset();
                }
                match end {
                    End::AgentLeft => return,
                    End::Restart(reason) => {
                        tracing::info!(reason, "the server restarts");
                        pauses.at_once();
                        Event::Lost { reason }
                    }
                    End::Broken(reason) => {
                        tracing::warn!(reason, "lost the server");
                        Event::Lost { reason }
                    }
                }
            }
            Err(error) => {
                let reason = told(&error);
                let refused = is_refusal(&error);
                let retry = pauses.next(refused, world.random());
                note(&mut logged, &reason, refused, retry);
                Event::Failed { reason, refused, retry }
            }
        };
        let pause = match &event {
            Event::Failed { retry, .. } => *retry,
            _ => pauses.next(false, world.random()),
        };
        if connector.events.send(event).await.is_err() {
            return;
        }
        sleep(pause).await;
    }
}

/// Says each trouble once, however often it is met.
fn note(logged: &mut String, reason: &str, refused: bool, retry: Duration) {
    if logged == reason {
        tracing::debug!(reason, ?retry, "still no server");
    } else if refused {
        tracing::error!(reason, "the server does not take this agent; trying again now and then");
    } else {
        tracing::warn!(reason, "no server; trying again");
    }
    reason.clone_into(logged);
}

/// Whether somebody has to do something before it can succeed.
fn is_refusal(error: &ConnectError) -> bool {
    matches!(error, ConnectError::NameTaken { .. }) || !error.is_retryable_soon()
}

/// One session, from its welcome to its end.
async fn talk(session: Session, events: &mpsc::Sender<Event>) -> End {
    let Session { welcome, outgoing, mut incoming } = session;
    let heartbeat = welcome.heartbeat.clamp(HEARTBEATS.0, HEARTBEATS.1);
    let (to_server, from_agent) = mpsc::channel(QUEUE);
    if events.send(Event::Connected { welcome, to_server }).await.is_err() {
        return End::AgentLeft;
    }
    // Neither waits for the other: a network that takes nothing does not keep us from hearing.
    let end = tokio::select! {
        biased;
        end = hear(&mut incoming, events, heartbeat) => end,
        end = speak(&outgoing, from_agent, heartbeat) => end,
    };
    if let End::AgentLeft = end {
        // Ends the stream behind the last message; the server answers with its own end.
        drop(outgoing);
        let _ = timeout(FAREWELL, async { while let Ok(Some(_)) = incoming.next().await {} }).await;
    }
    end
}

/// Passes on what the server says, until it says nothing for too long.
async fn hear(incoming: &mut Incoming, events: &mpsc::Sender<Event>, heartbeat: Duration) -> End {
    loop {
        let message = match timeout(heartbeat * MISSED, incoming.next()).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => return End::Restart("the server ended the session".to_owned()),
            Ok(Err(error)) if error.is_restart() => return End::Restart(told(&error)),
            Ok(Err(error)) => return End::Broken(told(&error)),
            Err(_) => {
                let silence = (heartbeat * MISSED).as_secs_f32();
                return End::Broken(format!("the server said nothing for {silence} s"));
            }
        };
        if message == ToAgent::Heartbeat {
            continue;
        }
        if events.send(Event::Message(message)).await.is_err() {
            return End::AgentLeft;
        }
    }
}

/// Passes on what the agent says, and says that it is here.
async fn speak(
    outgoing: &Outgoing,
    mut from_agent: mpsc::Receiver<ToServer>,
    heartbeat: Duration,
) -> End {
    let mut beats = interval_at(Instant::now() + heartbeat, heartbeat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Both branches are cancel-safe. The beat comes first: it is rare, and must not wait behind
        // an agent that has a lot to say.
        let message = tokio::select! {
            biased;
            _ = beats.tick() => Some(ToServer::Heartbeat),
            message = from_agent.recv() => {
                // Whatever is said says that the agent is here.
                beats.reset();
                message
            }
        };
        let Some(message) = message else { return End::AgentLeft };
        if outgoing.send(message).await.is_err() {
            // Why it is over, `hear` knows.
            std::future::pending::<()>().await;
        }
    }
}

/// An error and its causes, as one line.
pub(crate) fn told(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests;
