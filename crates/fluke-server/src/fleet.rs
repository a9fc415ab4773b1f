//! The door for agents: who comes in, under which name, and into which session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::event::{Event, EventKind};
use fluke_model::id::SessionId;
use fluke_model::message::{Hello, Welcome};
use fluke_wire::Refusal;
use fluke_wire::server::Entry;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::outlets::Outlets;
use crate::registry::{ClaimError, Registry};
use crate::session::Session;
use crate::source::Desired;
use crate::trust::{Grant, Trust};

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
    /// How often agents are checked.
    pub poll_interval: Duration,
    /// How often each side says that it is here.
    pub heartbeat: Duration,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
    /// What time it is.
    pub clock: Clock,
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
        let id = SessionId(random());
        let valid = |label: Option<&str>| self.trust.has_label(label);
        let now = self.clock.read();
        let (seat, nudged) = self
            .registry
            .claim(&hello, id, grant.label(), valid, self.poll_interval, now)
            .map_err(|error| {
                self.refused(Some(&hello), from, &error.to_string());
                match error {
                    ClaimError::Taken(_) | ClaimError::Copied(_) => {
                        Refusal::NameTaken(error.to_string())
                    }
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
            desired: self.desired.clone(),
            outlets: self.outlets.clone(),
            heartbeat: self.heartbeat,
            stopping: self.stopping.clone(),
            clock: self.clock.clone(),
        };
        Ok(Entry { welcome, run: Box::new(move |link| Box::pin(session.run(link))) })
    }
}

impl Fleet {
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

/// From the system; sessions must not be guessable.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness nothing on this machine is safe; stopping is the honest answer.
    getrandom::fill(&mut bytes).expect("the system's source of randomness works");
    u64::from_le_bytes(bytes)
}
