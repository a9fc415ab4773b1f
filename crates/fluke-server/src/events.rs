//! What happened: recorded by everybody, kept for a while, lossy on purpose.
//!
//! ```text
//! record() ─▶ id ─┬─▶ Changes (live listeners)
//!                 └─▶ bounded queue ─▶ writer task ─▶ EventStore
//! query()  ◀── what still waits in the queue, and the store, as one
//! ```
//!
//! Recording never waits. While the store is away events queue up to a bound; what is beyond it
//! is dropped, oldest first, counted, and said in an event of its own once the store is back.

mod health;
pub mod memory;
mod queue;
pub mod redis;

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fluke_model::api::Events;
use fluke_model::event::{Event, EventId, EventKind};
use fluke_model::id::{AgentName, ServiceName, TaskName};
use fluke_model::time::Timestamp;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle};

use crate::changes::{Change, Changes};
use crate::meter::Counter;
use health::Health;
pub use health::StoreHealth;
use queue::Queue;

/// The most text that one event carries, in bytes: a command's output, and how it ended.
pub const MAX_TEXT: usize = fluke_model::verdict::MAX_OUTPUT + 1024;
/// The longest that one call of the store may take.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server that starts waits for the store.
const START_PATIENCE: Duration = Duration::from_secs(1);
/// How long somebody who wants in waits for the store.
const HOLDER_PATIENCE: Duration = Duration::from_secs(1);
/// How much goes to the store at once: so many events, and about so many bytes, which must fit
/// through a slow link in [`STORE_TIMEOUT`].
const BATCH: QueueBounds = QueueBounds { events: 256, bytes: 1 << 20 };
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Where events go. Never blocks, never fails.
pub trait EventSink: Send + Sync {
    /// Takes `event`; its id is set on the way.
    fn record(&self, event: Event);
}

/// Keeps events for a while, somewhere.
///
/// Events come with ids that only grow. A store may forget old ones at any time.
pub trait EventStore: Send + Sync + 'static {
    /// Adds `batch`, oldest first; all of it or none. Taking an id twice changes nothing.
    fn append<'a>(&'a self, batch: &'a [Arc<Event>]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The newest events that `query` asks for, newest first, and where the next page begins.
    fn query<'a>(&'a self, query: &'a EventQuery) -> BoxFuture<'a, Result<Page, StoreError>>;

    /// Who an agent connected as last (`by` of that event), while its events last. A store that
    /// does not outlive the server knows nothing that the server does not.
    fn holder<'a>(
        &'a self,
        _agent: &'a AgentName,
    ) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(ready(Ok(None)))
    }
}

/// Why the store did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It could not be reached, or said no.
    #[error("the event store at {place} failed: {reason}")]
    Failed {
        /// Which store, without credentials.
        place: String,
        /// What it said.
        reason: String,
    },
    /// It took too long.
    #[error("the event store did not answer within {seconds} s; is it up and reachable?")]
    TimedOut {
        /// How long it had.
        seconds: u64,
    },
}

/// Which events are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventQuery {
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Only about this task.
    pub task: Option<TaskName>,
    /// Only about this service.
    pub service: Option<ServiceName>,
    /// Only of this kind.
    pub kind: Option<EventKind>,
    /// Only older than this one.
    pub before: Option<EventId>,
    /// Only newer than this one.
    pub after: Option<EventId>,
    /// At most so many.
    pub limit: usize,
}

impl EventQuery {
    /// Whether `event` is among what is asked for, the limit aside.
    pub fn matches(&self, event: &Event) -> bool {
        self.before.is_none_or(|before| event.id < before)
            && self.after.is_none_or(|after| event.id > after)
            && self.kind.is_none_or(|kind| event.kind == kind)
            && (self.agent.is_none() || self.agent == event.agent)
            && (self.task.is_none() || self.task == event.task)
            && (self.service.is_none() || self.service == event.service)
    }
}

/// Some events, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Newest first.
    pub events: Vec<Arc<Event>>,
    /// To be given as `before` for the next page; none on the last. A page that is short, or
    /// empty, may have one: so much was looked at and no more.
    pub next: Option<EventId>,
    /// How many events were left out because this version cannot read them.
    pub unreadable: usize,
}

impl Page {
    /// Cuts `events` (newest first) to `limit`; `more` says that older ones were left out.
    pub fn cut(mut events: Vec<Arc<Event>>, limit: usize, more: bool) -> Self {
        let more = more || events.len() > limit;
        events.truncate(limit);
        let next = events.last().filter(|_| more).map(|event| event.id);
        Self { events, next, unreadable: 0 }
    }
}

impl From<Page> for Events {
    fn from(page: Page) -> Self {
        Self {
            events: page.events.into_iter().map(Arc::unwrap_or_clone).collect(),
            next: page.next,
            unreadable: page.unreadable as u64,
        }
    }
}

