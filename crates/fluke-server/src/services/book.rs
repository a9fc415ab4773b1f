//! What the desk keeps and decides: from what agents say to what each of them is told. Pure: the
//! time is an argument, and nothing is sent from here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::directory::{Claim, Peer, Placements, Route, RouteKey, Whereabouts};
use fluke_model::id::{AgentName, ServiceName, SessionId};
use fluke_model::message::{MeshReport, NetworkReport, ServicesReport};
use fluke_model::service::{DeploymentId, Phase, Service};
use fluke_model::snapshot::Placed;

use super::editions::Editions;
use super::host::{HostView, Presence, RESTART_GRACE, ROUTES_PATIENCE};
use super::sheet::Sheet;
use super::view::{Came, Services, View};
use crate::reconcile::Now;

/// How long a server that has just started waits for agents that know where replicas are, before
/// it places one that nobody speaks of.
pub const SETTLING: Duration = Duration::from_secs(5);

/// How long a host that went away is remembered; as long as its agent is.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// What an agent says, or what befalls it, that concerns others.
#[derive(Debug, Clone)]
pub enum Word {
    /// It is connected.
    Came(Came),
    /// How its deployments are.
    Services(ServicesReport),
    /// How names, routes and mesh are there.
    Network(NetworkReport),
    /// How it is reached.
    Mesh(MeshReport),
    /// Where replicas were when it last heard.
    Placements(Placements),
    /// Its machine does not answer.
    Silent,
    /// Its machine answers again.
    Answers,
    /// Its connection ended.
    Left,
    /// It goes for good: nobody looks after what its host runs any more.
    Departs,
    /// Somebody says that its host will not come back.
    Forgotten,
}

/// How soon everybody must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing has changed for others.
    None,
    /// Together with what comes next.
    Soon,
    /// At once.
    Now,
}

/// What all agents are told alike.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    /// Whether it is known what Git says; before that nothing of it is to be told.
    pub is_in_force: bool,
    /// What is called what.
    pub names: Sheet<ServiceName, BTreeSet<Ipv4Addr>>,
    /// What comes in goes where; for proxies.
    pub routes: Sheet<RouteKey, Route>,
    /// Who is in the mesh.
    pub peers: Sheet<AgentName, Peer>,
    /// Which replica is where.
    pub placements: Sheet<ServiceName, Whereabouts>,
}

/// What one agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Own {
    /// Its replicas; none while it is not known what it has.
    pub placed: Option<Placed>,
    /// Those of its deployments that nothing leads to any more.
    pub released: BTreeSet<DeploymentId>,
    /// Its subnet, once it asked for one.
    pub subnet: Option<Claim>,
}

/// What came of going through the book.
#[derive(Debug, Default)]
pub struct News {
    /// Whether a table changed.
    pub directory: bool,
    /// Those that are told something else than before.
    pub owns: Vec<(AgentName, Own)>,
    /// Those that look otherwise to whoever watches.
    pub services: BTreeSet<ServiceName>,
}

/// Everything that is known of services.
#[derive(Debug)]
pub struct Book {
    view: View,
    services: Services,
    directory: Directory,
    editions: Editions,
    /// Whose words count.
    sessions: BTreeMap<AgentName, SessionId>,
    owns: BTreeMap<AgentName, Own>,
    changed: Changed,
    touched: BTreeSet<ServiceName>,
    /// Since when there is this server.
    started: Instant,
    /// Until when nothing new is placed.
    settling: Option<Instant>,
    /// When something changes by itself.
    due: Option<Instant>,
}

/// What has to be made anew.
#[derive(Debug, Default)]
struct Changed {
    in_force: bool,
    placement: bool,
    tables: bool,
    peers: bool,
    owns: bool,
}

impl Book {
    /// A server that starts, and knows nothing.
    pub fn new(now: Instant) -> Self {
        Self {
            view: View::default(),
            services: Services::new(),
            directory: Directory::default(),
            editions: Editions::default(),
            sessions: BTreeMap::new(),
            owns: BTreeMap::new(),
            changed: Changed::default(),
            touched: BTreeSet::new(),
            started: now,
            settling: Some(now + SETTLING),
            due: None,
        }
    }

    /// What is known of hosts.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What Git says.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// What all agents are told alike.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The routes that there were.
    pub fn editions(&self) -> &Editions {
        &self.editions
    }

