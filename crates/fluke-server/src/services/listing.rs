//! Services as they look from outside: API types made from the book, and nothing decided.

mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::api::{DeploymentView, ReplicaCounts, RouteView, ServiceView};
use fluke_model::directory::RouteKey;
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, ServiceName};
use fluke_model::label::Selector;
use fluke_model::policy::Policy;
use fluke_model::service::{
    DeploymentId, DeploymentIds, DeploymentReport, Health, Phase, Port, Replica, Service,
    ServiceExecutor, Traffic,
};
use fluke_model::status::Status;

use super::book::Book;
use super::host::{HostView, Presence, ROUTES_PATIENCE};
use crate::reconcile::status_of;
use waiting::{Owners, owners, remark, waiting};

/// How many proxies are named that something waits for.
const FEW_PROXIES: usize = 8;

/// Why nothing leads to what runs.
const NOT_IN_MESH: &str = "nothing leads to it: its host's own config refuses `mesh`";
const WITHOUT_SUBNET: &str =
    "nothing leads to it: no subnet is left for its host; `fluke describe agent` says what to do";

/// The connected agents that a selector matches and that run no containers.
pub type Idle<'a> = dyn Fn(&Selector) -> Vec<AgentName> + 'a;

/// How things are looked at.
#[derive(Clone, Copy)]
pub struct Looking<'a> {
    /// Of services that name none.
    pub default_policy: Policy,
    /// When.
    pub now: Instant,
    /// Whom services would be for who has nothing to do with them.
    pub idle: &'a Idle<'a>,
}

/// One service of the commit in force.
pub fn service(book: &Book, name: &str, looking: Looking<'_>) -> Option<ServiceView> {
    Some(view(book, book.services().get(name)?, looking))
}

/// All of them, in order; each is looked at when it is asked for.
pub fn services<'a>(
    book: &'a Book,
    looking: Looking<'a>,
) -> impl Iterator<Item = (&'a ServiceName, impl FnOnce() -> ServiceView)> {
    let each = move |service: &'a Arc<Service>| move || view(book, service, looking);
    book.services().iter().map(move |(name, service)| (name, each(service)))
}

/// What runs of a service, and where.
fn running<'a>(
    book: &'a Book,
    service: &'a ServiceName,
) -> impl Iterator<Item = (&'a AgentName, &'a HostView, &'a DeploymentReport)> {
    book.view().hosts.of(service).flat_map(move |(name, host)| {
        let its = host.deployments.values().filter(move |it| it.service == *service);
        its.map(move |it| (name, host, it))
    })
}

fn view(book: &Book, service: &Service, looking: Looking<'_>) -> ServiceView {
    let Looking { default_policy, now, idle } = looking;
    let wanted = wanted(book, service);
    let owners = owners(book.view(), service);
    let mut deployments: Vec<DeploymentView> = wanted
        .iter()
        .map(|((id, agent), (replica, host))| {
            let seen = match host.deployments.get(id) {
                Some(report) => deployment(agent, host, report, now),
                None => missing(agent, host, *id, *replica, service, now),
            };
            let away = host.presence.away_since().map(|it| now.saturating_duration_since(it));
            with_remark(seen, service, *replica, away, &owners)
        })
        .collect();
    let all = running(book, &service.name);
    let others = all.filter(|(agent, _, it)| !wanted.contains_key(&(it.id, *agent)));
    let others = others.map(|(agent, host, it)| deployment(agent, host, it, now));
    deployments.extend(others.map(|seen| leaving(seen, book, now)));
    let counts = count(service, &deployments[..wanted.len()], &deployments);
    deployments.sort_by(|a, b| (a.replica, &a.agent).cmp(&(b.replica, &b.agent)));
    let placed: BTreeSet<Replica> = wanted.values().map(|(replica, _)| *replica).gather();
    let waiting = waiting(book.view(), service, &placed, &owners, idle);
    let addresses = book.directory().names.table().addresses(&service.name);
    ServiceView {
        name: service.name.clone(),
        description: service.description.clone(),
        policy: service.policy.unwrap_or(default_policy),
        selector: service.selector.clone(),
        defined: service.defined.to_string(),
        image: service.container.image.clone(),
        replicas: service.replicas,
        status: sum(&deployments, !waiting.is_empty()),
        counts,
        ports: service.ports.clone(),
        hostname: format!("{}.internal", service.name),
        addresses: addresses.unwrap_or_default(),
        routes: service.ports.iter().filter_map(|port| route(book, service, port, now)).collect(),
        deployments,
        waiting,
    }
}