/// How much may wait for the store.
#[derive(Debug, Clone, Copy)]
pub struct QueueBounds {
    /// How many events.
    pub events: usize,
    /// How much of their text, in bytes.
    pub bytes: usize,
}

impl Default for QueueBounds {
    fn default() -> Self {
        Self { events: 10_000, bytes: 64 << 20 }
    }
}

/// What the log has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCounts {
    /// Given to [`EventSink::record`].
    pub recorded: u64,
    /// Dropped before the store took them.
    pub lost: u64,
    /// Waiting for the store.
    pub waiting: usize,
}

/// Gives events their ids, tells listeners, and hands them to the store.
pub struct EventLog {
    store: Arc<dyn EventStore>,
    changes: Changes,
    state: Mutex<State>,
    health: Health,
    arrived: Notify,
    written: Notify,
    /// Ends the pause of a writer whom the store has failed.
    hurry: Notify,
    /// By kind.
    recorded: [Counter; EventKind::ALL.len()],
    lost: AtomicU64,
}

struct State {
    last: EventId,
    queue: Queue,
}

impl EventLog {
    /// Begins to write to `store`; ids go on from the newest that it holds.
    ///
    /// A store that does not answer at once holds nobody up: ids begin at the clock, and go on
    /// from what it holds once it answers. The writer ends when the returned handle is aborted.
    pub async fn start(
        store: Arc<dyn EventStore>,
        changes: Changes,
        bounds: QueueBounds,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let log = Arc::new(Self {
            store,
            changes,
            state: Mutex::new(State { last: EventId(0), queue: Queue::new(bounds) }),
            health: Health::default(),
            arrived: Notify::new(),
            written: Notify::new(),
            hurry: Notify::new(),
            recorded: std::array::from_fn(|_| Counter::default()),
            lost: AtomicU64::new(0),
        });
        let knows_newest = log.learn_newest(START_PATIENCE).await.is_ok();
        log.set_apart_from_before();
        let writer = tokio::spawn(write(log.clone(), knows_newest));
        (log, writer)
    }

    /// Gives an id to nothing: every id of a former life is older than it, and can be told by that.
    fn set_apart_from_before(&self) {
        let mut state = self.state();
        state.last = next_id(state.last, SystemTime::now());
    }

    async fn learn_newest(&self, patience: Duration) -> Result<(), StoreError> {
        let newest = EventQuery { limit: 1, ..EventQuery::default() };
        let page = self.noted(within(patience, self.store.query(&newest)).await)?;
        if let Some(event) = page.events.first() {
            let mut state = self.state();
            state.last = state.last.max(event.id);
        }
        Ok(())
    }

    /// The newest events that `query` asks for, those that still wait for the store included.
    pub async fn query(&self, query: &EventQuery) -> Result<Page, StoreError> {
        // Looked at before the store: an event on its way is then seen twice, never not at all.
        let waiting = self.waiting(query);
        let stored = self.noted(within(STORE_TIMEOUT, self.store.query(query)).await)?;
        Ok(merge(waiting, stored, query.limit))
    }

    /// As [`Self::query`]; while the store is away, what still waits for it.
    pub async fn recent(&self, query: &EventQuery) -> Page {
        self.query(query).await.unwrap_or_else(|_| self.not_yet_stored(query))
    }

    /// What `query` asks for among the events that wait for the store.
    pub fn not_yet_stored(&self, query: &EventQuery) -> Page {
        Page::cut(self.waiting(query), query.limit, false)
    }

    /// Who an agent connected as last, as far as the store can say at once.
    pub async fn holder(&self, agent: &AgentName) -> Option<String> {
        let (store, agent) = (self.store.clone(), agent.clone());
        // It goes on when nobody waits any more: only a call that runs to its own end shows the
        // store that a connection is dead, and has it make another.
        let call = tokio::spawn(async move { within(STORE_TIMEOUT, store.holder(&agent)).await });
        let answer = within(HOLDER_PATIENCE, async {
            let broken = |error: JoinError| StoreError::Failed {
                place: "this server".into(),
                reason: error.to_string(),
            };
            call.await.unwrap_or_else(|error| Err(broken(error)))
        });
        self.noted(answer.await).ok().flatten()
    }

    /// How the store does, for metrics.
    pub fn store_health(&self) -> StoreHealth {
        self.health.report()
    }

