//! Tasks: ordered steps for all hosts that a selector matches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{StepAddress, TaskName};
use crate::label::Selector;
use crate::policy::Policy;

/// A task as a manifest defines it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Unique across all manifests.
    pub name: TaskName,
    /// For people; never part of what a host is.
    pub description: Option<String>,
    /// What happens on drift; the server's default where none is given.
    pub policy: Option<Policy>,
    /// Which hosts it is for.
    pub selector: Selector,
    /// In declaration order; never empty. Shared with every snapshot that holds the task.
    pub steps: Arc<[Step]>,
    /// Where it is defined.
    pub defined: Location,
}

/// A place in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Location {
    /// Path within the repository.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One executor block: the unit that is checked and applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// `kind.name`, unique within the task.
    pub address: StepAddress,
    /// Whether the task goes on past this step's failure.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Instead of the agent's `command_timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis")]
    #[schemars(with = "Option<u64>")]
    pub timeout: Option<Duration>,
    /// What the block says.
    pub spec: ExecutorSpec,
}

/// What a failed step means for the steps after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The task ends here.
    #[default]
    Abort,
    /// The next step is tried all the same.
    Continue,
}

/// The body of an executor block, one variant a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorSpec {
    /// Tasks that the user keeps in `.mise.toml`.
    Mise(MiseSpec),
    /// A unit's state.
    Systemd(SystemdSpec),
    /// Two command lines.
    Shell(ShellSpec),
    /// A kind that this version does not know; reported as an error for the host, never run.
    Unknown,
}

/// `shell "name" { … }`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShellSpec {
    /// Exit 0: satisfied.
    pub check: String,
    /// Runs only on drift.
    pub command: String,
    /// The agent user's home where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Another Unix user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<String>,
    /// Added to the agent's environment; `$NAME` in a value is read on the host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// `mise "name" { … }`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MiseSpec {
    /// Where mise runs.
    pub working_dir: String,
    /// Exit 0: satisfied.
    pub check_task: String,
    /// Runs only on drift.
    pub apply_task: String,
    /// Keeps the directory a clone of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitCheckout>,
}

/// A repository that a step's directory is a clone of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GitCheckout {
    /// Anything that `git clone` takes.
    pub url: String,
    /// The branch followed.
    pub branch: String,
}

/// `systemd "name" { … }`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemdSpec {
    /// With its suffix.
    pub unit: String,
    /// What it should be doing.
    pub state: UnitState,
    /// Whether it starts on boot.
    pub enabled: bool,
}

/// What a unit should be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnitState {
    /// Active.
    #[default]
    Running,
    /// Inactive.
    Stopped,
}

/// Durations as whole milliseconds.
mod millis {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        value.map(|duration| duration.as_millis() as u64).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}
