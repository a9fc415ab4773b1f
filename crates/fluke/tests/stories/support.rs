//! A fleet for stories: a real server, real agents, real Git and real gRPC on loopback, and hosts
//! that are folders. Stories wait for states, never for durations.

mod alerts;
mod host;
pub mod program;
pub mod terminal;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::api;
use fluke_model::event::{Event, EventKind};
use fluke_model::id::CommitId;
use fluke_model::policy::Policy;
use fluke_model::secret::Secret;
use fluke_model::status::{Status, StepStatus};
use fluke_model::time::Timestamp;
use fluke_server::events::EventQuery;
use fluke_server::git::{Branch, GitConfig, RemoteUrl};
use fluke_server::server::{HEARTBEAT, History, Server, Settings, StartError, TlsSettings};
use fluke_server::source::SourceConfig;
use fluke_server::trust::Grant;
use tempfile::TempDir;
use tokio::runtime::Handle;

pub use alerts::AlertReceiver;
pub use fluke_bed::Repository;
pub use host::Host;

/// The token that every agent of a story has.
pub const TOKEN: &str = "a-token-for-stories";
/// What pushes are signed with.
const WEBHOOK_SECRET: &str = "a-secret-for-pushes";
/// Longer than anything may take on a busy machine; a story that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often agents are checked where the story is not about polling.
const SELDOM: Duration = Duration::from_secs(3600);

/// What a story wants to be different.
pub struct Options {
    pub poll_interval: Duration,
    pub default_policy: Policy,
    pub alert_webhook: Option<String>,
    pub grants: Vec<Grant>,
    pub api_tokens: Vec<Secret>,
    pub heartbeat: Duration,
    pub history: History,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            poll_interval: SELDOM,
            default_policy: Policy::Remediate,
            alert_webhook: None,
            grants: vec![Grant::any(TOKEN)],
            api_tokens: Vec::new(),
            heartbeat: HEARTBEAT,
            history: History::Memory { max_events_per_agent: 10_000 },
        }
    }
}

/// A server with its repository, and the folder that everything is in.
pub struct Fleet {
    pub repository: Repository,
    folder: TempDir,
    options: Options,
    /// The ports of the first start, kept over restarts.
    addresses: Option<(String, String)>,
    server: Option<Server>,
}

