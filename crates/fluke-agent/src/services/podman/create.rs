//! How a container is made. Pure.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fluke_model::gather::Gather;
use fluke_model::id::{ServiceName, VolumeName};
use fluke_model::service::{HealthSpec, Replica};
use fluke_model::volume::Volume;
use serde::Serialize;

use crate::services::plan::Deployment;

/// Whose a container is; see [`crate::services::observe`].
pub const DEPLOYMENT: &str = "fluke.deployment.id";
/// The service's identity, which is its name: there is no database to give it another.
pub const SERVICE_ID: &str = "fluke.service.id";
/// The service's name.
pub const SERVICE_NAME: &str = "fluke.service.name";
/// Which of the service's replicas; absent for a host's own one.
pub const REPLICA: &str = "fluke.replica";
/// How often it is asked how it feels, in milliseconds; absent where it is not.
pub const HEALTH_INTERVAL: &str = "fluke.health.interval_ms";
/// Which of the service's volumes.
pub const VOLUME: &str = "fluke.volume";

/// The period over which use of a processor is counted, in microseconds.
const CPU_PERIOD: u64 = 100_000;

/// What a container has written is kept up to this size, in bytes, where Podman itself keeps it.
const LOG_SIZE: u64 = 16 << 20;

/// What Podman is asked to make.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Made {
    name: String,
    image: String,
    labels: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    env: BTreeMap<String, String>,
    netns: Namespace,
    #[serde(rename = "Networks")]
    networks: BTreeMap<String, Attachment>,
    dns_server: Vec<Ipv4Addr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<NamedVolume>,
    healthconfig: HealthConfig,
    resource_limits: ResourceLimits,
    r_limits: Vec<Limit>,
    restart_policy: &'static str,
    image_volume_mode: &'static str,
    log_configuration: LogConfiguration,
}

impl Made {
    /// The same under another name.
    pub fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// What it is to be called.
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct LogConfiguration {
    size: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Namespace {
    nsmode: &'static str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Attachment {
    static_ips: Vec<Ipv4Addr>,
    static_mac: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct NamedVolume {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Dest")]
    dest: String,
}

/// Times in nanoseconds. An interval of 0: Podman asks only when it is told to, so that no timer
/// starts a process.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct HealthConfig {
    test: Vec<String>,
    interval: u64,
    timeout: u64,
    retries: u32,
    start_period: u64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
struct ResourceLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<Cpu>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Memory {
    limit: u64,
    /// Memory and swap together.
    swap: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Cpu {
    quota: i64,
    period: u64,
}

/// A limit that the container gets; without any, Podman's own may be more than it may give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// `nofile`, `nproc`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What it starts with.
    pub soft: u64,
    /// What it may raise it to.
    pub hard: u64,
}

/// Where a container is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot<'a> {
    /// The network's name.
    pub network: &'a str,
    /// Its own address.
    pub address: Ipv4Addr,
    /// Where it asks for names.
    pub gateway: Ipv4Addr,
}

/// A name that tells people what it is.
pub fn container_name(deployment: &Deployment) -> String {
    let (service, id) = (&deployment.service, deployment.id.short());
    match deployment.replica {
        Replica::Own => format!("{service}-{id}"),
        Replica::Number(number) => format!("{service}-{number}-{id}"),
    }
}

/// A volume of a service's replica on this host; the same for every version of the service.
pub fn volume(deployment: &Deployment, name: &VolumeName) -> Volume {
    let (service, replica) = (deployment.service.clone(), deployment.replica);
    Volume { service, replica, name: name.clone() }
}

/// What a volume is marked with, for people who look for it. Whose it is, its name says: one that
/// somebody made anew from a backup has no labels.
pub fn volume_labels(volume: &Volume) -> BTreeMap<&'static str, String> {
    let mut labels = place_labels(&volume.service, volume.replica);
    labels.insert(VOLUME, volume.name.to_string());
    labels
}

/// What to ask Podman for.
pub fn create_body(
    deployment: &Deployment,
    env: BTreeMap<String, String>,
    spot: Spot<'_>,
    limits: Vec<Limit>,
) -> Made {
    let spec = &deployment.spec;
    let volumes = spec.volumes.iter().map(|(name, path)| NamedVolume {
        name: volume(deployment, name).to_string(),
        dest: path.clone(),
    });
    let quota = |millis: u32| i64::from(millis) * (CPU_PERIOD as i64) / 1000;
    Made {
        name: container_name(deployment),
        image: spec.image.clone(),
        labels: labels(deployment),
        command: spec.command.clone(),
        env,
        netns: Namespace { nsmode: "bridge" },
        networks: BTreeMap::from([(
            spot.network.to_owned(),
            Attachment { static_ips: vec![spot.address], static_mac: mac(spot.address) },
        )]),
        dns_server: vec![spot.gateway],
        volumes: volumes.collect(),
        healthconfig: health_config(spec.health.as_ref()),
        resource_limits: ResourceLimits {
            memory: spec.resources.memory.map(|limit| Memory { limit, swap: limit }),
            cpu: spec
                .resources
                .cpu_millis
                .map(|millis| Cpu { quota: quota(millis), period: CPU_PERIOD }),
        },
        r_limits: limits,
        // We start what should run; two who do would get in each other's way.
        restart_policy: "no",
        // A volume that the manifest does not name is not kept.
        image_volume_mode: "tmpfs",
        // As the host has it; but no container may fill the disk by talking.
        log_configuration: LogConfiguration { size: LOG_SIZE },
    }
}

fn health_config(health: Option<&HealthSpec>) -> HealthConfig {
    let Some(health) = health else {
        // Where nothing is said, Podman asks what the image asks for, by a timer.
        return HealthConfig { test: vec!["NONE".into()], ..HealthConfig::default() };
    };
    HealthConfig {
        test: health_test(health),
        interval: 0,
        timeout: health.timeout_ms.saturating_mul(1_000_000),
        retries: health.retries,
        // Failures do not count before the first question that the manifest asks for.
        start_period: health.start_period_ms.max(health.interval_ms).saturating_mul(1_000_000),
    }
}

/// What is run in a container to ask it how it feels.
pub fn health_test(health: &HealthSpec) -> Vec<String> {
    vec!["CMD-SHELL".into(), health.command.clone()]
}

fn labels(deployment: &Deployment) -> BTreeMap<&'static str, String> {
    let mut labels = place_labels(&deployment.service, deployment.replica);
    labels.insert(DEPLOYMENT, deployment.id.to_string());
    labels.insert(SERVICE_ID, deployment.service.to_string());
    let interval = deployment.spec.health.as_ref().map(|health| health.interval_ms.to_string());
    labels.extend(interval.map(|interval| (HEALTH_INTERVAL, interval)));
    labels
}

fn place_labels(service: &ServiceName, replica: Replica) -> BTreeMap<&'static str, String> {
    let number = replica.number().map(|number| (REPLICA, number.to_string()));
    [(SERVICE_NAME, service.to_string())].into_iter().chain(number).gather()
}

/// The same for the same address, so that nobody's memory of who is where gets stale.
fn mac(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("02:42:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}
