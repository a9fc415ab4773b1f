//! What hosts said of their services, and what follows from it for all of them.
//!
//! Pure: what was heard goes in, tables come out. A host that is not sure to be there is treated
//! with care: what it runs is not placed elsewhere before its time is up, and not led to as soon as
//! its machine falls silent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::directory::{Names, Peer, Peers, Placements, Route, RouteKey, Routes, Table};
use fluke_model::id::{AgentName, Hash256, ServiceName};
use fluke_model::label::Labels;
use fluke_model::message::{MeshReport, NetworkReport, NodeType, ServicesReport};
use fluke_model::placement::{Candidate, Placement, Wanted, place};
use fluke_model::service::{DeploymentId, DeploymentReport, Phase, Replica, Service};

use super::claims::Claims;

/// How long what a host runs is led to after its agent's connection was closed in good order: the
/// agent restarts, the machine goes on.
pub const RESTART_GRACE: Duration = Duration::from_secs(30);

/// The services of a commit.
pub type Services = BTreeMap<ServiceName, Arc<Service>>;

/// What is known of one host.
#[derive(Debug, Clone)]
pub struct HostView {
    /// What services choose it by; none for one that others spoke of and that was not seen yet.
    pub labels: Option<Labels>,
    /// Whether it takes public traffic.
    pub node_type: NodeType,
    /// Whether it is there.
    pub presence: Presence,
    /// What it runs.
    pub deployments: BTreeMap<DeploymentId, DeploymentReport>,
    /// The replicas that it was given and may not speak of yet.
    pub given: BTreeMap<ServiceName, BTreeSet<u32>>,
    /// How names, routes and mesh are there.
    pub network: Option<NetworkReport>,
    /// How it is reached.
    pub mesh: Option<MeshReport>,
}

/// Whether a host is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Connected.
    Here,
    /// Its agent closed the connection: the machine lives.
    Restarting(Instant),
    /// Nothing is heard of its machine; the connection may still be thought open.
    Silent(Instant),
    /// Others spoke of it; it was not seen since this server started.
    Expected(Instant),
}

impl Presence {
    /// Since when it is away; none if it is here.
    fn away_since(self) -> Option<Instant> {
        match self {
            Self::Here => None,
            Self::Restarting(since) | Self::Silent(since) | Self::Expected(since) => Some(since),
        }
    }

    /// Whether what it runs may be led to.
    fn is_reachable(self, now: Instant) -> bool {
        match self {
            Self::Here => true,
            Self::Restarting(since) => now.saturating_duration_since(since) < RESTART_GRACE,
            Self::Silent(_) | Self::Expected(_) => false,
        }
    }
}

/// What is known of all hosts.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// By name.
    pub hosts: BTreeMap<AgentName, HostView>,
    /// Whose subnet is whose.
    pub claims: Claims,
}

impl HostView {
    /// One that has just connected.
    pub fn here(labels: Labels, node_type: NodeType) -> Self {
        Self { labels: Some(labels), node_type, ..Self::new(Presence::Here) }
    }

    /// One that others speak of.
    pub fn expected(now: Instant) -> Self {
        Self::new(Presence::Expected(now))
    }

    fn new(presence: Presence) -> Self {
        Self {
            labels: None,
            node_type: NodeType::Worker,
            presence,
            deployments: BTreeMap::new(),
            given: BTreeMap::new(),
            network: None,
            mesh: None,
        }
    }

    /// Takes what changed.
    pub fn reported(&mut self, report: ServicesReport) {
        if report.whole {
            self.deployments.clear();
        }
        report.gone.iter().for_each(|id| drop(self.deployments.remove(id)));
        self.deployments.extend(report.deployments.into_iter().map(|it| (it.id, it)));
    }

    /// The numbered replicas of a service that it runs, was given, or has the volumes of. What
    /// retires is on its way out, unless its data is here.
    fn holds(&self, service: &ServiceName) -> Vec<u32> {
        let is_held = |it: &&DeploymentReport| {
            it.service == *service && (it.phase != Phase::Retiring || it.has_volumes)
        };
        let number = |it: &DeploymentReport| match it.replica {
            Replica::Number(number) => Some(number),
            Replica::Own => None,
        };
        let runs = self.deployments.values().filter(is_held).filter_map(number);
        let given = self.given.get(service).into_iter().flatten().copied();
        let all: BTreeSet<u32> = runs.chain(given).collect();
        all.into_iter().collect()
    }
}

impl View {
    /// Where the numbered replicas of `service` belong.
    pub fn place(&self, service: &Service, now: Instant) -> Placement {
        let Some(replicas) = service.replicas else { return Placement::new() };
        let matches = |host: &HostView| match &host.labels {
            Some(labels) => service.selector.matches(labels),
            // It had it when it was last spoken of.
            None => host.given.contains_key(&service.name),
        };
        let candidate = |(name, host): (&AgentName, &HostView)| Candidate {
            host: name.clone(),
            away: host.presence.away_since().map(|since| now.saturating_duration_since(since)),
            holds: host.holds(&service.name),
        };
        let hosts = self.hosts.iter().filter(|(_, host)| matches(host));
        let candidates: Vec<Candidate> = hosts.map(candidate).collect();
        let wanted = Wanted {
            service: &service.name,
            replicas,
            is_stateful: service.container.is_stateful(),
            reschedule_after: service.reschedule_after,
        };
        place(wanted, &candidates)
    }

