//! What hosts said of their services, and what follows from it for all of them.
//!
//! Pure: what was heard goes in, tables come out. A host that is not sure to be there is treated
//! with care: what it runs is not placed elsewhere before its time is up, and not led to as soon as
//! its machine falls silent.

mod hearsay;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Instant;

use fluke_model::bounds::MAX_PLACES;
use fluke_model::directory::{Claim, Peer, Route, RouteKey, Whereabouts};
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, Hash256, ServiceName};
use fluke_model::label::Labels;
use fluke_model::message::NodeType;
use fluke_model::placement::{Candidate, Placement, Wanted, keep, place};
use fluke_model::service::{
    DeploymentId, DeploymentReport, Phase, Port, Replica, Service, ServiceExecutor,
};
use fluke_model::snapshot::Placed;

use super::claims::Claims;
use super::editions::{Editions, Leaver};
use super::host::{Absence, HostView, Presence};
use super::hosts::Hosts;

/// How many hosts are known at most; what others say of hosts must not fill the memory.
const MOST: usize = 100_000;

/// The services of a commit.
pub type Services = BTreeMap<ServiceName, Arc<Service>>;

/// What is known of all hosts.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// By name.
    pub hosts: Hosts,
    /// Whose subnet is whose.
    pub claims: Claims,
    /// Those that people said will not come back, and that have not spoken since: others may still
    /// speak of them.
    forgotten: BTreeSet<AgentName>,
}

/// What an agent is, as it said when it connected.
#[derive(Debug, Clone)]
pub struct Came {
    /// What services choose it by.
    pub labels: Labels,
    /// What part it plays.
    pub node_type: NodeType,
    /// What it does for services.
    pub executors: BTreeSet<ServiceExecutor>,
}

/// Where what is.
pub type WhereaboutRows = BTreeMap<ServiceName, Whereabouts>;

impl View {
    /// Takes note of an agent that connected. What was known of its host holds until it says
    /// otherwise, unless the host was booted since, and it is led to as it was: an agent comes before
    /// what its host runs. Whether it has left the mesh is said.
    pub fn arrive(
        &mut self,
        name: &AgentName,
        came: Came,
        services: &Services,
        now: Instant,
    ) -> bool {
        if !self.hosts.contains_key(name) {
            // Until it says what it has, others may know.
            let away = Absence::begins(now);
            let host = HostView::new(Presence::Arriving { came: now, away });
            self.hosts.insert(name.clone(), HostView { is_hearsay: true, ..host });
        }
        let arrive = |host: &mut HostView| {
            if host.presence == Presence::Here {
                // What it said last may have been lost with the connection before.
                host.suspect(services);
            }
            let Came { labels, node_type, executors } = came;
            (host.labels, host.node_type, host.executors) = (Some(labels), node_type, executors);
            if let Presence::Down(_) = host.presence {
                // Nothing of what ran there does before it says so.
                host.deployments.values_mut().for_each(|it| it.serves = false);
            }
            // What it made while nobody heard of it, it says itself.
            host.presence = host.presence.comes(now);
            (host.has_claimed, host.said) = (false, None);
            host.connects(None);
            !host.does(ServiceExecutor::Mesh) && host.mesh.take().is_some()
        };
        self.hosts.change(name, arrive).unwrap_or_default()
    }

    /// Takes note of a host's first word: what others were given since it was forgotten is theirs.
    pub fn has_spoken(&mut self, name: &AgentName) {
        if !self.forgotten.remove(name) {
            return;
        }
        let Some(host) = self.hosts.get(name) else { return };
        let mut taken = Placed::new();
        for service in host.services() {
            let others = self.hosts.of(&service).filter(|(other, _)| *other != name);
            let given: BTreeSet<u32> =
                others.flat_map(|(_, other)| other.decided(&service)).gather();
            let runs = host.running(&service).map(|(number, _)| number);
            set(&mut taken, &service, runs.filter(|number| given.contains(number)).gather());
        }
        self.hosts.change(name, |host| host.taken = taken);
    }