/// The deployments that there should be, and where.
fn wanted<'a>(
    book: &'a Book,
    service: &Service,
) -> BTreeMap<(DeploymentId, &'a AgentName), (Replica, &'a HostView)> {
    let ids = DeploymentIds::of(&service.name, &service.container);
    let mut wanted = BTreeMap::new();
    let mut want = |replica: Replica, name: &'a AgentName, host: &'a HostView| {
        wanted.insert((ids.each(replica, name), name), (replica, host));
    };
    if service.replicas.is_none() {
        let matches = |host: &HostView| {
            host.labels.as_ref().is_some_and(|labels| service.selector.matches(labels))
        };
        let matching = book.view().hosts.iter().filter(|(_, host)| matches(host));
        matching.for_each(|(name, host)| want(Replica::Own, name, host));
        return wanted;
    }
    for (name, host) in book.view().hosts.of(&service.name) {
        // One that belongs to a host which does not match waits.
        let given = host.given.get(&service.name).filter(|_| host.is_matched_by(service));
        for number in given.into_iter().flatten() {
            want(Replica::Number(*number), name, host);
        }
    }
    wanted
}

fn deployment(
    agent: &AgentName,
    host: &HostView,
    it: &DeploymentReport,
    now: Instant,
) -> DeploymentView {
    let alone = match host.does(ServiceExecutor::Mesh) {
        false => Some(NOT_IN_MESH),
        true => host.is_without_subnet.then_some(WITHOUT_SUBNET),
    };
    let is_in_mesh = alone.is_none();
    let alone = alone.filter(|_| it.serves);
    DeploymentView {
        agent: agent.clone(),
        connected: host.presence.is_connected(),
        replica: it.replica.number(),
        deployment: it.id,
        status: status(host, Some(it), now),
        phase: it.phase,
        health: it.health,
        image: it.image.clone(),
        digest: it.digest.clone(),
        container: it.container.clone(),
        address: it.address,
        serves: it.serves && is_in_mesh,
        note: it.note.clone().or_else(|| away(host).or(alone).map(str::to_string)),
        refused: !host.does(ServiceExecutor::Container),
    }
}

/// With what a container that has to go waits for, where that is the proxies.
fn leaving(seen: DeploymentView, book: &Book, now: Instant) -> DeploymentView {
    if seen.phase != Phase::Retiring || seen.note.is_some() {
        return seen;
    }
    let editions = book.editions();
    let Some(edition) = editions.without(&(seen.agent.clone(), seen.deployment)) else {
        return seen;
    };
    let late = book.view().proxies_before(edition, editions, now);
    let names: Vec<&str> = late.map(AgentName::as_str).take(FEW_PROXIES).collect();
    if names.is_empty() {
        return seen;
    }
    let note = format!("it goes once proxies have loaded routes without it: {}", names.join(", "));
    DeploymentView { note: Some(note), ..seen }
}

/// Why a proxy is not waited for any more.
fn given_up(name: &AgentName, proxy: &HostView) -> String {
    let routes = proxy.network.as_ref().and_then(|network| network.routes.as_ref());
    let why = match routes.map(|routes| routes.problem.as_deref()) {
        Some(Some(problem)) => problem,
        Some(None) => "it does not say why",
        None => "it has not said what it has loaded",
    };
    let seconds = ROUTES_PATIENCE.as_secs();
    format!(
        "{name} has not come on with its routes for {seconds} seconds, and is not waited for: {why}"
    )
}

/// With what is to be known about its volumes behind what is known of itself.
fn with_remark(
    seen: DeploymentView,
    service: &Service,
    replica: Replica,
    away: Option<Duration>,
    owners: &Owners<'_>,
) -> DeploymentView {
    let away = away.filter(|_| !seen.connected || seen.status == Status::Offline);
    let remark = remark(service, replica, &seen.agent, away, owners);
    let note = match (seen.note, remark) {
        (Some(note), Some(remark)) => Some(format!("{note}; {remark}")),
        (note, remark) => note.or(remark),
    };
    DeploymentView { note, ..seen }
}

fn missing(
    agent: &AgentName,
    host: &HostView,
    id: DeploymentId,
    replica: Replica,
    service: &Service,
    now: Instant,
) -> DeploymentView {
    let note = away(host).unwrap_or("its agent has not spoken of it yet");
    DeploymentView {
        agent: agent.clone(),
        connected: host.presence.is_connected(),
        replica: replica.number(),
        deployment: id,
        status: status(host, None, now),
        phase: Phase::Missing,
        health: Health::None,
        image: service.container.image.clone(),
        digest: None,
        container: None,
        address: None,
        serves: false,
        note: Some(note.to_string()),
        refused: !host.does(ServiceExecutor::Container),
    }
}

