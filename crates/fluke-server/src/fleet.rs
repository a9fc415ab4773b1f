//! The door for agents: who comes in, under which name, and into which session.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::event::{Event, EventKind};
use fluke_model::id::{AgentName, SessionId};
use fluke_model::message::{Hello, Welcome};
use fluke_wire::Refusal;
use fluke_wire::server::Entry;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant as TokioInstant, sleep_until, timeout};

use crate::clock::Clock;
use crate::events::EventLog;
use crate::meter::{Refused, Stopwatch};
use crate::outlets::Outlets;
use crate::registry::{ClaimError, Registry, Seat};
use crate::services::desk::Desk;
use crate::session::{Attendance, Session};
use crate::trust::{Grant, Trust, token_in_words, token_of_words};

/// So many heartbeats of silence decide that a connection is dead, where the same agent waits to
/// take over from it.
const SILENT: u32 = 2;
/// How long an agent waits for that at most: it gives up on a server that takes longer to answer.
const DECIDED_WITHIN: Duration = Duration::from_secs(7);
/// How long after an agent's last words its connection may take to end.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Lets agents in and gives each its session.
pub struct Fleet {
    /// Whose tokens are valid.
    pub trust: Arc<Trust>,
    /// Who is there.
    pub registry: Arc<Registry>,
    /// What Git says, and what hosts are told of each other.
    pub desk: Desk,
    /// Where what comes of sessions goes.
    pub outlets: Outlets,
    /// What happened, also before this server was started.
    pub events: Arc<EventLog>,
    /// How often agents are checked.
    pub poll_interval: Duration,
    /// How often each side says that it is here.
    pub heartbeat: Duration,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
    /// What time it is.
    pub clock: Clock,
    /// Held by every session until it has said all it has to say; nothing is ever sent.
    pub open: mpsc::Sender<Infallible>,
}

impl fluke_wire::server::Fleet for Fleet {
    type Pass = Arc<Grant>;

    async fn admit(
        &self,
        token: Option<&str>,
        from: Option<SocketAddr>,
    ) -> Result<Arc<Grant>, Refusal> {
        if let Some(grant) = token.and_then(|token| self.trust.grant(token)) {
            return Ok(grant);
        }
        self.outlets.meter.refuse(Refused::Token);
        let strike = self.trust.strike(from.map(|from| from.ip()), Instant::now());
        if strike.is_notable() {
            let what = if token.is_some() { "a wrong token" } else { "no token" };
            self.refused(None, from, &format!("{what} ({} from this address)", strike.count));
        }
        tokio::time::sleep(strike.wait).await;
        Err(Refusal::Unauthenticated)
    }

    async fn enter(
        &self,
        grant: Arc<Grant>,
        hello: Hello,
        from: Option<SocketAddr>,
    ) -> Result<Entry, Refusal> {
        if let Err(why) = grant.allows(&hello) {
            self.outlets.meter.refuse(Refused::Forbidden);
            self.refused(Some(&hello), from, &why);
            return Err(Refusal::Forbidden(why));
        }
        self.check_holder(&grant, &hello, from).await?;
        let id = SessionId(random());
        let (seat, nudged) = match self.claim(&hello, id, &grant).await {
            Ok(seated) => seated,
            // It comes back for the answer; nothing is wrong yet.
            Err(error @ ClaimError::Contested { .. }) => {
                return Err(Refusal::Unavailable(error.to_string()));
            }
            Err(error) => {
                self.outlets.meter.refuse(match error {
                    ClaimError::OtherToken(_) => Refused::Forbidden,
                    ClaimError::TooMany => Refused::TooMany,
                    _ => Refused::NameTaken,
                });
                self.refused(Some(&hello), from, &error.to_string());
                return Err(match error {
                    ClaimError::Taken(_) | ClaimError::Copied(_) => {
                        Refusal::NameTaken(error.to_string())
                    }
                    _ => Refusal::Forbidden(error.to_string()),
                });
            }
        };
        let welcome = Welcome {
            session: id,
            heartbeat: self.heartbeat,
            poll_interval: self.poll_interval,
            version: env!("CARGO_PKG_VERSION").to_string(),
        };
        let services = Attendance::new(self.desk.clone(), &hello, id);
        let session = Session {
            id,
            hello,
            seat,
            nudged,
            token: token_in_words(grant.label()),
            desired: self.desk.desired(),
            said: None,
            services,
            outlets: self.outlets.clone(),
            heartbeat: self.heartbeat,
            stopping: self.stopping.clone(),
            clock: self.clock.clone(),
            stopwatch: Stopwatch::default(),
        };
        let open = self.open.clone();
        let run = move |link| {
            let run = async move {
                session.run(link).await;
                drop(open);
            };
            Box::pin(run) as _
        };
        Ok(Entry { welcome, run: Box::new(run) })
    }
}