    /// Remembers what was placed, so that it stays placed.
    pub fn give(&mut self, service: &ServiceName, placement: &Placement) {
        for (name, host) in &mut self.hosts {
            let numbers: BTreeSet<u32> =
                placement.iter().filter(|(_, at)| *at == name).map(|(number, _)| *number).collect();
            match numbers.is_empty() {
                true => drop(host.given.remove(service)),
                false => drop(host.given.insert(service.clone(), numbers)),
            }
        }
    }

    /// Takes another host's word for where replicas are, of hosts that have not been seen.
    pub fn hear_of(&mut self, known: &Placements, now: Instant) {
        for (service, placement) in &known.0 {
            for (number, name) in placement {
                let host = self.hosts.entry(name.clone());
                let host = host.or_insert_with(|| HostView::expected(now));
                if matches!(host.presence, Presence::Expected(_)) {
                    host.given.entry(service.clone()).or_default().insert(*number);
                }
            }
        }
    }

    /// Where everything is, for those who will be asked.
    pub fn placements(&self) -> Placements {
        let mut table: BTreeMap<ServiceName, BTreeMap<u32, AgentName>> = BTreeMap::new();
        for (name, host) in &self.hosts {
            for (service, numbers) in &host.given {
                let row = table.entry(service.clone()).or_default();
                row.extend(numbers.iter().map(|number| (*number, name.clone())));
            }
        }
        Table(table)
    }

    /// Every container that may be led to, by service.
    fn serving(&self, now: Instant) -> BTreeMap<&ServiceName, BTreeSet<Ipv4Addr>> {
        let mut serving: BTreeMap<&ServiceName, (BTreeSet<_>, BTreeSet<_>)> = BTreeMap::new();
        for host in self.hosts.values() {
            let is_reachable = host.presence.is_reachable(now);
            for it in host.deployments.values().filter(|it| it.serves) {
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

    /// What is called what. A service of the commit that nothing serves has a name all the same.
    pub fn names(&self, services: &Services, now: Instant) -> Names {
        let mut serving = self.serving(now);
        let row = |name: &ServiceName| (name.clone(), serving.remove(name).unwrap_or_default());
        Table(services.keys().map(row).collect())
    }

    /// What comes in goes where.
    pub fn routes(&self, services: &Services, now: Instant) -> Routes {
        let serving = self.serving(now);
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
        Table(routes)
    }

    /// Who is in the mesh; also those that are away, whose tunnels wait for them.
    pub fn peers(&self) -> Peers {
        let peer = |(name, host): (&AgentName, &HostView)| {
            let mesh = host.mesh.as_ref()?;
            let subnet = self.claims.subnet(name)?;
            let (public_key, endpoints) = (mesh.public_key, mesh.endpoints.clone());
            Some((name.clone(), Peer { public_key, endpoints, subnet }))
        };
        Table(self.hosts.iter().filter_map(peer).collect())
    }

    /// The deployments of `host` that nothing leads to any more: not wanted, replaced by one that
    /// serves wherever that is, and gone from what every proxy that is here has loaded.
    pub fn released(
        &self,
        host: &AgentName,
        services: &Services,
        routes: Hash256,
        now: Instant,
    ) -> Vec<DeploymentId> {
        let Some(view) = self.hosts.get(host) else { return Vec::new() };
        if !self.proxies_have(routes) {
            return Vec::new();
        }
        let is_replaced = |it: &&DeploymentReport| match services.get(&it.service) {
            None => true,
            Some(service) if service.replicas.is_none() => !it.serves,
            Some(_) => self.is_served_elsewhere(it, now),
        };
        let retiring = view.deployments.values().filter(|it| it.phase == Phase::Retiring);
        retiring.filter(is_replaced).map(|it| it.id).collect()
    }

    fn proxies_have(&self, routes: Hash256) -> bool {
        let is_proxy =
            |host: &&HostView| host.node_type == NodeType::Proxy && host.presence == Presence::Here;
        self.hosts.values().filter(is_proxy).all(|proxy| {
            let loaded = proxy.network.as_ref().and_then(|network| network.routes.as_ref());
            loaded.is_some_and(|loaded| loaded.hash == routes)
        })
    }

    /// Whether another deployment serves in the same place, here or on another host.
    fn is_served_elsewhere(&self, it: &DeploymentReport, now: Instant) -> bool {
        let reachable = self.hosts.values().filter(|host| host.presence.is_reachable(now));
        let mut all = reachable.flat_map(|host| host.deployments.values());
        all.any(|other| {
            let is_same_place = other.service == it.service && other.replica == it.replica;
            is_same_place && other.serves && other.phase != Phase::Retiring
        })
    }
}

#[cfg(test)]
mod tests;
