//! Volumes pin: whatever happens, a replica that has data waits for it, and nothing else gets to be
//! called by its name.

mod fleet;

use fluke_model::id::VolumeName;
use fluke_model::label::Selector;
use fluke_model::volume::{Volume, Volumes};

use super::*;
use fleet::{Fleet, Machine};

/// A replica of one of the two services.
type Piece = (usize, u32);

/// What the two are called.
fn called(service: usize) -> ServiceName {
    [web(), ServiceName::new("db").expect("a name")][service].clone()
}

/// `web` with a volume, on hosts that are labelled for it.
fn stateful(replicas: u32) -> Service {
    stateful_one(0, replicas)
}

fn stateful_one(which: usize, replicas: u32) -> Service {
    let mut service = service(Some(replicas));
    service.name = called(which);
    service.selector = Selector { match_labels: labels(true).0, ..Selector::default() };
    service.container.volumes.insert(volume("data"), "/data".into());
    service
}

fn labels(matches: bool) -> Labels {
    let role = Labels::parse_pair(if matches { "role=db" } else { "role=spare" });
    Labels([role.expect("a label")].into())
}

fn volume(name: &str) -> VolumeName {
    VolumeName::new(name).expect("a name")
}

fn data((service, number): Piece) -> Volume {
    let (service, replica) = (called(service), Replica::Number(number));
    Volume { service, replica, name: volume("data") }
}

const THREE: [&str; 3] = ["a", "b", "c"];

#[test]
fn fewer_and_more_again_finds_the_data() {
    let mut fleet = Fleet::of(&THREE, 3);
    let owners: Vec<_> = (0..3).map(|number| fleet.owners(number)).collect();
    assert!(owners.iter().all(|owners| owners.len() == 1), "{owners:?}");
    for wants in [Some(1), Some(3), None, Some(3)] {
        fleet.wants(wants);
        THREE.iter().for_each(|host| fleet.works(host));
        let now: Vec<_> = (0..3).map(|number| fleet.owners(number)).collect();
        assert_eq!(now, owners);
    }
    assert_eq!(fleet.place(2).as_deref(), Some(owners[2][0]));
}

#[test]
fn a_server_that_starts_anew_hears_of_data_on_a_host_that_is_away() {
    let mut fleet = Fleet::of(&THREE, 3);
    let owner = fleet.owners(2)[0];
    fleet.wants(Some(2));
    fleet.leaves(owner);
    fleet.restarts(&[]);
    fleet.wants(Some(3));
    fleet.passes(1_000_000);
    THREE.iter().for_each(|host| fleet.works(host));
    assert_eq!((fleet.place(2).as_deref(), fleet.owners(2)), (Some(owner), vec![owner]));
    fleet.comes(owner);
    assert!(fleet.machines[owner].told.contains(&(0, 2)), "it is back");
}

#[test]
fn data_on_a_host_that_does_not_match_any_more_is_waited_for_until_somebody_removes_it() {
    let mut fleet = Fleet::of(&THREE, 1);
    let owner = fleet.owners(0)[0];
    fleet.relabels(owner, false);
    fleet.passes(1_000_000);
    assert_eq!(fleet.place(0).as_deref(), Some(owner));
    assert!(fleet.machines.values().all(|machine| machine.told.is_empty()), "nobody runs it");
    fleet.loses(owner, (0, 0));
    let heir = fleet.place(0).expect("somebody takes it");
    assert_ne!(heir, owner);
    fleet.relabels(owner, true);
    assert_eq!(fleet.place(0), Some(heir), "that one has it now");
}

#[test]
fn other_volumes_that_are_asked_for_are_not_waited_for_where_they_cannot_be() {
    let mut fleet = Fleet::of(&THREE, 1);
    let owner = fleet.owners(0)[0];
    fleet.leaves(owner);
    fleet.passes(1_000_000);
    assert_eq!(fleet.place(0).as_deref(), Some(owner));
    let mut renamed = stateful(1);
    renamed.container.volumes = [(volume("anew"), "/data".into())].into();
    fleet.lab.wants(renamed);
    assert_ne!(fleet.place(0).as_deref(), Some(owner), "it is lost, and Git says so");
}

