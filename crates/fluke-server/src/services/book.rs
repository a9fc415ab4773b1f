//! What the desk keeps and decides: from what agents say to what each of them is told. Pure: the
//! time is an argument, and nothing is sent from here.

mod leading;
mod making;
mod reaching;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::directory::{Claim, NameKey, Peer, Placements, Route, RouteKey, Whereabouts};
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, Hash256, ServiceName, SessionId};
use fluke_model::message::{MeshReport, NetworkReport, ServicesReport};
use fluke_model::placement::{Hold, Placement};
use fluke_model::service::{DeploymentId, LONGEST_ABSENCE, Phase, Service};
use fluke_model::snapshot::Placed;

use super::alarms::Alarms;
use super::editions::Editions;
use super::host::{HostView, Presence, RESTART_GRACE, hold_of};
use super::moves::Move;
use super::sheet::Sheet;
use super::view::{Came, Services, View, public_keys, takes};
use crate::reconcile::Now;

/// How long a server that has just started waits for agents that know where replicas are, before
/// it places one that nobody speaks of. However much the first of them know: they may have been away
/// when it was placed.
pub const SETTLING: Duration = Duration::from_secs(5);

/// Those in the mesh are told of others again after a millisecond for so many of them.
const PEERS_PER_MS: usize = 10;

/// How long a host that went away is remembered; as long as its agent is.
const REMEMBERED: Duration = LONGEST_ABSENCE;

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
    /// Its host goes down, and what it runs with it.
    GoesDown,
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
    /// The host itself at once, everybody else together with what comes next.
    Own,
    /// At once.
    Now,
}

/// What all agents are told alike.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    /// Whether it is known what Git says; before that nothing of it is to be told.
    pub is_in_force: bool,
    /// Whether all who are in the mesh have said what they run.
    pub is_whole: bool,
    /// What is called what.
    pub names: Sheet<NameKey, ()>,
    /// What comes in goes where; for proxies.
    pub routes: Sheet<RouteKey, Route>,
    /// Who is in the mesh.
    pub peers: Sheet<AgentName, Peer>,
    /// Which replica is where.
    pub placements: Sheet<ServiceName, Whereabouts>,
}

impl Directory {
    /// Whether nobody is missing whom somebody knows that holds these peers: who is on the way is in
    /// the mesh, and has not said yet that it is.
    pub fn is_whole_for(&self, peers: Option<Hash256>) -> bool {
        self.is_whole && peers == Some(self.peers.hash())
    }
}

/// What one agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Own {
    /// Its replicas; none while it is not known what it has, or it is to go on with those it was told.
    pub placed: Option<Placed>,
    /// How often one that has to go has served, or one beside it: a host whose deployment does so
    /// though it was released takes it for one that is not, and has to be told again.
    pub resumed: u64,
    /// Those of its deployments that nothing leads to any more.
    pub released: BTreeSet<DeploymentId>,
    /// Its subnet, once it has said what it takes for that: what it was before, it may have given up.
    pub subnet: Option<Claim>,
    /// Whether it asked, and none was left.
    pub is_without_subnet: bool,
}

/// What came of going through the book.
#[derive(Debug, Default)]
pub struct News {
    /// Whether a table changed.
    pub directory: bool,
    /// Whether somebody has been away for too long.
    pub is_late: bool,
    /// Those that are told something else than before.
    pub owns: Vec<(AgentName, Own)>,
    /// Those that look otherwise to whoever watches.
    pub services: BTreeSet<ServiceName>,
    /// Replicas that were elsewhere before.
    pub moves: Vec<Move>,
    /// Hosts for which no subnet is left any more.
    pub without_subnet: BTreeSet<AgentName>,
}

