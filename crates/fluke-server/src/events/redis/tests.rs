//! With real servers: what is kept, what is found, and what is said when Redis is not well.

mod certificates;
mod faults;
mod same;

use fluke_model::id::TaskName;
use fluke_model::time::Timestamp;

use super::fixture::{RedisCluster, RedisServer, redis_is_here};
use super::*;

/// Longer than anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn settings(url: &str) -> RedisSettings {
    RedisSettings {
        address: RedisAddress::parse(url).expect("a url"),
        prefix: "test".into(),
        ttl: HOUR,
        ca_file: None,
        client_files: None,
    }
}

fn store(url: &str) -> RedisStore {
    RedisStore::new(settings(url))
}

fn event(id: u64, agent: Option<&str>, task: Option<&str>) -> Arc<Event> {
    let mut event = Event::new(EventKind::DriftDetected, Timestamp(id));
    event.id = EventId(id);
    event.agent = agent.map(|name| AgentName::new(name).expect("name"));
    event.task = task.map(|name| TaskName::new(name).expect("name"));
    event.output = Some(format!("number {id}"));
    Arc::new(event)
}

fn newest(limit: usize) -> EventQuery {
    EventQuery { limit, ..EventQuery::default() }
}

fn of_agent(name: &str) -> EventQuery {
    EventQuery { agent: Some(AgentName::new(name).expect("name")), ..newest(1000) }
}

async fn ids(store: &RedisStore, query: &EventQuery) -> Vec<u64> {
    let page = store.query(query).await.expect("Redis answers");
    page.events.iter().map(|event| event.id.0).collect()
}

fn said(error: StoreError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(!text.contains("s3cret"), "{text}");
}

/// Waits for a state, not for a duration.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn another_server_finds_what_one_has_kept() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let batch = [event(1, Some("web-1"), Some("certs")), event(2, None, None)];
    store(&redis.url()).append(&batch).await.expect("kept");

    let page = store(&redis.url()).query(&newest(10)).await.expect("found");
    assert_eq!(page.events, [batch[1].clone(), batch[0].clone()]);
    assert_eq!(page.next, None);
    assert_eq!(ids(&store(&redis.url()), &of_agent("web-1")).await, [1]);
    assert_eq!(ids(&store(&redis.url()), &of_agent("web-2")).await, [0; 0]);
}

#[tokio::test]
async fn two_servers_that_give_the_same_id_lose_nothing() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let (one, other) = (store(&redis.url()), store(&redis.url()));
    one.append(&[event(1, Some("a"), None)]).await.expect("kept");
    other.append(&[event(1, Some("b"), None), event(2, None, None)]).await.expect("kept");
    assert_eq!(ids(&one, &newest(10)).await, [2, 1, 1]);
    assert_eq!(ids(&one, &of_agent("a")).await, [1]);
    assert_eq!(ids(&one, &of_agent("b")).await, [1]);
}

#[tokio::test]
async fn prefixes_and_databases_keep_histories_apart() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let other_prefix = RedisSettings { prefix: "b".into(), ..settings(&redis.url()) };
    let stores =
        [store(&redis.url()), RedisStore::new(other_prefix), store(&format!("{}/3", redis.url()))];
    for (store, id) in stores.iter().zip(1..) {
        store.append(&[event(id, None, None)]).await.expect("kept");
    }
    for (store, id) in stores.iter().zip(1..) {
        assert_eq!(ids(store, &newest(10)).await, [id]);
    }
}

#[tokio::test]
async fn events_expire_and_leave_nothing_behind() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let short =
        RedisStore::new(RedisSettings { ttl: Duration::from_secs(2), ..settings(&redis.url()) });
    let old: Vec<_> = (1..50).map(|id| event(id, Some("gone"), None)).collect();
    short.append(&old).await.expect("kept");
    assert_eq!(ids(&short, &newest(100)).await.len(), 49);

    until("the old events are out of reach and out of the index", async || {
        let id = 1000 + Instant::now().elapsed().subsec_nanos() as u64 % 7;
        short.append(&[event(id, Some("here"), None)]).await.expect("kept");
        let seen = ids(&short, &newest(100)).await;
        seen.iter().all(|id| *id >= 1000)
            && redis
                .ask("zcard {test}:events")
                .trim_start_matches(':')
                .parse::<usize>()
                .expect("a number")
                < 49
            && redis.ask("exists {test}:agent:gone") == ":0"
    })
    .await;
    until("nothing is left", async || redis.ask("dbsize") == ":0").await;
}

