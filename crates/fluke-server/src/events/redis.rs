//! Events in Redis: there again after a restart of the server, until their time is up.
//!
//! Every event is a key of its own that expires; two indexes, of all events and of each agent's,
//! hold their ids in order with what filters ask for. [`layout`] says how. A batch is added in one
//! transaction. An entry whose event is gone is passed over, and swept away from the old end.

mod address;
mod connection;
mod error;
mod layout;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fluke_model::event::{Event, EventId, EventKind};
use fluke_model::id::AgentName;
use futures_util::future::BoxFuture;
use redis::{Pipeline, RedisResult};

use super::{EventQuery, EventStore, Page, StoreError};
use crate::tls::TlsFiles;
pub use address::{AddressError, RedisAddress};
use connection::{Connection, Lane};
use layout::{Entry, Layout, above, below};

/// How many entries of an index are looked at in one go.
const CHUNK: usize = 500;
/// How many entries one query looks at, at most; then it says where to go on.
const MOST_LOOKED_AT: usize = 50_000;
/// How many events are fetched in one go.
const FETCH: usize = 100;
/// How many old entries are looked at in one go, and how often, when it is swept.
const SWEEP: usize = 1000;
const SWEEPS: usize = 100;
/// For how long a failure answers queries without asking Redis again.
const REST: Duration = Duration::from_secs(2);

/// Where events are kept, and for how long.
#[derive(Debug, Clone)]
pub struct RedisSettings {
    /// Where Redis is.
    pub address: RedisAddress,
    /// In front of every key, within braces.
    pub prefix: String,
    /// How long events are kept.
    pub ttl: Duration,
    /// Whom its certificate must be from; the system knows if nothing is said.
    pub ca_file: Option<PathBuf>,
    /// What is shown to a Redis that asks for a certificate.
    pub client_files: Option<TlsFiles>,
}

/// Keeps events in Redis. Connects when it is first used.
pub struct RedisStore {
    layout: Layout,
    ttl: Duration,
    /// Tells the events of this process from those of another one that gave the same ids.
    writer: String,
    writing: Lane,
    reading: Lane,
    sweep_at: Mutex<Instant>,
}

impl RedisStore {
    /// A store that has not talked to anybody yet.
    pub fn new(settings: RedisSettings) -> Self {
        let settings = Arc::new(settings);
        let mut random = [0; 4];
        // Only two servers that share a prefix need it, and they seldom do.
        let _ = getrandom::fill(&mut random);
        Self {
            layout: Layout::new(&settings.prefix),
            ttl: settings.ttl,
            writer: format!("{:08x}", u32::from_le_bytes(random)),
            writing: Lane::new(settings.clone(), Duration::ZERO),
            reading: Lane::new(settings, REST),
            sweep_at: Mutex::new(Instant::now()),
        }
    }

    /// All of `batch` as one transaction.
    fn additions(&self, batch: &[Arc<Event>]) -> Pipeline {
        let ttl = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let mut pipe = Pipeline::new();
        pipe.atomic();
        let mut indexes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut agents = BTreeSet::new();
        for event in batch {
            let entry = Entry::of(event, &self.writer);
            let json = serde_json::to_vec(event.as_ref()).unwrap_or_default();
            pipe.cmd("SET").arg(self.layout.event(&entry)).arg(json).arg("PX").arg(ttl).ignore();
            indexes.entry(self.layout.all()).or_default().push(entry.line());
            let Some(agent) = &event.agent else { continue };
            agents.insert(agent);
            indexes.entry(self.layout.of_agent(agent.as_str())).or_default().push(entry.line());
            if let (EventKind::AgentConnected, Some(by)) = (event.kind, &event.by) {
                pipe.cmd("SET").arg(self.layout.holder(agent)).arg(by).ignore();
            }
        }
        for (index, lines) in &indexes {
            let add = pipe.cmd("ZADD").arg(index);
            lines.iter().for_each(|line| {
                add.arg(0).arg(line);
            });
            add.ignore();
            pipe.cmd("PEXPIRE").arg(index).arg(ttl).ignore();
        }
        for agent in agents {
            pipe.cmd("PEXPIRE").arg(self.layout.holder(agent)).arg(ttl).ignore();
        }
        pipe
    }

    async fn page(&self, query: &EventQuery, mut redis: Connection) -> RedisResult<Page> {
        let index = self.layout.index(query);
        let lowest = above(query.after);
        let mut highest = below(query.before);
        let mut found = Found::default();
        let mut looked_at = 0;
        loop {
            let chunk = chunk_for(query, found.events.len());
            let mut range = redis::cmd("ZREVRANGEBYLEX");
            range.arg(&index).arg(&highest).arg(&lowest).arg("LIMIT").arg(0).arg(chunk);
            let lines: Vec<Vec<u8>> = range.query_async(&mut redis).await?;
            let lines: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
            let entries = lines.iter().filter_map(|line| {
                let entry = Entry::parse(line);
                found.unreadable += usize::from(entry.is_none());
                entry.filter(|entry| entry.is_wanted(query))
            });
            let wanted: Vec<String> = entries.map(|entry| self.layout.event(&entry)).collect();
            for keys in wanted.chunks(FETCH) {
                let values: Vec<Option<Vec<u8>>> =
                    redis::cmd("MGET").arg(keys).query_async(&mut redis).await?;
                found.add(query, values);
                if found.events.len() > query.limit {
                    return Ok(found.cut(query.limit));
                }
            }
            looked_at += lines.len();
            match lines.last() {
                Some(last) if lines.len() == chunk => {
                    highest = format!("({last}");
                    if looked_at >= MOST_LOOKED_AT {
                        let ids = lines.iter().filter_map(|line| Some(Entry::parse(line)?.id));
                        return Ok(found.go_on_from(ids.min()));
                    }
                }
                _ => return Ok(found.cut(query.limit)),
            }
        }
    }

