//! Replicas that were on one host and are given to another, and why, in words. Pure.

use std::time::Instant;

use fluke_model::event::{Event, EventKind};
use fluke_model::id::{AgentName, ServiceName};
use fluke_model::service::{Replica, Service};
use fluke_model::time::{Timestamp, as_written};

use super::host::{HostView, Presence};
use super::view::View;

/// A numbered replica that was on one host and is given to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Of which service.
    pub service: ServiceName,
    /// Which one.
    pub number: u32,
    /// Where it was.
    pub from: AgentName,
    /// Where it is from now on.
    pub to: AgentName,
    /// In words.
    pub why: String,
}

impl Move {
    /// As it goes on record.
    pub fn event(self, time: Timestamp) -> Event {
        let Self { service, number, from, to, why } = self;
        Event {
            step: Some(Replica::Number(number).part(&service)),
            service: Some(service),
            trigger: Some("placement".into()),
            output: Some(format!("replica {number} goes from {from} to {to}: {why}")),
            agent: Some(to),
            ..Event::new(EventKind::ReplicaMoved, time)
        }
    }
}

/// Why a replica goes from one host to another; none where nothing goes anywhere: others were wrong
/// about a host that was not seen, and the replica turns out to be elsewhere.
pub fn why(
    view: &View,
    service: &Service,
    number: u32,
    (from, to): (&AgentName, &AgentName),
    now: Instant,
) -> Option<String> {
    let (host, heir) = (view.hosts.get(from), view.hosts.get(to)?);
    let runs_there = heir.running(&service.name).any(|(it, _)| it == number);
    let begins_there = heir.presence == Presence::Here && !runs_there;
    if host.is_some_and(|host| host.is_hearsay) && !begins_there {
        return None;
    }
    let is_gone = |host: &HostView| matches!(host.presence, Presence::Departed(_));
    let Some(host) = host.filter(|host| !is_gone(host)) else {
        return Some(format!("{from} left for good"));
    };
    let away = host.presence.away_since().map(|since| now.saturating_duration_since(since));
    let patience = service.reschedule_after;
    let has_volume = heir.volumes_of(service).any(|(it, _)| it == number);
    Some(if !host.is_matched_by(service) {
        format!("the selector does not match {from} any more")
    } else if !host.takes_replicas() {
        format!("{from} takes no replicas any more")
    } else if !has_volume && away.is_some_and(|away| away >= patience) {
        // To where it still runs, too: but for that it would have stayed.
        format!("{from} was away for {}", as_written(patience.as_millis() as u64))
    } else if runs_there {
        format!("it runs on {to} already")
    } else if has_volume {
        format!("its volume is on {to}")
    } else {
        format!("{to} has fewer of the service")
    })
}