    /// From when on it is to be told also to those who come back from another life of the server,
    /// and hold what that one knew: until then others of them may be on their way, and would be
    /// missing from what is told.
    pub fn is_complete_from(&self) -> Instant {
        self.started + RESTART_GRACE
    }

    /// When something changes though nobody says anything.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes what a commit says.
    pub fn want(&mut self, services: &Services) {
        self.changed.in_force |= !std::mem::replace(&mut self.directory.is_in_force, true);
        let differing = differing(&self.services, services);
        if differing.is_empty() {
            return;
        }
        self.touched.extend(differing);
        self.services = services.clone();
        let is_numbered =
            |name: &ServiceName| services.get(name).is_some_and(|it| it.replicas.is_some());
        for host in self.view.hosts.values_mut() {
            host.given.retain(|name, _| is_numbered(name));
        }
        (self.changed.placement, self.changed.tables) = (true, true);
    }

    /// Takes what an agent says in its session; words of sessions that are over count no more.
    pub fn hear(&mut self, agent: &AgentName, session: SessionId, word: Word, now: Now) -> Urgency {
        if let Word::Came(came) = word {
            self.sessions.insert(agent.clone(), session);
            // Another session has been told nothing yet.
            self.owns.remove(agent);
            self.changed.peers |= self.view.arrive(agent, came, now.instant);
            (self.changed.placement, self.changed.tables) = (true, true);
            return Urgency::Now;
        }
        if let Word::Forgotten = word {
            return self.forget(agent);
        }
        if self.sessions.get(agent) != Some(&session) {
            return Urgency::None;
        }
        match word {
            Word::Forgotten | Word::Came(_) => Urgency::None,
            Word::Services(report) => self.reported(agent, report),
            Word::Network(report) => self.connects(agent, report),
            Word::Mesh(report) => {
                self.view.claims.claim(agent, report.claim, now.wall);
                self.on(agent, |host| host.mesh = Some(report));
                self.changed.peers = true;
                Urgency::Soon
            }
            Word::Placements(known) => {
                let mut known = known.into_rows();
                let is_over = |name: &_| {
                    self.directory.is_in_force && !self.services.contains_key::<ServiceName>(name)
                };
                known.iter_mut().filter(|(name, _)| is_over(name)).for_each(|(_, it)| {
                    it.replicas.clear();
                });
                if known.values().any(|it| !it.replicas.is_empty()) {
                    self.settling = None;
                }
                self.view.hear_of(&known, now.instant);
                self.changed.placement = true;
                Urgency::Soon
            }
            Word::Silent => self.is_now(agent, |before| match before {
                Presence::Here => Presence::Silent(now.instant),
                other => other,
            }),
            Word::Answers => self.is_now(agent, |before| match before {
                Presence::Silent(_) => Presence::Here,
                other => other,
            }),
            Word::Departs => self.depart(agent, now.instant),
            Word::Left => {
                self.sessions.remove(agent);
                self.owns.remove(agent);
                self.is_now(agent, |before| match before {
                    Presence::Silent(since) => Presence::Silent(since),
                    _ => Presence::Restarting(now.instant),
                });
                Urgency::Soon
            }
        }
    }

    fn on(&mut self, agent: &AgentName, change: impl FnOnce(&mut HostView)) {
        if let Some(host) = self.view.hosts.get_mut(agent) {
            change(host);
        }
    }

    /// Takes how names, routes and mesh are on a host. Others wait for what a proxy has loaded, and
    /// for nothing else of it.
    fn connects(&mut self, agent: &AgentName, report: NetworkReport) -> Urgency {
        let Some(host) = self.view.hosts.get_mut(agent) else { return Urgency::None };
        let before = host.routes();
        host.connects(Some(report));
        if host.routes() == before || !host.is_a_proxy() {
            return Urgency::None;
        }
        self.changed.owns = true;
        Urgency::Soon
    }

    fn is_now(&mut self, agent: &AgentName, next: impl FnOnce(Presence) -> Presence) -> Urgency {
        let Some(host) = self.view.hosts.get_mut(agent) else { return Urgency::None };
        let before = std::mem::replace(&mut host.presence, Presence::Here);
        host.presence = next(before);
        if host.presence == before {
            return Urgency::None;
        }
        if host.presence.away_since().is_some() {
            host.suspect(&self.services);
        }
        self.touched.extend(host.deployments.values().map(|it| it.service.clone()));
        (self.changed.placement, self.changed.tables) = (true, true);
        Urgency::Now
    }

