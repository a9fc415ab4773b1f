//! A real server on loopback and on a local socket, and a real client.

mod api;
mod intrusion;
mod limits;
mod lists;
mod metrics;
mod pages;
mod resume;
mod routes;
mod sign_in;
mod stream;
mod unread;

use std::sync::atomic::{AtomicUsize, Ordering};

use fluke_model::api::Source;
use fluke_model::event::{Event, EventKind};
use fluke_model::id::{AgentName, CommitId, InstanceId, SessionId, StepAddress, TaskName};
use fluke_model::label::{Labels, Selector};
use fluke_model::message::{Checked, Hello, Holdings, NodeType, StepReport, ToAgent, ToServer};
use fluke_model::snapshot::{Compiler, Model, StepIndex};
use fluke_model::task::{ExecutorSpec, Location, OnFailure, ShellSpec, Step, Task};
use fluke_model::time::Timestamp;
use fluke_model::verdict::{Drift, Verdict};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::clock::Clock;
use crate::events::memory::{MemoryBounds, MemoryStore};
use crate::events::{EventSink, EventStore, QueueBounds};
use crate::reconcile::{Effect, Input, Now, Wanted};
use crate::registry::Seat;

const POLL: Duration = Duration::from_secs(60);
const SESSION: SessionId = SessionId(7);

/// A server with everything behind it that is real, and no repository.
struct Server {
    app: App,
    desired: watch::Sender<Option<Arc<Desired>>>,
    source: watch::Sender<Source>,
    polls: Arc<AtomicUsize>,
    url: String,
    socket: std::path::PathBuf,
    /// Over TCP; making one is slow, as it reads the system's certificates.
    client: reqwest::Client,
    /// Through the local socket.
    local: reqwest::Client,
    stop: watch::Sender<bool>,
    serving: Vec<JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

/// How a [`Server`] differs from others.
struct Setup {
    tokens: &'static [&'static str],
    secret: Option<&'static str>,
    backlog: usize,
    /// Of the first wrong token.
    first_wait: Duration,
    /// Whether drift is told to somebody; nobody is at home there.
    alerts: bool,
    /// That lead here, besides the host's own.
    names: &'static [&'static str],
    patience: Patience,
}

impl Default for Setup {
    fn default() -> Self {
        let backlog = crate::changes::BACKLOG;
        let first_wait = Duration::from_millis(1);
        let patience = Patience::USUAL;
        Self { tokens: &[], secret: None, backlog, first_wait, alerts: false, names: &[], patience }
    }
}

impl Server {
    async fn start(setup: Setup) -> Self {
        Self::start_on(setup, Arc::new(MemoryStore::new(MemoryBounds::default()))).await
    }

    /// One whose events are kept there.
    async fn start_on(setup: Setup, store: Arc<dyn EventStore>) -> Self {
        let changes = Changes::with_backlog(setup.backlog);
        let (events, _) = EventLog::start(store, changes.clone(), QueueBounds::default()).await;
        let alerter = setup.alerts.then(|| {
            let nowhere = crate::alert::AlertSettings::new("http://127.0.0.1:1/");
            Arc::new(Alerter::start(nowhere, events.clone()).expect("an alerter"))
        });
        let registry = Arc::new(Registry::telling(changes.clone()));
        let (desired, _) = watch::channel(None);
        let (source, _) = watch::channel(unread());
        let polls = Arc::new(AtomicUsize::new(0));
        let app = App::new(Parts {
            reconciles: Arc::new(Reconciles::new(
                registry.clone(),
                events.clone(),
                changes.clone(),
            )),
            registry,
            desired: desired.subscribe(),
            desk: Desk::start(
                desired.subscribe(),
                events.clone(),
                changes.clone(),
                Clock::default(),
            ),
            source: source.subscribe(),
            pushed: {
                let polls = polls.clone();
                Arc::new(move |push: &Push| {
                    let tracked = push.branch == "main";
                    polls.fetch_add(usize::from(tracked), Ordering::SeqCst);
                    tracked
                })
            },
            events,
            changes,
            alerter,
            api_tokens: Arc::new(ApiTokens::new(setup.tokens)),
            strikes: Strikes::starting_at(setup.first_wait),
            webhook_secret: setup.secret.map(Into::into),
            default_policy: Policy::AlertOnly,
            meter: Arc::default(),
            polls: Arc::default(),
            place: Place {
                socket: Some("/run/fluke/fluke.sock".into()),
                names: setup.names.iter().map(ToString::to_string).collect(),
                ..Place::default()
            },
            patience: setup.patience,
        });

        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("fluke.sock");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let stop = watch::Sender::new(false);
        let stopped = || {
            let mut stop = stop.subscribe();
            async move {
                let _ = stop.wait_for(|stop| *stop).await;
            }
        };
        let listening = LocalSocket::bind(&socket).await.expect("binds");
        let serving = vec![
            tokio::spawn(serve_http(app.clone(), listener, stopped())),
            tokio::spawn(serve_socket(app.clone(), listening, stopped())),
        ];
        let client = builder().build().expect("a client");
        let local = builder().unix_socket(socket.as_path()).build().expect("a client");
        Self { app, desired, source, polls, url, socket, client, local, stop, serving, _dir: dir }
    }

    /// Tasks `names` come into force, each for every host, each with one step.
    fn commit(&self, id: &str, names: &[&str]) {
        let tasks = names.iter().map(|name| task(name));
        self.put_in_force(
            id,
            Model {
                tasks: tasks.map(|task| (task.name.clone(), Arc::new(task))).collect(),
                ..Model::default()
            },
        );
    }