/// What becomes of a session whose name the same agent, or a copy of it, wants.
enum Holder {
    /// It is an agent of its own.
    Speaks,
    /// It has ended, or is dead.
    Gone,
    /// Nobody can tell yet.
    Unknown,
}

impl Fleet {
    /// Claims the name, and waits for a while if it has to show who may have it.
    async fn claim(
        &self,
        hello: &Hello,
        id: SessionId,
        grant: &Grant,
    ) -> Result<(Arc<Seat>, mpsc::Receiver<()>), ClaimError> {
        let until = TokioInstant::now() + DECIDED_WITHIN;
        loop {
            let valid = |label: Option<&str>| self.trust.has_label(label);
            let (label, now) = (grant.label(), self.clock.read());
            let claimed = self.registry.claim(hello, id, label, valid, self.poll_interval, now);
            let Err(ClaimError::Contested { name, by }) = claimed else { return claimed };
            match self.look_at(&name, by, until).await {
                Holder::Gone => {}
                Holder::Speaks => return Err(ClaimError::Copied(name)),
                Holder::Unknown => return Err(ClaimError::Contested { name, by }),
            }
        }
    }

    /// Waits until it shows whether a session lives.
    async fn look_at(&self, name: &AgentName, session: SessionId, until: TokioInstant) -> Holder {
        let Some(mut heard) = self.registry.hears_of(name.as_str(), session) else {
            return Holder::Gone;
        };
        let silent_at = *heard.borrow_and_update() + self.heartbeat * SILENT;
        // Every branch is cancel-safe: a watch, and timers.
        tokio::select! {
            biased;
            spoke = heard.changed() => match spoke {
                Ok(()) if !ends_soon(&mut heard).await => Holder::Speaks,
                _ => Holder::Gone,
            },
            () = sleep_until(silent_at.into()) => {
                self.registry.give_up(name.as_str(), session);
                Holder::Gone
            }
            () = sleep_until(until) => Holder::Unknown,
        }
    }

    /// A name that was known under another token before this server was started is not handed
    /// over. An event store that is away holds up nobody.
    async fn check_holder(
        &self,
        grant: &Grant,
        hello: &Hello,
        from: Option<SocketAddr>,
    ) -> Result<(), Refusal> {
        if self.registry.knows(&hello.name) {
            return Ok(());
        }
        let Some(holder) = self.events.holder(&hello.name).await else { return Ok(()) };
        let known_under = token_of_words(&holder);
        if known_under == grant.label() || !self.trust.has_label(known_under) {
            return Ok(());
        }
        self.outlets.meter.refuse(Refused::Forbidden);
        let why = ClaimError::OtherToken(hello.name.clone()).to_string();
        self.refused(Some(hello), from, &why);
        Err(Refusal::Forbidden(why))
    }

    fn refused(&self, hello: Option<&Hello>, from: Option<SocketAddr>, why: &str) {
        let now = self.clock.read().wall;
        let from = from.map_or("an unknown address".to_string(), |from| from.to_string());
        // A stranger's name is not an agent's: it goes into the text, not into the agent's history.
        let name = hello.map(|hello| format!(" as `{}`", hello.name)).unwrap_or_default();
        tracing::warn!(%from, %why, "refused an agent{name}");
        let mut event = Event::new(EventKind::AgentRefused, now);
        event.output = Some(format!("refused a connection from {from}{name}: {why}"));
        self.outlets.events.record(event);
    }
}

/// Whether what was heard were the last words of a connection that was about to end.
async fn ends_soon(heard: &mut watch::Receiver<Instant>) -> bool {
    timeout(LAST_WORDS, async { while heard.changed().await.is_ok() {} }).await.is_ok()
}

/// From the system; sessions must not be guessable.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness nothing on this machine is safe; stopping is the honest answer.
    getrandom::fill(&mut bytes).expect("the system's source of randomness works");
    u64::from_le_bytes(bytes)
}