    /// Takes out what has expired, now and then: what is not asked for would stay in the indexes.
    async fn sweep_if_due(&self) {
        let now = Instant::now();
        {
            let mut due = self.sweep_at.lock().unwrap_or_else(PoisonError::into_inner);
            if now < *due {
                return;
            }
            *due = now + (self.ttl / 10).clamp(Duration::from_secs(1), Duration::from_secs(60));
        }
        let swept = self.writing.call(|redis| Box::pin(self.sweep(redis))).await;
        if let Err(error) = swept {
            tracing::debug!("entries of events that have expired were not swept away: {error}");
        }
    }

    async fn sweep(&self, mut redis: Connection) -> RedisResult<()> {
        for _ in 0..SWEEPS {
            let mut oldest = redis::cmd("ZRANGE");
            oldest.arg(self.layout.all()).arg(0).arg(SWEEP - 1);
            let lines: Vec<Vec<u8>> = oldest.query_async(&mut redis).await?;
            let gone = self.gone(&lines, &mut redis).await?;
            if gone.is_empty() {
                return Ok(());
            }
            let mut pipe = Pipeline::new();
            for (index, lines) in &gone {
                pipe.cmd("ZREM").arg(index).arg(lines).ignore();
            }
            pipe.exec_async(&mut redis).await?;
            if gone.get(&self.layout.all()).is_none_or(|gone| gone.len() < SWEEP) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The lines among these whose events are gone, by index.
    async fn gone<'l>(
        &self,
        lines: &'l [Vec<u8>],
        redis: &mut Connection,
    ) -> RedisResult<BTreeMap<String, Vec<&'l [u8]>>> {
        let texts: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        let entries: Vec<_> = texts.iter().map(|line| Entry::parse(line)).collect();
        let mut pipe = Pipeline::new();
        for entry in entries.iter().flatten() {
            pipe.cmd("EXISTS").arg(self.layout.event(entry));
        }
        let exist: Vec<bool> = match pipe.is_empty() {
            true => Vec::new(),
            false => pipe.query_async(redis).await?,
        };
        let mut exist = exist.into_iter();
        let mut gone: BTreeMap<String, Vec<&[u8]>> = BTreeMap::new();
        for (line, entry) in lines.iter().zip(&entries) {
            if entry.is_some() && exist.next() != Some(false) {
                continue;
            }
            gone.entry(self.layout.all()).or_default().push(line);
            if let Some(agent) = entry.and_then(|entry| entry.agent) {
                gone.entry(self.layout.of_agent(agent)).or_default().push(line);
            }
        }
        Ok(gone)
    }

    async fn read_holder(
        &self,
        agent: &AgentName,
        mut redis: Connection,
    ) -> RedisResult<Option<String>> {
        redis::cmd("GET").arg(self.layout.holder(agent)).query_async(&mut redis).await
    }
}

impl EventStore for RedisStore {
    fn append<'a>(&'a self, batch: &'a [Arc<Event>]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            if batch.is_empty() {
                return Ok(());
            }
            let additions = Arc::new(self.additions(batch));
            self.writing
                .call(move |mut redis| {
                    let additions = additions.clone();
                    Box::pin(async move { additions.exec_async(&mut redis).await })
                })
                .await?;
            self.reading.take_heart();
            self.sweep_if_due().await;
            Ok(())
        })
    }

    fn query<'a>(&'a self, query: &'a EventQuery) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(self.reading.call(|redis| Box::pin(self.page(query, redis))))
    }

    fn holder<'a>(
        &'a self,
        agent: &'a AgentName,
    ) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(self.reading.call(|redis| Box::pin(self.read_holder(agent, redis))))
    }
}

/// How many entries to ask for: not many more than are wanted, where all are.
fn chunk_for(query: &EventQuery, found: usize) -> usize {
    match query.kind.is_none() && query.task.is_none() && query.service.is_none() {
        true => query.limit.saturating_add(1).saturating_sub(found).clamp(1, CHUNK),
        false => CHUNK,
    }
}

/// What a query has found so far, newest first.
#[derive(Default)]
struct Found {
    events: Vec<Arc<Event>>,
    unreadable: usize,
}

impl Found {
    fn add(&mut self, query: &EventQuery, values: Vec<Option<Vec<u8>>>) {
        // What has expired meanwhile is not there.
        for json in values.into_iter().flatten() {
            match serde_json::from_slice::<Event>(&json) {
                Ok(event) if query.matches(&event) => self.events.push(Arc::new(event)),
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!("an event in Redis cannot be read: {error}");
                    self.unreadable += 1;
                }
            }
        }
    }

    fn cut(self, limit: usize) -> Page {
        Page { unreadable: self.unreadable, ..Page::cut(self.events, limit, false) }
    }

    fn go_on_from(self, next: Option<EventId>) -> Page {
        Page { events: self.events, next, unreadable: self.unreadable }
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
