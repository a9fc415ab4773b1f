//! `fluke dev`: server and agent in one process, on loopback, over a folder of manifests.
//!
//! With a folder it is the tool to write manifests with; without one it makes a sample, breaks
//! something once the sample is in force, and shows how it is put right.

mod narrator;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fluke_agent::{AgentConfig, Allow};
use fluke_manifest::DEFAULT_GLOB;
use fluke_model::id::AgentName;
use fluke_model::label::Labels;
use fluke_model::message::NodeType;
use fluke_model::policy::Policy;
use fluke_model::secret::Secret;
use fluke_server::server::{HEARTBEAT, History, Server, Settings, TlsSettings};
use fluke_server::source::SourceConfig;
use fluke_server::trust::Grant;
use fluke_wire::client::{ClientTls, Target};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::agent::parallel_checks;
use super::{Signal, Signals, in_threads};
use crate::cli::{DevArgs, Global};
use crate::failure::Failure;
use crate::logging;
use crate::screen::{self, Style};
use narrator::Narrator;

/// How often everything is checked: soon enough to watch.
const POLL: Duration = Duration::from_secs(2);
const SAMPLE: &str = include_str!("dev/sample.fluke.hcl");

/// Runs server and agent in one process until it is told to stop.
pub fn run(args: &DevArgs, global: &Global) -> Result<(), Failure> {
    // What happens is told by the narrator; the log is for what goes wrong.
    logging::start_beside_narrator();
    let scratch = Scratch::new()?;
    let place = Place::new(args, &scratch)?;
    let style = Style::of_stdout(global.colour);
    in_threads(try_out(place, labels(args), &scratch, style))
}

async fn try_out(
    place: Place,
    labels: Labels,
    scratch: &Scratch,
    style: Style,
) -> Result<(), Failure> {
    let socket = scratch.path.join("fluke.sock");
    let token = Secret::new(random_token()?);
    let settings = settings(&place, &socket, &token);
    let server = Server::start(settings)
        .await
        .map_err(|error| Failure::new("the server could not be started").because(&error))?;
    screen::print(&introduction(&place, &server, &socket, &labels))?;
    let (stop, stopped) = watch::channel(false);
    let agent = agent(&server, token, labels.clone(), scratch)?;
    let agent = tokio::spawn(fluke_agent::run(agent, until(stopped), |_| {}));
    let narrator = Narrator::new(&server, labels, style, place.sample.clone()).await;
    let mut signals = Signals::listen()?;
    let told = tokio::select! {
        told = narrator.tell() => told,
        () = async { while let Signal::Reload = signals.next().await {} } => Ok(()),
    };
    stop.send_replace(true);
    // The agent's own end is told by its log; nothing is left to do about it here.
    let _ = agent.await;
    server.stop().await;
    told
}

fn settings(place: &Place, socket: &Path, token: &Secret) -> Settings {
    Settings {
        // The usual ports if they are free, so that addresses in the documentation work.
        listen_grpc: vec!["127.0.0.1:7070".into(), "127.0.0.1:0".into()],
        listen_http: vec!["127.0.0.1:7071".into(), "127.0.0.1:0".into()],
        socket: Some(socket.to_path_buf()),
        grants: vec![Grant::any(token.expose())],
        api_tokens: Vec::new(),
        http_names: Vec::new(),
        source: SourceConfig::Folder { path: place.manifests.clone() },
        manifest_glob: DEFAULT_GLOB.into(),
        poll_interval: POLL,
        webhook_secret: None,
        default_policy: Policy::default(),
        alert_webhook: None,
        history: History::Memory { max_events_per_agent: 1000 },
        tls: TlsSettings::Off,
        heartbeat: HEARTBEAT,
        http_runtime: Handle::current(),
    }
}

fn agent(
    server: &Server,
    token: Secret,
    labels: Labels,
    scratch: &Scratch,
) -> Result<AgentConfig, Failure> {
    let url = format!("grpc://{}", server.grpc).parse();
    let url = url.map_err(|error| Failure::from_error(&error))?;
    let name = AgentName::new("dev").map_err(|error| Failure::from_error(&error))?;
    Ok(AgentConfig {
        name,
        labels,
        version: env!("CARGO_PKG_VERSION").to_string(),
        target: Target { url, token, tls: ClientTls::default() },
        state_dir: scratch.path.join("agent"),
        node_type: NodeType::Worker,
        default_shell: "/bin/bash".into(),
        command_timeout: Duration::from_secs(300),
        allow: Allow::default(),
        parallel_checks: parallel_checks(),
        stop_grace: Duration::ZERO,
        services: None,
    })
}

fn introduction(place: &Place, server: &Server, socket: &Path, labels: &Labels) -> String {
    let manifests = place.manifests.display();
    let what = match place.sample {
        Some(_) => format!("A sample to play with: {manifests}"),
        None => format!("Manifests: {manifests} (save a file to see what comes of it)"),
    };
    format!(
        "{what}\nThis machine is the agent `dev` with the labels {labels}\n\
         In a browser: http://{}\n\
         In another terminal:\n  export FLUKE_SERVER=unix://{}\n  fluke get agents\n  fluke get drift\n\
         Ctrl-C ends it and removes everything that it made.\n\n",
        server.http,
        socket.display()
    )
}

fn labels(args: &DevArgs) -> Labels {
    let mut labels = Labels::default();
    labels.0.extend(Labels::parse_pair("role=dev"));
    labels.0.extend(args.labels.iter().cloned());
    labels
}

/// Where manifests are, and whether they are ours to play with.
struct Place {
    manifests: PathBuf,
    sample: Option<PathBuf>,
}

impl Place {
    fn new(args: &DevArgs, scratch: &Scratch) -> Result<Self, Failure> {
        let Some(dir) = &args.dir else { return Self::sample(scratch) };
        let manifests = std::fs::canonicalize(dir).map_err(|error| {
            Failure::new(format!("there is no folder {}", dir.display()))
                .because(&error)
                .help("name a folder with *.fluke.hcl files, or none to get a sample")
        })?;
        match manifests.is_dir() {
            true => Ok(Self { manifests, sample: None }),
            false => Err(Failure::new(format!("{} is not a folder", dir.display()))
                .help("name the folder that the file is in")),
        }
    }

    /// Writes the sample; its hosts' state is below `host`.
    fn sample(scratch: &Scratch) -> Result<Self, Failure> {
        let (manifests, host) = (scratch.path.join("manifests"), scratch.path.join("host"));
        let text = SAMPLE.replace("@ROOT@", &host.display().to_string());
        std::fs::create_dir(&manifests)
            .and_then(|()| std::fs::write(manifests.join("sample.fluke.hcl"), text))
            .map_err(|error| Failure::new("could not write the sample").because(&error))?;
        Ok(Self { manifests, sample: Some(host.join("greeting")) })
    }
}

/// A folder of our own, gone when we are.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("fluke-dev-{}", std::process::id()));
        let made = std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&path);
        made.map_err(|error| {
            Failure::new(format!("could not make the folder {}", path.display())).because(&error)
        })?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is in a temporary folder anyway.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn random_token() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(format!("the system has no randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
