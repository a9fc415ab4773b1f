//! From what Podman says to what it means. Pure.

mod image;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use fluke_model::id::{Hash256, ServiceName, VolumeName};
use fluke_model::service::{ContainerSpec, DeploymentId, Health, HealthSpec, Replica};

use super::plan::{Container, Deployment, Exit, Origin, State};
use super::podman::create::{
    DEPLOYMENT, HEALTH_INTERVAL, REPLICA, SERVICE_NAME, health_test, volume,
};
use super::podman::{Condition, Details, Healthcheck, Listed};

/// What all our labels begin with.
const OURS: &str = "fluke.";

/// How often one is asked that does not say how often.
const ASKED_EVERY: Duration = Duration::from_secs(10);

/// Both clocks at once: Podman tells the time of day, plans are made by one that never jumps.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Never jumps.
    pub instant: Instant,
    /// Seconds since 1970.
    pub unix: i64,
}

/// One container: from the list, and from a closer look where there was one.
pub fn container(
    listed: &Listed,
    details: Option<&Details>,
    wanted: Option<(&Deployment, &BTreeMap<String, String>)>,
    network: &str,
    now: Now,
) -> Container {
    let none = BTreeMap::new();
    let labels = listed.labels.as_ref().unwrap_or(&none);
    let known = details.zip(wanted);
    let tampered =
        known.and_then(|(details, (wanted, env))| differs(details, wanted, env, network));
    let outdated = known.filter(|_| tampered.is_none());
    let outdated = outdated.and_then(|(details, (wanted, env))| other_values(details, wanted, env));
    let mut origin = origin(labels);
    if outdated.is_some() {
        origin.deployment = origin.deployment.map(|id| earlier(id, &listed.id));
    }
    let check = match wanted {
        Some((wanted, _)) => wanted.spec.health.clone(),
        None => details.and_then(|details| check(details, labels)),
    };
    Container {
        id: listed.id.clone(),
        name: listed.names.first().unwrap_or(&listed.id).clone(),
        is_ours: is_ours(listed),
        origin,
        state: state(&listed.state),
        health: check.as_ref().map_or(Health::None, |_| health(&listed.status)),
        check,
        tampered,
        outdated,
        told_to_end: None,
        address: details.and_then(|details| address(details, network)),
        image: listed.image.clone(),
        digest: details.and_then(|details| details.image_digest.clone()),
        complaint: None,
        exit: details.and_then(exit),
        started: started(listed, now),
        process: (listed.pid > 0).then_some(listed.pid),
        silent_at: None,
        asked_since: None,
        in_network: listed.networks.iter().flatten().any(|name| name == network),
    }
}

/// Whether it carries any of our labels.
pub fn is_ours(listed: &Listed) -> bool {
    listed.labels.iter().any(are_ours)
}

/// Whether any of these labels is.
pub fn are_ours(labels: &BTreeMap<String, String>) -> bool {
    labels.keys().any(|key| key.starts_with(OURS))
}

/// What one container is of that was made with other values of this host than there are now: of
/// something that came before, and that is another for each.
fn earlier(of: DeploymentId, container: &str) -> DeploymentId {
    DeploymentId(Hash256::of(format!("{of} as {container} has it").as_bytes()))
}

fn origin(labels: &BTreeMap<String, String>) -> Origin {
    let hash = |text: &String| Hash256::try_from(text.clone()).ok();
    let replica = match labels.get(REPLICA) {
        None => Some(Replica::Own),
        // Somebody wrote there what we never write: it is nowhere.
        Some(text) => text.parse().ok().map(Replica::Number),
    };
    Origin {
        deployment: labels.get(DEPLOYMENT).and_then(hash).map(DeploymentId),
        service: labels.get(SERVICE_NAME).and_then(|name| ServiceName::new(name).ok()),
        replica,
    }
}

/// Every state that Podman knows; one that it learns is stuck for us.
fn state(text: &str) -> State {
    match text {
        "created" | "configured" | "initialized" => State::Created,
        "running" => State::Running,
        "exited" | "stopped" => State::Exited,
        "stopping" | "removing" => State::Changing,
        _ => State::Stuck,
    }
}

fn health(text: &str) -> Health {
    match text {
        "healthy" => Health::Healthy,
        "unhealthy" => Health::Unhealthy,
        "starting" => Health::Starting,
        _ => Health::None,
    }
}

/// How one that is not wanted any more was made to be asked. What Podman asks by itself is not ours,
/// but its image's.
fn check(details: &Details, labels: &BTreeMap<String, String>) -> Option<HealthSpec> {
    const MILLI: u64 = 1_000_000;
    let Healthcheck { test, interval: 0, timeout, retries, start_period } =
        details.config.healthcheck.as_ref()?
    else {
        return None;
    };
    let [_, command] = test.as_slice() else { return None };
    let interval_ms = labels.get(HEALTH_INTERVAL).and_then(|text| text.parse().ok());
    let health = HealthSpec {
        command: command.clone(),
        interval_ms: interval_ms.unwrap_or(ASKED_EVERY.as_millis() as u64),
        timeout_ms: timeout / MILLI,
        retries: *retries,
        start_period_ms: start_period / MILLI,
    };
    (health_test(&health) == *test).then_some(health)
}