#[test]
fn what_a_host_was_told_to_make_just_before_it_was_lost_may_be_there() {
    let mut fleet = Fleet::of(&["a"], 0);
    fleet.wants(Some(1));
    fleet.leaves("a");
    fleet.machines.insert("b", Machine { matches: true, ..Machine::default() });
    fleet.comes("b");
    fleet.passes(1_000_000);
    assert_eq!(fleet.place(0).as_deref(), Some("a"));
    fleet.comes("a");
    fleet.works("a");
    assert_eq!(fleet.owners(0), ["a"]);
}

#[test]
fn what_a_host_was_only_suspected_to_have_is_not_waited_for_once_it_answers() {
    let mut lab = Lab::settled(Some(0));
    lab.comes_as("x", came(labels(true), NodeType::Worker));
    lab.reports("x", vec![]);
    lab.wants(stateful(1));
    let is_at = |lab: &Lab, host| assert_eq!(lab.placed()[&0], name(host));
    is_at(&lab, "x");
    // Its image cannot be had, so it makes no volume.
    lab.says("x", Word::Silent);
    lab.comes_as("y", came(labels(true), NodeType::Worker));
    lab.reports("y", vec![]);
    lab.passes(Duration::from_secs(1_000));
    is_at(&lab, "x");
    lab.says("x", Word::Answers);
    is_at(&lab, "x");
    lab.comes_as("x", came(labels(false), NodeType::Worker));
    lab.has("x", vec![], &[]);
    is_at(&lab, "y");
}

#[test]
fn what_a_host_may_have_made_it_may_have_made_whatever_it_says_while_its_machine_is_silent() {
    let mut lab = Lab::settled(Some(0));
    lab.comes_as("x", came(labels(true), NodeType::Worker));
    lab.reports("x", vec![]);
    lab.wants(stateful(1));
    lab.comes_as("y", came(labels(true), NodeType::Worker));
    lab.reports("y", vec![]);
    lab.says("x", Word::Silent);
    // It was on its way before.
    lab.has("x", vec![], &[]);
    lab.passes(Duration::from_secs(1_000));
    assert_eq!(lab.placed()[&0], name("x"));
    lab.says("x", Word::Answers);
    lab.comes_as("x", came(labels(false), NodeType::Worker));
    lab.has("x", vec![], &[]);
    assert_eq!(lab.placed()[&0], name("y"), "it has made none");
}

#[test]
fn what_a_silent_host_is_told_to_make_it_may_make_for_as_long_as_its_session_goes_on() {
    for is_over in [false, true] {
        let mut lab = Lab::settled(Some(0));
        lab.wants(stateful(1));
        lab.comes_with_data("x", vec![container("x", Phase::Running)]);
        lab.comes_as("y", came(labels(true), NodeType::Worker));
        lab.reports("y", vec![]);
        lab.says("x", Word::Silent);
        if is_over {
            lab.says("x", Word::Left);
        }
        let mut renamed = stateful(1);
        renamed.container.volumes = [(volume("anew"), "/data".into())].into();
        lab.wants(renamed);
        lab.passes(Duration::from_secs(1_000));
        let right = if is_over { "y" } else { "x" };
        assert_eq!(lab.placed()[&0], name(right), "is_over: {is_over}");
    }
}

#[test]
fn what_a_host_was_told_to_make_it_may_have_made_whatever_was_lost_with_its_session() {
    let mut lab = Lab::settled(Some(0));
    lab.comes_as("x", came(labels(true), NodeType::Worker));
    lab.has("x", vec![], &[]);
    lab.wants(stateful(1));
    lab.comes_as("y", came(labels(true), NodeType::Worker));
    lab.reports("y", vec![]);
    // That its last session is over was not heard of.
    lab.comes_as("x", came(labels(false), NodeType::Worker));
    assert_eq!(lab.placed()[&0], name("x"), "it may have made it");
    lab.has("x", vec![], &[]);
    assert_eq!(lab.placed()[&0], name("y"), "it has made none");
}

