use fluke_model::diagnostic::{Diagnostic, Severity};

use super::fixture::Remote;
use super::memory::{MemoryBounds, MemoryStore};
use super::*;

const SOON: Duration = Duration::from_secs(30);

fn some(kind: EventKind, text: impl Into<String>) -> Event {
    let mut event = Event::new(kind, Timestamp(0));
    event.output = Some(text.into());
    event
}

fn texts(page: &Page) -> Vec<&str> {
    page.events.iter().filter_map(|event| event.output.as_deref()).collect()
}

fn newest(limit: usize) -> EventQuery {
    EventQuery { limit, ..EventQuery::default() }
}

#[tokio::test]
async fn what_is_recorded_is_told_at_once_and_found_at_once() {
    let store = Arc::new(MemoryStore::new(MemoryBounds::default()));
    let changes = Changes::default();
    let mut told = changes.listen();
    let (log, _writer) = EventLog::start(store, changes, QueueBounds::default()).await;

    for text in ["one", "two", "three"] {
        log.record(some(EventKind::AgentConnected, text));
    }

    let page = log.query(&newest(2)).await.expect("memory answers");
    assert_eq!(texts(&page), ["three", "two"]);
    let rest = EventQuery { before: page.next, ..newest(2) };
    assert_eq!(texts(&log.query(&rest).await.expect("memory answers")), ["one"]);
    let mut last = EventId(0);
    for _ in 0..3 {
        let Ok(Change::Event(event)) = told.recv().await else { panic!("an event was told") };
        assert!(event.id > last, "ids grow");
        last = event.id;
    }
    assert_eq!(log.last_id(), last);
    assert_eq!(log.counts().recorded, 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_loses_nothing_that_fits() {
    let store = Remote::new(true);
    let (log, _writer) =
        EventLog::start(store.clone(), Changes::default(), QueueBounds::default()).await;
    for number in 0..1000 {
        log.record(some(EventKind::ApplyStarted, number.to_string()));
    }
    log.flush(SOON).await;
    assert_eq!(log.counts(), EventCounts { recorded: 1000, lost: 0, waiting: 1000 });
    assert!(log.query(&newest(1)).await.is_err(), "the gap is said");
    assert_eq!(texts(&log.recent(&newest(1)).await), ["999"]);

    store.away.store(false, Ordering::SeqCst);
    let began = tokio::time::Instant::now();
    log.flush(SOON).await;
    assert!(began.elapsed() < FIRST_PAUSE, "whoever flushes does not wait for a pause to end");
    assert_eq!(log.counts(), EventCounts { recorded: 1000, lost: 0, waiting: 0 });
    let kept = store.kept.query(&newest(2000)).await.expect("memory answers");
    assert_eq!(kept.events.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_counted_and_said_when_the_store_is_back() {
    let store = Remote::new(true);
    let bounds = QueueBounds { events: 3, ..QueueBounds::default() };
    let (log, _writer) = EventLog::start(store.clone(), Changes::default(), bounds).await;
    for number in 0..10 {
        log.record(some(EventKind::ApplyStarted, number.to_string()));
    }
    assert_eq!(log.counts(), EventCounts { recorded: 10, lost: 7, waiting: 3 });

    store.away.store(false, Ordering::SeqCst);
    log.flush(SOON).await;
    let kept = log.query(&newest(10)).await.expect("the store is back");
    assert_eq!(kept.events[0].kind, EventKind::EventsLost);
    assert!(texts(&kept)[0].starts_with("7 events were lost"), "{}", texts(&kept)[0]);
    assert_eq!(texts(&kept)[1..], ["9", "8", "7"]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_bounded_in_bytes_too() {
    let bounds = QueueBounds { bytes: 3 * MAX_TEXT, ..QueueBounds::default() };
    let (log, _writer) = EventLog::start(Remote::new(true), Changes::default(), bounds).await;
    for _ in 0..10 {
        log.record(some(EventKind::ApplyFinished, "x".repeat(MAX_TEXT)));
    }
    assert_eq!((log.counts().waiting, log.counts().lost), (2, 8));
}

#[tokio::test]
async fn ids_go_on_from_what_the_store_holds_even_if_the_clock_went_back() {
    let far = EventId(u64::MAX / 2);
    let store = Arc::new(MemoryStore::new(MemoryBounds::default()));
    let mut old = some(EventKind::AgentConnected, "before the restart");
    old.id = far;
    store.append(&[Arc::new(old)]).await.expect("memory takes everything");

    let (log, _writer) = EventLog::start(store, Changes::default(), QueueBounds::default()).await;
    assert!(log.last_id() > far, "what was before is told by its id");
    log.record(some(EventKind::AgentConnected, "after it"));
    assert_eq!(log.last_id(), EventId(far.0 + 2));
}

#[test]
fn an_event_keeps_the_tail_of_its_text() {
    let mut event = some(EventKind::ApplyFinished, format!("{}é{}", "x".repeat(80_000), "end"));
    clip(&mut event);
    let output = event.output.expect("kept");
    assert!(output.len() <= MAX_TEXT, "{}", output.len());
    assert!(output.starts_with("[earlier output not kept]\nx"), "{}", &output[..40]);
    assert!(output.ends_with("xéend"));

    // A cut in the middle of a character.
    let mut text = "é".repeat(MAX_TEXT);
    clip_front(&mut text);
    assert!(text.len() <= MAX_TEXT && text.ends_with("éé"));
}

#[test]
fn an_event_carries_only_so_many_diagnostics() {
    let diagnostic = Diagnostic {
        severity: Severity::Error,
        message: "m".repeat(1000),
        help: None,
        file: "a.fluke.hcl".into(),
        line: 1,
        column: 1,
        end_line: 1,
        end_column: 2,
        source: vec!["s".repeat(1000)],
    };
    let mut event = Event::new(EventKind::CommitRejected, Timestamp(0));
    event.diagnostics = vec![diagnostic; 1000];
    clip(&mut event);
    assert!((20..40).contains(&event.diagnostics.len()), "{}", event.diagnostics.len());
}

#[test]
fn ids_are_microseconds_and_only_grow() {
    let at = |micros| UNIX_EPOCH + Duration::from_micros(micros);
    assert_eq!(next_id(EventId(0), at(5)), EventId(5));
    assert_eq!(next_id(EventId(5), at(5)), EventId(6));
    assert_eq!(next_id(EventId(9), at(5)), EventId(10));
}

#[test]
fn pauses_grow_to_five_seconds() {
    let millis: Vec<u128> = (1..9).map(|n| pause_after(n).as_millis()).collect();
    assert_eq!(millis, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
}