    /// Forgets a host, and does not listen to what others say of it until it speaks itself.
    pub fn forget(&mut self, name: &AgentName) -> Option<HostView> {
        let host = self.hosts.remove(name)?;
        self.claims.give_up(name);
        self.forgotten.insert(name.clone());
        if self.forgotten.len() > MOST {
            self.forgotten.pop_first();
        }
        Some(host)
    }

    /// Where the numbered replicas of `service` belong, and whether it is at rest: it stays so
    /// whoever comes or goes, of those that have nothing of it.
    pub fn place(&self, service: &Service, now: Instant) -> (Placement, bool) {
        let (kept, is_at_rest) = self.keep(service, now);
        if is_at_rest {
            return (kept, true);
        }
        let placement = placed_by(place, self.hosts.iter(), service, now);
        let is_at_rest = is_at_rest_with(service, &placement);
        (placement, is_at_rest)
    }

    /// Where they are, as far as that is known.
    pub fn keep(&self, service: &Service, now: Instant) -> (Placement, bool) {
        let placement = placed_by(keep, self.hosts.of(&service.name), service, now);
        let is_at_rest = is_at_rest_with(service, &placement);
        (placement, is_at_rest)
    }

    /// Remembers what was placed, so that it stays placed.
    pub fn give(&mut self, service: &ServiceName, placement: &Placement) {
        let mut given: BTreeMap<&AgentName, BTreeSet<u32>> = BTreeMap::new();
        for (number, host) in placement {
            given.entry(host).or_default().insert(*number);
        }
        let before = self.hosts.of(service).map(|(name, _)| name.clone());
        let hosts: BTreeSet<AgentName> = before.chain(given.keys().copied().cloned()).gather();
        for name in &hosts {
            let Some(host) = self.hosts.get(name) else { continue };
            let given = given.remove(name).unwrap_or_default();
            let was_taken =
                |number: &u32| host.taken.get(service).is_some_and(|it| it.contains(number));
            // What nobody can have for now, it has not got back by that.
            let is_taken = |number: &u32| match placement.get(number) {
                Some(heir) => heir != name,
                None => was_taken(number),
            };
            let runs = host.running(service).map(|(number, _)| number);
            let taken: BTreeSet<u32> = runs.filter(is_taken).gather();
            let is_as = |placed: &Placed, numbers: &BTreeSet<u32>| match placed.get(service) {
                Some(before) => before == numbers,
                None => numbers.is_empty(),
            };
            if !is_as(&host.given, &given) || !is_as(&host.taken, &taken) {
                self.hosts.change(name, |host| {
                    set(&mut host.given, service, given);
                    set(&mut host.taken, service, taken);
                });
            }
        }
    }

    /// Leaves what was given only of those that are numbered; says of which others it was not.
    pub fn take_back_but_for(
        &mut self,
        is_numbered: impl Fn(&ServiceName) -> bool,
    ) -> Vec<ServiceName> {
        let is_placed = |service: &ServiceName| {
            let is_its = |placed: &Placed| placed.contains_key(service);
            self.hosts.of(service).any(|(_, host)| is_its(&host.given) || is_its(&host.taken))
        };
        let others = self.hosts.services().filter(|it| !is_numbered(it) && is_placed(it));
        let others: Vec<ServiceName> = others.cloned().collect();
        others.iter().for_each(|service| self.give(service, &Placement::new()));
        others
    }

    /// Where everything of these services is, for those who will be asked; none of those that nobody
    /// has anything of.
    pub fn placements(
        &self,
        of: &BTreeSet<ServiceName>,
        services: &Services,
    ) -> BTreeMap<ServiceName, Option<Whereabouts>> {
        let (asked, unasked): (Vec<_>, Vec<_>) =
            of.iter().partition(|name| services.contains_key(*name));
        let mut rows: BTreeMap<_, _> =
            asked.into_iter().map(|name| (name.clone(), self.whereabouts(name))).gather();
        if !unasked.is_empty() {
            rows.extend(unasked.into_iter().map(|name| (name.clone(), None)));
            rows.extend(self.unasked(services).into_iter().map(|(name, row)| (name, Some(row))));
        }
        rows
    }

