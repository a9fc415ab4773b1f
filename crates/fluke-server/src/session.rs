//! One agent's stream: hears it, wakes its machine, and does what the machine says.
//!
//! Makes no decision of its own but one: an agent that has been silent for three heartbeats is
//! gone.

mod attendance;
mod beats;
pub(crate) mod pulse;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::event::EventKind;
use fluke_model::id::SessionId;
use fluke_model::message::{Hello, ToAgent, ToServer};
use fluke_wire::Refusal;
use fluke_wire::server::{Letter, Link, SendError};
use futures_util::FutureExt;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant as TokioInstant, sleep_until, timeout};

use crate::changes::Change;
use crate::clock::{Clock, until};
use crate::meter::{Heard, Stopwatch};
use crate::outlets::Outlets;
use crate::reconcile::{Effect, Input, Now, Wanted};
use crate::registry::Seat;
use crate::source::{Desired, Said};
pub use attendance::Attendance;
use beats::Beats;

/// How many heartbeats may be missed.
const MISSED: u32 = 3;

/// Everything that one session works with.
pub struct Session {
    /// Its own identity.
    pub id: SessionId,
    /// What the agent said first.
    pub hello: Hello,
    /// Where the agent's machine sits.
    pub seat: Arc<Seat>,
    /// Says that something waits in the machine; closed when the seat passes to another session.
    pub nudged: mpsc::Receiver<()>,
    /// Which token it came with, in words.
    pub token: String,
    /// What Git says.
    pub desired: watch::Receiver<Option<Arc<Desired>>>,
    /// That it says of this agent what the machine was told last; none before that.
    pub said: Option<Said>,
    /// Its place at the desk.
    pub services: Attendance,
    /// Where what comes of it goes.
    pub outlets: Outlets,
    /// How often each side says that it is here.
    pub heartbeat: Duration,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
    /// What time it is.
    pub clock: Clock,
    /// Times what the agent is at.
    pub stopwatch: Stopwatch,
}

/// Why a session came to its end.
enum End {
    /// Told to the agent's record in these words.
    Lost(String),
    /// The server stops.
    Stopping,
    /// The agent said more than is listened to.
    Refused(String),
    /// Something in the server panicked.
    Failed,
    /// The agent has a newer session.
    Replaced,
}

impl Session {
    /// Runs until the stream ends, the agent falls silent, or the server stops. Whatever happens
    /// in there, the agent is known to be gone afterwards, and may come back.
    pub async fn run(mut self, mut link: Link) {
        let conversing = AssertUnwindSafe(self.converse(&mut link)).catch_unwind().await;
        let end = conversing.unwrap_or_else(|_| {
            tracing::error!(agent = %self.hello.name, "fluke itself failed; please report it");
            End::Failed
        });
        self.services.end().await;
        let why = match &end {
            End::Lost(why) | End::Refused(why) => why.clone(),
            End::Stopping => "the server is stopping".to_string(),
            End::Failed => "the server failed on this agent; see its log".to_string(),
            End::Replaced => return,
        };
        match end {
            End::Stopping => link.close(Refusal::Unavailable(why.clone())),
            // Not "come back at once": it may well happen again.
            End::Failed | End::Refused(_) => link.close(Refusal::Invalid(why.clone())),
            End::Lost(_) | End::Replaced => {}
        }
        let now = self.clock.read();
        let leave = || {
            let left = self.seat.step(self.id, Input::Disconnected { why }, None, now);
            left.map(|(effects, _)| self.record(effects, now))
        };
        if catch_unwind(AssertUnwindSafe(leave)).is_err() {
            self.seat.start_anew(self.id, now);
        }
    }

    async fn converse(&mut self, link: &mut Link) -> End {
        let patience = self.heartbeat * MISSED;
        let mut beats = Beats::new(self.heartbeat, TokioInstant::now());
        let mut silent_at = TokioInstant::now() + patience;
        let mut farewell = None;
        self.services.begin().await;
        let wanted = self.wanted();
        let connected = Input::Connected { hello: self.hello.clone(), session: self.id, wanted };
        let mut input = connected;
        loop {
            let wake = match self.step(input, link, patience).await {
                Ok((wake, has_spoken)) => {
                    if has_spoken {
                        beats.said(TokioInstant::now());
                    }
                    wake
                }
                Err(end) => return end,
            };
            // Every branch is cancel-safe: receivers and watches lose nothing when dropped. What is
            // rare comes first, so that an agent with a lot to say cannot keep it waiting; silence
            // comes last, since what was said and not yet read is none.
            input = loop {
                tokio::select! {
                    biased;
                    () = stopped(&mut self.stopping) => return End::Stopping,
                    nudge = self.nudged.recv() => match nudge {
                        Some(()) => {
                            beats.hurry(TokioInstant::now());
                            break Input::Wake;
                        }
                        None => return End::Replaced,
                    },
                    () = news(&self.said, &mut self.desired) => {
                        match (self.desired.has_changed(), self.wanted()) {
                            (Ok(_), Some(wanted)) => break Input::Wanted(wanted),
                            (Ok(_), None) => {}
                            (Err(_), _) => return End::Stopping,
                        }
                    }
                    () = sleep_until(beats.due()) => {
                        if timeout(patience, link.outgoing.send(ToAgent::Heartbeat)).await.is_err() {
                            return End::Lost("the agent does not read".into());
                        }
                        beats.said(TokioInstant::now());
                    }
                    () = self.services.changed() => {
                        self.services.look().await;
                        let letters = self.services.lacks();
                        if !letters.is_empty() {
                            if let Err(end) = self.send(letters, link, patience).await {
                                return end;
                            }
                            beats.said(TokioInstant::now());
                        }
                        self.services.is_told();
                        if let Some(message) = self.services.network_anew() {
                            break Input::Message(message);
                        }
                        if self.services.is_placed_anew() && let Some(wanted) = self.wanted() {
                            break Input::Wanted(wanted);
                        }
                    }
                    () = until(wake) => break Input::Wake,
                    heard = link.incoming.next() => match heard {
                        Ok(Some(message)) => {
                            let now = TokioInstant::now();
                            silent_at = now + patience;
                            if message == ToServer::Heartbeat {
                                beats.heard(now);
                            }
                            if let ToServer::Services(report) = &message
                                && let Err(excess) = self.seat.accepts(report)
                            {
                                return End::Refused(excess.to_string());
                            }
                            farewell = said_by(&message).or(farewell);
                            self.services.hear(&message, link).await;
                            break Input::Message(self.services.complete(message));
                        }
                        ended => {
                            let why = match (farewell, ended) {
                                (Some(farewell), _) => farewell.into(),
                                (None, Err(error)) => error.to_string(),
                                (None, Ok(_)) => "the agent closed the connection".into(),
                            };
                            return End::Lost(why);
                        }
                    },
                    () = sleep_until(silent_at) => {
                        let seconds = patience.as_secs();
                        return End::Lost(format!("nothing heard of the agent for {seconds} s"));
                    }
                }
            };
        }
    }

