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
    ContainerSpec, DeploymentId, DeploymentIds, DeploymentReport, Health, Phase, Port, Replica,
    Service, ServiceExecutor, Traffic,
};
use fluke_model::status::Status;

use super::book::Book;
use super::host::{HostView, Presence, ROUTES_PATIENCE};
use super::view::public_keys;
use super::way::Way;
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

/// The same with what its containers are made from, which may be large.
pub fn whole_service(book: &Book, name: &str, looking: Looking<'_>) -> Option<ServiceView> {
    let ContainerSpec { image: _, command, env, volumes, health, resources } =
        &book.services().get(name)?.container;
    Some(ServiceView {
        command: command.clone().unwrap_or_default(),
        env: env.keys().cloned().collect(),
        volumes: volumes.clone(),
        health: health.clone(),
        cpu_millis: resources.cpu_millis,
        memory: resources.memory,
        ..service(book, name, looking)?
    })
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

/// What is counted of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// How it stands.
    pub status: Status,
    /// Its replicas.
    pub replicas: ReplicaCounts,
    /// Whether nobody gets in to it who should.
    pub lacks_a_way: bool,
}

/// What is counted of each service, in order: nothing is put into words for it.
pub fn tallies(book: &Book, now: Instant) -> impl Iterator<Item = Tally> {
    book.services().values().map(move |service| {
        let wanted = wanted(book, service);
        let (status, replicas) = Seen::all(book, service, &wanted, now).counted(service);
        let routes = book.directory().routes.table().rows();
        let mut keys = public_keys(service).map(|(key, _)| key);
        let lacks_a_way = keys.any(|key| routes.contains_key(&key) && loaded(book, &key) == 0);
        Tally { status, replicas, lacks_a_way }
    })
}

fn view(book: &Book, service: &Service, looking: Looking<'_>) -> ServiceView {
    let Looking { default_policy, now, idle } = looking;
    let wanted = wanted(book, service);
    let seen = Seen::all(book, service, &wanted, now);
    let (status, counts) = seen.counted(service);
    let owners = owners(book.view(), service);
    let ours = seen.ours.iter().map(|it| {
        let away = it.host.presence.away_since().map(|it| now.saturating_duration_since(it));
        with_remark(it.view(service), service, it.replica, away, &owners)
    });
    let others = seen.others.iter().map(|it| leaving(it.view(service), book, now));
    let mut deployments: Vec<DeploymentView> = ours.chain(others).collect();
    deployments.sort_by(|a, b| (a.replica, &a.agent).cmp(&(b.replica, &b.agent)));
    let placed: BTreeSet<Replica> = wanted.values().map(|(replica, _)| *replica).gather();
    let waiting = waiting(book, service, &placed, &owners, idle);
    let addresses = book.directory().names.table().addresses(&service.name);
    ServiceView {
        name: service.name.clone(),
        description: service.description.clone(),
        policy: service.policy.unwrap_or(default_policy),
        selector: service.selector.clone(),
        defined: service.defined.to_string(),
        image: service.container.image.clone(),
        replicas: service.replicas,
        reschedule_after_ms: moves_after(service),
        command: Vec::new(),
        env: Vec::new(),
        volumes: BTreeMap::new(),
        health: None,
        cpu_millis: None,
        memory: None,
        status,
        counts,
        ports: service.ports.clone(),
        hostname: format!("{}.internal", service.name),
        addresses: addresses.unwrap_or_default(),
        routes: service.ports.iter().filter_map(|port| route(book, service, port, now)).collect(),
        deployments,
        waiting,
    }
}

/// When replicas of a host that is away are started elsewhere, if they ever are.
fn moves_after(service: &Service) -> Option<u64> {
    let moves = service.replicas.is_some() && !service.container.is_stateful();
    moves.then_some(service.reschedule_after.as_millis() as u64)
}

/// The deployments that there should be, and where.
type Wanted<'a> = BTreeMap<(DeploymentId, &'a AgentName), (Replica, &'a HostView)>;

fn wanted<'a>(book: &'a Book, service: &Service) -> Wanted<'a> {
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

