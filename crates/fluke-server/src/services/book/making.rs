//! From what has changed to what is told: nothing else is made anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fluke_model::directory::{NameKey, RouteKey, Whereabouts};
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, Hash256, ServiceName};
use fluke_model::placement::Placement;
use fluke_model::service::Service;

use super::{Book, News, Own, PEERS_PER_MS, REMEMBERED, SETTLING};
use crate::services::host::{HostView, Presence, RESTART_GRACE, ROUTES_PATIENCE};
use crate::services::moves::{Move, why};
use crate::services::view::routes_of;
use crate::services::way::Way;

impl Book {
    /// Makes anew what has changed, and says what that is.
    pub fn go_through(&mut self, now: Instant) -> News {
        let is_due = self.due.is_some_and(|due| due <= now);
        self.settle(now);
        let late = self.alarms.ring(now);
        late.iter().for_each(|agent| self.time_is_up(agent, now));
        while let Some(agent) = self.view.claims.help_next() {
            self.has_other_subnet(&agent);
        }
        self.list_anew_who_has_no_subnet();
        let changed = std::mem::take(&mut self.changed);
        let is_late = !late.is_empty();
        let mut news = News { directory: changed.in_force, is_late, ..News::default() };
        news.directory |= self.place(&changed.unplaced, &mut news.moves, now);
        news.directory |= self.tabulate(changed.unlisted, changed.unrouted, now);
        news.directory |= self.reach(changed.peers, now);
        news.directory |= self.becomes_whole(now);
        self.note_who_is_behind(is_due, now);
        let hosts = self.view.hosts.take_changed();
        if is_due || news.directory || !hosts.is_empty() {
            for name in &hosts {
                let moments = self.moments(name, now);
                self.alarms.set(name, moments);
            }
            news.owns = self.own(hosts, now);
        }
        self.due = self.next_due(now);
        news.services = std::mem::take(&mut self.touched);
        news.without_subnet = std::mem::take(&mut self.without_subnet);
        news
    }

    /// From a certain time on everything is placed, and whoever had to wait for that is told.
    fn settle(&mut self, now: Instant) {
        if self.settling.is_some_and(|until| until <= now) {
            let waits = |(name, _): &(&AgentName, &Own)| self.has_to_wait(name);
            let waiting: Vec<AgentName> =
                self.owns.iter().filter(waits).map(|(name, _)| name.clone()).collect();
            waiting.iter().for_each(|name| self.view.hosts.touch(name));
            self.settling = None;
            let numbered = self.services.values().filter(|service| service.replicas.is_some());
            let numbered: BTreeSet<ServiceName> =
                numbered.map(|service| service.name.clone()).gather();
            self.touched.extend(numbered.iter().cloned());
            self.changed.unplaced.extend(numbered);
        }
    }

    /// Whether it is not to be told what it is given before all can have spoken: it would make a volume
    /// that somebody else may have. Until then it goes on with what it was told before.
    fn has_to_wait(&self, agent: &AgentName) -> bool {
        let lacks_volumes = |host: &HostView, name: &ServiceName, numbers: &BTreeSet<u32>| {
            let service = self.services.get(name);
            service.filter(|it| it.replicas.is_some() && it.container.is_stateful()).is_some_and(
                |service| {
                    let has: BTreeSet<u32> = host.volumes_of(service).map(|(it, _)| it).gather();
                    !numbers.is_subset(&has)
                },
            )
        };
        let host = self.view.hosts.get(agent).filter(|_| self.settling.is_some());
        host.is_some_and(|host| host.given.iter().any(|(name, it)| lacks_volumes(host, name, it)))
    }

    /// A host has been away for too long, or long enough.
    pub(super) fn time_is_up(&mut self, agent: &AgentName, now: Instant) {
        self.stir(agent);
        self.looks_otherwise(agent);
        self.view.hosts.touch(agent);
        let Some(host) = self.view.hosts.get(agent) else { return };
        let is_lost = host.presence.away_since().is_some_and(|since| since + REMEMBERED <= now);
        // Whoever is connected speaks for itself, however late: others must not be asked about it.
        if !is_lost || self.sessions.contains_key(agent) {
            return;
        }
        // Forgotten, but for the volumes that are on it.
        self.touched.extend(host.services());
        if self.view.hosts.change(agent, |host| host.mesh.take().is_some()) == Some(true) {
            self.changed.peers.insert(agent.clone());
        }
        // Also that of one that was in the mesh, and refused it when it came last.
        self.view.claims.give_up(agent);
        if self.view.hosts.get(agent).is_some_and(|host| host.volumes.is_empty()) {
            self.view.hosts.remove(agent);
        }
    }

