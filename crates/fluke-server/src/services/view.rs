//! What hosts said of their services, and what follows from it for all of them.
//!
//! Pure: what was heard goes in, tables come out. A host that is not sure to be there is treated
//! with care: what it runs is not placed elsewhere before its time is up, and not led to as soon as
//! its machine falls silent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Instant;

use fluke_model::bounds::{MAX_PLACES, MAX_REPLICAS};
use fluke_model::directory::{Peer, Route, RouteKey, Whereabouts};
use fluke_model::id::{AgentName, Hash256, ServiceName};
use fluke_model::label::Labels;
use fluke_model::message::NodeType;
use fluke_model::placement::{Candidate, Placement, Wanted, keep, place};
use fluke_model::service::{
    DeploymentId, DeploymentReport, Phase, Replica, Service, ServiceExecutor,
};

use super::claims::Claims;
use super::editions::{Editions, Leaver};
use super::host::{HostView, Presence};

/// How many hosts are known at most; what others say of hosts must not fill the memory.
const MOST: usize = 100_000;

/// The services of a commit.
pub type Services = BTreeMap<ServiceName, Arc<Service>>;

/// What is known of all hosts.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// By name.
    pub hosts: BTreeMap<AgentName, HostView>,
    /// Whose subnet is whose.
    pub claims: Claims,
    /// Those that people said will not come back: others may still speak of them.
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

/// What is called what.
type NameRows = BTreeMap<ServiceName, BTreeSet<Ipv4Addr>>;
/// What comes in goes where.
type RouteRows = BTreeMap<RouteKey, Route>;

/// Who serves now and will go on to: replicas by service.
type Served<'a> = BTreeMap<&'a ServiceName, BTreeSet<Replica>>;

impl View {
    /// Takes note of an agent that connected. What was known of its host holds until it says
    /// otherwise; whether it has left the mesh is said.
    pub fn arrive(&mut self, name: &AgentName, came: Came, now: Instant) -> bool {
        let presence = Presence::Arriving(now);
        self.forgotten.remove(name);
        let host = self.hosts.entry(name.clone()).or_insert_with(|| HostView::new(presence));
        let Came { labels, node_type, executors } = came;
        (host.labels, host.node_type, host.executors) = (Some(labels), node_type, executors);
        host.presence = presence;
        host.connects(None);
        !host.does(ServiceExecutor::Mesh) && host.mesh.take().is_some()
    }

    /// Forgets a host, and does not listen to what others say of it until it comes itself.
    pub fn forget(&mut self, name: &AgentName) -> Option<HostView> {
        let host = self.hosts.remove(name)?;
        self.claims.give_up(name);
        self.forgotten.insert(name.clone());
        Some(host)
    }

    /// Where the numbered replicas of `service` belong.
    pub fn place(&self, service: &Service, now: Instant) -> Placement {
        self.placed_by(place, service, now)
    }

    /// Where they are, as far as that is known.
    pub fn keep(&self, service: &Service, now: Instant) -> Placement {
        self.placed_by(keep, service, now)
    }

