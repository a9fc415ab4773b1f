//! What history costs, in memory and in Redis.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::event::Event;
use fluke_server::events::memory::{MemoryBounds, MemoryStore};
use fluke_server::events::redis::{RedisAddress, RedisSettings, RedisStore};
use fluke_server::events::{EventQuery, EventStore};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use crate::figure::{Figure, Unit};
use crate::floor::work::event;
use crate::folder::folder;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use tempfile::TempDir;

pub(super) const ROW: Row = Row {
    id: "events",
    what: "10,000 events recorded; the newest 100 asked for",
    reach: "–",
    how: "Through the event store, 256 events at a time, into memory and into a Redis on a local \
          socket. Beside it: bare pipelines of `SET` with the same JSON, and one `MGET` of 100, \
          over one connection to the same Redis.",
    turn: Turn::Always,
    measure,
};

const EVENTS: u64 = 10_000;
const BATCH: usize = 256;
const ROUNDS: usize = 9;
const PATIENCE: Duration = Duration::from_secs(30);

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let runtime = Runtime::new().map_err(|error| Trouble::failed("make a runtime", error))?;
    let server = Redis::start()?;
    let redis = RedisStore::new(server.settings()?);
    let memory = MemoryStore::new(MemoryBounds::default());
    let bare = runtime.block_on(server.connect())?;
    let mut next = 0;
    let mut batch = || -> Result<Vec<Arc<Event>>, Trouble> {
        next += EVENTS;
        (next - EVENTS + 1..=next).map(event).collect()
    };
    let set = |events: &[Arc<Event>]| timed(&runtime, append_bare(bare.clone(), events));
    let mut taken = [Vec::new(), Vec::new(), Vec::new()];
    let mut asked = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..bench.rounds(ROUNDS) {
        let events = batch()?;
        taken[0].push(set(&events)?);
        taken[1].push(timed(&runtime, append(&memory, &events))?);
        taken[2].push(timed(&runtime, append(&redis, &events))?);
        asked[0].push(timed(&runtime, mget(bare.clone(), &events))?);
        asked[1].push(timed(&runtime, ask(&memory))?);
        asked[2].push(timed(&runtime, ask(&redis))?);
    }
    let figure = |id: &str, series: &[Vec<f64>; 3], which: usize, beside: &str| {
        let figure = Figure::new(id, Unit::Seconds, &series[which]);
        figure.map(|figure| figure.beside(beside, &series[0]))
    };
    figures([
        figure("recorded-memory", &taken, 1, "bare pipelines of SET"),
        figure("recorded-redis", &taken, 2, "bare pipelines of SET"),
        figure("asked-memory", &asked, 1, "one bare MGET of 100"),
        figure("asked-redis", &asked, 2, "one bare MGET of 100"),
    ])
}

fn timed(
    runtime: &Runtime,
    work: impl Future<Output = Result<(), Trouble>>,
) -> Result<f64, Trouble> {
    let start = Instant::now();
    runtime.block_on(work)?;
    Ok(start.elapsed().as_secs_f64())
}

async fn append(store: &dyn EventStore, events: &[Arc<Event>]) -> Result<(), Trouble> {
    for batch in events.chunks(BATCH) {
        let taken = store.append(batch).await;
        taken.map_err(|error| Trouble::failed("record events", error))?;
    }
    Ok(())
}

async fn ask(store: &dyn EventStore) -> Result<(), Trouble> {
    let query = EventQuery { limit: 100, ..EventQuery::default() };
    let answer = store.query(&query).await;
    answer.map(drop).map_err(|error| Trouble::failed("ask for events", error))
}

async fn append_bare(
    mut redis: MultiplexedConnection,
    events: &[Arc<Event>],
) -> Result<(), Trouble> {
    let failed = |error: &dyn std::fmt::Display| Trouble::failed("set keys in Redis", error);
    for batch in events.chunks(BATCH) {
        let mut pipe = redis::pipe();
        for event in batch {
            let json = serde_json::to_vec(event.as_ref()).map_err(|error| failed(&error))?;
            pipe.cmd("SET").arg(event.id.0).arg(json).ignore();
        }
        pipe.exec_async(&mut redis).await.map_err(|error| failed(&error))?;
    }
    Ok(())
}

async fn mget(mut redis: MultiplexedConnection, events: &[Arc<Event>]) -> Result<(), Trouble> {
    let keys: Vec<u64> = events.iter().rev().take(100).map(|event| event.id.0).collect();
    let answer: Result<Vec<Vec<u8>>, _> =
        redis::cmd("MGET").arg(&keys).query_async(&mut redis).await;
    answer.map(drop).map_err(|error| Trouble::failed("get keys from Redis", error))
}

/// A Redis of our own, that keeps nothing on disk and listens on a socket alone.
struct Redis {
    process: Child,
    folder: TempDir,
}

impl Redis {
    fn start() -> Result<Self, Trouble> {
        let folder = folder()?;
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--daemonize", "no", "--unixsocket"])
            .arg(folder.path().join("socket"))
            .arg("--dir")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let missing = |error| Trouble::NotRun(format!("redis-server does not start: {error}"));
        let redis = Self { process: process.map_err(missing)?, folder };
        let start = Instant::now();
        while !redis.folder.path().join("socket").exists() {
            if start.elapsed() > PATIENCE {
                return Err(Trouble::failed("start Redis", "it does not listen"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(redis)
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/socket", self.folder.path().display())
    }

    fn settings(&self) -> Result<RedisSettings, Trouble> {
        let address = RedisAddress::parse(&self.url("redis+unix"));
        Ok(RedisSettings {
            address: address.map_err(|error| Trouble::failed("name Redis", error))?,
            prefix: "bench".into(),
            ttl: Duration::from_secs(3600),
            ca_file: None,
            client_files: None,
        })
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Trouble> {
        let failed = |error| Trouble::failed("connect to Redis", error);
        let client = redis::Client::open(self.url("redis+unix")).map_err(failed)?;
        let patience = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let connected = client.get_multiplexed_async_connection_with_config(&patience).await;
        connected.map_err(failed)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
