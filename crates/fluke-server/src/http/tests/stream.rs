use std::io::Write;

use flate2::write::GzDecoder;
use fluke_model::event::EventId;
use serde_json::Value;

use super::*;
use crate::changes::Change;
use crate::events::EventQuery;
use crate::events::fixture::Remote;
use crate::http::stream::hub::BACKLOG;
use crate::http::stream::missed::{Missed, Piece};
use crate::http::stream::ring::At;

/// One message of a stream.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub event: String,
    pub id: Option<u64>,
    pub data: Value,
}

/// Reads server-sent events off a connection.
pub(super) struct Stream {
    response: reqwest::Response,
    text: String,
    /// The id that a browser notes when a stream is opened.
    pub opened: Option<u64>,
}

impl Stream {
    pub async fn open(server: &Server, last: Option<EventId>) -> Self {
        let mut request = server.client.get(server.at("/api/v1/stream"));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new(), opened: None }
    }

    /// The next message that carries something; none at the end.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let mut message = Message::default();
                for line in block.lines() {
                    match line.split_once(": ").or_else(|| line.split_once(':')) {
                        Some(("event", value)) => message.event = value.into(),
                        Some(("id", value)) => message.id = value.parse().ok(),
                        Some(("data", value)) => {
                            message.data = serde_json::from_str(value).expect("JSON")
                        }
                        _ => {}
                    }
                }
                self.text = rest.to_string();
                if !message.data.is_null() {
                    return Some(message);
                }
                self.opened = self.opened.or(message.id);
            }
            let chunk = self.response.chunk().await.expect("a whole answer")?;
            self.text.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    }

    async fn outputs(&mut self, count: usize) -> Vec<String> {
        let mut outputs = Vec::new();
        for _ in 0..count {
            let message = self.next().await.expect("another message");
            assert_eq!(message.event, "event");
            outputs.push(message.data["output"].as_str().expect("an output").to_string());
        }
        outputs
    }
}

#[tokio::test]
async fn every_change_is_told_as_the_api_would_say_it() {
    let server = Server::start(Setup::default()).await;
    server.commit("abc", &["certs"]);
    let mut stream = Stream::open(&server, None).await;

    let id = server.record("one");
    let message = stream.next().await.expect("a message");
    assert_eq!((&*message.event, message.id), ("event", Some(id.0)));
    assert_eq!(message.data["output"], "one");

    let agent = server.agent("web-01");
    server.app.changes.tell(Change::Agent(AgentName::new("web-01").expect("name")));
    let message = stream.next().await.expect("a message");
    assert_eq!((&*message.event, message.id), ("agent", None));
    assert_eq!(message.data, server.get("/api/v1/agents").await.json()["agents"][0]);
    drop(agent);

    server.app.changes.tell(Change::Agent(AgentName::new("gone").expect("name")));
    let message = stream.next().await.expect("a message");
    assert_eq!(message.data, serde_json::json!({"name": "gone", "gone": true}));

    server.app.changes.tell(Change::Source);
    let message = stream.next().await.expect("a message");
    assert_eq!((&*message.event, &message.data["commit"]), ("source", &"abc".into()));

    let ask = serde_json::json!({"scope": "task", "name": "certs"});
    let asked = Answer::of(server.local.post("http://x/api/v1/reconcile").json(&ask)).await;
    let id = asked.json()["id"].clone();
    server.app.changes.tell(Change::Reconcile(id.as_str().expect("an id").into()));
    let message = loop {
        let message = stream.next().await.expect("a message");
        if message.event == "reconcile" {
            break message;
        }
    };
    assert_eq!(message.data["id"], id);
}

#[tokio::test]
async fn a_stream_is_compressed_for_those_who_ask_and_tells_no_later_for_it() {
    let server = Server::start(Setup::default()).await;
    let ask = server.client.get(server.at("/api/v1/stream")).header("accept-encoding", "gzip");
    let mut answer = ask.send().await.expect("an answer");
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let mut heard = GzDecoder::new(Vec::new());
    for text in ["one", "two"] {
        server.record(text);
        while !String::from_utf8_lossy(heard.get_ref()).contains(text) {
            let piece = answer.chunk().await.expect("a piece").expect("more");
            heard.write_all(&piece).and_then(|()| heard.flush()).expect("gzip");
        }
    }
    server.stop.send_replace(true);
    while let Some(piece) = answer.chunk().await.expect("a whole answer") {
        heard.write_all(&piece).expect("gzip");
    }
    heard.finish().expect("it ends as gzip does");
}

#[tokio::test]
async fn who_comes_back_gets_what_they_missed_once_and_in_order() {
    let server = Server::start(Setup::default()).await;
    server.record("seen");
    let last = server.record("seen last");
    for text in ["missed 1", "missed 2", "missed 3"] {
        server.record(text);
    }
    let mut stream = Stream::open(&server, Some(last)).await;
    server.record("new");
    assert_eq!(stream.outputs(4).await, ["missed 1", "missed 2", "missed 3", "new"]);
}