    fn placed_by(
        &self,
        how: fn(Wanted<'_>, &[Candidate]) -> Placement,
        service: &Service,
        now: Instant,
    ) -> Placement {
        let Some(replicas) = service.replicas else { return Placement::new() };
        let is_concerned = |(_, host): &(_, &HostView)| {
            takes(host, service) || host.volumes_of(service).next().is_some()
        };
        let hosts = || self.hosts.iter().filter(is_concerned);
        let rooted: BTreeSet<u32> = hosts().flat_map(|(_, host)| host.roots(service)).collect();
        let candidate = |(name, host): (&AgentName, &HostView)| {
            let own: BTreeSet<u32> = host.roots(service).collect();
            // What was given to one host and runs on another stays where it runs.
            let is_its = |number: &u32| own.contains(number) || !rooted.contains(number);
            Candidate {
                host: name.clone(),
                matches: takes(host, service),
                away: host.presence.away_since().map(|since| now.saturating_duration_since(since)),
                holds: host.holds(&service.name).into_iter().filter(is_its).collect(),
                volumes: host.volumes_of(service).map(|(it, names)| (it, names.count())).collect(),
            }
        };
        let candidates: Vec<Candidate> = hosts().map(candidate).collect();
        let wanted = Wanted {
            service: &service.name,
            replicas,
            is_stateful: service.container.is_stateful(),
            reschedule_after: service.reschedule_after,
        };
        how(wanted, &candidates)
    }

    /// Remembers what was placed, so that it stays placed.
    pub fn give(&mut self, service: &ServiceName, placement: &Placement) {
        let mut given: BTreeMap<&AgentName, BTreeSet<u32>> = BTreeMap::new();
        for (number, host) in placement {
            given.entry(host).or_default().insert(*number);
        }
        for (name, host) in &mut self.hosts {
            match given.remove(name) {
                None => drop(host.given.remove(service)),
                Some(numbers) => drop(host.given.insert(service.clone(), numbers)),
            }
        }
    }

    /// Takes another host's word for where replicas and volumes are, of hosts that have not been
    /// seen.
    pub fn hear_of(&mut self, known: &BTreeMap<ServiceName, Whereabouts>, now: Instant) {
        for (service, Whereabouts { replicas, volumes }) in known {
            for (number, name) in replicas {
                if let Some(host) = self.heard_of(name, now) {
                    host.given.entry(service.clone()).or_default().insert(*number);
                }
            }
            for (number, hosts) in volumes.range(..MAX_REPLICAS) {
                for (name, volumes) in hosts {
                    if let Some(host) = self.heard_of(name, now) {
                        let kept = host.volumes.entry(service.clone()).or_default();
                        kept.entry(*number).or_default().extend(volumes.iter().cloned());
                    }
                }
            }
        }
    }

    /// A host that others speak of, unless it speaks for itself.
    fn heard_of(&mut self, name: &AgentName, now: Instant) -> Option<&mut HostView> {
        let is_new = !self.hosts.contains_key(name);
        if is_new && (self.hosts.len() >= MOST || self.forgotten.contains(name)) {
            return None;
        }
        let host = self.hosts.entry(name.clone()).or_insert_with(|| HostView::expected(now));
        matches!(host.presence, Presence::Expected(_)).then_some(host)
    }

    /// Where everything is, for those who will be asked.
    pub fn placements(&self, services: &Services) -> BTreeMap<ServiceName, Whereabouts> {
        let mut table: BTreeMap<ServiceName, Whereabouts> = BTreeMap::new();
        let mut places: BTreeMap<&ServiceName, usize> = BTreeMap::new();
        let mut others = 0;
        for (name, host) in &self.hosts {
            for (service, numbers) in &host.given {
                let row = table.entry(service.clone()).or_default();
                row.replicas.extend(numbers.iter().map(|number| (*number, name.clone())));
            }
            for (service, kept) in &host.volumes {
                let told = match services.contains_key(service) {
                    true => places.entry(service).or_default(),
                    // Nobody must be able to fill the table with what nobody asks for.
                    false => &mut others,
                };
                for (number, names) in kept.iter().take(MAX_PLACES.saturating_sub(*told)) {
                    *told += 1;
                    let row = table.entry(service.clone()).or_default();
                    row.volumes.entry(*number).or_default().insert(name.clone(), names.clone());
                }
            }
        }
        table
    }

    /// Who serves in which place, and is not on its way out.
    fn served(&self, now: Instant) -> Served<'_> {
        let mut served = Served::new();
        for host in self.hosts.values().filter(|host| host.presence.is_reachable(now)) {
            let stays = |it: &&DeploymentReport| it.serves && it.phase != Phase::Retiring;
            for it in host.deployments.values().filter(stays) {
                served.entry(&it.service).or_default().insert(it.replica);
            }
        }
        served
    }

    /// Every container that may be led to, by service.
    fn serving(
        &self,
        services: &Services,
        now: Instant,
    ) -> BTreeMap<&ServiceName, BTreeSet<Ipv4Addr>> {
        let served = self.served(now);
        let mut serving: BTreeMap<&ServiceName, (BTreeSet<_>, BTreeSet<_>)> = BTreeMap::new();
        for host in self.hosts.values().filter(|host| host.does(ServiceExecutor::Mesh)) {
            let is_reachable = host.presence.is_reachable(now);
            let is_led_to = |it: &&DeploymentReport| {
                it.serves
                    && !(it.phase == Phase::Retiring && is_replaced(it, host, services, &served))
            };
            for it in host.deployments.values().filter(is_led_to) {
                let (sure, doubtful) = serving.entry(&it.service).or_default();
                let addresses = if is_reachable { sure } else { doubtful };
                addresses.extend(it.address);
            }
        }
        // The last ones are not taken out on mere suspicion: somewhere to go is better than nowhere.
        let choose =
            |(sure, doubtful): (BTreeSet<_>, _)| if sure.is_empty() { doubtful } else { sure };
        serving.into_iter().map(|(service, found)| (service, choose(found))).collect()
    }