impl Fleet {
    /// A server on an empty repository.
    pub async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let repository = Repository::new(folder.path().join("repository"));
        repository.commit("begin", &[("README.md", "what hosts should be\n")]);
        let mut fleet = Self { repository, folder, options, addresses: None, server: None };
        fleet.start_server().await;
        fleet
    }

    pub async fn start_server(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let server = loop {
            match Server::start(self.settings()).await {
                Ok(server) => break server,
                // A process that another story has just forked holds the port until it execs.
                Err(StartError::Listen { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("the server does not start: {error}"),
            }
        };
        self.addresses = Some((server.grpc.to_string(), server.http.to_string()));
        self.server = Some(server);
    }

    pub async fn stop_server(&mut self) {
        self.server.take().expect("a server").stop().await;
    }

    fn settings(&self) -> Settings {
        let path = self.folder.path();
        let url = self.repository.path().display().to_string();
        let git = GitConfig::new(
            RemoteUrl::parse(&url).expect("a url"),
            Branch::parse("main").expect("a branch"),
            path.join("cache"),
        );
        let (grpc, http) =
            self.addresses.clone().unwrap_or_else(|| ("127.0.0.1:0".into(), "127.0.0.1:0".into()));
        Settings {
            listen_grpc: vec![grpc],
            listen_http: vec![http],
            socket: Some(self.socket()),
            grants: self.options.grants.clone(),
            api_tokens: self.options.api_tokens.clone(),
            http_names: Vec::new(),
            source: SourceConfig::Git {
                git: Box::new(git),
                poll_interval: self.options.poll_interval,
            },
            manifest_glob: "**/*.fluke.hcl".into(),
            poll_interval: self.options.poll_interval,
            webhook_secret: Some(Secret::new(WEBHOOK_SECRET)),
            default_policy: self.options.default_policy,
            alert_webhook: self.options.alert_webhook.clone().map(Secret::new),
            history: self.options.history.clone(),
            tls: TlsSettings::Off,
            heartbeat: self.options.heartbeat,
            http_runtime: Handle::current(),
        }
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("the server runs")
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("fluke.sock")
    }

    /// A host of that name and those labels, whose agent has connected.
    pub async fn join(&self, name: &str, labels: &str) -> Host {
        let host = self.host(name, labels);
        self.until("the agent is connected", |fleet| fleet.agent(name).connected).await;
        host
    }

    /// The same, without waiting for anything.
    pub fn host(&self, name: &str, labels: &str) -> Host {
        let folder = self.folder.path().join("hosts").join(name);
        Host::start(name, labels, TOKEN, self.server().grpc, folder)
    }

    /// Where the files of a host are; manifests name it as a whole.
    pub fn root(&self, name: &str) -> String {
        self.folder.path().join("hosts").join(name).join("root").display().to_string()
    }

    /// Commits one manifest and pushes it: the forge tells the server.
    pub async fn commit(&self, message: &str, manifest: &str) -> CommitId {
        self.commit_files(message, &[("tasks.fluke.hcl", manifest)]).await
    }

    pub async fn commit_files(&self, message: &str, files: &[(&str, &str)]) -> CommitId {
        let commit = self.repository.commit(message, files);
        self.push(&commit).await;
        commit
    }

    /// A service that its hosts should run, who know of it from now on.
    pub async fn commit_service(&self, name: &str, hosts: &[&str]) {
        let manifest = format!(
            "service \"{name}\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n  image = \"registry.example/{name}:1\"\n}}\n"
        );
        self.commit_files("a service", &[("services.fluke.hcl", &manifest)]).await;
        let newest = Some(self.repository.head());
        let knows = |fleet: &Self, host: &&str| {
            fleet.server().registry.view(host).is_some_and(|agent| agent.commit == newest)
        };
        let what = format!("hosts are held to {name}");
        self.until(&what, |fleet| hosts.iter().all(|host| knows(fleet, host))).await;
    }

    /// What a forge sends after a push.
    pub async fn push(&self, commit: &CommitId) {
        let url = format!("http://{}/webhooks/git", self.server().http);
        let body = serde_json::json!({ "ref": "refs/heads/main", "after": commit.as_str() });
        let answer = reqwest::Client::builder()
            .tls_backend_preconfigured(no_tls())
            .build()
            .expect("a client")
            .post(url)
            .header("X-Gitlab-Event", "Push Hook")
            .header("X-Gitlab-Token", WEBHOOK_SECRET)
            .json(&body)
            .send()
            .await
            .expect("the server answers");
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
    }

    /// Waits until what is newest in Git was judged, and every connected agent stands still.
    pub async fn settles(&self) {
        let newest = self.repository.head();
        self.until("the fleet has settled", |fleet| {
            let source = fleet.source();
            let judged = source.last_seen.as_ref() == Some(&newest);
            let in_force = source.commit.is_some() || source.rejected;
            let still = fleet.agents().iter().filter(|agent| agent.connected).all(|agent| {
                agent.commit == source.commit
                    && !matches!(agent.status, Status::Unknown | Status::Applying)
            });
            judged && in_force && still
        })
        .await;
    }

    /// Waits for a state, woken by every change.
    pub async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let mut changes = self.server().changes.listen();
        let waiting = async {
            while !holds(self) {
                // Woken by changes; the pause is for states that are told by none.
                let _ = tokio::time::timeout(Duration::from_millis(200), changes.recv()).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("waited in vain until {what}\n{}", self.told().await);
        }
    }

    pub fn source(&self) -> api::Source {
        self.server().source.status.borrow().clone()
    }

    pub fn agents(&self) -> Vec<api::Agent> {
        self.server().registry.agents()
    }

    /// One agent; one that was never seen is shown as not connected.
    pub fn agent(&self, name: &str) -> AgentView {
        let detail = self.server().registry.agent(name);
        let connected = detail.as_ref().is_some_and(|detail| detail.agent.connected);
        AgentView { connected, detail }
    }

    /// All events of these kinds, oldest first.
    pub async fn events(&self, kinds: &[EventKind]) -> Vec<Arc<Event>> {
        let query = EventQuery { limit: 10_000, ..EventQuery::default() };
        let mut events = self.server().events.recent(&query).await.events;
        events.retain(|event| kinds.is_empty() || kinds.contains(&event.kind));
        events.reverse();
        events
    }

    /// The story so far, a line an event: `web-1 certs/shell.renew apply_finished success manual`.
    pub async fn told(&self) -> String {
        self.events(&[]).await.iter().map(|event| line(event) + "\n").collect()
    }

    /// How often a step was applied so far.
    pub async fn applies(&self, agent: &str) -> usize {
        let of =
            |event: &&Arc<Event>| event.agent.as_ref().is_some_and(|name| name.as_str() == agent);
        self.events(&[EventKind::ApplyStarted]).await.iter().filter(of).count()
    }

    /// When the agent's steps were last checked.
    pub fn last_checked(&self, agent: &str) -> Option<Timestamp> {
        let detail = self.server().registry.agent(agent)?;
        let steps = detail.task_details.iter().flat_map(|task| &task.steps);
        steps.filter_map(|step| step.last_checked).min()
    }

    /// Runs the real program against this server.
    pub async fn fluke(&self, arguments: &[&str]) -> Told {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fluke"));
        command.args(arguments).env("FLUKE_SERVER", format!("unix://{}", self.socket().display()));
        command.stdin(std::process::Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output());
        let output = output.await.expect("fluke ends").expect("fluke runs");
        Told {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Told {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// What the server knows of one agent.
pub struct AgentView {
    pub connected: bool,
    detail: Option<api::AgentDetail>,
}

impl AgentView {
    pub fn status(&self) -> Status {
        self.detail.as_ref().map_or(Status::Unknown, |detail| detail.agent.status)
    }

    pub fn labels(&self) -> String {
        self.detail.as_ref().map(|detail| detail.agent.labels.to_string()).unwrap_or_default()
    }

    /// The names of its tasks.
    pub fn tasks(&self) -> Vec<String> {
        let tasks = self.detail.iter().flat_map(|detail| &detail.task_details);
        tasks.map(|task| task.name.to_string()).collect()
    }

    /// How one step stands: `task/kind.name`.
    pub fn step(&self, place: &str) -> StepStatus {
        self.find(place).map_or(StepStatus::Unknown, |step| step.status)
    }

    pub fn reason(&self, place: &str) -> String {
        self.find(place).and_then(|step| step.reason).unwrap_or_default()
    }

    fn find(&self, place: &str) -> Option<api::AgentStep> {
        let (task, step) = place.split_once('/').expect("task/step");
        let tasks = self.detail.iter().flat_map(|detail| &detail.task_details);
        let task = tasks.into_iter().find(|known| known.name.as_str() == task)?;
        task.steps.iter().find(|known| known.step.to_string() == step).cloned()
    }
}

fn line(event: &Event) -> String {
    let text = |part: Option<String>| part.unwrap_or_default();
    let place = match (&event.task, &event.step) {
        (Some(task), Some(step)) => format!("{task}/{step}"),
        (Some(task), None) => task.to_string(),
        _ => String::new(),
    };
    let parts = [
        text(event.agent.as_ref().map(ToString::to_string)),
        place,
        event.kind.as_str().to_string(),
        text(event.outcome.map(|outcome| outcome.as_str().to_string())),
        text(event.trigger.clone()),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// The client must not look for certificates: stories are on loopback.
fn no_tls() -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}
