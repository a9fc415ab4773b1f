//! A host of a story: a folder, and a real agent that keeps it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fluke_agent::{AgentConfig, AgentStatus, Allow};
use fluke_model::id::AgentName;
use fluke_model::label::Labels;
use fluke_model::message::NodeType;
use fluke_model::secret::Secret;
use fluke_wire::client::{ClientTls, Target};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub struct Host {
    config: AgentConfig,
    root: PathBuf,
    agent: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    statuses: Arc<Mutex<Vec<AgentStatus>>>,
}

impl Host {
    pub fn start(name: &str, labels: &str, token: &str, grpc: SocketAddr, folder: PathBuf) -> Self {
        let root = folder.join("root");
        std::fs::create_dir_all(&root).expect("a folder");
        let config = AgentConfig {
            name: AgentName::new(name).expect("a name"),
            labels: parse(labels),
            version: "0.1.0".into(),
            target: Target {
                url: format!("grpc://{grpc}").parse().expect("a url"),
                token: Secret::new(token),
                tls: ClientTls::default(),
            },
            state_dir: folder.join("state"),
            node_type: NodeType::Worker,
            default_shell: "/bin/bash".into(),
            command_timeout: Duration::from_secs(60),
            allow: Allow::default(),
            parallel_checks: 4,
            stop_grace: Duration::from_secs(30),
            services: None,
        };
        let (stop, _) = watch::channel(false);
        let mut host = Self { config, root, agent: None, stop, statuses: Arc::default() };
        host.start_agent();
        host
    }

    pub fn start_agent(&mut self) {
        assert!(self.agent.is_none(), "the agent runs already");
        self.stop.send_replace(false);
        let mut stopped = self.stop.subscribe();
        let statuses = self.statuses.clone();
        let config = self.config.clone();
        self.agent = Some(tokio::spawn(async move {
            let stop = async move {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            let note = move |status| statuses.lock().expect("statuses").push(status);
            fluke_agent::run(config, stop, note).await.expect("the agent runs");
        }));
    }

    /// As at the host's shutdown.
    pub async fn stop_agent(&mut self) {
        self.stop.send_replace(true);
        self.agent.take().expect("an agent").await.expect("the agent ends");
    }

    /// As if it had crashed: no goodbye, no last words.
    pub async fn kill_agent(&mut self) {
        let agent = self.agent.take().expect("an agent");
        agent.abort();
        let _ = agent.await;
    }

    pub async fn relabel(&mut self, labels: &str) {
        self.stop_agent().await;
        self.config.labels = parse(labels);
        self.start_agent();
    }

    /// Everything that the agent said of itself so far.
    pub fn statuses(&self) -> Vec<AgentStatus> {
        self.statuses.lock().expect("statuses").clone()
    }

    pub fn has(&self, file: &str) -> bool {
        self.root.join(file).exists()
    }

    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.root.join(file)).unwrap_or_default()
    }

    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.root.join(file), text).expect("a file is written");
    }

    pub fn remove(&self, file: &str) {
        std::fs::remove_file(self.root.join(file)).expect("a file is removed");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.agent.iter().for_each(JoinHandle::abort);
    }
}

fn parse(labels: &str) -> Labels {
    let pairs = labels.split(',').filter(|pair| !pair.is_empty());
    Labels(pairs.map(|pair| Labels::parse_pair(pair).expect("a label")).collect())
}
