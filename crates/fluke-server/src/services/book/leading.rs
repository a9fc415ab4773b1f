//! What proxies have loaded of the routes, and which services look otherwise for it.

use std::collections::BTreeSet;
use std::time::Instant;

use fluke_model::directory::RouteKey;
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, ServiceName};
use fluke_model::message::{NetworkReport, SectionReport};

use super::{Book, Urgency};
use crate::services::editions::Leaver;
use crate::services::host::HostView;
use crate::services::way::Way;

impl Book {
    /// Takes how names, routes and mesh are on a host. Others wait for what a proxy has loaded, and
    /// for nothing else of it.
    pub(super) fn connects(
        &mut self,
        agent: &AgentName,
        report: NetworkReport,
        now: Instant,
    ) -> Urgency {
        let connect = |host: &mut HostView| {
            let before = (host.routes_report().cloned(), host.is_waited_for(now));
            host.connects(Some(report));
            before
        };
        let before = self.view.hosts.change(agent, connect);
        let Some((before, was_waited_for)) = before else { return Urgency::None };
        let Some(host) = self.view.hosts.get(agent) else { return Urgency::None };
        let after = host.routes_report();
        if !host.is_a_proxy() || after == before.as_ref() {
            return Urgency::None;
        }
        let editions = &self.editions;
        // One that was given up and comes on is waited for again with all that it still lacks.
        let is_waited_for = host.is_waited_for(now);
        let is_waited_for_again = is_waited_for && !was_waited_for;
        // Of one that is not waited for it is said why it does not come on.
        let why = |report: Option<&SectionReport>| report.map(|it| it.problem.clone());
        let says_why = !is_waited_for && why(before.as_ref()) != why(after);
        let is_other = |key: &&RouteKey| {
            let way = Way::of(key, after, editions);
            let is_behind = matches!(way, Way::Behind(_));
            ((is_waited_for_again || says_why) && is_behind)
                || Way::of(key, before.as_ref(), editions) != way
        };
        let others = editions.rows().filter(is_other).map(|key| key.service.clone());
        let (before, after) = (before.as_ref().map(|it| it.hash), host.routes());
        let waited = |since| was_waited_for && !editions.has(before, since);
        let waits = |since| is_waited_for && !editions.has(after, since);
        let leaving = self.leaving(|since| waited(since) != waits(since));
        self.touched.extend(others.chain(leaving).gather::<BTreeSet<_>>());
        Urgency::Soon
    }

    /// The services of what waits for proxies to go, if it does for such an edition.
    pub(super) fn leaving(&self, is_such: impl Fn(u64) -> bool) -> BTreeSet<ServiceName> {
        let leavers = self.editions.leavers().filter(|(_, since)| is_such(*since));
        let service = |(agent, id): &Leaver| {
            Some(self.view.hosts.get(agent)?.deployments.get(id)?.service.clone())
        };
        leavers.filter_map(|(leaver, _)| service(leaver)).gather()
    }

    /// What a host has, or should have, looks otherwise to whoever watches when it comes or goes, and so
    /// does what waits for a host; and what a proxy leads to.
    pub(super) fn looks_otherwise(&mut self, agent: &AgentName) {
        let Some(host) = self.view.hosts.get(agent) else { return };
        let all = self.services.values();
        let its = all.filter(|it| {
            (it.replicas.is_none() || self.restless.contains(&it.name)) && host.is_matched_by(it)
        });
        self.touched.extend(its.map(|service| service.name.clone()));
        self.touched.extend(host.services());
        // Also one that is away: it was waited for.
        if host.has_routes() {
            let led_to = self.directory.routes.table().rows().keys();
            self.touched.extend(led_to.map(|key| key.service.clone()));
            self.touched.extend(self.leaving(|_| true));
        }
    }
}