    /// A host that nobody looks after any more is none, but for the volumes that are on it.
    fn depart(&mut self, agent: &AgentName, now: Instant) -> Urgency {
        self.sessions.remove(agent);
        self.owns.remove(agent);
        let Some(host) = self.view.hosts.get_mut(agent) else { return Urgency::None };
        self.touched.extend(host.deployments.values().map(|it| it.service.clone()));
        host.depart(&self.services, now);
        let has_volumes = !host.volumes.is_empty();
        if !has_volumes {
            self.view.hosts.remove(agent);
        }
        self.view.claims.give_up(agent);
        (self.changed.placement, self.changed.tables, self.changed.peers) = (true, true, true);
        Urgency::Now
    }

    /// Waits for a host no more, nor for what is on it; unless it is here.
    fn forget(&mut self, agent: &AgentName) -> Urgency {
        if self.sessions.contains_key(agent) {
            return Urgency::None;
        }
        let Some(host) = self.view.forget(agent) else { return Urgency::None };
        self.touched.extend(host.deployments.values().map(|it| it.service.clone()));
        self.touched.extend(host.given.keys().chain(host.volumes.keys()).cloned());
        (self.changed.placement, self.changed.tables, self.changed.peers) = (true, true, true);
        Urgency::Now
    }

    fn reported(&mut self, agent: &AgentName, report: ServicesReport) -> Urgency {
        let Some(host) = self.view.hosts.get_mut(agent) else { return Urgency::None };
        let is_whole = report.whole;
        let (serving, held) = (host.serving(), held(host));
        let kept = report.volumes.is_some().then(|| host.volumes.clone());
        let presence = host.presence;
        let gone = report.gone.iter().filter_map(|id| host.deployments.get(id));
        self.touched.extend(gone.map(|it| it.service.clone()));
        if is_whole {
            self.touched.extend(host.deployments.values().map(|it| it.service.clone()));
        }
        self.touched.extend(report.deployments.iter().map(|it| it.service.clone()));
        host.reported(report);
        let now_serving = host.serving();
        let others = kept.iter().flat_map(|kept| {
            let is_other = |name: &&ServiceName| kept.get(*name) != host.volumes.get(*name);
            kept.keys().chain(host.volumes.keys()).filter(is_other)
        });
        let others: BTreeSet<ServiceName> = others.cloned().collect();
        self.changed.placement |= !others.is_empty();
        self.touched.extend(others);
        self.changed.placement |= presence != host.presence || held != self::held(host);
        self.changed.tables |= serving != now_serving || has_retiring(host);
        self.changed.owns |= has_retiring(host) || presence != host.presence;
        match serving.is_subset(&now_serving) && presence == host.presence {
            true => Urgency::Soon,
            // Others must not be led to what is gone; and a host that comes waits for its word.
            false => Urgency::Now,
        }
    }

    /// Makes anew what has changed, and says what that is.
    pub fn go_through(&mut self, now: Instant) -> News {
        let is_due = self.due.is_some_and(|due| due <= now);
        let is_settled = self.settling.is_none_or(|until| until <= now);
        if self.changed.placement || is_due {
            self.forget_the_lost(now);
        }
        let changed = std::mem::take(&mut self.changed);
        let mut news = News { directory: changed.in_force, ..News::default() };
        if changed.placement || is_due {
            news.directory |= self.place(is_settled, now);
        }
        if changed.tables || is_due {
            news.directory |= self.tabulate(now);
        }
        if changed.peers {
            news.directory |= !self.directory.peers.turn_to(self.view.peers()).is_empty();
        }
        let has_changed =
            changed.placement || changed.tables || changed.peers || changed.owns || is_due;
        if has_changed {
            self.note_who_is_behind(is_due, now);
            news.owns = self.own(now);
            self.due = self.next_due(now);
        }
        if is_settled {
            self.settling = None;
        }
        news.services = std::mem::take(&mut self.touched);
        news
    }

    fn place(&mut self, is_settled: bool, now: Instant) -> bool {
        for service in self.services.values().filter(|service| service.replicas.is_some()) {
            let placement = match is_settled {
                true => self.view.place(service, now),
                false => self.view.keep(service, now),
            };
            self.view.give(&service.name, &placement);
        }
        let moved = self.directory.placements.turn_to(self.view.placements(&self.services));
        let has_changed = !moved.is_empty();
        self.touched.extend(moved);
        has_changed
    }

