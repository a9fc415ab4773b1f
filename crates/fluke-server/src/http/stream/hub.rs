//! The one place where changes become messages: rendered once, for all listeners.
//!
//! ```text
//! Changes ─▶ Hub ─┬─▶ ring of rendered messages ─▶ listeners, each at its own place
//!                 └─▶ what changed when, for those who come back
//! ```
//!
//! While nobody listens nothing is rendered; it is only noted what has changed.
//!
//! **Guarantee:** whoever has heard everything up to an event's id, and comes back with that id,
//! hears everything that was told since: a thing is noted with the id of the newest event that was
//! told before it or together with it, and never with an older one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fluke_model::api;
use fluke_model::event::{Event, EventId};
use fluke_model::id::{AgentName, ServiceName};
use fluke_model::policy::Policy;
use serde::Serialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::message::{LARGE, Messages};
use super::pace::Pace;
use super::ring::{At, Ring};
use crate::changes::{Change, Changes};
use crate::clock::until;
use crate::events::{EventLog, EventQuery};
use crate::reconciles::Reconciles;
use crate::registry::Registry;
use crate::services::desk;
use crate::services::listing::{self, Looking};

/// How much is kept for listeners that lie behind, in bytes.
pub const BACKLOG: usize = 16 << 20;
/// How many changes are made into one piece at most.
const TOGETHER: usize = 64;
/// How many things it is known of when they changed.
const MOST_MARKS: usize = 250_000;
/// More events than this are not caught up with: a listener is better off afresh.
pub const MOST_MISSED: usize = 1000;
/// The mark of what has changed and was not told yet.
const NOT_TOLD: EventId = EventId(u64::MAX);

/// Something whose latest state is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    Agent(AgentName),
    Service(ServiceName),
    Source,
    Reconcile(String),
}

/// Where states are looked up.
#[derive(Clone)]
pub struct World {
    pub registry: Arc<Registry>,
    pub reconciles: Arc<Reconciles>,
    pub source: watch::Receiver<api::Source>,
    pub services: desk::Desk,
    pub default_policy: Policy,
    pub events: Arc<EventLog>,
}

impl World {
    /// Adds what the API says of it now.
    pub fn render(&self, topic: &Topic, messages: &mut Messages) {
        match topic {
            Topic::Agent(name) => match self.registry.view(name.as_str()) {
                Some(agent) => messages.add("agent", None, &agent),
                None => messages.add("agent", None, &Gone { name, gone: true }),
            },
            Topic::Service(name) => {
                let looking = Looking {
                    default_policy: self.default_policy,
                    now: Instant::now(),
                    idle: &|selector| self.registry.idle(selector),
                };
                match listing::service(&self.services.book(), name.as_str(), looking) {
                    Some(service) => messages.add("service", None, &service),
                    None => messages.add("service", None, &Gone { name, gone: true }),
                }
            }
            Topic::Source => messages.add("source", None, &*self.source.borrow()),
            Topic::Reconcile(id) => {
                if let Some(progress) = self.reconciles.told(id, LARGE) {
                    messages.add_reconcile(progress);
                }
            }
        }
    }

    fn topics(&self) -> BTreeSet<Topic> {
        let agents = self.registry.names().into_iter().map(Topic::Agent);
        let reconciles = self.reconciles.ids().into_iter().map(Topic::Reconcile);
        let services: Vec<Topic> =
            self.services.book().services().keys().cloned().map(Topic::Service).collect();
        agents.chain(reconciles).chain(services).chain([Topic::Source]).collect()
    }
}

/// An agent or a service that is no longer known.
#[derive(Serialize)]
struct Gone<'a, Name> {
    name: &'a Name,
    gone: bool,
}

/// Where the messages are, and who reads them.
pub struct Hub {
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

struct Desk {
    state: Mutex<State>,
    /// Moves with every piece of work.
    moved: watch::Sender<Place>,
}

/// How far the hub has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the next message.
    pub head: u64,
    /// The newest event.
    pub last: EventId,
}