fn away(host: &HostView) -> Option<&'static str> {
    match host.presence {
        Presence::Here | Presence::Arriving(_) => None,
        Presence::Restarting(_) => Some("its agent is away; the container was left running"),
        Presence::Silent(_) => Some("its host does not answer"),
        Presence::Down(_) => Some("its host was shut down or rebooted"),
        Presence::Departed(_) => Some("its agent was uninstalled"),
        Presence::Expected(_) => Some("its host was not seen since this server was started"),
    }
}

/// How one that should be there stands, by what its host says of it, if it says anything.
fn status(host: &HostView, it: Option<&DeploymentReport>, now: Instant) -> Status {
    match host.presence.is_reachable(now) {
        true => it.map_or(Status::Drifted, status_of),
        false => Status::Offline,
    }
}

/// The worst of those that can be asked: neither a host that is away nor what is under way must hide
/// what failed on others.
fn sum(deployments: &[DeploymentView], waits: bool) -> Status {
    let all = || deployments.iter().map(|it| it.status);
    if !deployments.is_empty() && all().all(|status| status == Status::Offline) {
        return Status::Offline;
    }
    if all().any(|status| status == Status::Failed) {
        return Status::Failed;
    }
    let waits = waits.then_some(Status::Drifted);
    Status::of(all().filter(|status| *status != Status::Offline).chain(waits))
}

fn count(service: &Service, wanted: &[DeploymentView], all: &[DeploymentView]) -> ReplicaCounts {
    let count = |is: fn(&DeploymentView) -> bool| wanted.iter().filter(|it| is(it)).count() as u32;
    ReplicaCounts {
        wanted: service.replicas.unwrap_or(wanted.len() as u32),
        running: count(|it| it.phase == Phase::Running && it.status != Status::Offline),
        serving: served(all),
        failed: count(|it| it.status == Status::Failed),
    }
}

/// How many replicas serve, in whatever version: while a new one does not work out, the old one
/// goes on.
fn served(deployments: &[DeploymentView]) -> u32 {
    let serving = deployments.iter().filter(|it| it.serves && it.status != Status::Offline);
    let place = |it: &DeploymentView| (it.replica, it.replica.is_none().then(|| it.agent.clone()));
    serving.map(place).gather::<BTreeSet<_>>().len() as u32
}

fn route(book: &Book, service: &Service, port: &Port, now: Instant) -> Option<RouteView> {
    let key = RouteKey { service: service.name.clone(), port: port.name.clone() };
    let routes = &book.directory().routes;
    let route = routes.table().rows().get(&key)?;
    let (domain, external) = match &route.traffic {
        Traffic::Http { domain } => (domain.clone(), None),
        Traffic::Tcp { external, domain } => (domain.clone(), *external),
        Traffic::Udp { external } => (None, *external),
    };
    let proxies = || book.view().hosts.proxies().filter(|(_, host)| host.is_a_proxy());
    let is_without = |host: &HostView| left_out(host, &key).is_some();
    let has_loaded = |host: &HostView| host.routes() == Some(routes.hash()) && !is_without(host);
    let behind = book.view().proxies_without(routes.hash());
    let behind = behind.filter(|(_, proxy)| !proxy.is_waited_for(now) && !is_without(proxy));
    let behind = behind.map(|(name, proxy)| given_up(name, proxy));
    let without =
        proxies().filter_map(|(name, host)| Some(format!("{name}: {}", left_out(host, &key)?)));
    Some(RouteView {
        port: port.name.clone(),
        protocol: route.traffic.protocol().to_string(),
        domain,
        external,
        upstreams: route.upstreams.iter().copied().collect(),
        loaded: proxies().filter(|(_, host)| has_loaded(host)).count() as u32,
        proxies: proxies().count() as u32,
        behind: behind.chain(without).collect(),
    })
}

/// Why a proxy leaves out this one route, as it says; it may have loaded all others.
fn left_out<'a>(proxy: &'a HostView, route: &RouteKey) -> Option<&'a str> {
    let problem = proxy.network.as_ref()?.routes.as_ref()?.problem.as_deref()?;
    let name = format!("{}.{} is left out", route.service, route.port);
    let mut at = problem.match_indices(&name).map(|(at, _)| &problem[..at]);
    // Another's name may end in this one.
    at.any(|before| before.is_empty() || before.ends_with(char::is_whitespace)).then_some(problem)
}

#[cfg(test)]
mod tests;
