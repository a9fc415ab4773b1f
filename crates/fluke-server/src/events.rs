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

pub mod memory;
mod queue;

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fluke_model::api::Events;
use fluke_model::event::{Event, EventId, EventKind};
use fluke_model::id::{AgentName, TaskName};
use fluke_model::time::Timestamp;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::changes::{Change, Changes};
use queue::Queue;

/// The most text that one event carries, in bytes: a command's output, and how it ended.
pub const MAX_TEXT: usize = fluke_model::verdict::MAX_OUTPUT + 1024;
/// The longest that one call of the store may take.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many events go to the store at once.
const BATCH: usize = 256;
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
    #[error("the event store did not answer within {} s; is it up and reachable?", STORE_TIMEOUT.as_secs())]
    TimedOut,
}

/// Which events are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventQuery {
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Only about this task.
    pub task: Option<TaskName>,
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
    }
}

/// Some events, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Newest first.
    pub events: Vec<Arc<Event>>,
    /// To be given as `before` for the next page; none on the last.
    pub next: Option<EventId>,
}

impl Page {
    /// Cuts `events` (newest first) to `limit`; `more` says that older ones were left out.
    pub fn cut(mut events: Vec<Arc<Event>>, limit: usize, more: bool) -> Self {
        let more = more || events.len() > limit;
        events.truncate(limit);
        let next = events.last().filter(|_| more).map(|event| event.id);
        Self { events, next }
    }
}

impl From<Page> for Events {
    fn from(page: Page) -> Self {
        Self {
            events: page.events.into_iter().map(Arc::unwrap_or_clone).collect(),
            next: page.next,
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
    arrived: Notify,
    written: Notify,
    recorded: AtomicU64,
    lost: AtomicU64,
}

struct State {
    last: EventId,
    queue: Queue,
}

impl EventLog {
    /// Begins to write to `store`; ids go on from the newest that it holds, if it answers.
    ///
    /// The writer ends when the returned handle is aborted.
    pub async fn start(
        store: Arc<dyn EventStore>,
        changes: Changes,
        bounds: QueueBounds,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let newest = EventQuery { limit: 1, ..EventQuery::default() };
        let last = match within(store.query(&newest)).await {
            Ok(page) => page.events.first().map_or(EventId(0), |event| event.id),
            Err(error) => {
                tracing::warn!("ids of events begin at the clock: {error}");
                EventId(0)
            }
        };
        let log = Arc::new(Self {
            store,
            changes,
            state: Mutex::new(State { last, queue: Queue::new(bounds) }),
            arrived: Notify::new(),
            written: Notify::new(),
            recorded: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let writer = tokio::spawn(write(log.clone()));
        (log, writer)
    }

    /// The newest events that `query` asks for, those that still wait for the store included.
    pub async fn query(&self, query: &EventQuery) -> Result<Page, StoreError> {
        // Looked at before the store: an event on its way is then seen twice, never not at all.
        let waiting = self.waiting(query);
        let stored = within(self.store.query(query)).await?;
        Ok(merge(waiting, stored, query.limit))
    }

    /// As [`Self::query`]; while the store is away, what still waits for it.
    pub async fn recent(&self, query: &EventQuery) -> Page {
        match self.query(query).await {
            Ok(page) => page,
            Err(_) => Page::cut(self.waiting(query), query.limit, false),
        }
    }

    /// The id given last.
    pub fn last_id(&self) -> EventId {
        self.state().last
    }

    /// For metrics.
    pub fn counts(&self) -> EventCounts {
        EventCounts {
            recorded: self.recorded.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            waiting: self.state().queue.len(),
        }
    }

    /// Waits until the store has everything recorded so far, or `longest` has passed.
    pub async fn flush(&self, longest: Duration) {
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
        self.recorded.fetch_add(1, Ordering::Relaxed);
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
    let more = stored.next.is_some();
    let mut events = waiting;
    events.extend(stored.events);
    events.sort_by_key(|event| Reverse(event.id));
    events.dedup_by_key(|event| event.id);
    Page::cut(events, limit, more)
}

async fn within<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    tokio::time::timeout(STORE_TIMEOUT, call).await.unwrap_or(Err(StoreError::TimedOut))
}

/// Hands batches to the store for as long as the task lives.
async fn write(log: Arc<EventLog>) {
    let mut failures = 0;
    loop {
        let batch = log.state().queue.batch(BATCH);
        if batch.is_empty() {
            log.arrived.notified().await;
            continue;
        }
        match within(log.store.append(&batch)).await {
            Ok(()) => {
                if std::mem::take(&mut failures) > 0 {
                    tracing::info!("the event store takes events again");
                }
                let lost = log.state().queue.written();
                if lost > 0 {
                    log.record(lost_event(lost));
                }
                log.written.notify_waiters();
            }
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    tracing::warn!("events wait in memory: {error}");
                }
                tokio::time::sleep(pause_after(failures)).await;
            }
        }
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
mod tests;
