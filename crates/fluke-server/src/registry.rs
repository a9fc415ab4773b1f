//! Who is connected, and what is known of everybody who was.

mod listing;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use fluke_model::bounds::Excess;
use fluke_model::id::{AgentName, SessionId};
use fluke_model::message::{Hello, ServicesReport};
use tokio::sync::{mpsc, watch};

pub(crate) use listing::page;
pub use listing::{AgentFilter, DriftFilter};

use crate::changes::{Change, Changes};
use crate::reconcile::{Effect, Input, Machine, Now, Request};
use crate::source::Said;

/// How long an agent that went away is remembered.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many agents are known at most, of whom half may have been replaced within a week; a token that
/// is good for any name must not fill the memory.
const MOST: usize = 200_000;
/// How often those that went away are looked for.
const TIDY: Duration = Duration::from_secs(60);

/// Every agent that is connected, or was not long ago.
#[derive(Debug, Default)]
pub struct Registry {
    agents: RwLock<Agents>,
    changes: Changes,
}

#[derive(Debug, Default)]
struct Agents {
    seats: BTreeMap<AgentName, Arc<Seat>>,
    tidied: Option<Instant>,
}

/// One agent's place: its machine, and who holds it now.
#[derive(Debug)]
pub struct Seat {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    machine: Machine,
    /// The label of the token block that the name is known under.
    grant: Option<String>,
    holder: Option<Holder>,
    /// Where it stands which commit the machine is held to, while the agent is connected.
    said: Option<Said>,
}

#[derive(Debug)]
struct Holder {
    session: SessionId,
    /// Wakes the session; closed when the seat passes to another one.
    nudge: mpsc::Sender<()>,
    /// When the agent was last heard; closed when the session has ended.
    heard: watch::Sender<Instant>,
}

/// Why an agent does not take a manual reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderError {
    /// It is not connected.
    Offline,
    /// Too many wait for it already.
    TooMany,
}

/// Why an agent is not forgotten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent `{0}` is connected: it is not gone")]
pub struct StillHere(AgentName);

/// Why an agent does not get the name it wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Another one has it.
    #[error(
        "another agent is connected as `{0}`; give this one another name, or stop the other one"
    )]
    Taken(AgentName),
    /// The same installation has it, or a copy of it: which one, only time tells.
    #[error("the agent `{name}` is connected already; whether that connection lives will show")]
    Contested {
        /// Which name.
        name: AgentName,
        /// The session that has it.
        by: SessionId,
    },
    /// The same installation has it, and speaks.
    #[error(
        "an agent with the identity of this one is connected as `{0}`, and speaks: this host looks like a copy of that one; stop its agent, remove its state directory, and give it a name of its own"
    )]
    Copied(AgentName),
    /// It is known under another token.
    #[error(
        "the name `{0}` is known under another token; use that token, or take it out of the server's config first"
    )]
    OtherToken(AgentName),
    /// There are too many.
    #[error("this server knows {MOST} agents and takes no more; start another one for the rest")]
    TooMany,
}

impl Registry {
    /// Knows nobody yet; tells of those that it forgets.
    pub fn telling(changes: Changes) -> Self {
        Self { changes, ..Self::default() }
    }

    /// Gives a seat to a new session. The newer of two different agents with one name is
    /// refused; the same agent coming back takes over from the connection that it lost. An agent
    /// that has the same identity and cannot name that connection may be the same one after a
    /// restart, or a copy: see [`Registry::hears_of`] and [`Registry::give_up`].
    pub fn claim(
        &self,
        hello: &Hello,
        session: SessionId,
        grant: Option<&str>,
        grant_is_valid: impl Fn(Option<&str>) -> bool,
        poll_interval: Duration,
        now: Now,
    ) -> Result<(Arc<Seat>, mpsc::Receiver<()>), ClaimError> {
        // Held to the end: a seat that is being taken must not be cleared away.
        let mut agents = self.agents.write().unwrap_or_else(PoisonError::into_inner);
        for gone in agents.tidy(now) {
            self.changes.tell(Change::Agent(gone));
        }
        let seat = agents.seat(hello, grant, poll_interval, now)?;
        let mut inner = seat.lock();
        // First of all: whoever may not have the name does not get anybody out of the seat either.
        let is_other = inner.grant.as_deref() != grant;
        if is_other && grant_is_valid(inner.grant.as_deref()) {
            return Err(ClaimError::OtherToken(hello.name.clone()));
        }
        if let Some(holder) = &inner.holder {
            let (name, by) = (hello.name.clone(), holder.session);
            if inner.machine.hello().instance != hello.instance {
                return Err(ClaimError::Taken(name));
            }
            if hello.previous != Some(by) {
                return Err(ClaimError::Contested { name, by });
            }
        }
        if is_other {
            inner.grant = grant.map(str::to_string);
        }
        // One nudge says it all: what waits, waits in the machine.
        let (nudge, nudged) = mpsc::channel(1);
        inner.holder = Some(Holder { session, nudge, heard: watch::Sender::new(now.instant) });
        drop(inner);
        Ok((seat, nudged))
    }

    /// Tells when a session's agent was last heard, until it ends; none if it has ended. The
    /// session is made to say something: a host that was rebooted since answers that it knows of no
    /// such connection, which ends it.
    pub fn hears_of(&self, name: &str, session: SessionId) -> Option<watch::Receiver<Instant>> {
        let seat = self.find(name)?;
        let inner = seat.lock();
        let holder = inner.holder.as_ref().filter(|holder| holder.session == session)?;
        // A nudge that is still waiting will do.
        let _ = holder.nudge.try_send(());
        Some(holder.heard.subscribe())
    }