    fn put_in_force(&self, id: &str, model: Model) {
        let compiler = Compiler::new(&model, Policy::AlertOnly);
        let (commit, since) = (CommitId::new(id), Timestamp(1_700_000_000_000));
        self.source.send_modify(|source| {
            source.commit = Some(commit.clone());
            source.commit_since = Some(since);
            source.last_poll = Some(since);
        });
        self.desired.send_replace(Some(Arc::new(Desired::new(commit, since, model, compiler))));
    }

    fn agent(&self, name: &str) -> Agent {
        self.agent_at(name, Clock::default().read())
    }

    /// An agent that connects at another time than now.
    fn agent_at(&self, name: &str, now: Now) -> Agent {
        let hello = Hello {
            name: AgentName::new(name).expect("name"),
            labels: Labels([Labels::parse_pair("role=web").expect("label")].into()),
            version: "0.1.0".into(),
            executors: vec!["shell".into(), "container".into()],
            node_type: NodeType::Worker,
            snapshot: None,
            instance: InstanceId(1),
            previous: None,
            tables: Holdings::default(),
        };
        let registry = &self.app.registry;
        let claimed = registry.claim(&hello, SESSION, None, |_| true, POLL, now);
        let (seat, nudged) = claimed.expect("a free name");
        let wanted = self.desired.borrow().as_ref().map(|desired| Wanted {
            commit: desired.commit.clone(),
            snapshot: desired.compiler.snapshot(&hello.labels),
        });
        let mut agent = Agent { seat, nudged, last_check: None };
        agent.step(Input::Connected { hello, session: SESSION, wanted });
        agent
    }

    fn record(&self, text: &str) -> fluke_model::event::EventId {
        let mut event = Event::new(EventKind::CommitAccepted, Timestamp(0));
        event.output = Some(text.into());
        self.app.events.record(event);
        self.app.events.last_id()
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Over TCP.
    async fn get(&self, path: &str) -> Answer {
        Answer::of(self.client.get(self.at(path))).await
    }

    /// As the form would send it.
    async fn send_form(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.client.post(self.at(path)).body(body);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let add = |request: reqwest::RequestBuilder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        Answer::of(headers.iter().fold(request, add)).await
    }

    /// Signs in as a person would; gives back the cookie.
    async fn sign_in(&self, token: &str, name: &str) -> String {
        let form = [("token", token), ("name", name), ("next", "/drift")];
        let answer = self.send_form("/sign-in", &form, &[("origin", &self.url)]).await;
        assert_eq!((answer.status, &*answer.text), (303, ""));
        answer.cookie().expect("a cookie")
    }

    async fn post(&self, path: &str, body: serde_json::Value) -> Answer {
        Answer::of(self.client.post(self.at(path)).json(&body)).await
    }
}

/// An agent that says what it is told to.
struct Agent {
    seat: Arc<Seat>,
    nudged: mpsc::Receiver<()>,
    last_check: Option<ToAgent>,
}

impl Agent {
    fn step(&mut self, input: Input) {
        let (effects, _) =
            self.seat.step(SESSION, input, None, Clock::default().read()).expect("still seated");
        for effect in effects {
            if let Effect::Send(check @ ToAgent::Check { .. }) = effect {
                self.last_check = Some(check);
            }
        }
    }

    /// Answers its check: every step has drifted.
    fn drifts(&mut self, steps: u32) {
        let Some(ToAgent::Check { instruction, snapshot, .. }) = self.last_check.clone() else {
            panic!("no check was asked for");
        };
        let drifted = |step| StepReport {
            step: StepIndex(step),
            verdict: Verdict::Drifted(Drift::because("not so")),
        };
        let changes = (0..steps).map(drifted).collect();
        let checked = Checked { instruction, snapshot, changes, checked: steps };
        self.step(Input::Message(ToServer::Checked(checked)));
    }
}

/// What came back.
struct Answer {
    status: u16,
    headers: http::HeaderMap,
    text: String,
}

impl Answer {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, text: response.text().await.expect("a body") }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// What a browser would send from now on.
    fn cookie(&self) -> Option<String> {
        let cookie = self.headers.get("set-cookie")?.to_str().expect("text");
        Some(cookie.split(';').next().unwrap_or_default().to_string())
    }

    /// A problem's status, and what it says.
    fn problem(&self) -> (u16, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{}", self.text);
        let json = self.json();
        assert_eq!(json["status"], self.status);
        assert!(json["type"].as_str().is_some_and(|it| it.starts_with("urn:fluke:problem:")));
        assert!(json["instance"].as_str().is_some_and(|it| it.starts_with('/')), "{json}");
        assert!(json["title"].is_string(), "{json}");
        (self.status, json["detail"].as_str().expect("a detail").to_string())
    }
}

fn builder() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none())
}

fn unread() -> Source {
    Source {
        url: "https://git.example/infra.git".into(),
        branch: Some("main".into()),
        commit: None,
        commit_since: None,
        last_seen: None,
        rejected: false,
        diagnostics: vec![],
        last_poll: None,
        next_poll: None,
        error: None,
    }
}

fn task(name: &str) -> Task {
    let spec = ShellSpec {
        check: "true".into(),
        command: "true".into(),
        working_dir: None,
        run_as: None,
        env: Default::default(),
    };
    Task {
        name: TaskName::new(name).expect("name"),
        description: Some("For a test".into()),
        policy: None,
        selector: Selector::default(),
        steps: [Step {
            address: StepAddress::new("shell", "only").expect("address"),
            on_failure: OnFailure::Abort,
            timeout: None,
            spec: ExecutorSpec::Shell(spec),
        }]
        .into(),
        defined: Location { file: "web.fluke.hcl".into(), line: 12 },
    }
}