struct State {
    ring: Ring,
    last: EventId,
    /// From when on it is known what has changed.
    since: EventId,
    /// The newest event that was told before each thing, or with it.
    marks: BTreeMap<Topic, EventId>,
    listeners: usize,
    /// How many messages were rendered, for tests.
    rendered: u64,
}

/// What a listener that joins has to be told first.
pub enum Joined {
    /// Everything that comes from now on.
    At(Place),
    /// It has missed more than can be told.
    TooLate,
}

impl Hub {
    /// Works until it is dropped.
    pub fn start(world: World, changes: &Changes) -> Self {
        let told = changes.listen();
        // Looked at after it listens: what comes through both is passed over.
        let last = world.events.last_id();
        let state = State {
            ring: Ring::new(BACKLOG),
            last,
            since: last,
            marks: BTreeMap::new(),
            listeners: 0,
            rendered: 0,
        };
        let (moved, _) = watch::channel(Place { head: 0, last });
        let desk = Arc::new(Desk { state: Mutex::new(state), moved });
        let work = Work { world, desk: desk.clone(), last, pace: Pace::default() };
        Self { desk, task: tokio::spawn(work.run(told)) }
    }

    /// Begins to listen; afresh, or `after` an event that was heard last.
    pub fn join(&self, after: Option<EventId>) -> (Listening, Joined) {
        let mut state = self.desk.state();
        state.listeners += 1;
        let place = state.place();
        let joined = match after {
            Some(after) if after < state.since || after > state.last => Joined::TooLate,
            _ => Joined::At(place),
        };
        drop(state);
        let moved = self.desk.moved.subscribe();
        (Listening { desk: self.desk.clone(), next: place.head, moved }, joined)
    }

    /// At most so many of the things that have changed since `after`, in order, those up to
    /// `behind` left out; none if it is no longer known.
    pub fn changed_since(
        &self,
        after: EventId,
        behind: Option<&Topic>,
        most: usize,
    ) -> Option<Vec<Topic>> {
        let state = self.desk.state();
        let start = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let known = state.marks.range((start, Bound::Unbounded));
        let newer = known.filter(|(_, mark)| **mark >= after).map(|(topic, _)| topic.clone());
        (after >= state.since).then(|| newer.take(most).collect())
    }

    /// Waits until the hub has come as far as `event`, which was recorded.
    pub async fn reaches(&self, event: EventId) {
        // It lives as long as the desk does.
        let _ = self.desk.moved.subscribe().wait_for(|place| place.last >= event).await;
    }

    /// How many messages were rendered.
    #[cfg(test)]
    pub fn rendered(&self) -> u64 {
        self.desk.state().rendered
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn place(&self) -> Place {
        Place { head: self.ring.head(), last: self.last }
    }

    fn mark(&mut self, topic: Topic, mark: EventId) {
        if self.marks.len() >= MOST_MARKS && !self.marks.contains_key(&topic) {
            // Whoever comes back from before this begins anew.
            self.marks.clear();
            self.since = EventId(self.last.0.saturating_add(1));
        }
        self.marks.insert(topic, mark);
    }
}

/// A listener's place among the messages.
pub struct Listening {
    desk: Arc<Desk>,
    next: u64,
    moved: watch::Receiver<Place>,
}

impl Listening {
    /// The next message that is there.
    pub fn take(&mut self) -> At {
        self.moved.mark_unchanged();
        let at = self.desk.state().ring.at(self.next);
        if matches!(at, At::Frame(_)) {
            self.next += 1;
        }
        at
    }

    /// The newest event.
    pub fn last(&self) -> EventId {
        self.desk.state().last
    }