    /// Where everything of a service is.
    fn whereabouts(&self, service: &ServiceName) -> Option<Whereabouts> {
        let mut row = Whereabouts::default();
        let mut told = 0;
        for (name, host) in self.hosts.of(service) {
            let numbers = host.given.get(service).into_iter().flatten();
            row.replicas.extend(numbers.map(|number| (*number, name.clone())));
            let kept = host.volumes.get(service).into_iter().flatten();
            for (number, names) in kept.take(MAX_PLACES.saturating_sub(told)) {
                told += 1;
                row.volumes.entry(*number).or_default().insert(name.clone(), names.clone());
            }
        }
        (row != Whereabouts::default()).then_some(row)
    }

    /// The same of services that are not in Git, all together: nobody must be able to fill the table
    /// with what nobody asks for.
    fn unasked(&self, services: &Services) -> WhereaboutRows {
        let is_unasked = |name: &&ServiceName| !services.contains_key(*name);
        let hosts = self.hosts.services().filter(is_unasked).flat_map(|name| self.hosts.of(name));
        let hosts: BTreeMap<&AgentName, &HostView> = hosts.gather();
        let mut rows = WhereaboutRows::new();
        let mut told = 0;
        for (name, host) in hosts {
            for (service, numbers) in host.given.iter().filter(|(it, _)| is_unasked(it)) {
                let row = rows.entry(service.clone()).or_default();
                row.replicas.extend(numbers.iter().map(|number| (*number, name.clone())));
            }
            for (service, kept) in host.volumes.iter().filter(|(it, _)| is_unasked(it)) {
                for (number, names) in kept.iter().take(MAX_PLACES.saturating_sub(told)) {
                    told += 1;
                    let row = rows.entry(service.clone()).or_default();
                    row.volumes.entry(*number).or_default().insert(name.clone(), names.clone());
                }
            }
        }
        rows
    }

    /// Who serves in which place, and is not on its way out.
    pub(super) fn served(&self, service: &ServiceName, now: Instant) -> BTreeSet<Replica> {
        let hosts = self.hosts.of(service).filter(|(_, host)| host.presence.is_reachable(now));
        let all = hosts.flat_map(|(_, host)| host.deployments.values());
        let stays = |it: &&DeploymentReport| {
            it.service == *service && it.serves && it.phase != Phase::Retiring
        };
        all.filter(stays).map(|it| it.replica).gather()
    }

    /// Every container of a service that may be led to: of hosts that it is for, within their own
    /// subnet, or one that nobody has where they have not claimed any, whatever they say. `before`:
    /// where it was led to; what leaves a host that it is for no more goes on until something else
    /// serves.
    pub fn serving(
        &self,
        service: &Service,
        services: &Services,
        before: &BTreeSet<Ipv4Addr>,
        now: Instant,
    ) -> BTreeSet<Ipv4Addr> {
        let served = self.served(&service.name, now);
        let (mut sure, mut doubtful) = (BTreeSet::new(), BTreeSet::new());
        for (name, host) in self.hosts.of(&service.name) {
            // Who said that it goes down is not suspected of it.
            if !host.does(ServiceExecutor::Mesh) || matches!(host.presence, Presence::Down(_)) {
                continue;
            }
            let is_for_it = host.is_matched_by(service);
            let is_led_to = |it: &&DeploymentReport| {
                let is_leaving = it.phase == Phase::Retiring;
                it.service == service.name
                    && it.serves
                    && !(is_leaving && is_replaced(it, host, services, &served))
            };
            let is_its = |address: &Ipv4Addr| {
                self.claims.may_be_at(name, *address) && (is_for_it || before.contains(address))
            };
            let led_to = host.deployments.values().filter(is_led_to);
            let is_reachable = host.presence.is_reachable(now);
            let addresses = if is_reachable { &mut sure } else { &mut doubtful };
            addresses.extend(led_to.filter_map(|it| it.address).filter(is_its));
        }
        // The last ones are not taken out on mere suspicion: somewhere to go is better than nowhere.
        if sure.is_empty() { doubtful } else { sure }
    }

