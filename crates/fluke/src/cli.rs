//! The command line: what can be said, and what it means. Does nothing itself.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fluke_manifest::DEFAULT_GLOB;
use fluke_model::id::{AgentName, LabelKey, LabelValue};
use fluke_model::label::Labels;

mod asking;
mod installing;
#[cfg(test)]
mod tests;

pub use asking::{
    AgentsArgs, Describe, DriftArgs, EventsArgs, FollowArgs, Forget, Get, Reconcile, ReconcileArgs,
    TasksArgs,
};
pub use installing::{
    Install, InstallAgentArgs, InstallServerArgs, JoinLineArgs, Part, UninstallArgs, UpdateArgs,
};

/// Continuous delivery for machines: keeps fleets as Git says they should be.
#[derive(Parser)]
#[command(
    name = "fluke",
    version,
    propagate_version = false,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  fluke dev                         try fluke on this machine, nothing to set up
  fluke top                         watch the fleet
  fluke get agents                  how the fleet stands
  fluke describe agent web-01       what is wrong there, and why
  fluke reconcile task certs        put it right now, whatever its policy

Exit codes: 0 done, 1 failed, 2 wrong usage."
)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes, before or behind its name.
#[derive(Args, Clone)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Server to talk to: unix:///run/fluke/fluke.sock (the default where it exists), or
    /// http(s)://host:7071 with a token in FLUKE_API_TOKEN
    #[arg(long, global = true, value_name = "URL", env = "FLUKE_SERVER", hide_env_values = true)]
    pub server: Option<String>,
    /// How to print: json and yaml are exactly what the API returns [default: table]
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Keep watching, and print again on every change
    #[arg(short, long, global = true)]
    pub watch: bool,
    /// Whether to use colours; NO_COLOR is respected
    #[arg(
        long = "colour",
        visible_alias = "color",
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t = Colour::Auto
    )]
    pub colour: Colour,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    // For people.
    Table,
    // What the API returns.
    Json,
    // The same value as YAML.
    Yaml,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    // On a terminal.
    Auto,
    // In a pipe too.
    Always,
    // Not at all.
    Never,
}