/// Everything that is known of services.
#[derive(Debug)]
pub struct Book {
    view: View,
    services: Services,
    directory: Directory,
    editions: Editions,
    /// What somebody who came said last of where replicas are; nearly all say the same.
    heard: Option<Hash256>,
    /// Whose words count.
    sessions: BTreeMap<AgentName, SessionId>,
    owns: BTreeMap<AgentName, Own>,
    /// Those that were last told of something that is released.
    released_to: BTreeSet<AgentName>,
    changed: Changed,
    touched: BTreeSet<ServiceName>,
    /// Hosts for which no subnet was left since that was last told.
    without_subnet: BTreeSet<AgentName>,
    /// The numbered services whose replicas may go to whoever comes.
    restless: BTreeSet<ServiceName>,
    /// Where each numbered replica was last.
    homes: BTreeMap<ServiceName, Placement>,
    /// Since when there is this server.
    started: Instant,
    /// Until when nothing new is placed.
    settling: Option<Instant>,
    /// When something changes for a host by itself.
    alarms: Alarms,
    /// When anything does.
    due: Option<Instant>,
    /// From when on it may be told again who is in the mesh.
    peers_from: Option<Instant>,
}

/// What has to be made anew, and nothing else is.
#[derive(Debug, Default)]
struct Changed {
    in_force: bool,
    /// Services of which something may have to go elsewhere.
    unplaced: BTreeSet<ServiceName>,
    /// Services of which something else may serve.
    unlisted: BTreeSet<ServiceName>,
    /// Routes that there may be no more.
    unrouted: BTreeSet<RouteKey>,
    /// Hosts that may be reached otherwise.
    peers: BTreeSet<AgentName>,
}

impl Book {
    /// A server that starts, and knows nothing.
    pub fn new(now: Instant) -> Self {
        Self {
            view: View::default(),
            heard: None,
            services: Services::new(),
            directory: Directory::default(),
            editions: Editions::default(),
            sessions: BTreeMap::new(),
            owns: BTreeMap::new(),
            released_to: BTreeSet::new(),
            changed: Changed::default(),
            touched: BTreeSet::new(),
            without_subnet: BTreeSet::new(),
            restless: BTreeSet::new(),
            homes: BTreeMap::new(),
            started: now,
            settling: Some(now + SETTLING),
            alarms: Alarms::default(),
            due: None,
            peers_from: None,
        }
    }