#[tokio::test]
async fn what_was_missed_is_made_piece_by_piece_when_its_turn_comes() {
    let server = Server::start(Setup::default()).await;
    server.commit("abc", &["certs"]);
    let last = server.app.events.last_id();
    let name = |number| AgentName::new(format!("a{number:03}")).expect("a name");
    let mut agents: Vec<Agent> =
        (0..300).map(|number| server.agent(name(number).as_str())).collect();
    (0..300).for_each(|number| server.app.changes.tell(Change::Agent(name(number))));
    let newest = server.record("so far");
    server.app.0.hub.reaches(newest).await;

    let page = server.app.events.recent(&EventQuery { limit: 10, ..EventQuery::default() }).await;
    let mut missed = Missed::new(last, page.events);
    let mut next = || missed.next(&server.app.0.hub, &server.app.0.world);
    let mut text = String::new();
    let mut pieces = 0;
    while let Piece::Made(frame) = next() {
        let bytes = frame.plain();
        assert!(bytes.len() < 128 << 10, "{} bytes at once", bytes.len());
        text.push_str(std::str::from_utf8(bytes).expect("text"));
        pieces += 1;
        // Of those whose turn has not come yet the newest state is told.
        (pieces == 1).then(|| agents[299].drifts(1));
    }
    assert!(pieces > 4, "{pieces} pieces");
    let told = text.lines().filter_map(|line| line.strip_prefix("event: "));
    // That the commit came into force may be told by now, or have been told before.
    let told: Vec<&str> = told.filter(|kind| *kind != "source").collect();
    assert_eq!(told, [vec!["agent"; 300], vec!["event"]].concat(), "events come last");
    let drifted = text.lines().filter(|line| line.contains(r#""status":"drifted""#));
    assert_eq!(drifted.count(), 1);
}

#[tokio::test]
async fn who_missed_too_much_is_told_to_begin_anew() {
    let server = Server::start(Setup::default()).await;
    let first = server.record("first");
    // The server's own ring holds a thousand; the agents' come on top.
    for number in 0..2000 {
        let mut event = Event::new(EventKind::AgentConnected, Timestamp(0));
        event.agent = Some(AgentName::new(format!("a{}", number % 50)).expect("name"));
        server.app.events.record(event);
    }
    let mut stream = Stream::open(&server, Some(first)).await;
    let message = stream.next().await.expect("a message");
    assert_eq!(message.event, "lagged");
    let newest = message.id.map(EventId);
    assert_eq!(newest, Some(server.app.events.last_id()));
    assert!(stream.next().await.is_none(), "and the stream ends");

    let mut stream = Stream::open(&server, newest).await;
    server.record("new");
    assert_eq!(stream.outputs(1).await, ["new"]);
}

#[tokio::test]
async fn a_reader_that_falls_behind_is_told_so_and_dropped() {
    let server = Server::start(Setup::default()).await;
    let mut stream = Stream::open(&server, None).await;
    // More than is kept, and than the sockets in between hold.
    let text = "x".repeat(60_000);
    for _ in 0..2 * BACKLOG / text.len() {
        server.record(&text);
        // Its reader sleeps; the hub does not.
        server.app.0.hub.reaches(server.app.events.last_id()).await;
    }
    let mut last = None;
    while let Some(message) = stream.next().await {
        last = Some(message);
    }
    let last = last.expect("a message");
    assert_eq!((&*last.event, last.id.map(EventId)), ("lagged", Some(server.app.events.last_id())));
    wait_for_streams(&server, 0).await;
}

#[tokio::test]
async fn a_hub_that_falls_behind_catches_up_and_nobody_notices() {
    let server = Server::start(Setup { backlog: 8, ..Setup::default() }).await;
    let mut stream = Stream::open(&server, None).await;
    let _agent = server.agent("web-01");
    server.app.changes.tell(Change::Agent(AgentName::new("web-01").expect("name")));
    // On one thread the hub hears of none of them in between.
    for number in 0..100 {
        server.record(&number.to_string());
    }
    let (mut outputs, mut agents) = (Vec::new(), Vec::new());
    while outputs.len() < 100 || agents.is_empty() {
        let message = stream.next().await.expect("another message");
        match &*message.event {
            "event" => outputs.push(message.data["output"].as_str().expect("text").to_string()),
            "agent" => agents.push(message.data["name"].clone()),
            "source" => {}
            other => panic!("{other}: {}", message.data),
        }
    }
    let all: Vec<String> = (0..100).map(|number: u32| number.to_string()).collect();
    assert_eq!(outputs, all);
    assert_eq!(agents, ["web-01"]);
}

#[tokio::test]
async fn who_was_away_while_the_server_was_started_anew_begins_anew() {
    let server = Server::start(Setup::default()).await;
    let future = server.app.events.last_id().0 + 1_000_000_000_000_000;
    let mut stream = Stream::open(&server, Some(EventId(future))).await;
    assert_eq!(stream.next().await.map(|message| message.event), Some("lagged".into()));
    assert!(stream.next().await.is_none(), "and the stream ends");
}

#[tokio::test]
async fn an_id_of_a_former_life_is_known_as_such_whether_or_not_its_events_are_kept() {
    let store = || Arc::new(MemoryStore::new(MemoryBounds::default()));
    let kept = store();
    for (before, after) in [(store(), store()), (kept.clone(), kept)] {
        let server = Server::start_on(Setup::default(), before).await;
        let last = server.record("before");
        server.app.events.flush(Duration::from_secs(30)).await;
        let server = Server::start_on(Setup::default(), after).await;
        server.record("after");
        let mut stream = Stream::open(&server, Some(last)).await;
        let message = stream.next().await.expect("a message");
        assert_eq!(message.event, "lagged", "{}", message.data);
    }
}

#[tokio::test]
async fn nobody_waits_for_events_that_only_a_store_that_came_late_knows_of() {
    let store = Remote::new(true);
    let mut old = Event::new(EventKind::AgentConnected, Timestamp(0));
    old.id = EventId(u64::MAX / 2);
    store.kept.append(&[Arc::new(old.clone())]).await.expect("memory takes everything");
    let server = Server::start_on(Setup::default(), store.clone()).await;
    let told = server.record("told");
    store.away.store(false, Ordering::SeqCst);
    server.app.events.flush(Duration::from_secs(30)).await;
    assert_eq!(server.app.events.last_id(), old.id, "the log goes on from there");

    let mut stream = Stream::open(&server, Some(old.id)).await;
    let message = stream.next().await.expect("a message");
    assert_eq!((&*message.event, message.id), ("lagged", Some(told.0)));
    let mut stream = Stream::open(&server, Some(told)).await;
    server.record("new");
    assert_eq!(stream.outputs(1).await, ["new"], "and the id that it gave is good");
}

#[tokio::test]
async fn a_burst_of_changes_is_told_first_and_last() {
    let server = Server::start(Setup::default()).await;
    server.commit("abc", &["certs"]);
    let mut stream = Stream::open(&server, None).await;
    let name = AgentName::new("web-01").expect("name");
    let mut agent = server.agent("web-01");
    server.app.changes.tell(Change::Agent(name.clone()));
    let first = stream.next().await.expect("a message");
    assert_eq!(first.data["status"], "unknown");
    for _ in 0..50 {
        server.app.changes.tell(Change::Agent(name.clone()));
    }
    agent.drifts(1);
    server.app.changes.tell(Change::Agent(name));
    let last = stream.next().await.expect("a message");
    assert_eq!(last.data["status"], "drifted");
    let rendered = server.app.0.hub.rendered();
    assert!(rendered <= 3, "52 changes made {rendered} messages");
}

#[tokio::test]
async fn two_hundred_listeners_cost_no_more_messages_than_one() {
    let server = Server::start(Setup::default()).await;
    let mut cost = Vec::new();
    for listeners in [1, 200] {
        let hub = &server.app.0.hub;
        let mut all: Vec<_> = (0..listeners).map(|_| hub.join(None, false).0).collect();
        let before = hub.rendered();
        for number in 0..100 {
            server.record(&number.to_string());
        }
        hub.reaches(server.app.events.last_id()).await;
        cost.push(hub.rendered() - before);
        for listening in &mut all {
            let mut heard = 0;
            while let At::Frame(frame) = listening.take() {
                let lines = frame.plain().split(|byte| *byte == b'\n');
                heard += lines.filter(|line| line.starts_with(b"id:")).count();
            }
            assert_eq!(heard, 100);
        }
    }
    assert_eq!(cost, [100, 100]);
    let before = server.app.0.hub.rendered();
    let last = server.record("nobody listens");
    server.app.0.hub.reaches(last).await;
    assert_eq!(server.app.0.hub.rendered(), before, "and for nobody nothing is rendered");
}

async fn wait_for_streams(server: &Server, open: usize) {
    while server.app.0.network.open_streams() != open {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn only_so_many_streams_are_open_and_a_closed_one_makes_room() {
    let server = Server::start(Setup::default()).await;
    let stream = Stream::open(&server, None).await;
    let rest = (MAX_STREAMS - 1) as u32;
    let _held =
        server.app.0.network.streams.clone().acquire_many_owned(rest).await.expect("places");
    let (status, why) = server.get("/api/v1/stream").await.problem();
    assert_eq!(status, 503, "{why}");

    drop(stream);
    wait_for_streams(&server, rest as usize).await;
    Stream::open(&server, None).await;
}

#[tokio::test]
async fn a_wrong_last_event_id_is_said() {
    let server = Server::start(Setup::default()).await;
    let request = server.client.get(server.at("/api/v1/stream")).header("last-event-id", "x");
    assert_eq!(Answer::of(request).await.problem().0, 400);
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let server = Server::start(Setup::default()).await;
    let mut stream = Stream::open(&server, None).await;
    server.record("last words");
    assert_eq!(stream.outputs(1).await, ["last words"]);
    server.stop.send_replace(true);
    assert!(stream.next().await.is_none());
    for serving in server.serving {
        serving.await.expect("ended");
    }
    assert!(!server.socket.exists(), "the socket's file is gone");
}