#[test]
fn a_host_that_is_connected_and_has_not_spoken_has_what_others_say_of_it() {
    let mut lab = Lab::stateful(true);
    lab.comes_as("x", came(labels(true), NodeType::Worker));
    lab.comes_as("a", came(labels(true), NodeType::Worker));
    let at = [(0, [(name("x"), [volume("data")].into())].into())];
    let row = Whereabouts { volumes: at.into(), ..on(0, "x") };
    lab.says("a", Word::Placements(Table::from(vec![(web(), row)])));
    lab.reports("a", vec![]);
    assert_eq!(lab.placed(), [(0, name("x"))].into(), "its data is there");
    lab.has("x", vec![], &[]);
    assert_eq!(lab.placed().len(), 1, "it has none");
}

impl Lab {
    /// `web` with a volume, wanted by a server that has been there for a while or has just begun.
    fn stateful(is_settled: bool) -> Self {
        let mut lab = if is_settled { Self::settled(None) } else { Self::new(None) };
        lab.wants(stateful(1));
        lab
    }

    /// Says what it runs, and of which replicas of `web` it has data.
    fn has(&mut self, host: &str, deployments: Vec<DeploymentReport>, numbers: &[u32]) {
        let volumes = Some(numbers.iter().map(|number| data((0, *number))).collect());
        let report = ServicesReport { whole: true, deployments, volumes, ..Default::default() };
        self.says(host, Word::Services(report));
    }

    /// Comes with data of replica 0, in these containers.
    fn comes_with_data(&mut self, host: &str, deployments: Vec<DeploymentReport>) {
        self.comes_as(host, came(labels(true), NodeType::Worker));
        self.has(host, deployments, &[0]);
    }
}

/// A container of replica 0.
fn container(text: &str, phase: Phase) -> DeploymentReport {
    let (container, serves) = (Some(text.to_owned()), phase == Phase::Running);
    let it = deployment(text, Replica::Number(0), at(4));
    DeploymentReport { phase, container, serves, ..it }
}

/// A version that has no container yet, in place of one that serves.
fn updating() -> Vec<DeploymentReport> {
    let old = DeploymentReport { serves: true, ..container("old", Phase::Retiring) };
    vec![pulling(), old]
}

fn pulling() -> DeploymentReport {
    DeploymentReport { container: None, ..container("new", Phase::Pulling) }
}

#[test]
fn a_host_that_serves_while_it_fetches_another_version_keeps_its_replica() {
    for stale in THREE {
        let mut lab = Lab::stateful(false);
        lab.comes_with_data("x", updating());
        lab.comes_with_data(stale, vec![container("stale", Phase::Running)]);
        lab.passes(SETTLING);
        assert_eq!(lab.placed()[&0], name("x"), "its data is as new as that of {stale}");
    }
}

#[test]
fn a_forgotten_host_that_comes_back_with_its_data_does_not_get_what_others_were_given() {
    let found = |is_newer: &[u32], now: Vec<DeploymentReport>| {
        let mut lab = Lab::stateful(true);
        lab.comes_with_data("y", vec![container("y", Phase::Running)]);
        lab.says("y", Word::Left);
        lab.says("y", Word::Forgotten);
        lab.comes_as("x", came(labels(true), NodeType::Worker));
        lab.has("x", now, is_newer);
        lab.comes("y", NodeType::Worker);
        lab.says("y", Word::Left);
        lab.comes_with_data("y", vec![container("y", Phase::Running)]);
        lab.placed()[&0].to_string()
    };
    for now in [
        vec![container("x", Phase::Running)],
        vec![container("x", Phase::Starting)],
        updating(),
        vec![pulling()],
    ] {
        assert_eq!(found(&[0], now), "x");
    }
    assert_eq!(found(&[], vec![pulling()]), "y", "there is no other data");
}

#[test]
fn a_host_that_runs_with_its_data_is_right_though_it_is_late_and_another_was_given_the_replica() {
    for stale in THREE {
        for phase in [Phase::Pulling, Phase::Stopped, Phase::Starting] {
            let mut lab = Lab::stateful(false);
            lab.comes_with_data(stale, vec![]);
            lab.passes(SETTLING);
            assert_eq!(lab.placed()[&0], name(stale));
            lab.has(stale, vec![pulling()], &[0]);
            lab.passes(SETTLING);
            let is_made = phase != Phase::Pulling;
            lab.comes_with_data("x", vec![if is_made { container("x", phase) } else { pulling() }]);
            let right = if is_made { "x" } else { stale };
            assert_eq!(lab.placed()[&0], name(right), "{phase:?}");
            lab.has(stale, vec![pulling()], &[0]);
            assert_eq!(lab.placed()[&0], name(right), "{phase:?}");
        }
    }
}

