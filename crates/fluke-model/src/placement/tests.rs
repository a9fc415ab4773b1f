use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::bounds::MAX_REPLICAS;

fn name(number: usize) -> AgentName {
    AgentName::new(format!("h{number}")).expect("a name")
}

fn web() -> ServiceName {
    ServiceName::new("web").expect("a name")
}

fn here(number: usize, holds: &[u32]) -> Candidate {
    Candidate {
        host: name(number),
        matches: true,
        away: None,
        holds: holds.iter().map(|number| (*number, Hold::Given)).collect(),
        given: BTreeSet::new(),
        volumes: BTreeMap::new(),
    }
}

impl Candidate {
    /// It has a volume of each of these.
    fn with(self, volumes: &[u32]) -> Self {
        Self { volumes: volumes.iter().map(|number| (*number, 1)).collect(), ..self }
    }

    /// The selector does not match it.
    fn relabelled(self) -> Self {
        Self { matches: false, ..self }
    }
}

fn away(number: usize, seconds: u64, holds: &[u32]) -> Candidate {
    Candidate { away: Some(Duration::from_secs(seconds)), ..here(number, holds) }
}

fn placed(replicas: u32, is_stateful: bool, candidates: &[Candidate]) -> Placement {
    placed_by(place, replicas, is_stateful, candidates)
}

