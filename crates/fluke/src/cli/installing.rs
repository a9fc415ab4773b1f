//! What can be said about services of this host, and the program they run.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fluke_model::id::{AgentName, Hash256, LabelKey, LabelValue};
use fluke_model::label::Labels;

/// `fluke join-line`
#[derive(Args)]
pub struct JoinLineArgs {
    /// The server's config file
    #[arg(long, value_name = "FILE", default_value = crate::commands::install::SERVER_CONFIG)]
    pub config: PathBuf,
    /// File with variables (NAME=VALUE) that the config may refer to
    #[arg(long, value_name = "FILE", default_value = crate::commands::install::SERVER_VARIABLES)]
    pub env_file: Option<PathBuf>,
    /// Name or address that agents reach the server by [default: the host's name]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Take the token of this `agent_token` block
    #[arg(long, value_name = "NAME")]
    pub agent_token: Option<String>,
}

/// `fluke install …`
#[derive(Subcommand)]
pub enum Install {
    /// The server: a unit, a config, a token for its agents
    #[command(after_help = "Examples:
  fluke install server --git-url https://git.example.com/infra.git
  fluke install server --git-url git@git.example.com:infra.git --dry-run")]
    Server(InstallServerArgs),
    /// The agent: a unit, a config, the token in a file of its own
    #[command(after_help = "Example, as `fluke join-line` prints it on the server:
  FLUKE_TOKEN=… fluke install agent --url grpcs://fluke.example:7070 --ca-fingerprint … --label role=web")]
    Agent(InstallAgentArgs),
}

/// How an installation is made.
#[derive(Args, Clone, Copy)]
pub struct InstallHow {
    /// Change nothing; show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Write everything, and start nothing now: it starts with the host
    #[arg(long)]
    pub no_start: bool,
}

/// `fluke install server`
#[derive(Args)]
pub struct InstallServerArgs {
    /// The repository: path, ssh or http(s) address
    #[arg(long, value_name = "URL")]
    pub git_url: Option<String>,
    /// The branch that is in force [default: main]
    #[arg(long, value_name = "BRANCH")]
    pub git_branch: Option<String>,
    /// How it is made.
    #[command(flatten)]
    pub how: InstallHow,
}

/// `fluke install agent`
#[derive(Args)]
pub struct InstallAgentArgs {
    /// Server's address for agents: grpcs://host:7070, or grpc:// without TLS
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Token that the server knows; better given in FLUKE_TOKEN, where other users do not see it
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Certificates of the authorities that may vouch for the server, as PEM
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Fingerprint of the server's own authority, as the server prints it
    #[arg(long, visible_alias = "fingerprint", value_name = "HASH", conflicts_with = "ca_file")]
    pub ca_fingerprint: Option<String>,
    /// Name to register under [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<AgentName>,
    /// Label of this host; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = Labels::parse_pair)]
    pub labels: Vec<(LabelKey, LabelValue)>,
    /// Public traffic comes in here: Traefik is kept running
    #[arg(long)]
    pub proxy: bool,
    /// How it is made.
    #[command(flatten)]
    pub how: InstallHow,
}

/// `fluke uninstall …`
#[derive(Args)]
pub struct UninstallArgs {
    /// What was installed
    #[arg(value_enum)]
    pub part: Part,
    /// Also remove what was configured and kept: config, tokens, state, user
    #[arg(long)]
    pub purge: bool,
    /// Change nothing; show what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// What can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The server
    Server,
    /// The agent
    Agent,
}

/// `fluke update`
#[derive(Args)]
pub struct UpdateArgs {
    /// The new program: a file, or an address with https
    #[arg(long, value_name = "FILE|URL", required_unless_present = "rollback")]
    pub from: Option<String>,
    /// What its SHA-256 must be
    #[arg(long, value_name = "HASH", requires = "from", value_parser = hash)]
    pub sha256: Option<Hash256>,
    /// Put back the program that was there before
    #[arg(long, conflicts_with = "from")]
    pub rollback: bool,
    /// Where to put it [default: in the place of this program]
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Replace the file only: what runs, goes on
    #[arg(long)]
    pub no_reload: bool,
    /// Where the agent of this host keeps its state
    #[arg(long, value_name = "DIR", default_value = crate::config::agent::STATE_DIR)]
    pub state_dir: PathBuf,
}

fn hash(text: &str) -> Result<Hash256, String> {
    crate::config::agent::fingerprint(text)
}