/// Every command.
#[derive(Subcommand)]
pub enum Command {
    /// Server, agent and sample repository in one process, on loopback
    ///
    /// Without DIR a sample repository is made; with DIR its manifests are in force, and again
    /// whenever a file in it is saved.
    #[command(after_help = "Examples:\n  fluke dev\n  fluke dev ./infra --label role=web")]
    Dev(DevArgs),
    /// Run the server
    #[command(after_help = "Example:\n  fluke server --config /etc/fluke/server.hcl")]
    Server(ServerArgs),
    /// Run the agent on this host
    ///
    /// Flags win over the file. A token in an argument list can be seen by every user of the
    /// host: prefer FLUKE_TOKEN or the file.
    #[command(
        override_usage = "fluke agent --config <FILE> [OPTIONS]
       fluke agent --url <URL> [OPTIONS]",
        after_help = "Examples:
  fluke agent --config /etc/fluke/agent.hcl
  FLUKE_TOKEN=… fluke agent --url grpcs://fluke.example:7070 --label role=web"
    )]
    Agent(AgentArgs),
    /// Show agents, drift, events, tasks, services or the source
    #[command(after_help = "Examples:
  fluke get agents -w
  fluke get agents --status drifted --label role=web
  fluke get services
  fluke get drift -o json
  fluke get events --agent web-01 --limit 50")]
    Get {
        /// What to show.
        #[command(subcommand)]
        what: Get,
    },
    /// Tell why an agent, a task, a service or the source is as it is, and what to do about it
    #[command(after_help = "Examples:
  fluke describe agent web-01
  fluke describe task certs
  fluke describe service shop
  fluke describe source")]
    Describe {
        /// What to tell about.
        #[command(subcommand)]
        what: Describe,
    },
    /// Show what happened, and follow what happens
    #[command(after_help = "Examples:
  fluke events --since 1h
  fluke events -f
  fluke events -f --service shop
  fluke events -f --agent web-01 --kind apply_finished -o json")]
    Events(FollowArgs),
    /// Watch the fleet on a live dashboard
    ///
    /// Agents with what is wrong first, drift with its reasons, recent events. `?` shows the keys.
    #[command(after_help = "Example:\n  fluke top")]
    Top,
    /// Put right what is drifted now, whatever the policy says
    ///
    /// Waits, shows progress, and exits 1 if anything failed.
    #[command(after_help = "Examples:
  fluke reconcile all
  fluke reconcile agent web-01
  fluke reconcile task certs --agent web-01
  fluke reconcile service shop
  fluke reconcile task certs --no-wait")]
    Reconcile(ReconcileArgs),
    /// Say that a host is gone for good, so that nothing waits for it any more
    ///
    /// Replicas that wait for a volume on it start elsewhere, with an empty one.
    #[command(after_help = "Example:\n  fluke forget agent db-01")]
    Forget {
        /// What is gone.
        #[command(subcommand)]
        what: Forget,
    },
    /// Check manifests or a config file, without a server
    #[command(after_help = "Examples:
  fluke validate
  fluke validate ./infra -o json
  fluke validate /etc/fluke/server.hcl")]
    Validate(ValidateArgs),
    /// Format manifests and configs the canonical way
    #[command(after_help = "Examples:
  fluke fmt
  fluke fmt --check ./infra
  fluke fmt - < web.fluke.hcl")]
    Fmt(FmtArgs),
    /// Evaluate an expression in the scope of the manifests, and print its value as JSON
    #[command(after_help = "Examples:
  fluke eval 'local.app_dir'
  fluke eval --in ./infra '[for h in local.hosts : upper(h)]'")]
    Eval(EvalArgs),
    /// Install the server or the agent as a systemd service of this host
    ///
    /// Never overwrites a config, and run again changes only what is not in place: a newer program
    /// takes the place of an older one.
    #[command(after_help = "Examples:
  fluke install server --git-url https://git.example.com/infra.git
  FLUKE_TOKEN=… fluke install agent --url grpcs://fluke.example:7070 --ca-fingerprint …")]
    Install {
        /// What to install.
        #[command(subcommand)]
        what: Install,
    },
    /// Remove what `fluke install` has made, and only that
    ///
    /// Config and state stay, unless --purge is given.
    #[command(after_help = "Examples:\n  fluke uninstall agent\n  fluke uninstall server --purge")]
    Uninstall(UninstallArgs),
    /// Put a new program in the place of this one; the agent that runs becomes it
    ///
    /// The new program is tried out first. The agent finishes what it is doing, and goes on as
    /// the new program in the same process. The old one is kept for --rollback.
    #[command(after_help = "Examples:
  fluke update --from ./fluke-0.2.0
  fluke update --from https://example.com/fluke-0.2.0-x86_64 --sha256 …
  fluke update --rollback")]
    Update(UpdateArgs),
    /// Print the line that an agent needs to join: address, token, fingerprint
    ///
    /// Needs the server's config and its cache, and no server that runs.
    #[command(after_help = "Examples:
  fluke join-line
  fluke join-line --config /etc/fluke/server.hcl --host fluke.example.com --agent-token web")]
    JoinLine(JoinLineArgs),
    /// Print the version
    #[command(after_help = "Example:\n  fluke version -o json")]
    Version,
    /// Print a completion script for a shell
    #[command(after_help = "Examples:
  fluke completions bash > /etc/bash_completion.d/fluke
  fluke completions zsh > ~/.zfunc/_fluke")]
    Completions {
        /// The shell to write for.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all of them into a folder
    #[command(after_help = "Examples:
  fluke man | man -l -
  fluke man --dir /usr/local/share/man/man1")]
    Man(ManArgs),
}