    fn place(
        &mut self,
        unplaced: &BTreeSet<ServiceName>,
        moves: &mut Vec<Move>,
        now: Instant,
    ) -> bool {
        for name in unplaced {
            let service = self.services.get(name);
            let Some((service, count)) = service.and_then(|it| Some((it.clone(), it.replicas?)))
            else {
                self.restless.remove(name);
                self.homes.remove(name);
                continue;
            };
            let (placement, is_at_rest) = match self.settling {
                None => self.view.place(&service, now),
                Some(_) => self.view.keep(&service, now),
            };
            match is_at_rest {
                true => drop(self.restless.remove(name)),
                false => drop(self.restless.insert(name.clone())),
            }
            moves.extend(self.moves(&service, count, &placement, now));
            self.view.give(name, &placement);
            self.suspect_the_silent(name);
        }
        let moved = self.directory.placements.turn(self.whereabouts(unplaced));
        let has_changed = !moved.is_empty();
        self.touched.extend(moved);
        has_changed
    }

    /// Takes note of where each replica is; says which of them were elsewhere before. A server that
    /// has just started moves none: it learns where they are.
    fn moves(
        &mut self,
        service: &Service,
        count: u32,
        placement: &Placement,
        now: Instant,
    ) -> Vec<Move> {
        let homes = self.homes.entry(service.name.clone()).or_default();
        homes.split_off(&count);
        let mut moves = Vec::new();
        for (number, to) in placement {
            if homes.get(number) == Some(to) {
                continue;
            }
            let from = homes.insert(*number, to.clone()).filter(|_| self.settling.is_none());
            moves.extend(from.and_then(|from| {
                let why = why(&self.view, service, *number, (&from, to), now)?;
                let (service, to) = (service.name.clone(), to.clone());
                Some(Move { service, number: *number, from, to, why })
            }));
        }
        moves
    }

    /// The rows of these services. Those that nobody asks for are told all together, or not at all:
    /// there is only so much room for them.
    fn whereabouts(
        &self,
        of: &BTreeSet<ServiceName>,
    ) -> BTreeMap<ServiceName, Option<Whereabouts>> {
        let mut rows = self.view.placements(of, &self.services);
        let is_unasked = |name: &&ServiceName| !self.services.contains_key(*name);
        if of.iter().any(|name| is_unasked(&name)) {
            let told = self.directory.placements.table().rows().keys().filter(is_unasked);
            let gone =
                told.filter(|name| !rows.contains_key(*name)).map(|name| (name.clone(), None));
            let gone: Vec<_> = gone.collect();
            rows.extend(gone);
        }
        rows
    }

    fn tabulate(
        &mut self,
        unlisted: BTreeSet<ServiceName>,
        unrouted: BTreeSet<RouteKey>,
        now: Instant,
    ) -> bool {
        let mut names = BTreeMap::new();
        let mut routes: BTreeMap<_, _> = unrouted.into_iter().map(|key| (key, None)).gather();
        for name in unlisted {
            let rows = self.directory.names.table().named(&name);
            let before = rows.clone().filter_map(|key| key.address).gather();
            names.extend(rows.map(|key| (key.clone(), None)));
            // A service of the commit that nothing serves has a name all the same.
            if let Some(service) = self.services.get(&name) {
                let serving = self.view.serving(service, &self.services, &before, now);
                let rows = routes_of(service, &serving).map(|(key, route)| (key, Some(route)));
                routes.extend(rows);
                names.extend(NameKey::rows(&name, serving).map(|(key, row)| (key, Some(row))));
            }
        }
        let names = self.directory.names.turn(names);
        let routes = self.directory.routes.turn(routes);
        let (has_routes_changed, has_changed) =
            (!routes.is_empty(), !names.is_empty() || !routes.is_empty());
        let rows = self.directory.routes.table().rows();
        let routes = routes.into_iter().map(|key| {
            let is_there = rows.contains_key(&key);
            (key, is_there)
        });
        let is_held = |routes: &Hash256| {
            let has = |host: &HostView| host.is_a_proxy() && host.routes() == Some(*routes);
            self.view.hosts.proxies().any(|(_, host)| has(host))
        };
        let hash = self.directory.routes.hash();
        let are_loaded = has_routes_changed && is_held(&hash);
        self.editions.issue(hash, routes, is_held);
        self.touched.extend(names.into_iter().map(|key| key.service));
        if has_routes_changed {
            self.touched.extend(self.leaving(|_| true));
        }
        // What there was once a proxy may have already: also of others, then.
        if are_loaded {
            self.touched.extend(self.editions.rows().map(|key| key.service.clone()));
        }
        has_changed
    }

    /// Says how those are reached that are reached otherwise. While many come, it is said less often
    /// the more there are to hear it: what that costs stays the same.
    fn reach(&mut self, hosts: BTreeSet<AgentName>, now: Instant) -> bool {
        if hosts.is_empty() || self.peers_from.is_some_and(|from| from > now) {
            self.changed.peers = hosts;
            return false;
        }
        let rows = hosts.into_iter().map(|name| {
            let peer = self.view.peer(&name);
            (name, peer)
        });
        let has_changed = !self.directory.peers.turn(rows.gather()).is_empty();
        let count = self.directory.peers.table().rows().len() / PEERS_PER_MS;
        self.peers_from = Some(now + Duration::from_millis(count as u64));
        has_changed
    }

