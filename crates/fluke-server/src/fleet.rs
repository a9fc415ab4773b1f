//! The door for agents: who comes in, under which name, and into which session.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::event::{Event, EventKind};
use fluke_model::id::SessionId;
use fluke_model::message::{Hello, Welcome};
use fluke_model::time::Timestamp;
use fluke_wire::Refusal;
use fluke_wire::server::Entry;
use tokio::sync::{mpsc, watch};

use crate::events::EventLog;
use crate::outlets::Outlets;
use crate::reconcile::Now;
use crate::registry::{ClaimError, Registry};
use crate::session::Session;
use crate::source::Desired;
use crate::trust::{Grant, Trust, token_in_words, token_of_words};

/// Lets agents in and gives each its session.
pub struct Fleet {
    /// Whose tokens are valid.
    pub trust: Arc<Trust>,
    /// Who is there.
    pub registry: Arc<Registry>,
    /// What Git says.
    pub desired: watch::Receiver<Option<Arc<Desired>>>,
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
            self.refused(Some(&hello), from, &why);
            return Err(Refusal::Forbidden(why));
        }
        self.check_holder(&grant, &hello, from).await?;
        let id = SessionId(random());
        let valid = |label: Option<&str>| self.trust.has_label(label);
        let now = Now::read();
        let (seat, nudged) = self
            .registry
            .claim(&hello, id, grant.label(), valid, self.poll_interval, now)
            .map_err(|error| {
                self.refused(Some(&hello), from, &error.to_string());
                match error {
                    ClaimError::Taken(_) => Refusal::NameTaken(error.to_string()),
                    ClaimError::OtherToken(_) | ClaimError::TooMany => {
                        Refusal::Forbidden(error.to_string())
                    }
                }
            })?;
        let welcome = Welcome {
            session: id,
            heartbeat: self.heartbeat,
            poll_interval: self.poll_interval,
            version: env!("CARGO_PKG_VERSION").to_string(),
        };
        let session = Session {
            id,
            hello,
            seat,
            nudged,
            token: token_in_words(grant.label()),
            desired: self.desired.clone(),
            outlets: self.outlets.clone(),
            heartbeat: self.heartbeat,
            stopping: self.stopping.clone(),
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

impl Fleet {
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
        let why = ClaimError::OtherToken(hello.name.clone()).to_string();
        self.refused(Some(hello), from, &why);
        Err(Refusal::Forbidden(why))
    }

    fn refused(&self, hello: Option<&Hello>, from: Option<SocketAddr>, why: &str) {
        let now = Timestamp::from(std::time::SystemTime::now());
        let from = from.map_or("an unknown address".to_string(), |from| from.to_string());
        // A stranger's name is not an agent's: it goes into the text, not into the agent's history.
        let name = hello.map(|hello| format!(" as `{}`", hello.name)).unwrap_or_default();
        tracing::warn!(%from, %why, "refused an agent{name}");
        let mut event = Event::new(EventKind::AgentRefused, now);
        event.output = Some(format!("refused a connection from {from}{name}: {why}"));
        self.outlets.events.record(event);
    }
}

/// From the system; sessions must not be guessable.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness nothing on this machine is safe; stopping is the honest answer.
    getrandom::fill(&mut bytes).expect("the system's source of randomness works");
    u64::from_le_bytes(bytes)
}
