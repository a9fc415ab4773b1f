//! Events in memory: a ring per agent, and one for what concerns no agent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluke_model::event::{Event, EventId};
use fluke_model::id::AgentName;
use futures_util::future::{BoxFuture, ready};

use super::queue::event_bytes;
use super::{EventQuery, EventStore, Page, StoreError};

/// A page is of what matches among so many events; the next page goes on from there.
const MOST_LOOKED_AT: usize = 50_000;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct MemoryBounds {
    /// Of each agent.
    pub events_per_agent: usize,
    /// Of what concerns no agent.
    pub events_of_server: usize,
    /// How many agents have a ring; the one that was quiet for longest goes first.
    pub agents: usize,
    /// Of everything together, in bytes; the oldest event goes first.
    pub bytes: usize,
}

impl Default for MemoryBounds {
    fn default() -> Self {
        Self { events_per_agent: 100, events_of_server: 1000, agents: 20_000, bytes: 64 << 20 }
    }
}

/// Keeps the last events of every agent, until the process ends.
pub struct MemoryStore {
    bounds: MemoryBounds,
    rings: Mutex<Rings>,
}

/// Invariant: `events` holds exactly the ids that the rings hold.
#[derive(Default)]
struct Rings {
    events: BTreeMap<EventId, Arc<Event>>,
    /// The server's own under no name.
    rings: HashMap<Option<AgentName>, BTreeSet<EventId>>,
    bytes: usize,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(bounds: MemoryBounds) -> Self {
        Self { bounds, rings: Mutex::default() }
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStore for MemoryStore {
    fn append<'a>(&'a self, batch: &'a [Arc<Event>]) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut rings = self.rings();
        batch.iter().for_each(|event| rings.add(event, &self.bounds));
        Box::pin(ready(Ok(())))
    }

    fn query<'a>(&'a self, query: &'a EventQuery) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(ready(Ok(self.rings().page(query))))
    }
}

impl Rings {
    fn add(&mut self, event: &Arc<Event>, bounds: &MemoryBounds) {
        if self.events.insert(event.id, event.clone()).is_some() {
            return;
        }
        self.bytes += event_bytes(event);
        let ring = self.rings.entry(event.agent.clone()).or_default();
        ring.insert(event.id);
        let most = match event.agent {
            Some(_) => bounds.events_per_agent,
            None => bounds.events_of_server,
        };
        if ring.len() > most {
            let oldest = ring.first().copied();
            oldest.into_iter().for_each(|id| self.forget(id));
        }
        if self.rings.len() > bounds.agents.saturating_add(1) {
            self.forget_quietest();
        }
        while self.bytes > bounds.bytes
            && let Some((&oldest, _)) = self.events.first_key_value()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, id: EventId) {
        let Some(event) = self.events.remove(&id) else { return };
        self.bytes -= event_bytes(&event);
        if let Some(ring) = self.rings.get_mut(&event.agent) {
            ring.remove(&id);
            if ring.is_empty() {
                self.rings.remove(&event.agent);
            }
        }
    }

    fn forget_quietest(&mut self) {
        let agents = self.rings.iter().filter(|(agent, _)| agent.is_some());
        let quietest = agents.min_by_key(|(_, ring)| ring.last());
        let ids: Vec<EventId> = quietest.into_iter().flat_map(|(_, ring)| ring).copied().collect();
        ids.into_iter().for_each(|id| self.forget(id));
    }

    fn page(&self, query: &EventQuery) -> Page {
        if query.after.zip(query.before).is_some_and(|(after, before)| after >= before) {
            return Page::default();
        }
        let start = query.after.map_or(Bound::Unbounded, Bound::Excluded);
        let end = query.before.map_or(Bound::Unbounded, Bound::Excluded);
        match &query.agent {
            None => look_through(self.events.range((start, end)).rev().map(|(_, it)| it), query),
            agent => {
                let ring = self.rings.get(agent).into_iter();
                let ids = ring.flat_map(|ring| ring.range((start, end)).rev());
                look_through(ids.filter_map(|id| self.events.get(id)), query)
            }
        }
    }
}

/// What matches among events that come newest first; others wait while it looks, so it does not
/// look at all of them.
fn look_through<'a>(
    newest_first: impl Iterator<Item = &'a Arc<Event>>,
    query: &EventQuery,
) -> Page {
    let (mut found, mut last) = (Vec::new(), None);
    for (looked_at, event) in newest_first.enumerate() {
        if looked_at == MOST_LOOKED_AT {
            return Page { events: found, next: last, unreadable: 0 };
        }
        last = Some(event.id);
        if query.matches(event) {
            found.push(event.clone());
        }
        if found.len() > query.limit {
            break;
        }
    }
    Page::cut(found, query.limit, false)
}

#[cfg(test)]
mod tests;