    /// Takes the seat from a session whose agent has fallen silent, if it still has it.
    pub fn give_up(&self, name: &str, session: SessionId) {
        let Some(seat) = self.find(name) else { return };
        let mut inner = seat.lock();
        inner.holder = inner.holder.take().filter(|holder| holder.session != session);
    }

    fn find(&self, name: &str) -> Option<Arc<Seat>> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).seats.get(name).cloned()
    }

    /// Whether there is, or was not long ago, an agent of that name.
    pub fn knows(&self, name: &AgentName) -> bool {
        self.find(name.as_str()).is_some()
    }

    /// Every known name, in order.
    pub fn names(&self) -> Vec<AgentName> {
        let agents = self.agents.read().unwrap_or_else(PoisonError::into_inner);
        agents.seats.keys().cloned().collect()
    }

    /// Forgets an agent that is not connected; whether it was known is said.
    pub fn forget(&self, name: &AgentName) -> Result<bool, StillHere> {
        let mut agents = self.agents.write().unwrap_or_else(PoisonError::into_inner);
        let Some(seat) = agents.seats.get(name) else { return Ok(false) };
        if seat.lock().holder.is_some() {
            return Err(StillHere(name.clone()));
        }
        agents.seats.remove(name);
        self.changes.tell(Change::Agent(name.clone()));
        Ok(true)
    }

    /// Hands a manual reconcile to an agent's machine, which from then on answers for its end.
    pub fn order(&self, name: &str, request: Request) -> Result<(), OrderError> {
        let seat = self.find(name).ok_or(OrderError::Offline)?;
        let mut inner = seat.lock();
        let Inner { machine, holder, .. } = &mut *inner;
        let holder = holder.as_ref().ok_or(OrderError::Offline)?;
        if !machine.ask(request) {
            return Err(OrderError::TooMany);
        }
        // A nudge that is still waiting will do.
        let _ = holder.nudge.try_send(());
        Ok(())
    }
}

impl Agents {
    /// Forgets those that went away long ago, now and then; says whom.
    fn tidy(&mut self, now: Now) -> Vec<AgentName> {
        if self.tidied.is_some_and(|tidied| now.instant.duration_since(tidied) < TIDY) {
            return Vec::new();
        }
        self.tidied = Some(now.instant);
        let is_gone = |(_, seat): &(&AgentName, &mut Arc<Seat>)| !seat.is_worth_keeping(now);
        let gone = self.seats.iter_mut().filter(is_gone).map(|(name, _)| name.clone());
        let gone: Vec<AgentName> = gone.collect();
        gone.iter().for_each(|name| drop(self.seats.remove(name)));
        gone
    }

    fn seat(
        &mut self,
        hello: &Hello,
        grant: Option<&str>,
        poll_interval: Duration,
        now: Now,
    ) -> Result<Arc<Seat>, ClaimError> {
        if let Some(seat) = self.seats.get(&hello.name) {
            return Ok(seat.clone());
        }
        if self.seats.len() >= MOST {
            return Err(ClaimError::TooMany);
        }
        let machine = Machine::new(hello.clone(), poll_interval, now);
        let grant = grant.map(str::to_string);
        let inner = Inner { machine, grant, holder: None, said: None };
        let seat = Arc::new(Seat { inner: Mutex::new(inner) });
        self.seats.insert(hello.name.clone(), seat.clone());
        Ok(seat)
    }
}

impl Seat {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whose step panicked is started anew by its session.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { machine, said, .. } = &mut *inner;
        // Commits that say nothing new of the agent wake nobody: they are noted by who looks.
        said.iter().for_each(|said| machine.is_held_by(&said.by()));
        inner
    }

    fn is_worth_keeping(&self, now: Now) -> bool {
        let inner = self.lock();
        inner.holder.is_some() || inner.machine.silent_for(now) < REMEMBERED
    }

    /// Forgets what is known of the agent, whose machine failed; one cycle tells it again.
    pub fn start_anew(&self, session: SessionId, now: Now) {
        let mut inner = self.lock();
        if inner.holder.as_ref().is_some_and(|holder| holder.session != session) {
            return;
        }
        (inner.holder, inner.said) = (None, None);
        inner.machine = inner.machine.anew(now);
    }

    /// Accepts what the agent says of its deployments, unless there would be too many of them.
    pub fn accepts(&self, report: &ServicesReport) -> Result<(), Excess> {
        self.lock().machine.accepts(report)
    }

    /// Steps the machine on behalf of `session`; none if the seat has passed to another one. What
    /// the machine is told to want is what `said` is about.
    pub fn step(
        &self,
        session: SessionId,
        input: Input,
        said: Option<&Said>,
        now: Now,
    ) -> Option<(Vec<Effect>, Option<Instant>)> {
        let mut inner = self.lock();
        let holder = inner.holder.as_ref().filter(|holder| holder.session == session)?;
        if matches!(input, Input::Message(_)) {
            holder.heard.send_replace(now.instant);
        }
        let mut effects = Vec::new();
        if matches!(input, Input::Connected { .. }) {
            let why = "replaced by a new connection of the same agent".to_string();
            effects = inner.machine.step(Input::Disconnected { why }, now);
        }
        match input {
            Input::Disconnected { .. } => (inner.holder, inner.said) = (None, None),
            Input::Connected { .. } | Input::Wanted(_) => inner.said = said.cloned(),
            _ => {}
        }
        effects.extend(inner.machine.step(input, now));
        Some((effects, inner.machine.deadline()))
    }
}

#[cfg(test)]
mod tests;
