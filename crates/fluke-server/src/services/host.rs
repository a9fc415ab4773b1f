//! What is known of one host: whether it is there, what it runs, what it was given, and which volumes
//! are on it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use fluke_model::bounds::{MAX_REPLICAS, MAX_VOLUMES};
use fluke_model::deployments::Deployments;
use fluke_model::gather::Gather;
use fluke_model::id::{Hash256, ServiceName, VolumeName};
use fluke_model::label::Labels;
use fluke_model::message::{MeshReport, NetworkReport, NodeType, SectionReport, ServicesReport};
use fluke_model::placement::Hold;
use fluke_model::service::{
    DeploymentId, DeploymentReport, Phase, Replica, Service, ServiceExecutor,
};
use fluke_model::snapshot::Placed;
use fluke_model::volume::{Volume, Volumes};

use super::view::Services;

/// How long what a host runs is led to after its agent's connection was closed in good order: the
/// agent restarts, the machine goes on.
pub const RESTART_GRACE: Duration = Duration::from_secs(30);

/// How long a proxy is waited for that does not come on with its routes. One that is broken must not
/// keep what was replaced running for ever.
pub const ROUTES_PATIENCE: Duration = Duration::from_secs(30);

/// The volumes of numbered replicas on one host.
pub type Kept = BTreeMap<ServiceName, BTreeMap<u32, BTreeSet<VolumeName>>>;

/// What is known of one host.
#[derive(Debug, Clone)]
pub struct HostView {
    /// What services choose it by; none for one that others spoke of and that was not seen yet.
    pub labels: Option<Labels>,
    /// What part it plays.
    pub node_type: NodeType,
    /// What it does for services; what its own config refuses is not among it.
    pub executors: BTreeSet<ServiceExecutor>,
    /// Whether it is there.
    pub presence: Presence,
    /// What it runs.
    pub deployments: Deployments,
    /// How often it has said of one that has to go, or of others beside it, that it serves.
    pub resumed: u64,
    /// The replicas that it was given and may not speak of yet.
    pub given: Placed,
    /// The replicas that it runs and that were given to another one, which it may not have heard yet;
    /// also where nobody has them any more, until somebody can.
    /// What a host is found to run it keeps; what was decided is not decided anew for it.
    pub taken: Placed,
    /// The volumes that are on it, as far as is known: what it or others said, and, while it is
    /// away, what it was told to make.
    pub volumes: Kept,
    /// The same without what it was only told to make: all there is, if it turns out to be here.
    pub said: Option<Kept>,
    /// Whether that is only what others say.
    pub is_hearsay: bool,
    /// How names, routes and mesh are there.
    pub network: Option<NetworkReport>,
    /// What its proxy had loaded when it last said so: it leads by that while its agent is away.
    pub loaded: Option<Hash256>,
    /// Since when its proxy has not come on though it has not loaded what it should.
    pub behind: Option<Instant>,
    /// How it is reached.
    pub mesh: Option<MeshReport>,
    /// Whether there is no subnet for it.
    pub is_without_subnet: bool,
    /// Whether it has said so itself since it came, and with it which subnet it takes to be its own.
    pub has_claimed: bool,
}

/// Whether a host is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Connected.
    Here,
    /// Connected, and has not said yet what it runs: it keeps what it has, and gets nothing more.
    Arriving {
        /// Since when.
        came: Instant,
        /// How it was away: it goes on being so until it has said what it runs.
        away: Absence,
    },
    /// Its agent closed the connection: the machine lives.
    Restarting(Absence),
    /// Nothing is heard of its machine; the connection may still be thought open.
    Silent(Instant),
    /// It was told to shut down or to reboot: what it ran has ended, or is about to.
    Down(Instant),
    /// Its agent went for good; there are volumes on it.
    Departed(Instant),
    /// Others spoke of it; it was not seen since this server started.
    Expected(Instant),
}

/// How a host is away whose agent comes and goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    /// Since when nobody knows what it runs, however often its agent came since.
    pub since: Instant,
    /// Whether what it runs was led to when its agent came or left: neither makes anything run.
    pub was_reachable: bool,
}