    fn wanted(&mut self) -> Option<Wanted> {
        let desired = self.desired.borrow_and_update().clone()?;
        let wanted;
        (wanted, self.said) = self.services.wanted(desired).unzip();
        wanted
    }

    /// Takes what happened; says when to wake the machine, and whether the agent was told
    /// anything.
    async fn step(
        &mut self,
        input: Input,
        link: &Link,
        patience: Duration,
    ) -> Result<(Option<Instant>, bool), End> {
        let mut next = Some(input);
        let (mut wake, mut has_spoken) = (None, false);
        while let Some(input) = next.take() {
            let is_news = changes_what_is_known(&input);
            let heard = match &input {
                Input::Message(message) => Heard::of(message),
                _ => None,
            };
            let now = self.clock.read();
            let stepped = self.seat.step(self.id, input, self.said.as_ref(), now);
            let Some((effects, deadline)) = stepped else { return Err(End::Replaced) };
            wake = deadline;
            if is_news {
                self.outlets.changes.tell(Change::Agent(self.hello.name.clone()));
            }
            let messages = self.record(effects, now);
            self.stopwatch.observe(heard, &messages, now.instant, &self.outlets.meter);
            has_spoken |= !messages.is_empty();
            let letters = messages.into_iter().map(Letter::from).collect();
            let unsendable = self.send(letters, link, patience).await?;
            next = unsendable.map(|why| Input::Unsendable { why });
        }
        Ok((wake, has_spoken))
    }

    /// Sends all of it; if the snapshot among it is too large for any agent, all but that and
    /// what speaks of it, and says why.
    async fn send(
        &self,
        letters: Vec<Letter>,
        link: &Link,
        patience: Duration,
    ) -> Result<Option<String>, End> {
        let mut unsendable = None;
        for letter in letters {
            if unsendable.is_some() && matches!(letter, Letter::Own(ToAgent::Check { .. })) {
                continue;
            }
            match timeout(patience, link.outgoing.send(letter)).await {
                Ok(Ok(())) => {}
                Ok(Err(error @ SendError::TooLarge { .. })) => unsendable = Some(error.to_string()),
                Ok(Err(error)) => return Err(End::Lost(error.to_string())),
                Err(_) => return Err(End::Lost("the agent does not read".into())),
            }
        }
        Ok(unsendable)
    }

    /// Does everything but the sending; gives back what is to be sent.
    fn record(&self, mut effects: Vec<Effect>, now: Now) -> Vec<ToAgent> {
        for effect in &mut effects {
            if let Effect::Record(event) = effect
                && event.kind == EventKind::AgentConnected
            {
                event.by = Some(self.token.clone());
            }
        }
        self.outlets.take(&self.hello.name, effects, now.wall)
    }
}

/// Whether people who watch the agent see something new, even if nothing is to be done.
fn changes_what_is_known(input: &Input) -> bool {
    match input {
        Input::Message(ToServer::Checked(checked)) => !checked.changes.is_empty(),
        Input::Message(ToServer::Services(_) | ToServer::Network(_) | ToServer::Settled { .. }) => {
            true
        }
        Input::Message(ToServer::Finished { .. }) | Input::Wanted(_) | Input::Unsendable { .. } => {
            true
        }
        _ => false,
    }
}

/// Why a connection is about to end, where that is what an agent says.
fn said_by(message: &ToServer) -> Option<&'static str> {
    match message {
        ToServer::Leaving => Some("the agent was uninstalled"),
        ToServer::GoingDown => Some("the host is going down: it was shut down or rebooted"),
        _ => None,
    }
}

/// Waits until Git may say something else of an agent; until it says anything, if nothing was said
/// yet. Cancel-safe.
async fn news(said: &Option<Said>, desired: &mut watch::Receiver<Option<Arc<Desired>>>) {
    match said {
        Some(said) => said.over().await,
        // One that is closed is looked at, too.
        None => drop(desired.changed().await),
    }
}

/// Waits for the server to stop; a server that is gone has stopped.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

#[cfg(test)]
mod tests;