    /// Takes note of whether all have said what they run. Whoever waits for that waits only so long,
    /// and nobody has to hear that somebody else has come.
    fn becomes_whole(&mut self, now: Instant) -> bool {
        let is_whole = self.view.hosts.have_all_spoken() || self.is_complete_from() <= now;
        let was_whole = std::mem::replace(&mut self.directory.is_whole, is_whole);
        is_whole && !was_whole
    }

    /// Takes note of proxies that do not have the routes; when one is not waited for any more, all that
    /// it does not lead to as it should looks otherwise.
    fn note_who_is_behind(&mut self, is_due: bool, now: Instant) {
        let routes = self.directory.routes.hash();
        self.view.note_who_is_behind(routes, now);
        if !is_due {
            return;
        }
        for (_, proxy) in self.view.proxies_without(routes, now) {
            let is_behind = |key: &&RouteKey| {
                let way = Way::of(key, proxy.routes_report(), &self.editions);
                matches!(way, Way::Behind(_))
            };
            if !proxy.is_waited_for(now) {
                let behind = self.editions.rows().filter(is_behind);
                self.touched.extend(behind.map(|key| key.service.clone()));
                self.touched
                    .extend(self.leaving(|since| !self.editions.has(proxy.routes(), since)));
            }
        }
    }

    /// What each agent that is here is told, of those for whom that may be something new.
    fn own(&mut self, changed: BTreeSet<AgentName>, now: Instant) -> Vec<(AgentName, Own)> {
        let leavers = match self.lets_go() {
            true => self.view.leavers(&self.services, now),
            false => BTreeSet::new(),
        };
        self.editions.lead_to_none_of(leavers);
        let released = self.view.released(&self.editions, now);
        let released_to = released.keys().cloned().gather();
        let before = std::mem::replace(&mut self.released_to, released_to);
        let mut news = Vec::new();
        for name in changed.into_iter().chain(before).chain(self.released_to.iter().cloned()) {
            let (Some(host), true) =
                (self.view.hosts.get(&name), self.sessions.contains_key(&name))
            else {
                continue;
            };
            let is_claimed = host.mesh.is_some() && host.has_claimed;
            let own = Own {
                placed: (is_known(host, now) && !self.has_to_wait(&name))
                    .then(|| host.given.clone()),
                resumed: host.resumed,
                released: released.get(&name).cloned().unwrap_or_default(),
                subnet: self.view.claims.of(&name).filter(|_| is_claimed),
                is_without_subnet: host.is_without_subnet,
            };
            if self.owns.get(&name) != Some(&own) {
                self.owns.insert(name.clone(), own.clone());
                news.push((name, own));
            }
        }
        news
    }

    /// Whether anything has to go: not before it is known what Git says, and which proxies there are.
    pub(super) fn lets_go(&self) -> bool {
        self.directory.is_in_force && self.settling.is_none()
    }

    /// When a host will have been away for too long, or long enough.
    fn moments(&self, name: &AgentName, now: Instant) -> BTreeSet<Instant> {
        let Some(host) = self.view.hosts.get(name) else { return BTreeSet::new() };
        let Some(since) = host.presence.away_since() else { return BTreeSet::new() };
        let patience = |name: &ServiceName| Some(self.services.get(name)?.reschedule_after);
        let moved = host.given.keys().filter_map(patience);
        let until = match host.presence {
            Presence::Restarting(away) => Some(away.since + RESTART_GRACE),
            Presence::Arriving { came, .. } if host.is_hearsay => Some(came + SETTLING),
            _ => None,
        };
        let all = moved.chain([REMEMBERED]).map(|patience| since + patience).chain(until);
        all.filter(|at| *at > now).gather()
    }

    /// The next moment at which something changes by itself.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        let given_up = self.view.hosts.proxies().filter_map(|(_, host)| host.behind);
        let given_up = given_up.map(|since| since + ROUTES_PATIENCE).filter(|at| *at > now);
        let numbered = || self.services.values().any(|service| service.replicas.is_some());
        let retiring = || self.view.hosts.retiring().next().is_some();
        let settled = self.settling.filter(|until| *until > now && (numbered() || retiring()));
        let reached = self.peers_from.filter(|_| !self.changed.peers.is_empty());
        self.alarms.first().into_iter().chain(settled).chain(reached).chain(given_up).min()
    }
}

/// Whether it is known what a host has. What others say of one that comes is not what it has, but
/// better than nothing where it does not say so itself.
fn is_known(host: &HostView, now: Instant) -> bool {
    match host.presence {
        Presence::Arriving { came, .. } => {
            !host.given.is_empty() && (!host.is_hearsay || came + SETTLING <= now)
        }
        _ => true,
    }
}