    /// A host's row among those in the mesh; also of one that is away, whose tunnels wait for it.
    pub fn peer(&self, name: &AgentName) -> Option<Peer> {
        let mesh = self.hosts.get(name)?.mesh.as_ref()?;
        let Claim { subnet, since } = self.claims.of(name)?;
        let (public_key, endpoints) = (mesh.public_key, mesh.endpoints.clone());
        Some(Peer { public_key, endpoints, subnet, since })
    }

    /// The deployments that names and routes do not lead to any more, and that have to go: not
    /// wanted, and replaced by one that serves wherever that is.
    pub fn leavers(&self, services: &Services, now: Instant) -> BTreeSet<Leaver> {
        let mut served: BTreeMap<&ServiceName, BTreeSet<Replica>> = BTreeMap::new();
        let mut leavers = BTreeSet::new();
        for (name, host) in self.hosts.retiring() {
            for it in host.deployments.values().filter(|it| it.phase == Phase::Retiring) {
                let served =
                    served.entry(&it.service).or_insert_with(|| self.served(&it.service, now));
                if is_replaced(it, host, services, served) {
                    leavers.insert((name.clone(), it.id));
                }
            }
        }
        leavers
    }

    /// Those of each host that are gone from what every proxy that is here has loaded, newest routes
    /// or not. A proxy that does not come on is not waited for any more.
    pub fn released(
        &self,
        editions: &Editions,
        now: Instant,
    ) -> BTreeMap<AgentName, BTreeSet<DeploymentId>> {
        let mut released: BTreeMap<AgentName, BTreeSet<DeploymentId>> = BTreeMap::new();
        let mut loaded = self.waited_for(now).map(|(_, proxy)| editions.number(proxy.routes()?));
        let Some(oldest) = loaded.try_fold(u64::MAX, |oldest, it| Some(oldest.min(it?))) else {
            return released;
        };
        for (name, id) in editions.gone_by(oldest) {
            released.entry(name.clone()).or_default().insert(*id);
        }
        released
    }

    /// The proxies that are waited for, and have not loaded this edition of the routes nor one since.
    pub fn proxies_before(
        &self,
        edition: u64,
        editions: &Editions,
        now: Instant,
    ) -> impl Iterator<Item = &AgentName> {
        let is_late = move |proxy: &HostView| !editions.has(proxy.routes(), edition);
        self.waited_for(now).filter(move |(_, proxy)| is_late(proxy)).map(|(name, _)| name)
    }

    fn waited_for(&self, now: Instant) -> impl Iterator<Item = (&AgentName, &HostView)> {
        self.hosts.proxies().filter(move |(_, host)| host.leads(now) && host.is_waited_for(now))
    }

    /// Takes note of which proxies do not come on to these routes, and since when.
    pub fn note_who_is_behind(&mut self, routes: Hash256, now: Instant) {
        let is_other = |host: &HostView| host.is_behind(routes, now) != host.behind;
        let others = self.hosts.proxies().filter(|(_, host)| is_other(host));
        let others: Vec<AgentName> = others.map(|(name, _)| name.clone()).collect();
        for name in others {
            self.hosts.change(&name, |host| host.behind = host.is_behind(routes, now));
        }
    }

    /// The proxies that take public traffic now and are not known to have these routes.
    pub fn proxies_without(
        &self,
        routes: Hash256,
        now: Instant,
    ) -> impl Iterator<Item = (&AgentName, &HostView)> {
        self.hosts.proxies().filter(move |(_, host)| host.leads_without(routes, now))
    }
}