    /// Waits until there may be another one; false if there never will be. Safe to cancel.
    pub async fn more(&mut self) -> bool {
        self.moved.changed().await.is_ok()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = self.desk.state();
        state.listeners -= 1;
        if state.listeners == 0 {
            state.ring.clear();
        }
    }
}

/// The task that does it.
struct Work {
    world: World,
    desk: Arc<Desk>,
    last: EventId,
    pace: Pace<Topic>,
}

/// Changes that are told together.
#[derive(Default)]
struct Batch {
    events: Vec<Arc<Event>>,
    topics: BTreeSet<Topic>,
    /// More was missed than can be told: everybody begins anew.
    broken: bool,
}

impl Batch {
    fn add(&mut self, change: Change) {
        match change {
            Change::Event(event) => self.events.push(event),
            Change::Agent(name) => drop(self.topics.insert(Topic::Agent(name))),
            Change::Service(name) => drop(self.topics.insert(Topic::Service(name))),
            Change::Source => drop(self.topics.insert(Topic::Source)),
            Change::Reconcile(id) => drop(self.topics.insert(Topic::Reconcile(id))),
        }
    }
}

impl Work {
    async fn run(mut self, mut changes: Receiver<Change>) {
        loop {
            let rest = self.pace.next();
            // Both are safe to cancel.
            let change = tokio::select! {
                change = changes.recv() => Some(change),
                () = until(rest) => None,
            };
            let mut batch = match change {
                None => Batch::default(),
                Some(Err(RecvError::Closed)) => return,
                Some(Err(RecvError::Lagged(_))) => self.everything().await,
                Some(Ok(change)) => {
                    let mut batch = Batch::default();
                    batch.add(change);
                    batch
                }
            };
            while batch.events.len() + batch.topics.len() < TOGETHER
                && let Ok(change) = changes.try_recv()
            {
                batch.add(change);
            }
            self.tell(batch, Instant::now());
        }
    }

    /// What has to be told where it is not known what has changed.
    async fn everything(&self) -> Batch {
        let mut topics = self.world.topics();
        topics.extend(self.desk.state().marks.keys().cloned());
        let query =
            EventQuery { after: Some(self.last), limit: MOST_MISSED, ..EventQuery::default() };
        match self.world.events.query(&query).await {
            Ok(page) if page.next.is_none() => {
                Batch { events: page.events.into_iter().rev().collect(), topics, broken: false }
            }
            _ => Batch { events: Vec::new(), topics, broken: true },
        }
    }

    /// Tells it to whoever listens, and notes it for those who come back.
    fn tell(&mut self, batch: Batch, now: Instant) {
        let Batch { mut events, mut topics, broken } = batch;
        events.retain(|event| event.id > self.last);
        self.last = events.iter().map(|event| event.id).fold(self.last, EventId::max);
        if broken {
            self.last = self.world.events.last_id();
        }
        topics.extend(self.pace.rested(now));
        let mut rendered = None;
        loop {
            let mut state = self.desk.state();
            if state.listeners > 0 && rendered.is_none() {
                // Not while others wait for the desk.
                drop(state);
                rendered = Some(self.render(&events, &topics, now));
                continue;
            }
            state.last = self.last;
            let (frame, kept) = match rendered {
                Some(Rendered { messages, kept, count }) => {
                    state.rendered += count;
                    (messages.into_bytes(), kept)
                }
                None => {
                    self.pace.clear();
                    Default::default()
                }
            };
            for topic in topics {
                let mark = if kept.contains(&topic) { NOT_TOLD } else { self.last };
                state.mark(topic, mark);
            }
            if broken {
                state.ring.break_off();
                state.since = self.last;
            }
            if !frame.is_empty() && state.listeners > 0 {
                state.ring.push(frame);
            }
            let place = state.place();
            drop(state);
            self.desk.moved.send_if_modified(|old| std::mem::replace(old, place) != place);
            return;
        }
    }

    fn render(
        &mut self,
        events: &[Arc<Event>],
        topics: &BTreeSet<Topic>,
        now: Instant,
    ) -> Rendered {
        let mut messages = Messages::default();
        events.iter().for_each(|event| messages.add_event(event));
        let mut kept = BTreeSet::new();
        for topic in topics {
            if !self.pace.is_due(topic) {
                kept.insert(topic.clone());
                continue;
            }
            let before = messages.len();
            self.world.render(topic, &mut messages);
            self.pace.told(topic.clone(), messages.len() - before, now);
        }
        let count = (events.len() + topics.len() - kept.len()) as u64;
        Rendered { messages, kept, count }
    }
}

/// What was made of a batch.
struct Rendered {
    messages: Messages,
    /// What was told a moment ago, and is told again later.
    kept: BTreeSet<Topic>,
    count: u64,
}