#[tokio::test]
async fn a_seldom_kind_is_found_page_by_page() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let store = store(&redis.url());
    let many = MOST_LOOKED_AT as u64 + 2 * CHUNK as u64;
    for from in (1..many).step_by(5000) {
        let batch: Vec<_> = (from..from + 5000).map(|id| event(id, None, None)).collect();
        let batch: Vec<_> = batch
            .into_iter()
            .map(|event| match event.id.0 {
                7 => Arc::new(Event { kind: EventKind::EventsLost, ..Event::clone(&event) }),
                _ => event,
            })
            .collect();
        store.append(&batch).await.expect("kept");
    }
    let mut query = EventQuery { kind: Some(EventKind::EventsLost), ..newest(10) };
    let page = store.query(&query).await.expect("an answer");
    assert!(page.events.is_empty() && page.next.is_some(), "it says where to go on: {page:?}");
    query.before = page.next;
    let page = store.query(&query).await.expect("an answer");
    assert_eq!(page.events.iter().map(|event| event.id.0).collect::<Vec<_>>(), [7]);
    assert_eq!(page.next, None);
}

#[tokio::test]
async fn events_of_a_newer_version_are_counted_and_not_shown() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let store = store(&redis.url());
    store.append(&[event(1, None, None), event(3, None, None)]).await.expect("kept");
    redis.ask("zadd {test}:events 0 \"00000000000000000002 host_adopted   abc\"");
    redis.ask(
        "set {test}:event:00000000000000000002.abc '{\"id\":\"2\",\"kind\":\"host_adopted\"}'",
    );
    redis.ask("zadd {test}:events 0 nonsense");

    let page = store.query(&newest(10)).await.expect("an answer");
    assert_eq!(page.events.iter().map(|event| event.id.0).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(page.unreadable, 2);
}

#[tokio::test]
async fn a_cluster_keeps_events_like_one_server() {
    if !redis_is_here() {
        return;
    }
    let cluster = RedisCluster::start();
    for (node, prefix) in cluster.nodes.iter().zip(["a", "b", "c"]) {
        // Whichever node is asked first, and wherever the prefix is.
        let address = RedisAddress::parse(&node.url()).expect("a url").cluster(&[]);
        let address = address.expect("a cluster");
        let store = RedisStore::new(RedisSettings {
            address,
            prefix: prefix.into(),
            ..settings(&node.url())
        });
        let batch: Vec<_> =
            (1..400).map(|id| event(id, Some(["x", "y"][id as usize % 2]), None)).collect();
        store.append(&batch).await.expect("kept");
        assert_eq!(ids(&store, &newest(1000)).await.len(), 399);
        assert_eq!(ids(&store, &of_agent("x")).await.len(), 199);
        *store.sweep_at.lock().expect("a lock") = Instant::now();
        store.append(&batch).await.expect("kept and swept");
    }
    let node = &cluster.nodes[0];
    let mut refused = 0;
    for prefix in ["a", "b", "c"] {
        let plain = RedisSettings { prefix: prefix.into(), ..settings(&node.url()) };
        if let Err(error) = RedisStore::new(plain).append(&[event(1, None, None)]).await {
            said(error, &["MOVED", "set `cluster = true`"]);
            refused += 1;
        }
    }
    assert!(refused > 0, "a prefix of three is on another node");
}

#[tokio::test]
async fn the_name_of_an_agent_is_known_under_its_token_while_its_events_last() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let name = AgentName::new("web-1").expect("name");
    let connected = Event {
        kind: EventKind::AgentConnected,
        by: Some("token web".into()),
        ..Event::clone(&event(1, Some("web-1"), None))
    };
    let short =
        RedisStore::new(RedisSettings { ttl: Duration::from_secs(2), ..settings(&redis.url()) });
    short.append(&[Arc::new(connected)]).await.expect("kept");
    let after_restart = store(&redis.url());
    assert_eq!(after_restart.holder(&name).await, Ok(Some("token web".into())));
    until("its events are gone", async || after_restart.holder(&name).await == Ok(None)).await;
}
