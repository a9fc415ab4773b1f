//! What Podman answers, as far as it is read.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use fluke_model::verdict::Output;
use serde::{Deserialize, Serialize};

use crate::host::output::{Secrets, last_lines};

/// A container in the list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Its names; there is one.
    #[serde(default)]
    pub names: Vec<String>,
    /// What it is marked with.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// `created`, `running`, `exited`, …
    pub state: String,
    /// How it feels, where anybody asks.
    #[serde(default)]
    pub status: String,
    /// The image, as it was asked for.
    #[serde(default)]
    pub image: String,
    /// The image's id.
    #[serde(default, rename = "ImageID")]
    pub image_id: String,
    /// Seconds since 1970.
    #[serde(default)]
    pub started_at: i64,
    /// The names of those it is in.
    #[serde(default)]
    pub networks: Option<Vec<String>>,
    /// Its first process; 0 while it does not run.
    #[serde(default)]
    pub pid: i32,
}

/// A container in all detail.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Details {
    /// The image's id.
    pub image: String,
    /// As it was asked for.
    #[serde(default)]
    pub image_name: String,
    /// Of the image.
    #[serde(default)]
    pub image_digest: Option<String>,
    /// Whether it runs.
    pub state: Condition,
    /// What was asked for.
    pub config: Config,
    /// What it may use.
    pub host_config: HostConfig,
    /// How it is reached.
    pub network_settings: NetworkSettings,
    /// What is mounted.
    #[serde(default)]
    pub mounts: Vec<Mount>,
}

/// Whether a container runs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Condition {
    /// As in the list.
    pub status: String,
    /// What its program ended with, if it did.
    #[serde(default)]
    pub exit_code: i32,
    /// Whether it was ended for want of memory.
    #[serde(default, rename = "OOMKilled")]
    pub out_of_memory: bool,
    /// What its health command said.
    #[serde(default)]
    pub health: Option<Checkup>,
}

/// What health commands said, where somebody asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Checkup {
    /// The last few, oldest first.
    #[serde(default)]
    pub log: Option<Vec<Finding>>,
}

/// What one health command said.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Finding {
    /// 0: well.
    pub exit_code: i32,
    /// The beginning of what it printed.
    #[serde(default)]
    pub output: String,
}

impl Condition {
    /// Whether it ran, and does no more.
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "exited" | "stopped")
    }

    /// The last thing that its health command said.
    pub fn last_finding(&self) -> Option<&Finding> {
        self.health.as_ref()?.log.as_ref()?.last()
    }
}

/// So much Podman keeps of what a health command printed.
const KEPT: usize = 500;

impl Finding {
    /// How it ended, and the last line that it printed: that is where programs say why. Without
    /// secrets, and without what would do something to a terminal.
    pub fn in_words(&self, secrets: &Secrets) -> String {
        let how = format!("its health command ended with exit code {}", self.exit_code);
        match last_lines(&secrets.mask(Output::from_text(self.whole_lines())), 1) {
            line if line.is_empty() => how,
            line => format!("{how}: {line}"),
        }
    }

    /// Without a last line that was cut: it may end with half a secret.
    fn whole_lines(&self) -> &str {
        if self.output.len() < KEPT {
            return &self.output;
        }
        self.output.rsplit_once('\n').map_or("", |(lines, _)| lines)
    }
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Config {
    /// `NAME=value`.
    #[serde(default)]
    pub env: Vec<String>,
    /// The command.
    #[serde(default)]
    pub cmd: Option<Vec<String>>,
    /// How it is asked how it feels.
    #[serde(default)]
    pub healthcheck: Option<Healthcheck>,
    /// What somebody wrote who made it with Podman's command line.
    #[serde(default)]
    pub create_command: Vec<String>,
}

/// How a container is asked how it feels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Healthcheck {
    /// What is run in it.
    #[serde(default)]
    pub test: Vec<String>,
    /// How often Podman does so by itself, in nanoseconds; 0: never.
    #[serde(default)]
    pub interval: u64,
    /// In nanoseconds.
    #[serde(default)]
    pub timeout: u64,
    /// How many failures in a row count.
    #[serde(default)]
    pub retries: u32,
    /// For how long failures do not count, in nanoseconds.
    #[serde(default)]
    pub start_period: u64,
}

/// What a container may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostConfig {
    /// In bytes; 0: no limit.
    #[serde(default)]
    pub memory: i64,
    /// Microseconds of a period; 0: no limit.
    #[serde(default)]
    pub cpu_quota: i64,
    /// In microseconds.
    #[serde(default)]
    pub cpu_period: u64,
    /// Whether Podman starts it again.
    #[serde(default)]
    pub restart_policy: RestartPolicy,
}

/// When Podman starts a container again by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RestartPolicy {
    /// `no`, or nothing: never.
    #[serde(default)]
    pub name: String,
}

/// How a container is reached.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkSettings {
    /// By name.
    #[serde(default)]
    pub networks: Option<BTreeMap<String, Attached>>,
}

/// A container's end of a network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Attached {
    /// Empty while it does not run.
    #[serde(default, rename = "IPAddress")]
    pub address: String,
}

/// Something mounted into a container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Mount {
    /// The volume's name, if it is one.
    #[serde(default)]
    pub name: String,
    /// Where.
    pub destination: String,
}

/// An image that is on this host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LocalImage {
    /// Its id.
    pub id: String,
}

/// A network, as it is made and as it is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// `bridge`.
    pub driver: String,
    /// The bridge.
    #[serde(default)]
    pub network_interface: String,
    /// Whether Podman answers names there; we do.
    #[serde(default)]
    pub dns_enabled: bool,
    /// What it is made of.
    #[serde(default)]
    pub subnets: Option<Vec<NetworkSubnet>>,
}

/// A range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSubnet {
    /// With its length.
    pub subnet: String,
    /// The host's end, if it has one there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}

/// Where Podman keeps what it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Its folder.
    pub folder: PathBuf,
    /// Which kind of database; empty where there was only one kind.
    pub backend: String,
    /// Whether it is elsewhere, and gone at the next boot.
    pub is_transient: bool,
}

/// What Podman says of itself.
#[derive(Debug, Deserialize)]
pub(super) struct Info {
    host: HostInfo,
    store: StoreInfo,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostInfo {
    #[serde(default)]
    database_backend: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoreInfo {
    graph_root: PathBuf,
    #[serde(default)]
    transient_store: bool,
}

impl From<Info> for Store {
    fn from(Info { host, store }: Info) -> Self {
        Self {
            folder: store.graph_root,
            backend: host.database_backend,
            is_transient: store.transient_store,
        }
    }
}
