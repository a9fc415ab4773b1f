//! Real streams to agents that a test plays, and what becomes of a session that goes wrong.

mod bounds;
mod commits;
mod services;

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use fluke_model::event::{Event, EventKind};
use fluke_model::id::{AgentName, CommitId, Hash256, InstanceId, StepAddress, TaskName};
use fluke_model::label::{Labels, Selector};
use fluke_model::message::{Holdings, NodeType};
use fluke_model::policy::Policy;
use fluke_model::secret::Secret;
use fluke_model::snapshot::{Compiler, Model};
use fluke_model::status::Status;
use fluke_model::task::{ExecutorSpec, Location, OnFailure, ShellSpec, Step, Task};
use fluke_model::time::Timestamp;
use fluke_wire::client::{ClientTls, Session as Stream, Target, connect};
use tokio::net::TcpListener;

use super::*;
use crate::changes::Changes;
use crate::events::memory::{MemoryBounds, MemoryStore};
use crate::events::{EventLog, EventSink, QueueBounds};
use crate::fleet::Fleet;
use crate::reconcile::{Request, What};
use crate::reconciles::Reconciles;
use crate::registry::Registry;
use crate::services::desk::Desk;
use crate::tls::Listener;
use crate::trust::{Grant, Trust};

/// Remembers everything, and fails when it is told to.
#[derive(Default)]
struct Sink {
    events: Mutex<Vec<Event>>,
    fails: AtomicBool,
}

impl EventSink for Sink {
    fn record(&self, event: Event) {
        if event.kind == EventKind::CheckFailed && self.fails.load(Ordering::SeqCst) {
            panic!("a test wants this");
        }
        self.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(event);
    }
}

struct Door {
    address: SocketAddr,
    registry: Arc<Registry>,
    sink: Arc<Sink>,
    desk: Desk,
    changes: Changes,
    desired: watch::Sender<Option<Arc<Desired>>>,
    _stopping: watch::Sender<bool>,
}

impl Door {
    async fn open() -> Self {
        let registry = Arc::new(Registry::default());
        let sink = Arc::<Sink>::default();
        let changes = Changes::default();
        let (desired, wanted) = watch::channel(None);
        let (stopping, stopped) = watch::channel(false);
        let reconciles = Arc::new(Reconciles::new(registry.clone(), sink.clone(), changes.clone()));
        let store = Arc::new(MemoryStore::new(MemoryBounds::default()));
        let (events, _) = EventLog::start(store, Changes::default(), QueueBounds::default()).await;
        let (open, _) = mpsc::channel(1);
        let desk = Desk::start(wanted, sink.clone(), changes.clone(), Clock::default());
        let fleet = Fleet {
            events,
            open,
            trust: Arc::new(Trust::new(vec![Grant::any("token")])),
            registry: registry.clone(),
            desk: desk.clone(),
            outlets: Outlets {
                events: sink.clone(),
                alerts: None,
                reconciles,
                changes: changes.clone(),
                meter: Arc::default(),
            },
            poll_interval: Duration::from_secs(3600),
            heartbeat: Duration::from_secs(60),
            stopping: stopped,
            clock: Clock::default(),
        };
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("bound");
        let incoming = Listener::plain(tcp).into_agents();
        tokio::spawn(fluke_wire::server::serve(
            Arc::new(fleet),
            incoming,
            std::future::pending::<()>(),
        ));
        Self { address, registry, sink, desk, changes, desired, _stopping: stopping }
    }

    async fn join(&self, name: &str) -> Stream {
        self.join_as(name, NodeType::Worker, None).await
    }

    async fn join_as(&self, name: &str, node_type: NodeType, snapshot: Option<Hash256>) -> Stream {
        self.join_with(name, node_type, snapshot, Holdings::default()).await
    }

    async fn join_with(
        &self,
        name: &str,
        node_type: NodeType,
        snapshot: Option<Hash256>,
        tables: Holdings,
    ) -> Stream {
        let target = Target {
            url: format!("grpc://{}", self.address).parse().expect("an address"),
            token: Secret::new("token"),
            tls: ClientTls::default(),
        };
        let hello = Hello {
            name: AgentName::new(name).expect("a name"),
            labels: Labels([Labels::parse_pair(&format!("host={name}")).expect("a label")].into()),
            version: "0".into(),
            executors: ["shell", "container", "dns", "routes", "mesh"].map(Into::into).into(),
            node_type,
            snapshot,
            instance: InstanceId(1),
            previous: None,
            tables,
        };
        connect(&target, hello).await.expect("let in")
    }

    /// Tasks, each for one host and of so many steps.
    fn commit(&self, id: &str, tasks: &[(&str, &str, usize)]) {
        let tasks = tasks.iter().map(|(name, host, steps)| {
            let task = task(name, host, *steps);
            (task.name.clone(), Arc::new(task))
        });
        self.put_in_force(id, Model { tasks: tasks.collect(), ..Model::default() });
    }

