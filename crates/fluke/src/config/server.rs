//! `server { … }`

use std::path::PathBuf;
use std::time::Duration;

use fluke_model::label::Labels;
use fluke_model::policy::Policy;
use fluke_model::secret::Secret;
use fluke_server::git::{Branch, Credentials, RemoteUrl};

use super::listen::Listen;
use crate::logging::LogConfig;

/// Everything a server is told.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// For agents.
    pub listen_grpc: Listen,
    /// For people: web UI and HTTP API.
    pub listen_http: Listen,
    /// For local administration; none where it is switched off with `""`.
    pub socket: Option<PathBuf>,
    /// What may be lost: the mirror of the repository, and a certificate of its own making.
    pub cache_dir: PathBuf,
    /// Never empty.
    pub agent_tokens: Vec<AgentToken>,
    /// Empty: the TCP port serves reads only.
    pub api_tokens: Vec<Secret>,
    /// The repository.
    pub git: GitConfig,
    /// What certificate is shown.
    pub tls: ServerTls,
    /// What happens on drift where a task does not say.
    pub drift: DriftConfig,
    /// Where history is kept.
    pub event_store: EventStore,
    /// What is logged.
    pub log: LogConfig,
}

/// A token, and whom it lets its holder be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentToken {
    /// The block's label; none for a bare token, whose holder may be any agent.
    pub label: Option<String>,
    /// The token.
    pub token: Secret,
    /// Globs; none means any name.
    pub names: Vec<String>,
    /// What labels of these keys must be.
    pub labels: Labels,
}

/// `git { … }`
#[derive(Debug, Clone)]
pub struct GitConfig {
    /// The repository.
    pub url: RemoteUrl,
    /// The branch that is tracked.
    pub branch: Branch,
    /// How often it is asked, and every host checked.
    pub poll_interval: Duration,
    /// Which files are manifests.
    pub manifest_glob: String,
    /// For `ssh`.
    pub ssh_key_file: Option<PathBuf>,
    /// For `ssh`.
    pub known_hosts_file: Option<PathBuf>,
    /// For `http(s)`.
    pub basic_auth: Option<Credentials>,
    /// What pushes are signed with.
    pub webhook_secret: Option<Secret>,
}

/// `tls { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTls {
    /// Switched off in writing.
    Off,
    /// With a certificate of the server's own making.
    Own,
    /// With this certificate.
    Files {
        /// The chain, as PEM.
        cert_file: PathBuf,
        /// The key, as PEM.
        key_file: PathBuf,
    },
}

/// `drift { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftConfig {
    /// For tasks that name none.
    pub policy: Policy,
    /// Whom alerts are sent to. Such an address often holds a secret.
    pub alert_webhook: Option<Secret>,
}

/// `event_store { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventStore {
    /// A ring for each agent.
    Memory {
        /// The size of a ring.
        max_events_per_agent: usize,
    },
    /// A Redis server.
    Redis {
        /// Where it is; may hold a password.
        url: Secret,
        /// Before every key.
        prefix: String,
        /// How long events are kept.
        ttl: Duration,
    },
}