impl Absence {
    /// Of one that was here a moment ago.
    pub fn begins(now: Instant) -> Self {
        Self { since: now, was_reachable: true }
    }
}

impl Presence {
    /// Its agent connected.
    pub fn comes(self, now: Instant) -> Self {
        Self::Arriving { came: now, away: self.absence(now) }
    }

    /// The connection of its agent ended.
    pub fn leaves(self, now: Instant) -> Self {
        match self {
            Self::Silent(since) => Self::Silent(since),
            other => Self::Restarting(other.absence(now)),
        }
    }

    fn absence(self, now: Instant) -> Absence {
        let since = self.away_since().unwrap_or(now);
        Absence { since, was_reachable: self.is_reachable(now) }
    }

    /// Since when it is away; none if it is here.
    pub fn away_since(self) -> Option<Instant> {
        match self {
            Self::Here => None,
            Self::Arriving { away, .. } | Self::Restarting(away) => Some(away.since),
            Self::Silent(since)
            | Self::Down(since)
            | Self::Departed(since)
            | Self::Expected(since) => Some(since),
        }
    }

    /// Whether its agent can be told something.
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Here | Self::Arriving { .. })
    }

    /// Whether its agent is back, and what ran there was led to no more.
    fn is_back_from_nowhere(self) -> bool {
        matches!(self, Self::Arriving { away, .. } if !away.was_reachable)
    }

    /// Whether what it runs may be led to.
    pub fn is_reachable(self, now: Instant) -> bool {
        match self {
            Self::Here => true,
            Self::Arriving { away, .. } => away.was_reachable,
            Self::Restarting(away) => {
                away.was_reachable && now.saturating_duration_since(away.since) < RESTART_GRACE
            }
            Self::Silent(_) | Self::Down(_) | Self::Departed(_) | Self::Expected(_) => false,
        }
    }
}

impl HostView {
    /// One that others speak of.
    pub fn expected(now: Instant) -> Self {
        Self { is_hearsay: true, ..Self::new(Presence::Expected(now)) }
    }

    pub(super) fn new(presence: Presence) -> Self {
        Self {
            labels: None,
            node_type: NodeType::Worker,
            executors: ServiceExecutor::ALL.into(),
            presence,
            deployments: Deployments::default(),
            resumed: 0,
            given: Placed::new(),
            taken: Placed::new(),
            volumes: Kept::new(),
            said: None,
            is_hearsay: false,
            network: None,
            loaded: None,
            behind: None,
            mesh: None,
            is_without_subnet: false,
            has_claimed: false,
        }
    }

    /// Takes what changed.
    pub fn reported(&mut self, mut report: ServicesReport) {
        if let Some(volumes) = report.volumes.take() {
            (self.volumes, self.said) = (numbered(volumes), None);
        }
        if self.presence.is_back_from_nowhere() {
            // Nothing of what ran there is taken to do so because nobody can tell.
            report.unseen = false;
        }
        if report.whole {
            // What it has it says itself; what others said it was given, it may have lost since.
            if std::mem::take(&mut self.is_hearsay) {
                self.given.clear();
            }
            if matches!(self.presence, Presence::Arriving { .. }) {
                self.presence = Presence::Here;
            }
        }
        let serving = report.deployments.iter().filter(|it| it.serves).count() as u64;
        self.deployments.take(report);
        // Also when a successor comes to serve: until then its host has led to what has to go, and kept
        // nothing of what it was told of that.
        if self.deployments.values().any(|it| it.phase == Phase::Retiring) {
            self.resumed += serving;
        }
        let mut taken = std::mem::take(&mut self.taken);
        taken.retain(|service, numbers| {
            numbers.retain(|number| self.running(service).any(|(it, _)| it == *number));
            !numbers.is_empty()
        });
        self.taken = taken;
    }

    /// Takes note that nobody looks after it any more: what is left of it is which volumes it has.
    pub(super) fn depart(&mut self, services: &Services, now: Instant) {
        self.suspect(services);
        self.presence = Presence::Departed(now);
        let Self { given, volumes, .. } = self;
        given.retain(|service, numbers| {
            let kept = volumes.get(service);
            numbers.retain(|number| kept.is_some_and(|kept| kept.contains_key(number)));
            !numbers.is_empty()
        });
        self.deployments.clear();
        self.taken.clear();
        (self.labels, self.network, self.mesh) = (None, None, None);
        (self.loaded, self.behind) = (None, None);
        self.is_without_subnet = false;
    }