fn placed_by(
    how: fn(Wanted<'_>, &[Candidate]) -> Placement,
    replicas: u32,
    is_stateful: bool,
    candidates: &[Candidate],
) -> Placement {
    let reschedule_after = Duration::from_secs(300);
    how(Wanted { service: &web(), replicas, is_stateful, reschedule_after }, candidates)
}

/// The candidates, holding what the placement gives them; what ran elsewhere has not heard of it yet.
fn settled(candidates: &[Candidate], placement: &Placement) -> Vec<Candidate> {
    let settle = |candidate: &Candidate| {
        let is_its = |number: &u32| placement.get(number) == Some(&candidate.host);
        let given: BTreeSet<u32> = placement.keys().copied().filter(is_its).collect();
        let ran = candidate.holds.iter().filter(|(number, _)| !candidate.given.contains(number));
        let settle = |(number, hold): (&u32, &Hold)| {
            let hold = if placement.contains_key(number) { Hold::Leaves } else { *hold };
            (*number, hold)
        };
        let mut holds: BTreeMap<u32, Hold> = ran.map(settle).collect();
        holds.extend(given.iter().map(|number| (*number, Hold::Given)));
        Candidate { holds, given, ..candidate.clone() }
    };
    candidates.iter().map(settle).collect()
}

fn loads(placement: &Placement) -> BTreeMap<AgentName, u32> {
    let mut loads = BTreeMap::new();
    placement.values().for_each(|host| *loads.entry(host.clone()).or_default() += 1);
    loads
}

fn moved(before: &Placement, after: &Placement) -> usize {
    before.iter().filter(|(number, host)| after.get(number) != Some(host)).count()
}

#[test]
fn replicas_are_spread_one_to_a_host_while_there_are_hosts() {
    let hosts: Vec<Candidate> = (0..5).map(|number| here(number, &[])).collect();
    let loads = loads(&placed(3, false, &hosts));
    assert_eq!(loads.len(), 3);
    assert!(loads.values().all(|load| *load == 1));
}

#[test]
fn without_a_host_nothing_is_placed() {
    assert!(placed(3, false, &[]).is_empty());
    assert!(placed(3, false, &[away(0, 10, &[])]).is_empty());
}

#[test]
fn a_host_that_is_away_keeps_its_replica_until_its_time_is_up() {
    let hosts = |seconds| [away(0, seconds, &[0]), here(1, &[1])];
    assert_eq!(placed(2, false, &hosts(299))[&0], name(0));
    assert_eq!(placed(2, false, &hosts(300))[&0], name(1));
}

#[test]
fn volumes_never_move_however_long_their_host_is_away() {
    let hosts = [away(0, 1_000_000, &[0]).with(&[0]), here(1, &[1])];
    assert_eq!(placed(2, true, &hosts)[&0], name(0));
    // Nor are they evened out.
    let hosts = [here(0, &[0, 1, 2]).with(&[0, 1, 2]), here(1, &[])];
    assert!(placed(3, true, &hosts).values().all(|host| *host == name(0)));
}

#[test]
fn a_replica_finds_its_volume_wherever_that_was_left() {
    for left in 0..4 {
        let mut hosts: Vec<Candidate> = (0..4).map(|number| here(number, &[])).collect();
        hosts[left] = here(left, &[]).with(&[1]);
        assert_eq!(placed(2, true, &hosts)[&1], name(left));
        // Also where it was given to another one meanwhile, which has not begun.
        hosts[(left + 1) % 4].holds.insert(1, Hold::Given);
        assert_eq!(placed(2, true, &hosts)[&1], name(left));
    }
}

#[test]
fn a_replica_waits_for_a_volume_that_is_on_a_host_that_does_not_match_any_more() {
    let hosts = [here(0, &[]).with(&[0]).relabelled(), here(1, &[])];
    assert_eq!(placed(1, true, &hosts), Placement::from([(0, name(0))]));
    let released = [here(0, &[0]).relabelled(), here(1, &[])];
    assert_eq!(placed(1, true, &released), Placement::from([(0, name(1))]));
}

#[test]
fn of_two_that_have_the_volume_the_one_that_it_runs_with_is_right() {
    let both = |one: Candidate, other: Candidate| placed(1, true, &[one, other])[&0].clone();
    let stale = |number| here(number, &[]).with(&[0]);
    let runs = |number| here(number, &[0]).with(&[0]);
    assert_eq!(both(stale(0), runs(1)), name(1));
    assert_eq!(both(runs(0), stale(1)), name(0));
    let serves = Candidate { holds: [(0, Hold::Serves)].into(), ..runs(0) };
    assert_eq!(both(serves, runs(1)), name(0));
    let lost = Candidate { away: Some(Duration::from_secs(1_000_000)), ..runs(0) };
    assert_eq!(both(lost, stale(1)), name(0), "the other one may be old");
    assert_eq!(both(runs(0).relabelled(), stale(1)), name(0));
    assert_eq!(both(stale(0).relabelled(), stale(1)), name(1), "nothing runs");
    let more = Candidate { volumes: BTreeMap::from([(0, 2)]), ..here(0, &[]) };
    assert_eq!(both(more, stale(1)), name(0), "it has more of them");
}

#[test]
fn while_others_may_still_speak_a_volume_alone_is_no_place() {
    let kept = |hosts: &[Candidate]| placed_by(keep, 1, true, hosts);
    let stale = here(0, &[]).with(&[0]);
    assert_eq!(kept(std::slice::from_ref(&stale)), Placement::new());
    let runs = here(1, &[0]).with(&[0]);
    assert_eq!(kept(&[stale.clone(), runs]), Placement::from([(0, name(1))]));
    // Nor does it stay with one that was given it and has not begun, where another has data.
    assert_eq!(kept(&[stale, here(1, &[0])]), Placement::new());
}

#[test]
fn a_host_that_comes_back_does_not_get_a_replica_that_found_another_place() {
    let hosts = [away(0, 300, &[0]), here(1, &[]), here(2, &[1])];
    let placement = placed(2, false, &hosts);
    assert_eq!(placement[&0], name(1));
    let back = [here(0, &[]), here(1, &[0]), here(2, &[1])];
    assert_eq!(placed(2, false, &back), placement);
}

#[test]
fn a_new_host_takes_its_share_and_no_more() {
    let before = [here(0, &[0, 1, 2]), here(1, &[3, 4, 5])];
    let mut after = before.to_vec();
    after.push(here(2, &[]));
    let (before, after) = (placed(6, false, &before), placed(6, false, &after));
    assert_eq!(moved(&before, &after), 2);
    assert!(loads(&after).values().all(|load| *load == 2));
}

/// As many as there can be: a host is not looked at anew for each replica.
#[test]
fn as_many_as_there_may_be_find_their_places_and_make_room_for_as_many_hosts_again() {
    let count = MAX_REPLICAS as usize;
    let fresh: Vec<Candidate> = (0..count / 2).map(|number| here(number, &[])).collect();
    let placement = placed(MAX_REPLICAS, false, &fresh);
    assert!(loads(&placement).values().all(|load| *load == 2));
    let mut held: BTreeMap<&AgentName, Vec<u32>> = BTreeMap::new();
    placement.iter().for_each(|(number, host)| held.entry(host).or_default().push(*number));
    let mut hosts: Vec<Candidate> =
        (0..count / 2).map(|number| here(number, &held[&name(number)])).collect();
    hosts.extend((count / 2..count).map(|number| here(number, &[])));
    let after = placed(MAX_REPLICAS, false, &hosts);
    assert_eq!(moved(&placement, &after), count / 2);
    assert!(loads(&after).values().all(|load| *load == 1));
}

#[test]
fn what_serves_stays_where_it_serves_and_what_was_decided_is_not_decided_anew() {
    let holding = |number, hold| Candidate { holds: [(0, hold)].into(), ..here(number, &[]) };
    let given = |number, hold| Candidate { given: [0].into(), ..holding(number, hold) };
    for (one, other) in [(0, 1), (1, 0)] {
        let goes_to = |hosts: [Candidate; 2]| placed(1, false, &hosts)[&0].clone();
        let found = holding(one, Hold::Serves);
        assert_eq!(goes_to([found, given(other, Hold::Given)]), name(one), "it has to begin there");
        let found = holding(one, Hold::Serves);
        assert_eq!(goes_to([found, given(other, Hold::Serves)]), name(other), "both are as good");
        let restarts = Candidate { away: Some(Duration::ZERO), ..given(other, Hold::Serves) };
        assert_eq!(goes_to([holding(one, Hold::Serves), restarts]), name(other));
        let leaves = holding(one, Hold::Leaves);
        assert_eq!(goes_to([leaves.clone(), given(other, Hold::Given)]), name(other));
        assert_eq!(goes_to([leaves, here(other, &[])]), name(one), "nobody else has it any more");
    }
}

#[test]
fn of_two_that_have_the_volume_the_one_that_has_begun_is_right_whoever_was_given_it() {
    for (one, other) in [(0, 1), (1, 0)] {
        let goes_to = |hosts: [Candidate; 2]| placed(1, true, &hosts)[&0].clone();
        let given = |hold| Candidate {
            holds: [(0, hold)].into(),
            given: [0].into(),
            ..here(other, &[]).with(&[0])
        };
        let runs = Candidate { holds: [(0, Hold::Runs)].into(), ..here(one, &[]).with(&[0]) };
        assert_eq!(goes_to([runs.clone(), given(Hold::Given)]), name(one), "the other may be old");
        assert_eq!(goes_to([runs.clone(), given(Hold::Runs)]), name(other), "both are as good");
        let without = |it: Candidate| Candidate { volumes: BTreeMap::new(), ..it };
        let neither = [without(runs), without(given(Hold::Given))];
        assert_eq!(goes_to(neither), name(other), "there is no data to be kept");
    }
}

#[test]
fn what_was_taken_from_a_host_that_is_away_goes_to_one_that_is_here() {
    let leaves = |it: Candidate| Candidate { holds: [(0, Hold::Leaves)].into(), ..it };
    for (one, other) in [(0, 1), (1, 0)] {
        let goes_to = |hosts: [Candidate; 2]| placed(1, false, &hosts)[&0].clone();
        let is_late = away(one, 0, &[]);
        assert_eq!(goes_to([leaves(is_late), here(other, &[])]), name(other));
        let old = away(one, 0, &[]).with(&[0]);
        assert_eq!(goes_to([leaves(old), here(other, &[])]), name(one), "data is waited for");
    }
}

fn hold() -> impl Strategy<Value = Hold> {
    prop_oneof![Just(Hold::Leaves), Just(Hold::Given), Just(Hold::Runs), Just(Hold::Serves)]
}

prop_compose! {
    fn candidate()(
        gone in prop::option::of(0u64..600),
        held in prop::collection::btree_map(0u32..12, (hold(), any::<bool>()), 0..4),
        volumes in prop::collection::btree_map(0u32..12, 1usize..3, 0..3),
        matches in prop::bool::weighted(0.8),
    ) -> Candidate {
        let given = held.iter().filter(|(_, (_, is_given))| *is_given);
        let given = given.map(|(number, _)| *number).collect();
        let holds = held.iter().map(|(number, (hold, _))| (*number, *hold)).collect();
        let away = gone.map(Duration::from_secs);
        Candidate { away, matches, holds, given, volumes, ..here(0, &[]) }
    }
}

prop_compose! {
    fn fleet()(hosts in prop::collection::vec(candidate(), 0..8)) -> Vec<Candidate> {
        let named = |(number, host)| Candidate { host: name(number), ..host };
        hosts.into_iter().enumerate().map(named).collect()
    }
}

/// As they are to a service that asks for none.
fn without_volumes(candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.into_iter().map(|it| Candidate { volumes: BTreeMap::new(), ..it }).collect()
}

proptest! {
    #[test]
    fn whoever_is_asked_in_whatever_order_decides_the_same(
        candidates in fleet(), replicas in 0u32..12, stateful: bool,
    ) {
        let mut turned = candidates.clone();
        turned.reverse();
        prop_assert_eq!(placed(replicas, stateful, &candidates), placed(replicas, stateful, &turned));
    }

    #[test]
    fn what_was_placed_stays_placed(candidates in fleet(), replicas in 0u32..12, stateful: bool) {
        let candidates = if stateful { candidates } else { without_volumes(candidates) };
        let placement = placed(replicas, stateful, &candidates);
        let settled = settled(&candidates, &placement);
        prop_assert_eq!(&placed(replicas, stateful, &settled), &placement);
    }

    #[test]
    fn all_are_placed_where_anybody_is_here(
        candidates in fleet(), replicas in 0u32..12, stateful: bool,
    ) {
        let placement = placed(replicas, stateful, &candidates);
        prop_assert!(placement.keys().all(|number| *number < replicas));
        if candidates.iter().any(|candidate| candidate.matches && candidate.away.is_none()) {
            prop_assert_eq!(placement.len() as u32, replicas);
        }
    }

    #[test]
    fn a_stateless_service_is_spread_evenly_over_those_that_are_here(
        candidates in fleet(), replicas in 0u32..12,
    ) {
        let candidates = without_volumes(candidates);
        let placement = placed(replicas, false, &candidates);
        let loads = loads(&placement);
        let here = candidates.iter().filter(|it| it.matches && it.away.is_none());
        let here: Vec<u32> = here
            .map(|candidate| loads.get(&candidate.host).copied().unwrap_or_default())
            .collect();
        let (least, most) = (here.iter().min(), here.iter().max());
        prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1));
    }

    #[test]
    fn when_a_host_is_lost_only_its_own_replicas_move(
        count in 2usize..8, replicas in 0u32..12, lost in 0usize..8,
    ) {
        let fresh: Vec<Candidate> = (0..count).map(|number| here(number, &[])).collect();
        let before = placed(replicas, false, &fresh);
        let mut hosts = settled(&fresh, &before);
        let lost = name(lost % count);
        hosts.retain(|candidate| candidate.host != lost);
        let after = placed(replicas, false, &hosts);
        let its_own = before.values().filter(|host| **host == lost).count();
        prop_assert_eq!(moved(&before, &after), its_own);
    }

    #[test]
    fn when_a_host_comes_it_takes_its_share_and_nothing_moves_between_others(
        candidates in fleet(), replicas in 0u32..12, stateful: bool,
    ) {
        let candidates = if stateful { candidates } else { without_volumes(candidates) };
        let before = placed(replicas, stateful, &candidates);
        let mut hosts = settled(&candidates, &before);
        let here_before = hosts.iter().filter(|it| it.matches && it.away.is_none());
        let here_before: BTreeSet<AgentName> = here_before.map(|it| it.host.clone()).collect();
        prop_assume!(!here_before.is_empty());
        hosts.push(here(candidates.len(), &[]));
        let after = placed(replicas, stateful, &hosts);
        for (number, host) in &after {
            let is_its = *host == name(candidates.len());
            prop_assert!(is_its || before.get(number) == Some(host), "{} moved to {}", number, host);
        }
        // What may have volumes stays where it is; so does what waits for a host that is away.
        let shared = before.values().filter(|host| here_before.contains(*host)).count();
        let share = if stateful { 0 } else { shared / (here_before.len() + 1) };
        prop_assert_eq!(moved(&before, &after), share);
    }

    #[test]
    fn a_volume_is_used_wherever_it_is(candidates in fleet(), replicas in 0u32..12) {
        let placement = placed(replicas, true, &candidates);
        for (number, host) in &placement {
            let holders: BTreeSet<&AgentName> = candidates
                .iter()
                .filter(|candidate| candidate.volumes.contains_key(number))
                .map(|candidate| &candidate.host)
                .collect();
            prop_assert!(holders.is_empty() || holders.contains(host));
        }
        let wherever = candidates.iter().flat_map(|candidate| candidate.volumes.keys());
        for number in wherever.filter(|number| **number < replicas) {
            prop_assert!(placement.contains_key(number), "{} has a host", number);
        }
    }

    /// While it is not known who is there: nothing begins anywhere, and what has a place has the one
    /// that it would have anyway, but for what is evened out.
    #[test]
    fn what_is_kept_is_where_it_was_and_where_it_belongs(
        candidates in fleet(), replicas in 0u32..12,
    ) {
        let (kept, placed) = (placed_by(keep, replicas, true, &candidates), placed(replicas, true, &candidates));
        for (number, host) in &kept {
            let holder = candidates.iter().find(|it| it.host == *host).expect("one of them");
            prop_assert!(holder.holds.contains_key(number), "{} begins on {}", number, host);
            prop_assert_eq!(placed.get(number), Some(host));
        }
        prop_assert_eq!(placed_by(keep, replicas, false, &candidates), kept);
    }

    #[test]
    fn who_does_not_match_gets_nothing_but_what_it_has_the_volumes_of(
        candidates in fleet(), replicas in 0u32..12, stateful: bool,
    ) {
        for (number, host) in placed(replicas, stateful, &candidates) {
            let host = candidates.iter().find(|it| it.host == host).expect("one of them");
            prop_assert!(host.matches || host.volumes.contains_key(&number));
        }
    }
}