#[test]
fn one_who_had_the_replica_before_git_asked_for_other_volumes_waits_for_whoever_has_those() {
    for is_there in [false, true] {
        let mut lab = Lab::new(None);
        let mut renamed = stateful(1);
        renamed.container.volumes = [(volume("anew"), "/data".into())].into();
        lab.wants(renamed);
        lab.comes_with_data("x", updating());
        assert_eq!(lab.told[&name("x")].placed, None, "it would make one");
        if is_there {
            lab.comes_as("y", came(labels(true), NodeType::Worker));
            let anew = Volume { name: volume("anew"), ..data((0, 0)) };
            let volumes = Some([anew].into());
            let report = ServicesReport { whole: true, volumes, ..Default::default() };
            lab.says("y", Word::Services(report));
        }
        lab.passes(SETTLING);
        let right = if is_there { "y" } else { "x" };
        assert_eq!(lab.placed()[&0], name(right), "{is_there}");
        let placed = lab.told[&name(right)].placed.clone();
        assert!(placed.is_some_and(|it| !it.is_empty()), "{is_there}");
    }
}

#[test]
fn a_server_that_has_just_started_takes_no_replica_back_that_has_no_volume_yet() {
    let mut lab = Lab::new(None);
    lab.wants(stateful(3));
    let fetching = |number| DeploymentReport { replica: Replica::Number(number), ..pulling() };
    for (number, host) in THREE.into_iter().enumerate() {
        lab.comes_as(host, came(labels(true), NodeType::Worker));
        lab.has(host, vec![fetching(number as u32)], &[]);
        assert_eq!(lab.told[&name(host)].placed, None, "it goes on with what it was told");
    }
    let before = lab.placed();
    assert_eq!(before.len(), 3);
    lab.passes(SETTLING);
    assert_eq!(lab.placed(), before, "each has the one that it fetches");
    assert!(THREE.iter().all(|host| lab.told[&name(host)].placed.is_some()));
}

#[test]
fn one_who_was_away_for_long_and_is_first_to_speak_starts_nothing_with_an_empty_volume() {
    let mut fleet = Fleet::of(&THREE, 1);
    fleet.leaves("a");
    fleet.wants_of(1, Some(2));
    ["b", "c"].iter().for_each(|host| fleet.works(host));
    let owners: Vec<_> = (0..2).map(|number| fleet.owners_of((1, number))).collect();
    assert!(owners.iter().all(|owners| owners.len() == 1), "{owners:?}");
    fleet.restarts(&["a"]);
    THREE.iter().for_each(|host| fleet.works(host));
    let now: Vec<_> = (0..2).map(|number| fleet.owners_of((1, number))).collect();
    assert_eq!(now, owners);
}

#[test]
fn an_old_volume_that_a_new_server_hears_of_first_starts_nothing_before_others_have_spoken() {
    for is_spoken_of in [false, true] {
        let mut fleet = Fleet::of(&THREE, 1);
        let owner = fleet.owners(0)[0];
        let [stale, witness] =
            THREE.into_iter().filter(|host| *host != owner).collect::<Vec<_>>()[..]
        else {
            panic!("three of them")
        };
        fleet.machine(stale).volumes.insert((0, 0));
        fleet.begins_anew();
        // What they knew of others was long ago.
        let mut row = on(0, stale);
        row.volumes.entry(0).or_default().insert(name(stale), [volume("data")].into());
        fleet.machine(stale).table = Placements::default();
        fleet.machine(witness).table = match is_spoken_of {
            true => Table::from(vec![(web(), row)]),
            false => Placements::default(),
        };
        for host in [witness, stale] {
            fleet.comes(host);
            fleet.passes(1);
            assert!(fleet.machines[host].told.is_empty(), "{host} is to start nothing");
        }
        fleet.comes(owner);
        assert_eq!(fleet.place(0).as_deref(), Some(owner), "it runs there");
        fleet.passes(SETTLING.as_secs());
        assert_eq!(fleet.machines[owner].told, [(0, 0)].into());
        assert!(fleet.machines[stale].told.is_empty());
    }
}