fn started(listed: &Listed, now: Now) -> Option<Instant> {
    let ago = u64::try_from(now.unix.checked_sub(listed.started_at)?).unwrap_or_default();
    let has_started = listed.started_at > 0;
    has_started.then(|| now.instant.checked_sub(Duration::from_secs(ago))).flatten()
}

fn exit(details: &Details) -> Option<Exit> {
    let Condition { exit_code, out_of_memory, .. } = details.state;
    details.state.has_ended().then_some(Exit { code: exit_code, out_of_memory })
}

fn address(details: &Details, network: &str) -> Option<Ipv4Addr> {
    details.network_settings.networks.as_ref()?.get(network)?.address.parse().ok()
}

/// Why a container is not what its deployment says, though its labels do.
fn differs(
    details: &Details,
    wanted: &Deployment,
    env: &BTreeMap<String, String>,
    network: &str,
) -> Option<String> {
    let spec = &wanted.spec;
    let checks = [
        other_image(details, spec),
        other_maker(details),
        other_command(details, spec),
        other_health(details, spec),
        other_environment(details, spec, env),
        other_volumes(details, wanted),
        other_resources(details, spec),
        other_restarter(details),
        other_network(details, network),
    ];
    checks.into_iter().flatten().next()
}

fn other_image(details: &Details, spec: &ContainerSpec) -> Option<String> {
    match image::compare(&spec.image, &details.image_name, details.image_digest.as_deref()) {
        image::Same::No(found) => Some(format!("it was made from {found}")),
        image::Same::Yes | image::Same::Unknown => None,
    }
}

/// What we make has no command line that it was made with. Whatever else is other than it should be
/// (its entry point, what it may do), one that has is not what its labels say.
fn other_maker(details: &Details) -> Option<String> {
    let is_by_hand = !details.config.create_command.is_empty();
    is_by_hand.then(|| "somebody made it by hand".into())
}

/// One that is not given is the image's own, which is not known here.
fn other_command(details: &Details, spec: &ContainerSpec) -> Option<String> {
    let is_other = spec.command.is_some() && details.config.cmd != spec.command;
    is_other.then(|| "it runs another command".into())
}

/// One that should have none is asked nothing, whatever was said to Podman when it was made.
fn other_health(details: &Details, spec: &ContainerSpec) -> Option<String> {
    let test = health_test(spec.health.as_ref()?);
    let found = details.config.healthcheck.as_ref();
    let is_other = found.is_none_or(|found| found.test != test);
    is_other.then(|| "it has another health check".into())
}

fn other_environment(
    details: &Details,
    spec: &ContainerSpec,
    env: &BTreeMap<String, String>,
) -> Option<String> {
    let mut missing = missing_in(details, env).filter(|name| spec.env.get(*name) == env.get(*name));
    missing.next().map(other_value)
}

/// Why a container that is what its deployment says has not what this host says now.
fn other_values(
    details: &Details,
    wanted: &Deployment,
    env: &BTreeMap<String, String>,
) -> Option<String> {
    let given = &wanted.spec.env;
    let mut missing = missing_in(details, env).filter(|name| given.get(*name) != env.get(*name));
    missing.next().map(other_value)
}

fn missing_in<'a>(
    details: &Details,
    env: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a String> {
    let has = |name: &String, value: &String| {
        let mut pairs = details.config.env.iter().filter_map(|pair| pair.split_once('='));
        pairs.any(|(key, text)| key == name && text == value)
    };
    env.iter().filter(move |(name, value)| !has(name, value)).map(|(name, _)| name)
}

/// The value may be a secret.
fn other_value(name: &String) -> String {
    format!("its variable {name} has another value")
}

fn other_volumes(details: &Details, wanted: &Deployment) -> Option<String> {
    let is_mounted = |name: &VolumeName, path: &str| {
        let volume = volume(wanted, name).to_string();
        details.mounts.iter().any(|mount| mount.name == volume && mount.destination == path)
    };
    let mut volumes = wanted.spec.volumes.iter();
    let missing = volumes.find(|(name, path)| !is_mounted(name, path));
    missing.map(|(name, path)| format!("its volume {name} is not at {path}"))
}

fn other_resources(details: &Details, spec: &ContainerSpec) -> Option<String> {
    let memory = spec.resources.memory.unwrap_or_default();
    let found = &details.host_config;
    if found.memory != memory as i64 {
        return Some(format!("it may use {} bytes of memory", found.memory));
    }
    let millis = match (found.cpu_quota, found.cpu_period) {
        (quota, period) if quota > 0 && period > 0 => quota as u64 * 1000 / period,
        _ => 0,
    };
    let wanted = u64::from(spec.resources.cpu_millis.unwrap_or_default());
    (millis != wanted).then(|| format!("it may use {millis} thousandths of a core"))
}

/// Two who start it again would get in each other's way.
fn other_restarter(details: &Details) -> Option<String> {
    let policy = details.host_config.restart_policy.name.as_str();
    let is_other = !matches!(policy, "" | "no");
    is_other.then(|| format!("Podman restarts it: its policy is `{policy}`"))
}

fn other_network(details: &Details, network: &str) -> Option<String> {
    let networks = details.network_settings.networks.as_ref();
    let is_there = networks.is_some_and(|networks| networks.contains_key(network));
    (!is_there).then(|| format!("it is not in the network {network}"))
}

#[cfg(test)]
mod tests;