    /// Takes note that it cannot be asked any more: what it was told to make it may have made.
    pub fn suspect(&mut self, services: &Services) {
        self.said.get_or_insert_with(|| self.volumes.clone());
        for (name, numbers) in &self.given {
            let Some(service) = services.get(name).filter(|it| self.is_matched_by(it)) else {
                continue;
            };
            let asked = &service.container.volumes;
            if asked.is_empty() {
                continue;
            }
            let kept = self.volumes.entry(name.clone()).or_default();
            for number in numbers {
                kept.entry(*number).or_default().extend(asked.keys().cloned());
            }
        }
    }

    /// Takes note that it answers, and goes on saying what it makes.
    pub fn trust(&mut self) {
        if let Some(said) = self.said.take() {
            self.volumes = said;
        }
    }

    /// Takes how names, routes and mesh are there. A proxy that has loaded something else than before
    /// comes on; one whose agent comes and goes does not by that.
    pub fn connects(&mut self, network: Option<NetworkReport>) {
        self.network = network;
        if let Some(routes) = self.routes()
            && self.loaded.replace(routes) != Some(routes)
        {
            self.behind = None;
        }
    }

    /// How routes are on its proxy, if it said so.
    pub fn routes_report(&self) -> Option<&SectionReport> {
        self.network.as_ref().and_then(|network| network.routes.as_ref())
    }

    /// What its proxy has loaded, if it said so.
    pub fn routes(&self) -> Option<Hash256> {
        self.routes_report().map(|it| it.hash)
    }

    /// Whether it does this for services; its own config may refuse it.
    pub fn does(&self, executor: ServiceExecutor) -> bool {
        self.executors.contains(&executor)
    }

    /// Whether replicas that may be anywhere can be here: they run, and others reach them.
    pub fn takes_replicas(&self) -> bool {
        self.allows_replicas() && !self.is_without_subnet
    }

    /// Whether its own config lets them be here.
    pub fn allows_replicas(&self) -> bool {
        self.does(ServiceExecutor::Container) && self.does(ServiceExecutor::Mesh)
    }

    /// Whether it takes public traffic now, and can be told where that goes.
    pub fn is_a_proxy(&self) -> bool {
        self.has_routes() && self.presence.is_connected()
    }

    /// Whether it takes public traffic now: its proxy goes on while its agent restarts.
    pub fn leads(&self, now: Instant) -> bool {
        self.has_routes() && (self.presence.is_connected() || self.presence.is_reachable(now))
    }

    pub(super) fn has_routes(&self) -> bool {
        self.node_type == NodeType::Proxy && self.does(ServiceExecutor::Routes)
    }

    /// Whether it takes public traffic now, and is not known to have these routes.
    pub fn leads_without(&self, routes: Hash256, now: Instant) -> bool {
        self.leads(now) && self.routes() != Some(routes)
    }

    /// Since when it does not come on though these are the routes. Its time begins when it can be
    /// told of them, and goes on while its agent comes and goes.
    pub(super) fn is_behind(&self, routes: Hash256, now: Instant) -> Option<Instant> {
        let begins = || self.is_a_proxy().then_some(now);
        let is_on = self.leads(now) || matches!(self.presence, Presence::Restarting(_));
        let may_be = self.has_routes() && is_on && self.routes() != Some(routes);
        self.behind.or_else(begins).filter(|_| may_be)
    }

    /// Whether what it may still lead to has to wait for it.
    pub fn is_waited_for(&self, now: Instant) -> bool {
        self.behind.is_none_or(|since| now.saturating_duration_since(since) < ROUTES_PATIENCE)
    }

