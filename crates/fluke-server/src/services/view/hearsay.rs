//! What hosts say of others that have not been seen yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use fluke_model::bounds::{MAX_REPLICAS, MAX_VOLUMES};
use fluke_model::directory::Whereabouts;
use fluke_model::id::{AgentName, ServiceName, VolumeName};

use super::{MOST, View, WhereaboutRows};
use crate::services::host::{HostView, Presence};

/// Of how many replicas and volumes others are listened to, all hosts together: far more than there
/// can be replicas.
pub(super) const MOST_PLACES: usize = 20 * MAX_REPLICAS as usize;

/// What a host is said to have.
#[derive(Debug, Clone, Copy)]
enum Has<'a> {
    Replica(&'a ServiceName, u32),
    Volumes(&'a ServiceName, u32, &'a BTreeSet<VolumeName>),
}

impl View {
    /// Takes another host's word for where replicas and volumes are, of hosts that have not been
    /// seen; says of which services that was news.
    pub fn hear_of(&mut self, known: &WhereaboutRows, now: Instant) -> BTreeSet<ServiceName> {
        let mut news = BTreeSet::new();
        let mut room = MOST_PLACES.saturating_sub(self.places());
        for (name, mut said) in by_host(known) {
            if room == 0 {
                break;
            }
            let Some(host) = self.expects(name, now) else { continue };
            said.retain(|it| !it.is_known_of(host));
            said.truncate(room);
            if said.is_empty() {
                continue;
            }
            room -= said.len();
            news.extend(said.iter().map(|it| it.service().clone()));
            self.hosts.change(name, |host| said.iter().for_each(|it| it.note_of(host)));
        }
        news
    }

    /// How much is known of hosts that have not been seen.
    fn places(&self) -> usize {
        let expected = self.hosts.values().filter(|host| is_expected(host));
        let of = |host: &HostView| {
            let given = host.given.values().map(BTreeSet::len);
            given.chain(host.volumes.values().map(BTreeMap::len)).sum::<usize>()
        };
        expected.map(of).sum()
    }

    /// A host that others speak of, unless it speaks for itself.
    fn expects(&mut self, name: &AgentName, now: Instant) -> Option<&HostView> {
        if self.forgotten.contains(name) {
            return None;
        }
        if !self.hosts.contains_key(name) {
            if self.hosts.len() >= MOST {
                return None;
            }
            self.hosts.insert(name.clone(), HostView::expected(now));
        }
        self.hosts.get(name).filter(|host| is_expected(host))
    }
}

/// Whether it has said nothing of what it has; also while it is connected already.
fn is_expected(host: &HostView) -> bool {
    host.is_hearsay && matches!(host.presence, Presence::Expected(_) | Presence::Arriving { .. })
}

/// The same, by whom it is said of: what is said of one host is taken note of at once.
fn by_host(known: &WhereaboutRows) -> BTreeMap<&AgentName, Vec<Has<'_>>> {
    let mut hosts: BTreeMap<&AgentName, Vec<Has<'_>>> = BTreeMap::new();
    for (service, Whereabouts { replicas, volumes }) in known {
        for (number, name) in replicas.range(..MAX_REPLICAS) {
            hosts.entry(name).or_default().push(Has::Replica(service, *number));
        }
        for (number, at) in volumes.range(..MAX_REPLICAS) {
            for (name, volumes) in at {
                hosts.entry(name).or_default().push(Has::Volumes(service, *number, volumes));
            }
        }
    }
    hosts
}

impl<'a> Has<'a> {
    fn service(self) -> &'a ServiceName {
        match self {
            Self::Replica(service, _) | Self::Volumes(service, ..) => service,
        }
    }

    fn is_known_of(self, host: &HostView) -> bool {
        match self {
            Self::Replica(service, number) => {
                host.given.get(service).is_some_and(|numbers| numbers.contains(&number))
            }
            Self::Volumes(service, number, volumes) => {
                let kept = host.volumes.get(service).and_then(|kept| kept.get(&number));
                kept.is_some_and(|kept| kept.len() >= MAX_VOLUMES || volumes.is_subset(kept))
            }
        }
    }

    fn note_of(self, host: &mut HostView) {
        match self {
            Self::Replica(service, number) => {
                host.given.entry(service.clone()).or_default().insert(number);
            }
            Self::Volumes(service, number, volumes) => {
                let kept = host.volumes.entry(service.clone()).or_default();
                kept.entry(number).or_default().extend(volumes.iter().cloned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::fixture::name;

    fn data(number: usize) -> VolumeName {
        VolumeName::new(format!("data-{number}")).expect("a name")
    }

    /// Volumes of all replicas of so many services that nobody spoke of before, on one host.
    fn said(host: &str, services: std::ops::Range<usize>) -> WhereaboutRows {
        let at = BTreeMap::from([(name(host), BTreeSet::from([data(0)]))]);
        let volumes: BTreeMap<_, _> = (0..MAX_REPLICAS).map(|it| (it, at.clone())).collect();
        let row = Whereabouts { volumes, ..Whereabouts::default() };
        let service = |number| ServiceName::new(format!("s{number}")).expect("a name");
        services.map(|number| (service(number), row.clone())).collect()
    }

    #[test]
    fn whoever_goes_on_speaking_of_others_is_not_listened_to_without_end() {
        let (mut view, now) = (View::default(), Instant::now());
        assert_eq!(view.hear_of(&said("a", 0..15), now).len(), 15);
        assert_eq!(view.hear_of(&said("b", 15..30), now).len(), 5, "there is room for so many");
        assert_eq!(view.places(), MOST_PLACES);
        assert_eq!(view.hear_of(&said("c", 30..31), now).len(), 0);
        assert!(!view.hosts.contains_key(&name("c")), "nothing is known of it");
    }

    #[test]
    fn a_replica_has_only_so_many_volumes_whatever_is_said() {
        let (mut view, now) = (View::default(), Instant::now());
        let service = ServiceName::new("db").expect("a name");
        for number in 0..2 * MAX_VOLUMES {
            let at = BTreeMap::from([(name("a"), BTreeSet::from([data(number)]))]);
            let row = Whereabouts { volumes: [(0, at)].into(), ..Whereabouts::default() };
            view.hear_of(&WhereaboutRows::from([(service.clone(), row)]), now);
        }
        assert_eq!(view.hosts[&name("a")].volumes[&service][&0].len(), MAX_VOLUMES);
    }

    #[test]
    fn what_was_said_before_is_no_news() {
        let (mut view, now) = (View::default(), Instant::now());
        view.hear_of(&said("a", 0..1), now);
        view.hosts.take_changed();
        assert_eq!(view.hear_of(&said("a", 0..1), now).len(), 0);
        assert!(view.hosts.take_changed().is_empty());
    }
}
