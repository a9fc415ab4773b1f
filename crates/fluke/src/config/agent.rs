//! `agent { … }`, and the flags that win over it.

use std::path::PathBuf;
use std::time::Duration;

use fluke_model::id::{AgentName, Hash256};
use fluke_model::label::Labels;
use fluke_model::secret::Secret;
use fluke_wire::client::ServerUrl;

use crate::logging::LogConfig;

/// Everything an agent is told.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Where the server is.
    pub server_url: ServerUrl,
    /// What lets the agent in.
    pub token: Secret,
    /// What it calls itself.
    pub name: AgentName,
    /// What it is.
    pub labels: Labels,
    /// What it keeps across restarts.
    pub state_dir: PathBuf,
    /// Whether it takes public traffic.
    pub proxy: bool,
    /// Where logs of services go, if anywhere.
    pub logs_endpoint: Option<String>,
    /// Whom to trust to be the server.
    pub tls: AgentTls,
    /// What no server can lift.
    pub allow: Allow,
    /// How commands are run.
    pub execution: Execution,
    /// Whether containers that nobody asked for are removed.
    pub exclusive_containers: bool,
    /// What is logged.
    pub log: LogConfig,
}

/// `tls { … }`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentTls {
    /// Authorities to trust instead of the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// The fingerprint of the one authority to trust.
    pub ca_fingerprint: Option<Hash256>,
    /// Trusts anybody.
    pub insecure_skip_verify: bool,
}

/// `allow { … }`: none means anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allow {
    /// The kinds of steps that may run here.
    pub executors: Option<Vec<String>>,
    /// The users that commands may run as, besides the agent's own.
    pub run_as: Option<Vec<String>>,
}

/// `execution { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Runs command lines.
    pub default_shell: PathBuf,
    /// How long a command may take.
    pub command_timeout: Duration,
}