    fn tabulate(&mut self, now: Instant) -> bool {
        let (names, routes) = self.view.names_and_routes(&self.services, now);
        let names = self.directory.names.turn_to(names);
        let routes = self.directory.routes.turn_to(routes);
        let has_changed = !names.is_empty() || !routes.is_empty();
        self.touched.extend(names);
        has_changed
    }

    /// Takes note of proxies that do not have the routes; when one is not waited for any more, all that
    /// it should lead to looks otherwise.
    fn note_who_is_behind(&mut self, is_due: bool, now: Instant) {
        let routes = self.directory.routes.hash();
        self.view.note_who_is_behind(routes, now);
        let mut behind = self.view.proxies_without(routes);
        if is_due && behind.any(|(_, proxy)| !proxy.is_waited_for(now)) {
            let led_to = self.directory.routes.table().rows().keys();
            self.touched.extend(led_to.map(|key| key.service.clone()));
        }
    }

    /// What each agent that is here is told, of those for whom that is something new.
    fn own(&mut self, now: Instant) -> Vec<(AgentName, Own)> {
        let leavers = self.view.leavers(&self.services, now);
        self.editions.issue(self.directory.routes.hash(), leavers);
        let mut released = self.view.released(&self.editions, now);
        let mut news = Vec::new();
        for name in self.sessions.keys() {
            let Some(host) = self.view.hosts.get(name) else { continue };
            let is_arriving = matches!(host.presence, Presence::Arriving(_));
            let is_known = !is_arriving || !host.given.is_empty();
            let own = Own {
                placed: is_known.then(|| host.given.clone()),
                released: released.remove(name).unwrap_or_default(),
                subnet: host.mesh.as_ref().and_then(|_| self.view.claims.of(name)),
            };
            if self.owns.get(name) != Some(&own) {
                self.owns.insert(name.clone(), own.clone());
                news.push((name.clone(), own));
            }
        }
        news
    }

    /// The next moment at which a host has been away for too long, or long enough.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        let patience = |name: &ServiceName| Some(self.services.get(name)?.reschedule_after);
        let of_host = |host: &HostView| {
            let since = host.presence.away_since()?;
            let moved = host.given.keys().filter_map(patience).map(|patience| since + patience);
            let dropped = matches!(host.presence, Presence::Restarting(_));
            let dropped = dropped.then(|| since + RESTART_GRACE);
            moved.chain(dropped).filter(|at| *at > now).min()
        };
        let given_up = |host: &HostView| host.behind.map(|since| since + ROUTES_PATIENCE);
        let given_up = self.view.hosts.values().filter_map(given_up).filter(|at| *at > now);
        let numbered = self.services.values().any(|service| service.replicas.is_some());
        let settled = self.settling.filter(|until| numbered && *until > now);
        self.view.hosts.values().filter_map(of_host).chain(settled).chain(given_up).min()
    }

    /// Forgets hosts that did not come back, but for the volumes that are on them.
    fn forget_the_lost(&mut self, now: Instant) {
        let is_lost = |host: &HostView| {
            let away = host.presence.away_since().map(|since| now.saturating_duration_since(since));
            away.is_some_and(|away| away > REMEMBERED)
        };
        for (name, host) in self.view.hosts.iter_mut().filter(|(_, host)| is_lost(host)) {
            if host.mesh.take().is_some() {
                self.changed.peers = true;
                self.view.claims.give_up(name);
            }
        }
        self.view.hosts.retain(|_, host| !is_lost(host) || !host.volumes.is_empty());
    }
}

/// Which services are not the same in both.
fn differing(one: &Services, other: &Services) -> BTreeSet<ServiceName> {
    let is_same = |name: &ServiceName, service: &Arc<Service>, others: &Services| {
        others.get(name).is_some_and(|it| Arc::ptr_eq(it, service) || it == service)
    };
    let gone = one.iter().filter(|(name, service)| !is_same(name, service, other));
    let new = other.keys().filter(|name| !one.contains_key(*name));
    gone.map(|(name, _)| name).chain(new).cloned().collect()
}

fn has_retiring(host: &HostView) -> bool {
    host.deployments.values().any(|it| it.phase == Phase::Retiring)
}

/// What of a host decides on where replicas are.
fn held(host: &HostView) -> BTreeSet<(DeploymentId, bool)> {
    host.deployments.values().map(|it| (it.id, it.phase == Phase::Retiring)).collect()
}

#[cfg(test)]
mod tests;