#[test]
fn a_volume_that_nobody_else_has_is_used_once_all_had_time_to_speak() {
    let mut fleet = Fleet::of(&THREE, 1);
    let owner = fleet.owners(0)[0];
    fleet.machine(owner).told.clear();
    fleet.begins_anew();
    THREE.iter().for_each(|host| fleet.machine(host).table = Placements::default());
    THREE.iter().for_each(|host| fleet.comes(host));
    assert_eq!(fleet.place(0), None, "nobody runs it");
    fleet.passes(SETTLING.as_secs());
    assert_eq!(fleet.place(0).as_deref(), Some(owner));
}

#[derive(Debug, Clone)]
enum Turn {
    Comes(usize),
    Leaves(usize),
    Works(usize),
    Relabels(usize, bool),
    Loses(usize, Piece),
    Wants(usize, Option<u32>),
    Passes(u64),
    Restarts(Vec<usize>),
}

fn turn() -> impl Strategy<Value = Turn> {
    let host = 0..THREE.len();
    prop_oneof![
        3 => host.clone().prop_map(Turn::Comes),
        2 => host.clone().prop_map(Turn::Leaves),
        6 => host.clone().prop_map(Turn::Works),
        2 => (host.clone(), any::<bool>()).prop_map(|(host, matches)| Turn::Relabels(host, matches)),
        1 => (host.clone(), (0..2usize, 0..4u32)).prop_map(|(host, it)| Turn::Loses(host, it)),
        3 => (0..2usize, prop::option::of(0..4u32)).prop_map(|(of, it)| Turn::Wants(of, it)),
        2 => prop_oneof![0..400u64, Just(8 * 24 * 3600)].prop_map(Turn::Passes),
        2 => prop::collection::vec(host, 0..4).prop_map(Turn::Restarts),
    ]
}