    fn noted<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        self.health.read(answer.as_ref().err());
        answer
    }

    /// The id given last; before the first event, one that is newer than all of former lives.
    pub fn last_id(&self) -> EventId {
        self.state().last
    }

    /// For metrics.
    pub fn counts(&self) -> EventCounts {
        EventCounts {
            recorded: self.recorded.iter().map(Counter::get).sum(),
            lost: self.lost.load(Ordering::Relaxed),
            waiting: self.state().queue.len(),
        }
    }

    /// How many events of each kind were recorded.
    pub fn recorded(&self) -> impl Iterator<Item = (EventKind, u64)> {
        let counts = self.recorded.iter().map(Counter::get);
        EventKind::ALL.iter().copied().zip(counts)
    }

    /// Has the store tried at once, and waits until it has everything recorded so far, or
    /// `longest` has passed.
    pub async fn flush(&self, longest: Duration) {
        self.hurry.notify_one();
        let _ = tokio::time::timeout(longest, async {
            loop {
                let written = self.written.notified();
                if self.state().queue.is_empty() {
                    return;
                }
                written.await;
            }
        })
        .await;
    }

    async fn append(&self, batch: &[Arc<Event>]) -> Result<(), StoreError> {
        let began = Instant::now();
        let answer = within(STORE_TIMEOUT, self.store.append(batch)).await;
        self.health.wrote(answer.as_ref().err());
        answer?;
        self.health.appended(began.elapsed());
        Ok(())
    }

    fn waiting(&self, query: &EventQuery) -> Vec<Arc<Event>> {
        self.state().queue.newest_first().filter(|event| query.matches(event)).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for EventLog {
    fn record(&self, mut event: Event) {
        clip(&mut event);
        self.recorded[event.kind as usize].add_one();
        // Told and queued under the lock, so that both keep the order of ids.
        let mut state = self.state();
        state.last = next_id(state.last, SystemTime::now());
        event.id = state.last;
        let event = Arc::new(event);
        self.changes.tell(Change::Event(event.clone()));
        let dropped = state.queue.push(event);
        drop(state);
        self.lost.fetch_add(dropped, Ordering::Relaxed);
        self.arrived.notify_one();
    }
}

/// Microseconds since 1970, and always more than `last`.
fn next_id(last: EventId, now: SystemTime) -> EventId {
    let micros = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    EventId(last.0.saturating_add(1).max(micros.try_into().unwrap_or(u64::MAX)))
}

/// Cuts what an event carries to what may be kept of it.
fn clip(event: &mut Event) {
    if let Some(output) = &mut event.output {
        clip_front(output);
    }
    if let Some(by) = &mut event.by {
        by.truncate(by.floor_char_boundary(512));
    }
    let mut room = MAX_TEXT;
    let fits = event.diagnostics.iter().take_while(|diagnostic| {
        let size = queue::diagnostic_bytes(diagnostic);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    let kept = fits.count();
    event.diagnostics.truncate(kept);
}

fn clip_front(text: &mut String) {
    if text.len() > MAX_TEXT {
        let note = "[earlier output not kept]\n";
        let start = text.ceil_char_boundary(text.len() - (MAX_TEXT - note.len()));
        text.replace_range(..start, note);
    }
}

/// One page out of two that may overlap, newest first.
fn merge(waiting: Vec<Arc<Event>>, stored: Page, limit: usize) -> Page {
    let mut events = waiting;
    // What is older than all that the store looked at is for the next page.
    events.retain(|event| stored.next.is_none_or(|next| event.id >= next));
    events.extend(stored.events);
    events.sort_by_key(|event| Reverse(event.id));
    events.dedup_by_key(|event| event.id);
    let page = Page::cut(events, limit, false);
    Page { next: page.next.or(stored.next), unreadable: stored.unreadable, ..page }
}

async fn within<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let late = StoreError::TimedOut { seconds: patience.as_secs() };
    tokio::time::timeout(patience, call).await.unwrap_or(Err(late))
}

/// Hands batches to the store for as long as the task lives.
async fn write(log: Arc<EventLog>, mut knows_newest: bool) {
    let mut failures = 0;
    loop {
        let batch = log.state().queue.batch(BATCH);
        if batch.is_empty() {
            log.arrived.notified().await;
            continue;
        }
        if !knows_newest {
            knows_newest = log.learn_newest(STORE_TIMEOUT).await.is_ok();
        }
        if !knows_newest || log.append(&batch).await.is_err() {
            failures += 1;
            let hurried = tokio::time::timeout(pause_after(failures), log.hurry.notified()).await;
            if hurried.is_ok() {
                // Whoever flushes has little time: pauses are short again.
                failures = 0;
            }
            continue;
        }
        failures = 0;
        let lost = log.state().queue.written();
        if lost > 0 {
            log.record(lost_event(lost));
        }
        log.written.notify_waiters();
    }
}

fn lost_event(lost: u64) -> Event {
    let mut event = Event::new(EventKind::EventsLost, Timestamp::from(SystemTime::now()));
    event.output = Some(format!(
        "{lost} events were lost: the event store did not take them in time, and no more could \
         wait in memory. Hosts were looked after all the while."
    ));
    event
}

fn pause_after(failures: u32) -> Duration {
    (FIRST_PAUSE * (1 << (failures - 1).min(10))).min(LONGEST_PAUSE)
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
