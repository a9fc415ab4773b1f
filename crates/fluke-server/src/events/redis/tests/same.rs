//! Whatever is asked of it, Redis answers as the memory does.

use proptest::prelude::*;

use super::*;
use crate::events::memory::{MemoryBounds, MemoryStore};

prop_compose! {
    fn some_event()(id in 1..80u64, agent in 0..4usize, task in 0..3usize, kind in 0..3usize) -> Event {
        let agent = [None, Some("a"), Some("b"), Some("a/b")][agent];
        let task = [None, Some("x"), Some("y")][task];
        Event { kind: EventKind::ALL[kind], ..Event::clone(&event(id, agent, task)) }
    }
}

prop_compose! {
    fn some_query()(
        wanted in some_event(),
        has in prop::array::uniform5(any::<bool>()),
        before in 0..90u64,
        after in 0..90u64,
        limit in prop_oneof![0..7usize, Just(1000)],
    ) -> EventQuery {
        EventQuery {
            agent: wanted.agent.filter(|_| has[0]),
            task: wanted.task.filter(|_| has[1]),
            service: None,
            kind: has[2].then_some(wanted.kind),
            before: has[3].then_some(EventId(before)),
            after: has[4].then_some(EventId(after)),
            limit,
        }
    }
}

#[test]
fn redis_answers_every_query_as_the_memory_does() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let batches = prop::collection::vec(prop::collection::vec(some_event(), 0..20), 0..5);
    let queries = prop::collection::vec(some_query(), 20);
    let cases = std::cell::Cell::new(0);
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() };
    proptest!(config, |(batches in batches, queries in queries)| {
        // Each case has a history of its own.
        cases.set(cases.get() + 1);
        let prefix = format!("case-{}", cases.get());
        let redis = RedisStore::new(RedisSettings { prefix, ..settings(&redis.url()) });
        let memory = MemoryStore::new(MemoryBounds::default());
        runtime.block_on(async {
            let mut known: BTreeMap<EventId, Arc<Event>> = BTreeMap::new();
            for batch in batches {
                // The same id is always the same event.
                let batch: Vec<_> = batch
                    .into_iter()
                    .map(|event| known.entry(event.id).or_insert_with(|| Arc::new(event)).clone())
                    .collect();
                memory.append(&batch).await.expect("memory takes everything");
                redis.append(&batch).await.expect("Redis takes it");
            }
            for query in queries {
                let expected = memory.query(&query).await.expect("memory answers");
                let found = redis.query(&query).await.expect("Redis answers");
                prop_assert_eq!(found, expected, "{:?}", query);
            }
            Ok(())
        })?;
    });
}