proptest! {
    /// However the fleet is scaled, relabelled, lost and found, and its server replaced: nobody is
    /// told to run a replica whose data somebody else has, so there is never data of one replica on
    /// two hosts, and none is ever left for an empty volume elsewhere.
    #[test]
    fn no_replica_ever_has_data_on_two_hosts(turns in prop::collection::vec(turn(), 0..60)) {
        let mut fleet = Fleet::of(&THREE, 2);
        for turn in turns {
            match turn {
                Turn::Comes(host) if !fleet.machines[THREE[host]].is_connected => {
                    fleet.comes(THREE[host]);
                }
                Turn::Comes(_) => {}
                Turn::Leaves(host) => fleet.leaves(THREE[host]),
                Turn::Works(host) => fleet.works(THREE[host]),
                Turn::Relabels(host, matches) => fleet.relabels(THREE[host], matches),
                Turn::Loses(host, piece) => fleet.loses(THREE[host], piece),
                Turn::Wants(service, replicas) => fleet.wants_of(service, replicas),
                Turn::Passes(seconds) => fleet.passes(seconds),
                // One that nobody comes to can know nothing.
                Turn::Restarts(first) if fleet.machines.values().any(|it| it.is_connected) => {
                    let first: Vec<_> = first.into_iter().map(|host| THREE[host]).collect();
                    fleet.restarts(&first);
                }
                Turn::Restarts(_) => {}
            }
            for piece in (0..2).flat_map(|service| (0..4).map(move |number| (service, number))) {
                let owners = fleet.owners_of(piece);
                prop_assert!(owners.len() <= 1, "{piece:?} is on {owners:?}");
                let told = fleet.machines.iter().filter(|(_, it)| it.told.contains(&piece));
                let told: Vec<_> = told.map(|(host, _)| *host).collect();
                prop_assert!(told.len() <= 1, "{piece:?} is given to {told:?}");
                if let ([owner], [told]) = (&owners[..], &told[..]) {
                    prop_assert_eq!(owner, told, "{:?} is where its data is", piece);
                }
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Trial {
    Comes(usize),
    Leaves(usize),
    Works(usize),
    FallsIll(usize),
    Forgets(usize),
    Loses(usize, u32),
    Passes(u64),
    Restarts(Vec<usize>),
}

fn trial() -> impl Strategy<Value = Trial> {
    let host = 0..THREE.len();
    prop_oneof![
        4 => host.clone().prop_map(Trial::Comes),
        3 => host.clone().prop_map(Trial::Leaves),
        6 => host.clone().prop_map(Trial::Works),
        3 => host.clone().prop_map(Trial::FallsIll),
        4 => host.clone().prop_map(Trial::Forgets),
        1 => (host.clone(), 0..2u32).prop_map(|(host, number)| Trial::Loses(host, number)),
        2 => (0..400u64).prop_map(Trial::Passes),
        2 => prop::collection::vec(host, 0..4).prop_map(Trial::Restarts),
    ]
}

proptest! {
    /// However many hosts are forgotten and come back with what they had: nobody is told to run a
    /// replica with old data where a host that was not given up has newer.
    #[test]
    fn no_replica_goes_back_to_old_data(trials in prop::collection::vec(trial(), 0..60)) {
        let mut fleet = Fleet::of(&THREE, 2);
        let mut newest: BTreeMap<Piece, &str> = BTreeMap::new();
        for trial in trials {
            match trial {
                Trial::Comes(host) if !fleet.machines[THREE[host]].is_connected => {
                    fleet.comes(THREE[host]);
                }
                Trial::Comes(_) => {}
                Trial::Leaves(host) => fleet.leaves(THREE[host]),
                Trial::Works(host) => fleet.works(THREE[host]),
                Trial::FallsIll(host) => fleet.falls_ill(THREE[host]),
                Trial::Forgets(host) => fleet.forgets(THREE[host]),
                Trial::Loses(host, number) => fleet.loses(THREE[host], (0, number)),
                Trial::Passes(seconds) => fleet.passes(seconds),
                // Who is away may know of others what was long ago.
                Trial::Restarts(first) if fleet.machines.values().all(|it| it.is_connected) => {
                    let first: Vec<_> = first.into_iter().map(|host| THREE[host]).collect();
                    fleet.restarts(&first);
                }
                Trial::Restarts(_) => {}
            }
            newest.retain(|piece, host| {
                let machine = &fleet.machines[host];
                !machine.is_forgotten && machine.volumes.contains(piece)
            });
            for (host, machine) in fleet.machines.iter().filter(|(_, it)| !it.is_forgotten) {
                for piece in &machine.told {
                    let newest = newest.get(piece).unwrap_or(host);
                    prop_assert_eq!(newest, host, "{:?} goes back to old data", piece);
                }
            }
            for (host, machine) in fleet.machines.iter().filter(|(_, it)| !it.is_forgotten) {
                let begun = machine.told.iter().filter(|piece| machine.volumes.contains(*piece));
                newest.extend(begun.map(|piece| (*piece, *host)));
            }
        }
    }
}

#[test]
fn a_host_that_is_forgotten_is_not_waited_for_whatever_others_say_of_it() {
    let mut fleet = Fleet::of(&["a", "b"], 1);
    let owner = if fleet.machine("a").volumes.is_empty() { "b" } else { "a" };
    let other = if owner == "a" { "b" } else { "a" };
    let stale = fleet.machine(other).table.clone();
    fleet.leaves(owner);
    fleet.lab.passes(Duration::from_secs(24 * 3600));
    let of = |fleet: &Fleet| {
        let placements = fleet.lab.book.directory().placements.table().rows().clone();
        placements[&web()].replicas[&0].to_string()
    };
    assert_eq!(of(&fleet), owner, "its data is there");
    fleet.lab.says(owner, Word::Forgotten);
    assert_eq!(of(&fleet), other);
    fleet.lab.says(other, Word::Placements(stale));
    assert_eq!(of(&fleet), other, "that is what it knew before");
    assert!(!fleet.lab.book.view().hosts.contains_key(&name(owner)));
    fleet.lab.says(other, Word::Forgotten);
    assert_eq!(of(&fleet), other, "one that is here is not gone");
}