/// Why nothing leads to a host, where nothing does.
fn alone(host: &HostView) -> Option<&'static str> {
    match host.does(ServiceExecutor::Mesh) {
        false => Some(NOT_IN_MESH),
        true => host.is_without_subnet.then_some(WITHOUT_SUBNET),
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
    let why = match proxy.routes_report().map(|routes| routes.problem.as_deref()) {
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

fn away(host: &HostView) -> Option<&'static str> {
    match host.presence {
        Presence::Arriving { away, .. } if !away.was_reachable => {
            Some("its agent is back, and has not said yet what runs")
        }
        Presence::Here | Presence::Arriving { .. } => None,
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

/// All deployments of a service.
struct AllSeen<'a> {
    /// Those that there should be.
    ours: Vec<Seen<'a>>,
    /// Those that there still are.
    others: Vec<Seen<'a>>,
}

impl AllSeen<'_> {
    /// How the service stands, and how many of its replicas do how.
    fn counted(&self, service: &Service) -> (Status, ReplicaCounts) {
        let Self { ours, others } = self;
        let all = || ours.iter().chain(others);
        let count = |is: fn(&Seen<'_>) -> bool| ours.iter().filter(|it| is(it)).count() as u32;
        let counts = ReplicaCounts {
            wanted: service.replicas.unwrap_or(ours.len() as u32),
            running: count(|it| it.phase == Phase::Running && it.status != Status::Offline),
            serving: served(all()),
            failed: count(|it| it.status == Status::Failed),
        };
        (sum(all().map(|it| it.status), waits(service, ours)), counts)
    }
}

/// A deployment as it stands: what is counted of it is what is shown.
struct Seen<'a> {
    agent: &'a AgentName,
    host: &'a HostView,
    replica: Replica,
    id: DeploymentId,
    /// What its host says of it, if it says anything.
    report: Option<&'a DeploymentReport>,
    status: Status,
    phase: Phase,
    serves: bool,
}

impl<'a> Seen<'a> {
    fn all(book: &'a Book, service: &'a Service, wanted: &Wanted<'a>, now: Instant) -> AllSeen<'a> {
        let ours = wanted.iter().map(|((id, agent), (replica, host))| {
            Self::new(agent, host, (*id, *replica), host.deployments.get(id), now)
        });
        let others = running(book, &service.name);
        let others = others.filter(|(agent, _, it)| !wanted.contains_key(&(it.id, *agent)));
        let others = others
            .map(|(agent, host, it)| Self::new(agent, host, (it.id, it.replica), Some(it), now));
        AllSeen { ours: ours.collect(), others: others.collect() }
    }

    fn new(
        agent: &'a AgentName,
        host: &'a HostView,
        (id, replica): (DeploymentId, Replica),
        report: Option<&'a DeploymentReport>,
        now: Instant,
    ) -> Self {
        let status = status(host, report, now);
        let phase = report.map_or(Phase::Missing, |it| it.phase);
        let serves = report.is_some_and(|it| it.serves) && alone(host).is_none();
        Self { agent, host, replica, id, report, status, phase, serves }
    }

    fn view(&self, service: &Service) -> DeploymentView {
        let Self { host, report, .. } = *self;
        let image = report.map_or(&service.container.image, |it| &it.image);
        DeploymentView {
            agent: self.agent.clone(),
            connected: host.presence.is_connected(),
            replica: self.replica.number(),
            deployment: self.id,
            status: self.status,
            phase: self.phase,
            health: report.map_or(Health::None, |it| it.health),
            image: image.clone(),
            digest: report.and_then(|it| it.digest.clone()),
            container: report.and_then(|it| it.container.clone()),
            address: report.and_then(|it| it.address),
            serves: self.serves,
            note: self.note(),
            refused: !host.does(ServiceExecutor::Container),
        }
    }

    fn note(&self) -> Option<String> {
        let Some(it) = self.report else {
            return Some(away(self.host).unwrap_or("its agent has not spoken of it yet").into());
        };
        let alone = || alone(self.host).filter(|_| it.serves);
        it.note.clone().or_else(|| away(self.host).or_else(alone).map(str::to_string))
    }
}

/// Whether something of a service has no place.
fn waits(service: &Service, placed: &[Seen<'_>]) -> bool {
    let Some(count) = service.replicas else { return placed.is_empty() };
    let numbers = placed.iter().filter_map(|it| it.replica.number());
    let numbers: BTreeSet<u32> = numbers.filter(|number| *number < count).gather();
    numbers.len() < count as usize
}

/// The worst of those that can be asked: neither a host that is away nor what is under way must hide
/// what failed on others.
fn sum(all: impl Iterator<Item = Status> + Clone, waits: bool) -> Status {
    if all.clone().next().is_some() && all.clone().all(|status| status == Status::Offline) {
        return Status::Offline;
    }
    if all.clone().any(|status| status == Status::Failed) {
        return Status::Failed;
    }
    let waits = waits.then_some(Status::Drifted);
    Status::of(all.filter(|status| *status != Status::Offline).chain(waits))
}

/// How many replicas serve, in whatever version: while a new one does not work out, the old one
/// goes on.
fn served<'a>(all: impl Iterator<Item = &'a Seen<'a>>) -> u32 {
    let serving = all.filter(|it| it.serves && it.status != Status::Offline);
    let place = |it: &'a Seen<'a>| (it.replica, (it.replica == Replica::Own).then_some(it.agent));
    serving.map(place).gather::<BTreeSet<_>>().len() as u32
}

fn route(book: &Book, service: &Service, port: &Port, now: Instant) -> Option<RouteView> {
    let key = RouteKey { service: service.name.clone(), port: port.name.clone() };
    let route = book.directory().routes.table().rows().get(&key)?;
    let (domain, external) = match &route.traffic {
        Traffic::Http { domain } => (domain.clone(), None),
        Traffic::Tcp { external, domain } => (domain.clone(), *external),
        Traffic::Udp { external } => (None, *external),
    };
    let behind = |(name, proxy): (&AgentName, &HostView)| match Way::of(
        &key,
        proxy.routes_report(),
        book.editions(),
    ) {
        Way::LeftOut(why) => Some(format!("{name}: {}", why.unwrap_or("it is left out"))),
        Way::Behind(_) if !proxy.is_waited_for(now) => Some(given_up(name, proxy)),
        Way::Behind(_) | Way::Loaded => None,
    };
    Some(RouteView {
        port: port.name.clone(),
        protocol: route.traffic.protocol().to_string(),
        domain,
        external,
        upstreams: route.upstreams.iter().copied().collect(),
        loaded: loaded(book, &key),
        proxies: proxies(book).count() as u32,
        behind: proxies(book).filter_map(behind).collect(),
    })
}

fn proxies(book: &Book) -> impl Iterator<Item = (&AgentName, &HostView)> {
    book.view().hosts.proxies().filter(|(_, host)| host.is_a_proxy())
}

/// How many proxies have loaded a route as it is now.
fn loaded(book: &Book, route: &RouteKey) -> u32 {
    let has_loaded =
        |proxy: &HostView| Way::of(route, proxy.routes_report(), book.editions()) == Way::Loaded;
    proxies(book).filter(|(_, proxy)| has_loaded(proxy)).count() as u32
}

#[cfg(test)]
mod tests;
