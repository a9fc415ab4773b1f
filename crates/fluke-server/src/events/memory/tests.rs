use fluke_model::event::EventKind;
use fluke_model::id::TaskName;
use fluke_model::time::Timestamp;
use proptest::prelude::*;

use super::*;

fn event(id: u64, agent: Option<&str>) -> Arc<Event> {
    let mut event = Event::new(EventKind::DriftDetected, Timestamp(id));
    event.id = EventId(id);
    event.agent = agent.map(|name| AgentName::new(name).expect("name"));
    Arc::new(event)
}

async fn filled(bounds: MemoryBounds, events: &[Arc<Event>]) -> MemoryStore {
    let store = MemoryStore::new(bounds);
    store.append(events).await.expect("memory takes everything");
    store
}

async fn ids(store: &MemoryStore, query: EventQuery) -> Vec<u64> {
    let page = store.query(&query).await.expect("memory answers");
    page.events.iter().map(|event| event.id.0).collect()
}

fn everything() -> EventQuery {
    EventQuery { limit: usize::MAX, ..EventQuery::default() }
}

#[tokio::test]
async fn a_noisy_agent_pushes_out_nobody_elses_events() {
    let bounds = MemoryBounds { events_per_agent: 2, ..MemoryBounds::default() };
    let mut events = vec![event(1, Some("quiet")), event(2, None)];
    events.extend((3..50).map(|id| event(id, Some("noisy"))));
    assert_eq!(ids(&filled(bounds, &events).await, everything()).await, [49, 48, 2, 1]);
}

#[tokio::test]
async fn the_quietest_agent_goes_when_there_are_too_many() {
    let bounds = MemoryBounds { agents: 2, ..MemoryBounds::default() };
    let events = [
        event(1, None),
        event(2, Some("a")),
        event(3, Some("b")),
        event(4, Some("a")),
        event(5, Some("c")),
    ];
    assert_eq!(ids(&filled(bounds, &events).await, everything()).await, [5, 4, 2, 1]);
}

#[tokio::test]
async fn all_events_together_keep_to_a_number_of_bytes() {
    let bounds = MemoryBounds { bytes: 3 * size_of::<Event>(), ..MemoryBounds::default() };
    let events: Vec<_> = (1..=9).map(|id| event(id, Some(["a", "b"][id as usize % 2]))).collect();
    let store = filled(bounds, &events).await;
    assert_eq!(ids(&store, everything()).await, [9, 8, 7]);
    assert_eq!(store.rings().bytes, bounds.bytes);
}

#[tokio::test]
async fn the_same_event_twice_is_one_event() {
    let store = filled(MemoryBounds::default(), &[event(1, None), event(1, None)]).await;
    assert_eq!(ids(&store, everything()).await, [1]);
}

#[tokio::test]
async fn no_events_are_no_page() {
    let store = MemoryStore::new(MemoryBounds::default());
    assert_eq!(store.query(&everything()).await, Ok(Page::default()));
}

#[tokio::test]
async fn one_page_looks_at_so_many_events_and_the_next_goes_on_from_there() {
    let most = MOST_LOOKED_AT as u64;
    let bounds = MemoryBounds { events_of_server: usize::MAX, ..MemoryBounds::default() };
    let mut events: Vec<_> = (2..=most + 1).map(|id| event(id, None)).collect();
    let mut rare = Event::new(EventKind::CommitRejected, Timestamp(0));
    rare.id = EventId(1);
    events.push(Arc::new(rare));
    let store = filled(bounds, &events).await;

    let query = EventQuery { kind: Some(EventKind::CommitRejected), ..everything() };
    let page = store.query(&query).await.expect("memory answers");
    assert_eq!((page.events.len(), page.next), (0, Some(EventId(2))));
    let next = EventQuery { before: page.next, ..query.clone() };
    assert_eq!(ids(&store, next).await, [1]);

    // Whoever asks for what is new does not look at what is old.
    let new = EventQuery { after: Some(EventId(most)), ..query };
    let page = store.query(&new).await.expect("memory answers");
    assert_eq!((page.events.len(), page.next), (0, None));
}

#[tokio::test]
async fn nothing_is_both_newer_and_older() {
    let store = filled(MemoryBounds::default(), &[event(1, None), event(2, Some("a"))]).await;
    for (after, before) in [(1, 1), (2, 1), (5, 3)] {
        for agent in [None, Some(AgentName::new("a").expect("name"))] {
            let (after, before) = (Some(EventId(after)), Some(EventId(before)));
            let query = EventQuery { agent, after, before, ..everything() };
            assert_eq!(store.query(&query).await, Ok(Page::default()));
        }
    }
}

prop_compose! {
    fn some_event()(agent in 0..4usize, task in 0..3usize, kind in 0..3usize) -> Event {
        let mut event = Event::new(EventKind::ALL[kind], Timestamp(0));
        event.agent = [None, Some("a"), Some("b"), Some("c")][agent].map(|n| AgentName::new(n).expect("name"));
        event.task = [None, Some("x"), Some("y")][task].map(|n| TaskName::new(n).expect("name"));
        event
    }
}

prop_compose! {
    fn some_query()(wanted in some_event(), use_kind: bool, limit in 1..7usize, after in 0..60u64) -> EventQuery {
        EventQuery {
            agent: wanted.agent,
            task: wanted.task,
            service: None,
            kind: use_kind.then_some(wanted.kind),
            before: None,
            after: (after < 30).then_some(EventId(after)),
            limit,
        }
    }
}

proptest! {
    #[test]
    fn pages_put_together_are_all_events_once_newest_first(
        events in prop::collection::vec(some_event(), 0..60),
        query in some_query(),
        per_agent in 1..20usize,
    ) {
        let bounds = MemoryBounds { events_per_agent: per_agent, ..MemoryBounds::default() };
        let store = MemoryStore::new(bounds);
        let events: Vec<_> = events
            .into_iter()
            .zip(1..)
            .map(|(event, id)| Arc::new(Event { id: EventId(id), ..event }))
            .collect();
        let mut rings = store.rings();
        events.iter().for_each(|event| rings.add(event, &bounds));
        drop(rings);

        // What a ring per agent keeps, said another way.
        let kept = events.iter().rev().filter(|event| {
            let newer = events.iter().filter(|e| e.agent == event.agent && e.id > event.id);
            event.agent.is_none() || newer.count() < per_agent
        });
        let wanted: Vec<_> = kept.filter(|event| query.matches(event)).cloned().collect();

        let (mut got, mut query) = (Vec::new(), query);
        loop {
            let page = store.rings().page(&query);
            prop_assert!(page.events.len() <= query.limit);
            got.extend(page.events);
            match page.next {
                Some(next) => query.before = Some(next),
                None => break,
            }
        }
        prop_assert_eq!(got, wanted);
    }
}