    /// What is known of hosts.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whose subnet is whose, to be arranged.
    #[cfg(test)]
    pub(crate) fn claims_mut(&mut self) -> &mut super::claims::Claims {
        &mut self.view.claims
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

    /// From when on it is to be told in any case to those who come back from another life of the
    /// server, and hold what that one knew: until then others of them may be on their way, and would
    /// be missing from what is told.
    pub fn is_complete_from(&self) -> Instant {
        self.started + RESTART_GRACE
    }

    /// Whether agents may still have to say where replicas are: none is placed that nobody has.
    pub fn is_settling(&self) -> bool {
        self.settling.is_some()
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
        let before = std::mem::replace(&mut self.services, services.clone());
        let routes = differing.iter().filter_map(|name| before.get(name));
        let routes = routes.flat_map(|service| public_keys(service).map(|(key, _)| key));
        self.changed.unrouted.extend(routes);
        let is_numbered = |name: &ServiceName| {
            services.get(name).is_some_and(|service| service.replicas.is_some())
        };
        let unplaced = self.view.take_back_but_for(is_numbered);
        self.wait_anew_for(&differing);
        self.changed.unplaced.extend(unplaced);
        self.changed.unplaced.extend(differing.iter().cloned());
        self.changed.unlisted.extend(differing.iter().cloned());
        self.touched.extend(differing);
    }

    /// How long hosts that are away are waited for may be another for these services, and so may be
    /// what one makes that is silent: for as long as its session goes on, what is said may reach it.
    fn wait_anew_for(&mut self, differing: &BTreeSet<ServiceName>) {
        let hosts = differing.iter().flat_map(|name| self.view.hosts.of(name));
        let hosts: BTreeSet<AgentName> = hosts.map(|(name, _)| name.clone()).gather();
        hosts.iter().for_each(|name| self.view.hosts.touch(name));
        differing.iter().for_each(|service| self.suspect_the_silent(service));
    }

    /// What a silent host is given of a service it may hear of, and make.
    fn suspect_the_silent(&mut self, service: &ServiceName) {
        let is_one = |(name, host): &(&AgentName, &HostView)| {
            matches!(host.presence, Presence::Silent(_)) && self.sessions.contains_key(*name)
        };
        let silent = self.view.hosts.of(service).filter(is_one);
        let silent: Vec<AgentName> = silent.map(|(name, _)| name.clone()).collect();
        for name in &silent {
            self.view.hosts.change(name, |host| host.suspect(&self.services));
        }
    }

    /// Takes what an agent says in its session; words of sessions that are over count no more.
    pub fn hear(&mut self, agent: &AgentName, session: SessionId, word: Word, now: Now) -> Urgency {
        if let Word::Came(came) = word {
            self.sessions.insert(agent.clone(), session);
            // Another session has been told nothing yet.
            self.owns.remove(agent);
            self.stir(agent);
            self.looks_otherwise(agent);
            if self.view.arrive(agent, came, &self.services, now.instant) {
                self.changed.peers.insert(agent.clone());
            }
            self.stir(agent);
            self.looks_otherwise(agent);
            return Urgency::Own;
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
            Word::Network(report) => self.connects(agent, report, now.instant),
            Word::Mesh(report) => self.is_reached(agent, report, now.wall),
            Word::Placements(known) if self.heard.replace(known.hash()) == Some(known.hash()) => {
                Urgency::None
            }
            Word::Placements(known) => {
                let mut known = known.into_rows();
                let is_numbered = |name: &ServiceName| {
                    self.services.get(name).is_some_and(|service| service.replicas.is_some())
                };
                let is_over = |name: &_| self.directory.is_in_force && !is_numbered(name);
                known.iter_mut().filter(|(name, _)| is_over(name)).for_each(|(_, it)| {
                    it.replicas.clear();
                });
                self.changed.unplaced.extend(self.view.hear_of(&known, now.instant));
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
            Word::GoesDown => {
                // What its agent says from now on is of containers that end with it.
                self.hear_no_more(agent);
                self.is_now(agent, |_| Presence::Down(now.instant))
            }
            Word::Left => {
                self.hear_no_more(agent);
                self.is_now(agent, |before| before.leaves(now.instant));
                // It may have been silent for longer than it is remembered.
                self.time_is_up(agent, now.instant);
                Urgency::Soon
            }
        }
    }

    /// What a host has something of may have to go elsewhere, and something else may serve; and what
    /// has no place yet, or could have a better one, may come to one that is here.
    fn stir(&mut self, agent: &AgentName) {
        let Some(host) = self.view.hosts.get(agent) else { return };
        self.changed.unplaced.extend(host.services());
        self.changed.unlisted.extend(host.deployments.values().map(|it| it.service.clone()));
        if host.presence == Presence::Here {
            let is_taken = |name: &&ServiceName| {
                self.services.get(*name).is_some_and(|service| takes(host, service))
            };
            self.changed.unplaced.extend(self.restless.iter().filter(is_taken).cloned());
        }
    }

    fn is_now(&mut self, agent: &AgentName, next: impl FnOnce(Presence) -> Presence) -> Urgency {
        let Some(host) = self.view.hosts.get(agent) else { return Urgency::None };
        let after = next(host.presence);
        if host.presence == after {
            return Urgency::None;
        }
        self.looks_otherwise(agent);
        self.stir(agent);
        let services = &self.services;
        self.view.hosts.change(agent, |host| {
            host.presence = after;
            match after.away_since() {
                Some(_) => host.suspect(services),
                None => host.trust(),
            }
        });
        self.stir(agent);
        Urgency::Now
    }

    /// The session of an agent is over, whatever is still said in it.
    fn hear_no_more(&mut self, agent: &AgentName) {
        self.sessions.remove(agent);
        self.owns.remove(agent);
    }

    /// A host that nobody looks after any more is none, but for the volumes that are on it.
    fn depart(&mut self, agent: &AgentName, now: Instant) -> Urgency {
        self.hear_no_more(agent);
        self.looks_otherwise(agent);
        self.stir(agent);
        let services = &self.services;
        let depart = |host: &mut HostView| {
            host.depart(services, now);
            !host.volumes.is_empty()
        };
        if self.view.hosts.change(agent, depart) == Some(false) {
            self.view.hosts.remove(agent);
        }
        self.stir(agent);
        self.view.claims.give_up(agent);
        self.changed.peers.insert(agent.clone());
        Urgency::Now
    }

    /// Waits for a host no more, nor for what is on it; unless it is here.
    fn forget(&mut self, agent: &AgentName) -> Urgency {
        if self.sessions.contains_key(agent) {
            return Urgency::None;
        }
        self.stir(agent);
        self.looks_otherwise(agent);
        if self.view.forget(agent).is_none() {
            return Urgency::None;
        }
        self.changed.peers.insert(agent.clone());
        Urgency::Now
    }

    fn reported(&mut self, agent: &AgentName, report: ServicesReport) -> Urgency {
        let Some(host) = self.view.hosts.get(agent) else { return Urgency::None };
        // More than a host may speak of: nothing of it counts, and its session ends for it.
        if host.deployments.accept(&report).is_err() {
            return Urgency::None;
        }
        let (serving, held) = (host.serving(), held(host));
        let (presence, was_hearsay) = (host.presence, host.is_hearsay);
        let kept = report.volumes.is_some().then(|| host.volumes.clone());
        let before = host.services();
        let ran: BTreeSet<ServiceName> =
            host.deployments.values().map(|it| it.service.clone()).gather();
        let gone = report.gone.iter().filter_map(|id| host.deployments.get(id));
        self.touched.extend(gone.map(|it| it.service.clone()));
        if report.whole {
            self.touched.extend(ran.iter().cloned());
        }
        self.touched.extend(report.deployments.iter().map(|it| it.service.clone()));
        let services = &self.services;
        self.view.hosts.change(agent, |host| {
            host.reported(report);
            if kept.is_some() && matches!(host.presence, Presence::Silent(_)) {
                host.suspect(services);
            }
        });
        self.view.has_spoken(agent);
        let Some(host) = self.view.hosts.get(agent) else { return Urgency::None };
        let others = kept.iter().flat_map(|kept| {
            let is_other = |name: &&ServiceName| kept.get(*name) != host.volumes.get(*name);
            kept.keys().chain(host.volumes.keys()).filter(is_other)
        });
        let others: BTreeSet<ServiceName> = others.cloned().gather();
        let is_other = presence != host.presence || was_hearsay != host.is_hearsay;
        let now_serving = host.serving();
        if serving != now_serving || has_retiring(host) {
            let runs = host.deployments.values().map(|it| it.service.clone());
            self.changed.unlisted.extend(ran.into_iter().chain(runs));
        }
        let now_held = self::held(host);
        let of = |(service, ..): &(ServiceName, _, _, _)| service.clone();
        let otherwise: BTreeSet<ServiceName> =
            held.symmetric_difference(&now_held).map(of).gather();
        self.changed.unlisted.extend(otherwise.iter().cloned());
        self.changed.unplaced.extend(otherwise.into_iter().chain(others.iter().cloned()));
        // What it says of some of its services concerns others only where it has just come.
        if is_other {
            self.touched.extend(before.iter().cloned());
            self.changed.unplaced.extend(before);
            self.looks_otherwise(agent);
            self.stir(agent);
        }
        self.touched.extend(others);
        match (serving.is_subset(&now_serving), is_other) {
            // Others must not be led to what is gone.
            (false, _) => Urgency::Now,
            // A host that comes waits for its word.
            (true, true) => Urgency::Own,
            (true, false) => Urgency::Soon,
        }
    }
}

/// Which services are not the same in both.
fn differing(one: &Services, other: &Services) -> BTreeSet<ServiceName> {
    let is_same = |name: &ServiceName, service: &Arc<Service>, others: &Services| {
        others.get(name).is_some_and(|it| Arc::ptr_eq(it, service) || it == service)
    };
    let gone = one.iter().filter(|(name, service)| !is_same(name, service, other));
    let new = other.keys().filter(|name| !one.contains_key(*name));
    gone.map(|(name, _)| name).chain(new).cloned().gather()
}

fn has_retiring(host: &HostView) -> bool {
    host.deployments.values().any(|it| it.phase == Phase::Retiring)
}

/// What of a host decides on where replicas of a service are.
fn held(host: &HostView) -> BTreeSet<(ServiceName, DeploymentId, bool, Hold)> {
    let held = host.deployments.values();
    held.map(|it| (it.service.clone(), it.id, it.phase == Phase::Retiring, hold_of(it))).gather()
}

#[cfg(test)]
mod tests;