    /// What is called what, and what comes in goes where. A service of the commit that nothing serves
    /// has a name all the same.
    pub fn names_and_routes(&self, services: &Services, now: Instant) -> (NameRows, RouteRows) {
        let serving = self.serving(services, now);
        let row =
            |name: &ServiceName| (name.clone(), serving.get(name).cloned().unwrap_or_default());
        let names = services.keys().map(row).collect();
        let mut routes = BTreeMap::new();
        for service in services.values() {
            let addresses = serving.get(&service.name);
            for port in service.ports.iter().filter(|port| port.traffic.is_public()) {
                let key = RouteKey { service: service.name.clone(), port: port.name.clone() };
                let upstream = |address: &Ipv4Addr| SocketAddrV4::new(*address, port.container);
                let upstreams = addresses.into_iter().flatten().map(upstream).collect();
                routes.insert(key, Route { traffic: port.traffic.clone(), upstreams });
            }
        }
        (names, routes)
    }

    /// Who is in the mesh; also those that are away, whose tunnels wait for them.
    pub fn peers(&self) -> BTreeMap<AgentName, Peer> {
        let peer = |(name, host): (&AgentName, &HostView)| {
            let mesh = host.mesh.as_ref()?;
            let subnet = self.claims.subnet(name)?;
            let (public_key, endpoints) = (mesh.public_key, mesh.endpoints.clone());
            Some((name.clone(), Peer { public_key, endpoints, subnet }))
        };
        self.hosts.iter().filter_map(peer).collect()
    }

    /// The deployments that names and routes do not lead to any more, and that have to go: not
    /// wanted, and replaced by one that serves wherever that is.
    pub fn leavers(&self, services: &Services, now: Instant) -> BTreeSet<Leaver> {
        let served = self.served(now);
        let of_host = |(name, host): (&AgentName, &HostView)| {
            let retiring = host.deployments.values().filter(|it| it.phase == Phase::Retiring);
            let gone = retiring.filter(|it| is_replaced(it, host, services, &served));
            gone.map(|it| (name.clone(), it.id)).collect::<Vec<_>>()
        };
        self.hosts.iter().flat_map(of_host).collect()
    }

    /// Those of each host that are gone from what every proxy that is here has loaded, newest routes
    /// or not. A proxy that does not come on is not waited for any more.
    pub fn released(
        &self,
        editions: &Editions,
        now: Instant,
    ) -> BTreeMap<AgentName, BTreeSet<DeploymentId>> {
        let mut released: BTreeMap<AgentName, BTreeSet<DeploymentId>> = BTreeMap::new();
        let loaded = self.waited_for(now).map(|(_, proxy)| editions.number(proxy.routes()?));
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
        let number = |proxy: &HostView| proxy.routes().and_then(|it| editions.number(it));
        let is_late = move |proxy: &HostView| number(proxy).is_none_or(|it| it < edition);
        self.waited_for(now).filter(move |(_, proxy)| is_late(proxy)).map(|(name, _)| name)
    }

    fn waited_for(&self, now: Instant) -> impl Iterator<Item = (&AgentName, &HostView)> {
        self.hosts.iter().filter(move |(_, host)| host.is_a_proxy() && host.is_waited_for(now))
    }

    /// Takes note of which proxies do not have these routes, and since when.
    pub fn note_who_is_behind(&mut self, routes: Hash256, now: Instant) {
        for host in self.hosts.values_mut() {
            match host.is_a_proxy_without(routes) {
                true => drop(host.behind.get_or_insert(now)),
                false => host.behind = None,
            }
        }
    }

    /// The proxies that are here and do not have these routes.
    pub fn proxies_without(
        &self,
        routes: Hash256,
    ) -> impl Iterator<Item = (&AgentName, &HostView)> {
        self.hosts.iter().filter(move |(_, host)| host.is_a_proxy_without(routes))
    }
}

/// Whether a replica of a service that may be anywhere can be on this host.
fn takes(host: &HostView, service: &Service) -> bool {
    host.is_matched_by(service) && host.takes_replicas()
}

/// Whether a deployment that its host does not want any more need not be waited for.
fn is_replaced(
    it: &DeploymentReport,
    host: &HostView,
    services: &Services,
    served: &Served<'_>,
) -> bool {
    let Some(service) = services.get(&it.service) else { return true };
    let serves = served.get(&it.service);
    match (it.replica, service.replicas) {
        // Its successor is on the same host, which knows best.
        (Replica::Own, None) => !it.serves || !host.is_matched_by(service),
        (Replica::Number(number), Some(count)) if number >= count => true,
        (Replica::Number(_), Some(_)) => serves.is_some_and(|serves| serves.contains(&it.replica)),
        // The service is spread in another way than it was.
        (Replica::Own, Some(_)) | (Replica::Number(_), None) => serves.is_some(),
    }
}

#[cfg(test)]
mod tests;
