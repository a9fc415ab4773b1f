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
use std::num::NonZero;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fluke_model::event::{Event, EventId};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::frame::Frame;
use super::message::Messages;
use super::pace::Pace;
use super::ring::{At, Ring};
use super::world::{Topic, World};
use crate::changes::{Change, Changes};
use crate::clock::until;
use crate::events::EventQuery;

/// How much is kept for listeners that lie behind, in bytes.
pub const BACKLOG: usize = 16 << 20;
/// A frame has so many bytes at most, and at least, of what can wait.
const LARGE: usize = 512 << 10;
const SMALL: usize = 16 << 10;
/// How many frames a second what can wait goes out in, while there is more of it than may.
const FRAMES: usize = 4;
/// How many times smaller what is compressed is, about.
const SQUEEZE: usize = 10;
/// How many changes are heard before something is told, and how many events told together.
const HEARD: usize = 1024;
const EVENTS: usize = 64;
/// What goes out in a second to all who listen together, for each core: a tenth of what it could do.
const BYTES_OF_A_CORE: usize = 64 << 20;
/// What it takes to tell somebody anything at all, in bytes that would take as long.
const EFFORT: usize = 32 << 10;
/// How many things it is known of when they changed.
const MOST_MARKS: usize = 250_000;
/// More events than this are not caught up with: a listener is better off afresh.
pub const MOST_MISSED: usize = 1000;
/// The mark of what has changed and was not told yet.
const NOT_TOLD: EventId = EventId(u64::MAX);

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
    audience: Audience,
    /// How many messages were rendered, for tests.
    rendered: u64,
}

/// How many listen.
#[derive(Debug, Clone, Copy, Default)]
struct Audience {
    plain: usize,
    gzip: usize,
}

impl Audience {
    fn is_empty(self) -> bool {
        self.plain + self.gzip == 0
    }

    fn of(&mut self, takes_gzip: bool) -> &mut usize {
        if takes_gzip { &mut self.gzip } else { &mut self.plain }
    }

    /// How large a frame should be that comes to so many bytes for all of them.
    fn share(self, bytes: usize) -> usize {
        let each = bytes / (self.plain + self.gzip / SQUEEZE).max(1);
        each.clamp(SMALL, LARGE)
    }

    /// What a frame comes to for all of them, in bytes.
    fn cost(self, frame: &Frame) -> usize {
        let squeezed = if self.gzip == 0 { 0 } else { frame.squeezed().len() };
        self.plain * (EFFORT + frame.plain().len()) + self.gzip * (EFFORT + squeezed)
    }
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
            audience: Audience::default(),
            rendered: 0,
        };
        let (moved, _) = watch::channel(Place { head: 0, last });
        let desk = Arc::new(Desk { state: Mutex::new(state), moved });
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let rate = BYTES_OF_A_CORE * cores;
        let work = Work { world, desk: desk.clone(), last, pace: Pace::new(rate as f64), rate };
        Self { desk, task: tokio::spawn(work.run(told)) }
    }

    /// Begins to listen; afresh, or `after` an event that was heard last.
    pub fn join(&self, after: Option<EventId>, takes_gzip: bool) -> (Listening, Joined) {
        let mut state = self.desk.state();
        *state.audience.of(takes_gzip) += 1;
        let place = state.place();
        let joined = match after {
            Some(after) if after < state.since || after > state.last => Joined::TooLate,
            _ => Joined::At(place),
        };
        drop(state);
        let moved = self.desk.moved.subscribe();
        (Listening { desk: self.desk.clone(), next: place.head, moved, takes_gzip }, joined)
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
    takes_gzip: bool,
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
        *state.audience.of(self.takes_gzip) -= 1;
        if state.audience.is_empty() {
            state.ring.clear();
        }
    }
}

/// The task that does it.
struct Work {
    world: World,
    desk: Arc<Desk>,
    last: EventId,
    pace: Pace,
    /// How many bytes may go out in a second.
    rate: usize,
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
            let rest = self.pace.next(Instant::now());
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
            while batch.events.len() < EVENTS
                && batch.topics.len() < HEARD
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

    /// Tells whoever listens what it is time for, and notes the rest for them and for those who come
    /// back.
    fn tell(&mut self, batch: Batch, now: Instant) {
        let Batch { mut events, topics, broken } = batch;
        events.retain(|event| event.id > self.last);
        self.last = events.iter().map(|event| event.id).fold(self.last, EventId::max);
        if broken {
            self.last = self.world.events.last_id();
            self.pace.clear();
        } else {
            topics.iter().for_each(|topic| self.pace.changed(topic.clone()));
        }
        let mut rendered = None;
        loop {
            let mut state = self.desk.state();
            let audience = state.audience;
            if !audience.is_empty() && rendered.is_none() {
                // Not while others wait for the desk.
                drop(state);
                rendered = Some(self.render(&events, audience, now));
                continue;
            }
            state.last = self.last;
            if broken {
                state.ring.break_off();
                state.since = self.last;
            }
            let mark = if broken { self.last } else { NOT_TOLD };
            topics.into_iter().for_each(|topic| state.mark(topic, mark));
            let told = match rendered {
                Some(Rendered { frame, told, count }) => {
                    state.rendered += count;
                    if !frame.plain().is_empty() && !audience.is_empty() {
                        state.ring.push(frame);
                    }
                    told
                }
                None => self.pace.clear(),
            };
            told.into_iter().for_each(|topic| state.mark(topic, self.last));
            let place = state.place();
            drop(state);
            self.desk.moved.send_if_modified(|old| std::mem::replace(old, place) != place);
            return;
        }
    }

    fn render(&mut self, events: &[Arc<Event>], audience: Audience, now: Instant) -> Rendered {
        let mut messages = Messages::default();
        events.iter().for_each(|event| messages.add_event(event));
        let mut told = Vec::new();
        let large = audience.share(self.rate / FRAMES);
        while messages.len() < large
            && let Some(topic) = self.pace.turn(now)
        {
            let before = messages.len();
            self.world.render(&topic, &mut messages);
            self.pace.told(topic.clone(), messages.len() - before, now);
            told.push(topic);
        }
        let count = (events.len() + told.len()) as u64;
        let frame = messages.into_frame();
        if !frame.plain().is_empty() {
            self.pace.spent(audience.cost(&frame), now);
        }
        Rendered { frame, told, count }
    }
}

/// What was made of a batch.
struct Rendered {
    frame: Frame,
    /// What has had its turn.
    told: Vec<Topic>,
    count: u64,
}
