//! What history costs: kept in memory, in a real Redis, and, as the floor, by bare pipelines of
//! `SET` and a bare `MGET` over one connection to the same Redis. Also what an event takes there.

#![allow(missing_docs, dead_code, clippy::print_stdout)]

#[path = "../src/events/redis/fixture.rs"]
mod fixture;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fixture::{RedisServer, redis_is_here};
use fluke_model::event::{Event, EventId, EventKind};
use fluke_model::id::{AgentName, TaskName};
use fluke_model::time::Timestamp;
use fluke_server::events::memory::{MemoryBounds, MemoryStore};
use fluke_server::events::redis::{RedisAddress, RedisSettings, RedisStore};
use fluke_server::events::{EventQuery, EventStore};
use redis::aio::MultiplexedConnection;

const EVENTS: u64 = 50_000;
const BATCH: usize = 256;
const QUERIES: u32 = 200;

fn main() {
    if !redis_is_here() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(measure());
}

async fn measure() {
    let server = RedisServer::start(&[]);
    let redis = RedisStore::new(RedisSettings {
        address: RedisAddress::parse(&server.url()).expect("a url"),
        prefix: "bench".into(),
        ttl: Duration::from_secs(3600),
        ca_file: None,
        client_files: None,
    });
    let memory = MemoryStore::new(MemoryBounds { events_per_agent: 1000, ..Default::default() });
    let mut bare = connect(&server).await;
    let events: Vec<_> = (1..=EVENTS).map(event).collect();

    println!("append of {EVENTS} events, {BATCH} at a time:");
    per_second("memory", append(&memory, &events).await);
    let before = used(&mut bare).await;
    let redis_took = append(&redis, &events).await;
    let after = used(&mut bare).await;
    per_second("Redis", redis_took);
    let floor = append_bare(&mut bare, &events).await;
    per_second("bare pipeline of SET", floor);
    println!("  Redis / bare: {:.2}", redis_took.as_secs_f64() / floor.as_secs_f64());
    println!("  an event takes {} bytes in Redis", (after - before) / EVENTS);

    let agent = Some(AgentName::new("web-7").expect("a name"));
    let newest = EventQuery { limit: 100, ..EventQuery::default() };
    let of_agent = EventQuery { agent, ..newest.clone() };
    let seldom = EventQuery { kind: Some(EventKind::EventsLost), ..newest.clone() };
    println!("query, mean of {QUERIES}:");
    for (what, query) in [("newest 100", newest), ("100 of an agent", of_agent)] {
        each(&format!("{what}, memory"), ask(&memory, &query, QUERIES).await);
        each(&format!("{what}, Redis"), ask(&redis, &query, QUERIES).await);
    }
    each("bare MGET of 100", mget(&mut bare).await);
    each("a kind that is not there, memory", ask(&memory, &seldom, 5).await);
    each("a kind that is not there, Redis", ask(&redis, &seldom, 5).await);
}

fn event(id: u64) -> Arc<Event> {
    let mut event = Event::new(EventKind::ApplyFinished, Timestamp(id));
    event.id = EventId(1_763_000_000_000_000 + id);
    event.agent = Some(AgentName::new(format!("web-{}", id % 100)).expect("a name"));
    event.task = Some(TaskName::new("certs").expect("a name"));
    event.output = Some("renewed certificate for www.example.com; reloading the proxy\n".into());
    Arc::new(event)
}

async fn append(store: &dyn EventStore, events: &[Arc<Event>]) -> Duration {
    let began = Instant::now();
    for batch in events.chunks(BATCH) {
        store.append(batch).await.expect("taken");
    }
    began.elapsed()
}

async fn ask(store: &dyn EventStore, query: &EventQuery, times: u32) -> Duration {
    let began = Instant::now();
    for _ in 0..times {
        store.query(query).await.expect("an answer");
    }
    began.elapsed() / times
}

async fn connect(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).expect("a client");
    let patience = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&patience).await.expect("a connection")
}

async fn append_bare(redis: &mut MultiplexedConnection, events: &[Arc<Event>]) -> Duration {
    let began = Instant::now();
    for batch in events.chunks(BATCH) {
        let mut pipe = redis::pipe();
        for event in batch {
            let json = serde_json::to_vec(event.as_ref()).expect("JSON");
            pipe.cmd("SET").arg(event.id.0).arg(json).ignore();
        }
        pipe.exec_async(redis).await.expect("taken");
    }
    began.elapsed()
}

async fn mget(redis: &mut MultiplexedConnection) -> Duration {
    let keys: Vec<u64> = (1..=100).map(|id| event(id).id.0).collect();
    let began = Instant::now();
    for _ in 0..QUERIES {
        let _: Vec<Vec<u8>> =
            redis::cmd("MGET").arg(&keys).query_async(redis).await.expect("an answer");
    }
    began.elapsed() / QUERIES
}

async fn used(redis: &mut MultiplexedConnection) -> u64 {
    let info: String =
        redis::cmd("INFO").arg("memory").query_async(redis).await.expect("an answer");
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|used| used.parse().ok()).expect("a number")
}

fn per_second(what: &str, took: Duration) {
    println!("  {what:<34} {:>9.0} events/s", EVENTS as f64 / took.as_secs_f64());
}

fn each(what: &str, took: Duration) {
    println!("  {what:<34} {:>9.2} ms", took.as_secs_f64() * 1000.0);
}