    fn put_in_force(&self, id: &str, model: Model) {
        let compiler = match &*self.desired.borrow() {
            Some(before) => before.compiler.follow(&model),
            None => Compiler::new(&model, Policy::Remediate),
        };
        let (commit, since) = (CommitId::new(id), Timestamp(1));
        self.desired.send_replace(Some(Arc::new(Desired::new(commit, since, model, compiler))));
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let told = || self.told();
        tokio::time::timeout(Duration::from_secs(60), waiting)
            .await
            .unwrap_or_else(|_| panic!("never {what}: {:?}", told()));
    }

    fn told(&self) -> Vec<(&'static str, Option<String>)> {
        let events = self.sink.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        events.iter().map(|event| (event.kind.as_str(), event.output.clone())).collect()
    }

    fn agent(&self, name: &str) -> fluke_model::api::Agent {
        self.registry.agent(name).expect("known").agent
    }
}

fn task(name: &str, host: &str, steps: usize) -> Task {
    let label = Labels::parse_pair(&format!("host={host}")).expect("a label");
    Task {
        name: TaskName::new(name).expect("a name"),
        description: None,
        policy: None,
        selector: Selector { match_labels: [label].into(), ..Selector::default() },
        steps: (0..steps).map(step).collect(),
        defined: Location { file: "a.fluke.hcl".into(), line: 1 },
    }
}

fn step(number: usize) -> Step {
    Step {
        address: StepAddress::new("shell", &format!("s{number}")).expect("an address"),
        on_failure: OnFailure::Abort,
        timeout: None,
        spec: ExecutorSpec::Shell(ShellSpec {
            check: "true".into(),
            command: "true".into(),
            working_dir: None,
            run_as: None,
            env: Default::default(),
        }),
    }
}

/// The kinds of the next so many messages.
async fn hears(stream: &mut Stream, count: usize) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    while kinds.len() < count {
        let message = stream.incoming.next().await.expect("open").expect("a message");
        kinds.push(match message {
            ToAgent::Snapshot { .. } => "snapshot",
            ToAgent::Check { .. } => "check",
            ToAgent::Heartbeat => continue,
            _ => "another",
        });
    }
    kinds
}

/// One task with more steps than any agent takes.
fn too_large(host: &str) -> Vec<(&'static str, &str, usize)> {
    vec![("big", host, fluke_wire::MAX_STEPS + 1)]
}

#[tokio::test]
async fn a_snapshot_that_is_too_large_is_an_error_of_its_host_alone() {
    let door = Door::open().await;
    let (mut big, mut small) = (door.join("big").await, door.join("small").await);
    let mut tasks = too_large("big");
    tasks.push(("fits", "small", 1));
    door.commit("aaa", &tasks);
    assert_eq!(hears(&mut small, 2).await, ["snapshot", "check"]);
    door.until("told", |door| door.agent("big").status == Status::Failed).await;
    let agent = door.agent("big");
    let error = agent.error.expect("an error");
    assert!(error.contains("too large for an agent") && error.contains("match fewer"), "{error}");
    assert!(agent.connected, "the session stays");
    assert!(door.told().contains(&("check_failed", Some(error))), "{:?}", door.told());
    assert_eq!(door.agent("small").error, None);

    let request = Request { id: "r".into(), by: "eve".into(), what: What::Host };
    door.registry.order("big", request).expect("taken");
    // It comes back, and is not sent what it cannot be sent.
    drop(big);
    door.until("it is gone", |door| !door.agent("big").connected).await;
    big = door.join("big").await;
    door.until("it is back", |door| door.agent("big").connected).await;
    assert_eq!(door.agent("big").status, Status::Failed);

    door.commit("bbb", &[("fits", "big", 1)]);
    assert_eq!(hears(&mut big, 2).await, ["snapshot", "check"]);
    assert_eq!(door.agent("big").error, None);
    let told = door.told();
    assert!(told.iter().any(|(kind, _)| *kind == "check_recovered"), "{told:?}");
}

#[tokio::test]
async fn an_agent_whose_session_panics_is_known_to_be_gone_and_can_come_back() {
    let door = Door::open().await;
    let mut stream = door.join("web-1").await;
    let mut other = door.join("web-2").await;
    door.until("both are there", |door| {
        ["web-1", "web-2"].iter().all(|name| door.registry.agent(name).is_some())
    })
    .await;
    door.sink.fails.store(true, Ordering::SeqCst);
    door.commit("aaa", &too_large("web-1"));
    // No clean end: that would mean "come back at once".
    let ended = loop {
        match stream.incoming.next().await {
            Ok(message) => assert_eq!(message, Some(ToAgent::Heartbeat)),
            Err(error) => break error,
        }
    };
    assert!(!ended.is_restart());
    let why = ended.to_string();
    assert!(why.contains("the server failed on this agent"), "{why}");
    door.until("it is gone", |door| !door.agent("web-1").connected).await;
    assert_eq!(door.agent("web-1").status, Status::Offline);
    assert!(door.agent("web-2").connected, "the other one is not concerned");

    door.sink.fails.store(false, Ordering::SeqCst);
    door.commit("bbb", &[("a", "web-1", 1), ("b", "web-2", 1)]);
    let mut stream = door.join("web-1").await;
    assert_eq!(hears(&mut stream, 2).await, ["snapshot", "check"]);
    // Of the commit before it may have heard, too, that nothing in it is for it.
    while hears(&mut other, 1).await != ["check"] {}
}
