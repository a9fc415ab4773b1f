//! Asking a server: `get`, `describe`, `events`, `reconcile`, and the filters they share.

use std::time::Duration;

use clap::{Args, Subcommand};
use fluke_model::event::{Event, EventKind};
use fluke_model::id::{AgentName, LabelKey, LabelValue, ServiceName, TaskName};
use fluke_model::policy::Policy;
use fluke_model::status::Status;

use crate::suggest;

/// `fluke get …`
#[derive(Subcommand)]
pub enum Get {
    /// Every known host, and how it stands; what is wrong first
    #[command(after_help = "Examples:
  fluke get agents -w
  fluke get agents --status offline --label env=production
  fluke get agents --label role=web -q | xargs -n1 fluke describe agent")]
    Agents(AgentsArgs),
    /// What is drifted now, and why
    #[command(after_help = "Examples:
  fluke get drift
  fluke get drift --policy alert_only
  fluke get drift --agent web-01 -o json")]
    Drift(DriftArgs),
    /// Recent history, newest first
    #[command(after_help = "Examples:
  fluke get events --agent web-01 --kind apply_finished
  fluke get events --service shop --since 1h
To follow what happens: fluke events -f")]
    Events(EventsArgs),
    /// Every task, and how it stands; what is wrong first
    #[command(after_help = "Examples:
  fluke get tasks
  fluke get tasks --status failed -q")]
    Tasks(TasksArgs),
    /// Every service, how many of its replicas serve, and where it is reached; what is wrong first
    #[command(after_help = "Examples:
  fluke get services -w
  fluke get services --status failed -q")]
    Services(TasksArgs),
    /// The repository: commit in force, rejected commit, last poll
    #[command(after_help = "Examples:\n  fluke get source\n  fluke get source -w")]
    Source,
}

impl Get {
    /// Whether only names are to be printed.
    pub fn names_only(&self) -> bool {
        match self {
            Self::Agents(args) => args.names,
            Self::Tasks(args) | Self::Services(args) => args.names,
            Self::Drift(_) | Self::Events(_) | Self::Source => false,
        }
    }
}