/// Where what comes in for a service goes.
pub fn routes_of(
    service: &Service,
    serving: &BTreeSet<Ipv4Addr>,
) -> impl Iterator<Item = (RouteKey, Route)> {
    public_keys(service).map(move |(key, port)| {
        let upstream = |address: &Ipv4Addr| SocketAddrV4::new(*address, port.container);
        let upstreams = serving.iter().map(upstream).gather();
        (key, Route { traffic: port.traffic.clone(), upstreams })
    })
}

/// What the routes of a service are called.
pub fn public_keys(service: &Service) -> impl Iterator<Item = (RouteKey, &Port)> {
    let ports = service.ports.iter().filter(|port| port.traffic.is_public());
    let key = |port: &Port| RouteKey { service: service.name.clone(), port: port.name.clone() };
    ports.map(move |port| (key(port), port))
}

/// These are all the replicas of a service from now on.
fn set(placed: &mut Placed, service: &ServiceName, numbers: BTreeSet<u32>) {
    match numbers.is_empty() {
        true => drop(placed.remove(service)),
        false => drop(placed.insert(service.clone(), numbers)),
    }
}

pub(super) fn placed_by<'a>(
    how: fn(Wanted<'_>, &[Candidate]) -> Placement,
    hosts: impl Iterator<Item = (&'a AgentName, &'a HostView)> + Clone,
    service: &Service,
    now: Instant,
) -> Placement {
    let Some(replicas) = service.replicas else { return Placement::new() };
    let is_concerned = |(_, host): &(_, &HostView)| {
        takes(host, service) || host.volumes_of(service).next().is_some()
    };
    let hosts = hosts.filter(is_concerned);
    let candidate = |(name, host): (&AgentName, &HostView)| Candidate {
        host: name.clone(),
        matches: takes(host, service),
        away: host.presence.away_since().map(|since| now.saturating_duration_since(since)),
        holds: host.holds(&service.name),
        given: host.decided(&service.name),
        volumes: host.volumes_of(service).map(|(it, names)| (it, names.count())).gather(),
    };
    let candidates: Vec<Candidate> = hosts.map(candidate).collect();
    let wanted = Wanted {
        service: &service.name,
        replicas,
        is_stateful: service.container.is_stateful(),
        reschedule_after: service.reschedule_after,
    };
    how(wanted, &candidates)
}

/// Whether a host that has nothing of a service changes nothing about where that is: every replica
/// has a place, and no host has so many that another one could take some.
fn is_at_rest_with(service: &Service, placement: &Placement) -> bool {
    let Some(replicas) = service.replicas else { return true };
    let is_full = placement.len() == replicas as usize;
    let is_spread = || placement.values().gather::<BTreeSet<_>>().len() == placement.len();
    is_full && (service.container.is_stateful() || is_spread())
}

/// Whether a replica of a service that may be anywhere can be on this host.
pub(super) fn takes(host: &HostView, service: &Service) -> bool {
    host.is_matched_by(service) && host.takes_replicas()
}

/// Whether a deployment that its host does not want any more need not be waited for.
fn is_replaced(
    it: &DeploymentReport,
    host: &HostView,
    services: &Services,
    served: &BTreeSet<Replica>,
) -> bool {
    let Some(service) = services.get(&it.service) else { return true };
    match (it.replica, service.replicas) {
        // Its successor is on the same host, which knows best.
        (Replica::Own, None) => !it.serves || !host.is_matched_by(service),
        (Replica::Number(number), Some(count)) if number >= count => true,
        (Replica::Number(_), Some(_)) => served.contains(&it.replica),
        // The service is spread in another way than it was.
        (Replica::Own, Some(_)) | (Replica::Number(_), None) => !served.is_empty(),
    }
}

#[cfg(test)]
mod tests;