    /// Those of a service's volumes that it has, by replica.
    pub fn volumes_of<'a>(
        &'a self,
        service: &'a Service,
    ) -> impl Iterator<Item = (u32, impl Iterator<Item = &'a VolumeName>)> {
        let asked = &service.container.volumes;
        let kept = self.volumes.get(&service.name).filter(|_| !asked.is_empty());
        kept.into_iter().flatten().filter_map(move |(number, names)| {
            let mut names = names.iter().filter(|name| asked.contains_key(*name)).peekable();
            names.peek().is_some().then_some((*number, names))
        })
    }

    /// What all its volumes are called there.
    pub fn volume_names(&self) -> Vec<String> {
        let each = |(service, kept): (&ServiceName, &BTreeMap<u32, BTreeSet<VolumeName>>)| {
            let one = |(number, name): (u32, &VolumeName)| {
                let (service, replica) = (service.clone(), Replica::Number(number));
                Volume { service, replica, name: name.clone() }.to_string()
            };
            let all = kept.iter().flat_map(|(number, names)| names.iter().map(|it| (*number, it)));
            all.map(one).collect::<Vec<_>>()
        };
        self.volumes.iter().flat_map(each).collect()
    }

    /// Whether a service is for it; one that was not seen had it when it was last spoken of.
    pub fn is_matched_by(&self, service: &Service) -> bool {
        match &self.labels {
            Some(labels) => service.selector.matches(labels),
            None => self.given.contains_key(&service.name),
        }
    }

    /// The services that it has something of.
    pub fn services(&self) -> BTreeSet<ServiceName> {
        let named = self.given.keys().chain(self.volumes.keys());
        named.chain(self.deployments.values().map(|it| &it.service)).cloned().gather()
    }

    /// What names and routes may lead to here.
    pub fn serving(&self) -> BTreeSet<(DeploymentId, Option<Ipv4Addr>)> {
        let serving = self.deployments.values().filter(|it| it.serves);
        serving.map(|it| (it.id, it.address)).gather()
    }

    /// The numbered replicas of a service that it runs, or was given.
    pub(super) fn holds(&self, service: &ServiceName) -> BTreeMap<u32, Hold> {
        let given = self.given.get(service).into_iter().flatten().copied();
        let wanted = given.chain(self.running(service).map(|(number, _)| number));
        let mut holds: BTreeMap<u32, Hold> = wanted.map(|number| (number, Hold::Given)).gather();
        // Also what retires: until its successor serves, that is how the replica is here.
        for it in self.deployments.values().filter(|it| it.service == *service) {
            if let Some(best) = it.replica.number().and_then(|number| holds.get_mut(&number)) {
                *best = hold_of(it).max(*best);
            }
        }
        let taken = self.taken.get(service).into_iter().flatten();
        holds.extend(taken.map(|number| (*number, Hold::Leaves)));
        holds
    }

    /// The numbered replicas of a service that it was given, not by hearsay.
    pub(super) fn decided(&self, service: &ServiceName) -> BTreeSet<u32> {
        let given = self.given.get(service).filter(|_| !self.is_hearsay);
        given.cloned().unwrap_or_default()
    }

    /// The numbered replicas of a service that it runs, well or not. What retires is on its way out.
    pub(super) fn running(
        &self,
        service: &ServiceName,
    ) -> impl Iterator<Item = (u32, &DeploymentReport)> {
        let is_its = |it: &&DeploymentReport| it.service == *service && it.phase != Phase::Retiring;
        let its = self.deployments.values().filter(is_its);
        its.filter_map(|it| Some((it.replica.number()?, it)))
    }
}

/// How a host has what it says this of; whether that retires is another question.
pub(super) fn hold_of(it: &DeploymentReport) -> Hold {
    match (it.serves, &it.container) {
        (true, _) => Hold::Serves,
        (false, Some(_)) => Hold::Runs,
        (false, None) => Hold::Given,
    }
}

/// The volumes of numbered replicas among these, as far as there can be such replicas.
fn numbered(volumes: Volumes) -> Kept {
    let mut kept = Kept::new();
    for volume in volumes {
        if let Replica::Number(number) = volume.replica
            && number < MAX_REPLICAS
        {
            let names = kept.entry(volume.service).or_default().entry(number).or_default();
            if names.len() < MAX_VOLUMES {
                names.insert(volume.name);
            }
        }
    }
    kept
}
