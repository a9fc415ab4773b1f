//! Whatever changes, and however often a client loses its connection: it ends with the picture
//! that the API gives.

use std::collections::BTreeMap;

use fluke_model::event::EventId;
use proptest::prelude::*;
use serde_json::Value;

use super::stream::Stream;
use super::*;
use crate::changes::Change;

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// A client that has not caught up by then never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    Connects(u8),
    Drifts(u8),
    Leaves(u8),
    /// Everybody who is away is forgotten.
    Forgotten,
    Committed,
    Happens,
    /// The client reads so many messages.
    Reads(u8),
    /// The client loses its connection.
    Drops,
    /// Another server takes the place of this one, and knows nothing of before.
    Restarts,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8).prop_map(Step::Connects),
        4 => (0..6u8).prop_map(Step::Drifts),
        2 => (0..6u8).prop_map(Step::Leaves),
        1 => Just(Step::Forgotten),
        1 => Just(Step::Committed),
        3 => Just(Step::Happens),
        4 => (1..4u8).prop_map(Step::Reads),
        4 => Just(Step::Drops),
        1 => Just(Step::Restarts),
    ]
}

/// What a client knows.
#[derive(Default)]
struct Client {
    stream: Option<Stream>,
    last: Option<EventId>,
    agents: BTreeMap<String, Value>,
    source: Value,
    events: Vec<u64>,
}

impl Client {
    async fn connect(&mut self, server: &Server) {
        if self.stream.is_some() {
            return;
        }
        let stream = Stream::open(server, self.last).await;
        if self.last.is_none() {
            self.agents = agents(server).await;
            self.source = server.get("/api/v1/source").await.json();
        }
        self.stream = Some(stream);
    }

    /// Takes the next message, if one comes.
    async fn read(&mut self, server: &Server) {
        self.connect(server).await;
        let Some(stream) = &mut self.stream else { return };
        // A message may never come; the connection may be cut in the middle of one.
        let next = tokio::time::timeout(Duration::from_millis(20), stream.next()).await;
        let Ok(next) = next else { return };
        if let Some(opened) = stream.opened {
            self.last.get_or_insert(EventId(opened));
        }
        let Some(message) = next else {
            self.stream = None;
            return;
        };
        if let Some(id) = message.id {
            self.last = Some(EventId(id));
        }
        match &*message.event {
            "agent" => {
                let name = message.data["name"].as_str().expect("a name").to_string();
                match message.data["gone"].as_bool() {
                    Some(true) => self.agents.remove(&name),
                    _ => self.agents.insert(name, message.data),
                };
            }
            "source" => self.source = message.data,
            "event" => self.events.extend(message.id),
            "lagged" => *self = Self::default(),
            other => panic!("{other}"),
        }
    }

    fn drops(&mut self) {
        self.stream = None;
    }
}

async fn agents(server: &Server) -> BTreeMap<String, Value> {
    let list = server.get("/api/v1/agents").await.json();
    let agents = list["agents"].as_array().expect("a list").clone();
    let named = |agent: Value| (agent["name"].as_str().expect("a name").to_string(), agent);
    agents.into_iter().map(named).collect()
}

/// The fleet that it is about.
struct Fleet {
    server: Server,
    agents: BTreeMap<u8, Agent>,
    weeks: u32,
    commits: u32,
}

impl Fleet {
    async fn new() -> Self {
        let server = Server::start(Setup::default()).await;
        server.commit("abc", &["certs"]);
        Self { server, agents: BTreeMap::new(), weeks: 0, commits: 0 }
    }

    fn tell(&self, agent: u8) {
        let name = AgentName::new(format!("a{agent}")).expect("a name");
        self.server.app.changes.tell(Change::Agent(name));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Connects(agent) => {
                if !self.agents.contains_key(agent) {
                    self.agents.insert(*agent, self.server.agent(&format!("a{agent}")));
                    self.tell(*agent);
                }
            }
            Step::Drifts(agent) => {
                if let Some(known) = self.agents.get_mut(agent) {
                    known.drifts(1);
                    self.tell(*agent);
                }
            }
            Step::Leaves(agent) => {
                if let Some(mut gone) = self.agents.remove(agent) {
                    gone.step(Input::Disconnected { why: "gone".into() });
                    self.tell(*agent);
                }
            }
            Step::Forgotten => {
                self.weeks += 2;
                let now = Clock::default().read();
                let later = Now { instant: now.instant + WEEK * self.weeks, ..now };
                let mut keeper = self.server.agent_at("keeper", later);
                keeper.step(Input::Disconnected { why: "has looked".into() });
                let name = AgentName::new("keeper").expect("a name");
                self.server.app.changes.tell(Change::Agent(name));
            }
            Step::Committed => {
                self.commits += 1;
                let commit = CommitId::new(format!("c{}", self.commits));
                self.server.source.send_modify(|source| source.last_seen = Some(commit));
                self.server.app.changes.tell(Change::Source);
            }
            Step::Happens => drop(self.server.record("something")),
            Step::Reads(_) | Step::Drops | Step::Restarts => {}
        }
    }
}

async fn ends_with_the_same_picture(steps: &[Step]) {
    let mut fleet = Fleet::new().await;
    let mut client = Client::default();
    for step in steps {
        fleet.step(step);
        match step {
            Step::Reads(count) => {
                for _ in 0..*count {
                    client.read(&fleet.server).await;
                }
            }
            Step::Drops => client.drops(),
            Step::Restarts => {
                client.drops();
                fleet = Fleet::new().await;
            }
            // The hub gets its turn.
            _ => tokio::task::yield_now().await,
        }
    }
    let began = std::time::Instant::now();
    loop {
        client.read(&fleet.server).await;
        let known = agents(&fleet.server).await;
        let source = fleet.server.get("/api/v1/source").await.json();
        if client.agents == known && client.source == source {
            break;
        }
        let late = began.elapsed() > PATIENCE;
        assert!(!late, "{steps:?}\nknows {:#?}\nand not {known:#?}", client.agents);
    }
    let mut sorted = client.events.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(client.events, sorted, "each event once, and in order");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        // A case that fails takes as long as patience does.
        max_shrink_time: 60_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_client_that_resumes_ends_with_the_picture_of_one_that_begins_anew(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(ends_with_the_same_picture(&steps));
    }
}