/// `fluke man`
#[derive(Args)]
pub struct ManArgs {
    /// Write fluke.1 and a page for each command into this folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `fluke dev`
#[derive(Args)]
pub struct DevArgs {
    /// Folder with manifests; a sample repository where none is given
    pub dir: Option<PathBuf>,
    /// Label of the agent, besides role=dev; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = Labels::parse_pair)]
    pub labels: Vec<(LabelKey, LabelValue)>,
}

/// `fluke server`
#[derive(Args)]
pub struct ServerArgs {
    /// Config file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// File with variables (NAME=VALUE) that the config may refer to; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
}

/// `fluke agent`
#[derive(Args)]
pub struct AgentArgs {
    /// Config file
    #[arg(long, value_name = "FILE", required_unless_present = "url")]
    pub config: Option<PathBuf>,
    /// File with variables (NAME=VALUE) that the config may refer to; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// Server's address for agents: grpcs://host:7070, or grpc:// without TLS
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Token that the server knows; also taken from FLUKE_TOKEN
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Be a proxy node
    #[arg(long)]
    pub proxy: bool,
    /// Where the logs of services are shipped to
    #[arg(long, value_name = "URL")]
    pub logs_endpoint: Option<String>,
    /// Name to register under [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<AgentName>,
    /// Label of this host; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = Labels::parse_pair)]
    pub labels: Vec<(LabelKey, LabelValue)>,
    /// What the agent keeps across restarts [default: /var/lib/fluke]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Certificates of the authorities that may vouch for the server, as PEM
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Fingerprint of the server's own authority, as the server prints it
    #[arg(long, visible_alias = "fingerprint", value_name = "HASH", conflicts_with = "ca_file")]
    pub ca_fingerprint: Option<String>,
}

/// `fluke validate`
#[derive(Args)]
pub struct ValidateArgs {
    /// Folder with manifests, one manifest, or a config file
    #[arg(default_value = ".")]
    pub path: PathBuf,
    /// Which files of a folder are manifests
    #[arg(long, default_value = DEFAULT_GLOB)]
    pub glob: String,
}

/// `fluke fmt`
#[derive(Args)]
pub struct FmtArgs {
    /// Change nothing; say what would change, and exit 1 if anything would
    #[arg(long)]
    pub check: bool,
    /// File, folder, or `-` for standard input
    #[arg(default_value = ".")]
    pub path: PathBuf,
}

/// `fluke eval`
#[derive(Args)]
pub struct EvalArgs {
    /// Folder with the manifests whose locals are in scope
    #[arg(long = "in", value_name = "PATH", default_value = ".")]
    pub path: PathBuf,
    /// Which files of the folder are manifests
    #[arg(long, default_value = DEFAULT_GLOB)]
    pub glob: String,
    /// The expression
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: String,
}

impl Command {
    /// Why these options make no sense with this command, if they do not.
    pub fn objection(&self, global: &Global) -> Option<&'static str> {
        let watchable = matches!(self, Self::Get { .. } | Self::Describe { .. });
        let formattable = !matches!(
            self,
            Self::Dev(_)
                | Self::Server(_)
                | Self::Agent(_)
                | Self::Fmt(_)
                | Self::Install { .. }
                | Self::Uninstall(_)
                | Self::Update(_)
                | Self::Completions { .. }
                | Self::Man(_)
                | Self::Top
        );
        if let Self::Get { what } = self
            && what.names_only()
            && (global.watch || global.output.is_some())
        {
            return Some("`--names` prints names once; it goes without `--output` and `--watch`");
        }
        if let Self::Events(args) = self {
            if global.watch {
                return Some(
                    "`fluke events` is followed with `--follow`; `fluke get events -w` redraws",
                );
            }
            if args.follow && global.output == Some(Format::Yaml) {
                return Some("`--follow` prints lines; it goes with `-o json` (an object a line)");
            }
        }
        if global.watch && !watchable {
            return Some("`--watch` goes with `fluke get` and `fluke describe` only");
        }
        (global.output.is_some() && !formattable)
            .then_some("`--output` does not go with this command: it prints in one way only")
    }
}