/// How many of a list are wanted.
#[derive(Args, Clone, Default)]
pub struct LimitArgs {
    /// How many at most [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

/// Which agents.
#[derive(Args, Clone, Default)]
pub struct AgentsArgs {
    /// Only those that stand so: in_sync, drifted, applying, failed, unknown or offline
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub status: Option<Status>,
    /// Only those with this label, or with any value of this key; may be repeated, all must match
    #[arg(long = "label", value_name = "KEY[=VALUE]", value_parser = label)]
    pub labels: Vec<String>,
    /// Only those whose name has this in it
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    #[command(flatten)]
    pub limit: LimitArgs,
    /// Print names only, one a line
    #[arg(short = 'q', long = "names")]
    pub names: bool,
}

/// Which drift.
#[derive(Args, Clone, Default)]
pub struct DriftArgs {
    /// Of this agent only
    #[arg(long, value_name = "NAME")]
    pub agent: Option<AgentName>,
    /// Of this task only
    #[arg(long, value_name = "NAME")]
    pub task: Option<TaskName>,
    /// Of this service only
    #[arg(long, value_name = "NAME")]
    pub service: Option<ServiceName>,
    /// Under this policy only: remediate, remediate_and_alert or alert_only
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub policy: Option<Policy>,
    #[command(flatten)]
    pub limit: LimitArgs,
}

/// Which tasks, or services.
#[derive(Args, Clone, Default)]
pub struct TasksArgs {
    /// Only those that stand so: in_sync, drifted, applying, failed, unknown or offline
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub status: Option<Status>,
    /// Only those whose name has this in it
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    #[command(flatten)]
    pub limit: LimitArgs,
    /// Print names only, one a line
    #[arg(short = 'q', long = "names")]
    pub names: bool,
}

/// Which events.
#[derive(Args, Clone, Default)]
pub struct EventsArgs {
    /// Of this agent only
    #[arg(long, value_name = "NAME")]
    pub agent: Option<AgentName>,
    /// Of this task only
    #[arg(long, value_name = "NAME")]
    pub task: Option<TaskName>,
    /// Of this service only
    #[arg(long, value_name = "NAME")]
    pub service: Option<ServiceName>,
    /// Of this kind only, for example drift_detected
    #[arg(long, value_name = "KIND", value_parser = event_kind)]
    pub kind: Option<EventKind>,
    /// Not older than this: 90s, 15m, 1h30m, 7d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub since: Option<Duration>,
    /// How many at most [default: 20, or all with --since]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

impl EventsArgs {
    /// Whether an event is one of those.
    pub fn includes(&self, event: &Event) -> bool {
        self.agent.as_ref().is_none_or(|agent| event.agent.as_ref() == Some(agent))
            && self.task.as_ref().is_none_or(|task| event.task.as_ref() == Some(task))
            && self.service.as_ref().is_none_or(|service| event.service.as_ref() == Some(service))
            && self.kind.is_none_or(|kind| event.kind == kind)
    }
}

/// `fluke events`
#[derive(Args)]
pub struct FollowArgs {
    /// Which.
    #[command(flatten)]
    pub filter: EventsArgs,
    /// Go on with what happens from now on, until interrupted
    #[arg(short, long)]
    pub follow: bool,
}

/// `fluke describe …`
#[derive(Subcommand)]
pub enum Describe {
    /// One host: what is wrong and why, its tasks, its recent history
    #[command(after_help = "Example:\n  fluke describe agent web-01")]
    Agent {
        /// The agent's name
        name: AgentName,
    },
    /// One task: where it is wrong and why, its definition
    #[command(after_help = "Example:\n  fluke describe task certs")]
    Task {
        /// The task's name
        name: TaskName,
    },
    /// One service: its replicas, where they run, what is wrong and why, its names and routes
    #[command(after_help = "Example:\n  fluke describe service web")]
    Service {
        /// The service's name
        name: ServiceName,
    },
    /// The repository: commit in force, and what is wrong with a rejected one
    #[command(after_help = "Example:\n  fluke describe source")]
    Source,
}

/// `fluke reconcile …`
#[derive(Args)]
pub struct ReconcileArgs {
    /// What to put right.
    #[command(subcommand)]
    pub what: Reconcile,
    /// Print the id and return at once
    #[arg(long, global = true)]
    pub no_wait: bool,
}

/// What `fluke reconcile` puts right.
#[derive(Subcommand)]
pub enum Reconcile {
    /// Every connected agent
    #[command(after_help = "Example:\n  fluke reconcile all")]
    All,
    /// All tasks and services of one agent
    #[command(after_help = "Example:\n  fluke reconcile agent web-01")]
    Agent {
        /// The agent's name
        name: AgentName,
    },
    /// One task, on every connected agent that it matches, or on one of them
    #[command(after_help = "Examples:
  fluke reconcile task certs
  fluke reconcile task certs --agent web-01")]
    Task {
        /// The task's name
        name: TaskName,
        /// On this agent only
        #[arg(long, value_name = "NAME")]
        agent: Option<AgentName>,
    },
    /// One service, on every connected agent that should run something of it, or on one of them
    #[command(after_help = "Examples:
  fluke reconcile service shop
  fluke reconcile service shop --agent web-01")]
    Service {
        /// The service's name
        name: ServiceName,
        /// On this agent only
        #[arg(long, value_name = "NAME")]
        agent: Option<AgentName>,
    },
}

/// What `fluke forget` forgets.
#[derive(Subcommand)]
pub enum Forget {
    /// An agent that is not connected, and its host
    #[command(after_help = "Example:\n  fluke forget agent db-01")]
    Agent {
        /// The agent's name
        name: AgentName,
    },
}

fn status(text: &str) -> Result<Status, String> {
    use Status::*;
    one_of("status", text, [InSync, Drifted, Applying, Failed, Unknown, Offline], Status::as_str)
}

fn policy(text: &str) -> Result<Policy, String> {
    one_of("policy", text, Policy::ALL, Policy::as_str)
}

fn event_kind(text: &str) -> Result<EventKind, String> {
    one_of("kind", text, EventKind::ALL.iter().copied(), EventKind::as_str)
}

/// The one that is called so; else which one may have been meant.
fn one_of<T: Copy>(
    what: &str,
    text: &str,
    all: impl IntoIterator<Item = T>,
    name: fn(T) -> &'static str,
) -> Result<T, String> {
    let all: Vec<T> = all.into_iter().collect();
    // `in-sync` and `in sync` are what people say.
    let asked = text.trim().to_lowercase().replace(['-', ' '], "_");
    if let Some(known) = all.iter().find(|known| name(**known) == asked) {
        return Ok(*known);
    }
    let names: Vec<&str> = all.into_iter().map(name).collect();
    Err(match suggest::nearest(&asked, names.iter().copied()) {
        Some(near) => format!("there is no such {what}; did you mean `{near}`?"),
        None => format!("there is no such {what}; there are {}", names.join(", ")),
    })
}

/// `key=value`, or `key` for whatever value.
fn label(text: &str) -> Result<String, String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (text, None),
    };
    LabelKey::new(key).map_err(|error| error.to_string())?;
    if let Some(value) = value {
        LabelValue::new(value).map_err(|error| error.to_string())?;
    }
    Ok(text.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|error| format!("{error}; write it like 90s, 15m, 1h30m or 7d"))
}
