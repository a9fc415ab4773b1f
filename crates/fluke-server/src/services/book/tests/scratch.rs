//! What the book keeps step by step is what comes of looking at everything, after any words.

use std::net::{Ipv4Addr, SocketAddrV4};

use fluke_model::bounds::MAX_PLACES;
use fluke_model::directory::Names;
use fluke_model::id::VolumeName;
use fluke_model::label::Selector;
use fluke_model::placement::{Placement, keep, place};
use fluke_model::service::ServiceExecutor;
use fluke_model::volume::Volume;

use super::*;
use crate::services::editions::Leaver;
use crate::services::view::placed_by;

/// Who serves in which place, by service.
type Served<'a> = BTreeMap<&'a ServiceName, BTreeSet<Replica>>;

fn served(view: &View, now: Instant) -> Served<'_> {
    let mut served = Served::new();
    for host in view.hosts.values().filter(|host| host.presence.is_reachable(now)) {
        for it in host.deployments.values().filter(|it| it.serves && it.phase != Phase::Retiring) {
            served.entry(&it.service).or_default().insert(it.replica);
        }
    }
    served
}

fn is_replaced(
    it: &DeploymentReport,
    host: &HostView,
    services: &Services,
    served: &Served<'_>,
) -> bool {
    let Some(service) = services.get(&it.service) else { return true };
    let serves = served.get(&it.service);
    match (it.replica, service.replicas) {
        (Replica::Own, None) => !it.serves || !host.is_matched_by(service),
        (Replica::Number(number), Some(count)) if number >= count => true,
        (Replica::Number(_), Some(_)) => serves.is_some_and(|serves| serves.contains(&it.replica)),
        (Replica::Own, Some(_)) | (Replica::Number(_), None) => serves.is_some(),
    }
}

fn names(
    view: &View,
    services: &Services,
    before: &Names,
    now: Instant,
) -> BTreeMap<ServiceName, BTreeSet<Ipv4Addr>> {
    let served = served(view, now);
    let mut serving: BTreeMap<&ServiceName, (BTreeSet<_>, BTreeSet<_>)> = BTreeMap::new();
    let is_led_to = |host: &HostView| {
        host.does(ServiceExecutor::Mesh) && !matches!(host.presence, Presence::Down(_))
    };
    for (name, host) in view.hosts.iter().filter(|(_, host)| is_led_to(host)) {
        for it in host.deployments.values().filter(|it| it.serves) {
            if it.phase == Phase::Retiring && is_replaced(it, host, services, &served) {
                continue;
            }
            let (sure, doubtful) = serving.entry(&it.service).or_default();
            let is_sure = host.presence.is_reachable(now);
            let addresses = if is_sure { sure } else { doubtful };
            let is_for_it = services.get(&it.service).is_some_and(|it| host.is_matched_by(it));
            let was_led_to = before.addresses(&it.service).unwrap_or_default();
            let is_its = |address: &Ipv4Addr| {
                view.claims.may_be_at(name, *address) && (is_for_it || was_led_to.contains(address))
            };
            addresses.extend(it.address.filter(is_its));
        }
    }
    let row = |name: &ServiceName| {
        let (sure, doubtful) = serving.get(name).cloned().unwrap_or_default();
        (name.clone(), if sure.is_empty() { doubtful } else { sure })
    };
    services.keys().map(row).collect()
}

fn routes(
    names: &BTreeMap<ServiceName, BTreeSet<Ipv4Addr>>,
    services: &Services,
) -> BTreeMap<RouteKey, Route> {
    let mut routes = BTreeMap::new();
    for service in services.values() {
        for port in service.ports.iter().filter(|port| port.traffic.is_public()) {
            let key = RouteKey { service: service.name.clone(), port: port.name.clone() };
            let upstreams = names[&service.name].iter();
            let upstreams = upstreams.map(|it| SocketAddrV4::new(*it, port.container)).collect();
            routes.insert(key, Route { traffic: port.traffic.clone(), upstreams });
        }
    }
    routes
}

fn placements(view: &View, services: &Services) -> BTreeMap<ServiceName, Whereabouts> {
    let mut table: BTreeMap<ServiceName, Whereabouts> = BTreeMap::new();
    let mut places: BTreeMap<&ServiceName, usize> = BTreeMap::new();
    let mut others = 0;
    for (name, host) in view.hosts.iter() {
        for (service, numbers) in &host.given {
            let row = table.entry(service.clone()).or_default();
            row.replicas.extend(numbers.iter().map(|number| (*number, name.clone())));
        }
        for (service, kept) in &host.volumes {
            let told = match services.contains_key(service) {
                true => places.entry(service).or_default(),
                false => &mut others,
            };
            for (number, names) in kept.iter().take(MAX_PLACES.saturating_sub(*told)) {
                *told += 1;
                let row = table.entry(service.clone()).or_default();
                row.volumes.entry(*number).or_default().insert(name.clone(), names.clone());
            }
        }
    }
    table
}

fn peers(view: &View) -> BTreeMap<AgentName, Peer> {
    let peer = |name: &AgentName| Some((name.clone(), view.peer(name)?));
    view.hosts.keys().filter_map(peer).collect()
}

fn leavers(view: &View, services: &Services, now: Instant) -> BTreeSet<Leaver> {
    let served = served(view, now);
    let of_host = |(name, host): (&AgentName, &HostView)| {
        let retiring = host.deployments.values().filter(|it| it.phase == Phase::Retiring);
        let gone = retiring.filter(|it| is_replaced(it, host, services, &served));
        gone.map(|it| (name.clone(), it.id)).collect::<Vec<_>>()
    };
    view.hosts.iter().flat_map(of_host).collect()
}

fn released(book: &Book, now: Instant) -> BTreeMap<AgentName, BTreeSet<DeploymentId>> {
    let is_waited_for = |host: &&HostView| host.leads(now) && host.is_waited_for(now);
    let proxies = book.view.hosts.values().filter(is_waited_for);
    let loaded = proxies.map(|proxy| book.editions.number(proxy.routes()?));
    let Some(loaded) = loaded.collect::<Option<Vec<u64>>>() else { return BTreeMap::new() };
    let oldest = loaded.into_iter().min().unwrap_or(u64::MAX);
    let mut released: BTreeMap<AgentName, BTreeSet<DeploymentId>> = BTreeMap::new();
    for (name, id) in book.editions.gone_by(oldest) {
        released.entry(name.clone()).or_default().insert(*id);
    }
    released
}

/// Where the replicas of a service are, by what hosts were given.
fn given(view: &View, service: &ServiceName) -> Placement {
    let given = view.hosts.iter().flat_map(|(name, host)| {
        let numbers = host.given.get(service).into_iter().flatten();
        numbers.map(|number| (*number, name.clone()))
    });
    given.collect()
}

fn is_as_made_anew(lab: &Lab) {
    let (now, Book { view, services, directory, .. }) = (lab.now, &lab.book);
    view.hosts.are_found();
    let names = names(view, services, directory.names.table(), now);
    let rows = names.iter().flat_map(|(name, all)| NameKey::rows(name, all.iter().copied()));
    assert_eq!(directory.names.table().rows(), &rows.collect());
    assert_eq!(directory.routes.table().rows(), &routes(&names, services));
    assert_eq!(directory.placements.table().rows(), &placements(view, services));
    assert_eq!(directory.peers.table().rows(), &peers(view));
    for service in services.values().filter(|service| service.replicas.is_some()) {
        let how = if lab.book.settling.is_none() { place } else { keep };
        let anew = placed_by(how, view.hosts.iter(), service, now);
        assert_eq!(given(view, &service.name), anew, "{}", service.name);
    }
    for (name, host) in view.hosts.iter() {
        for (service, number) in
            host.taken.iter().flat_map(|(service, all)| all.iter().map(move |it| (service, it)))
        {
            assert!(host.running(service).any(|(it, _)| it == *number), "{name} runs {number}");
            let heir = given(view, service).remove(number);
            assert!(heir.is_none_or(|heir| heir != *name), "{number} was given to another one");
        }
    }
    let lets_go = directory.is_in_force && lab.book.settling.is_none();
    let leavers = if lets_go { leavers(view, services, now) } else { BTreeSet::new() };
    assert_eq!(lab.book.editions.gone_by(u64::MAX).cloned().collect::<BTreeSet<_>>(), leavers);
    let released = released(&lab.book, now);
    for name in lab.book.sessions.keys() {
        let host = view.hosts.get(name).expect("who is connected is not forgotten");
        assert!(!matches!(host.presence, Presence::Expected(_)), "{name} speaks for itself");
        let is_known = match host.presence {
            Presence::Arriving { .. } if host.given.is_empty() => false,
            Presence::Arriving { came, .. } => !host.is_hearsay || now >= came + SETTLING,
            _ => true,
        };
        // Whoever has it may not have spoken yet.
        let makes_a_volume = host.given.iter().any(|(name, numbers)| {
            let service = services.get(name).filter(|it| it.container.is_stateful());
            let has = |service: &Service, number| {
                let has = host.volumes.get(name).and_then(|it| it.get(number));
                has.is_some_and(|has| {
                    has.iter().any(|it| service.container.volumes.contains_key(it))
                })
            };
            service.is_some_and(|service| numbers.iter().any(|number| !has(service, number)))
        });
        let is_told = is_known && (lab.book.settling.is_none() || !makes_a_volume);
        let own = Own {
            placed: is_told.then(|| host.given.clone()),
            resumed: host.resumed,
            released: released.get(name).cloned().unwrap_or_default(),
            subnet: view.claims.of(name).filter(|_| host.mesh.is_some() && host.has_claimed),
            is_without_subnet: false,
        };
        assert_eq!(lab.book.owns.get(name), Some(&own), "{name}");
    }
}

/// One of two services: a plain one, and one with a volume that is for some hosts only.
fn one_of(is_plain: bool, replicas: Option<u32>) -> Service {
    let mut service = service(replicas);
    if !is_plain {
        service.name = db();
        service.selector = Selector { match_labels: labels(true).0, ..Selector::default() };
        service.container.volumes.insert(data(), "/data".into());
    }
    service
}

fn db() -> ServiceName {
    ServiceName::new("db").expect("a name")
}

fn data() -> VolumeName {
    VolumeName::new("data").expect("a name")
}

fn labels(matches: bool) -> Labels {
    let role = Labels::parse_pair(if matches { "role=db" } else { "role=spare" });
    Labels([role.expect("a label")].into())
}

#[derive(Debug, Clone)]
struct Runs {
    is_plain: bool,
    number: Option<u32>,
    serves: bool,
    retires: bool,
    is_made: bool,
}

impl Runs {
    fn report(&self, host: usize) -> DeploymentReport {
        let Self { is_plain, number, serves, retires, is_made } = *self;
        let replica = number.map_or(Replica::Own, Replica::Number);
        let address = [10, 200, host as u8 + 1, number.map_or(9, |number| number as u8)];
        let it = deployment(&format!("{host} {is_plain} {number:?} {retires}"), replica, address);
        let phase = if retires { Phase::Retiring } else { Phase::Running };
        let service = if is_plain { web() } else { db() };
        let container = is_made.then(|| "it".to_owned());
        DeploymentReport { serves, phase, service, container, ..it }
    }
}

#[derive(Debug, Clone)]
enum Happens {
    Comes { host: usize, matches: bool, is_proxy: bool },
    Reports { host: usize, whole: bool, runs: Vec<Runs>, volumes: Option<BTreeSet<u32>> },
    Loads { host: usize, is_right: bool },
    IsReached { host: usize, subnet: u16, since: u64 },
    Knows { host: usize, is_plain: bool, replicas: BTreeMap<u32, usize>, volumes: BTreeSet<usize> },
    Befalls { host: usize, word: Word },
    Wants { plain: Option<Option<u32>>, stateful: Option<Option<u32>> },
    Time(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    let how = (any::<bool>(), any::<bool>(), any::<bool>());
    let runs = (any::<bool>(), prop::option::weighted(0.7, 0..3u32), how).prop_map(
        |(is_plain, number, (serves, retires, is_made))| Runs {
            is_plain,
            number,
            serves,
            retires,
            is_made,
        },
    );
    let runs = prop::collection::vec(runs, 0..4);
    let host = || 0..HOSTS.len();
    let volumes = prop::option::of(prop::collection::btree_set(0..3u32, 0..3));
    let word = prop_oneof![
        Just(Word::Silent),
        Just(Word::Answers),
        Just(Word::Left),
        Just(Word::GoesDown),
        Just(Word::Departs),
        Just(Word::Forgotten),
    ];
    let knows = (
        host(),
        any::<bool>(),
        prop::collection::btree_map(0..3u32, host(), 0..3),
        prop::collection::btree_set(host(), 0..2),
    );
    let wanted = || prop::option::weighted(0.8, prop::option::weighted(0.8, 0..4u32));
    prop_oneof![
        4 => (host(), any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(host, matches, is_proxy)| Happens::Comes { host, matches, is_proxy }),
        6 => (host(), any::<bool>(), runs, volumes).prop_map(|(host, whole, runs, volumes)| {
            Happens::Reports { host, whole, runs, volumes }
        }),
        2 => (host(), any::<bool>()).prop_map(|(host, is_right)| Happens::Loads { host, is_right }),
        2 => (host(), 1..4u16, 0..3u64)
            .prop_map(|(host, subnet, since)| Happens::IsReached { host, subnet, since }),
        1 => knows.prop_map(|(host, is_plain, replicas, volumes)| {
            Happens::Knows { host, is_plain, replicas, volumes }
        }),
        4 => (host(), word).prop_map(|(host, word)| Happens::Befalls { host, word }),
        2 => (wanted(), wanted()).prop_map(|(plain, stateful)| Happens::Wants { plain, stateful }),
        2 => prop_oneof![0..400u64, Just(8 * 24 * 3600)].prop_map(Happens::Time),
    ]
}

impl Lab {
    fn takes(&mut self, what: Happens) {
        match what {
            Happens::Comes { host, matches, is_proxy } => {
                self.sessions += 1;
                let now = Now { instant: self.now, wall: Timestamp(1) };
                let node_type = if is_proxy { NodeType::Proxy } else { NodeType::Worker };
                let came = came(labels(matches), node_type);
                self.book.hear(&name(HOSTS[host]), SessionId(self.sessions), came, now);
                self.turn();
            }
            Happens::Reports { host, whole, runs, volumes } => {
                let deployments: Vec<_> = runs.iter().map(|runs| runs.report(host)).collect();
                let gone = match whole {
                    true => Vec::new(),
                    false => vec![Runs { serves: true, ..runs_first(&runs) }.report(host).id],
                };
                let volumes = volumes.map(|numbers| {
                    let volume = |number| Volume {
                        service: db(),
                        replica: Replica::Number(number),
                        name: data(),
                    };
                    numbers.into_iter().map(volume).collect()
                });
                let report = ServicesReport { whole, deployments, gone, volumes, unseen: false };
                self.says(HOSTS[host], Word::Services(report));
            }
            Happens::Loads { host, is_right: true } => self.loads(HOSTS[host]),
            Happens::Loads { host, is_right: false } => {
                let section = || SectionReport {
                    hash: Hash256::of(b"other"),
                    problem: None,
                    left_out: [].into(),
                };
                let routes = Some(section());
                let report = NetworkReport { names: section(), routes, mesh: section() };
                self.says(HOSTS[host], Word::Network(report));
            }
            Happens::IsReached { host, subnet, since } => {
                let subnet = Subnet::new(subnet).expect("in range");
                let claim = Some(Claim { subnet, since: Timestamp(since) });
                let public_key = PublicKey([host as u8; 32]);
                let report = MeshReport { public_key, endpoints: Vec::new(), claim };
                self.says(HOSTS[host], Word::Mesh(report));
            }
            Happens::Knows { host, is_plain, replicas, volumes } => {
                let at = |host: usize| name(HOSTS[host]);
                let replicas = replicas.into_iter().map(|(number, host)| (number, at(host)));
                let volumes = volumes.into_iter().map(|host| (at(host), [data()].into()));
                let row = Whereabouts {
                    replicas: replicas.collect(),
                    volumes: [(1, volumes.collect())].into(),
                };
                let service = if is_plain { web() } else { db() };
                self.says(HOSTS[host], Word::Placements(Table::from(vec![(service, row)])));
            }
            Happens::Befalls { host, word } => drop(self.says(HOSTS[host], word)),
            Happens::Wants { plain, stateful } => {
                let wanted = plain.map(|replicas| one_of(true, replicas));
                let wanted =
                    wanted.into_iter().chain(stateful.map(|replicas| one_of(false, replicas)));
                let services = wanted.map(|service| (service.name.clone(), Arc::new(service)));
                self.book.want(&services.collect());
                self.turn();
            }
            Happens::Time(seconds) => self.passes(Duration::from_secs(seconds)),
        }
    }
}

/// Something that may be gone.
fn runs_first(runs: &[Runs]) -> Runs {
    let other =
        Runs { is_plain: true, number: Some(0), serves: true, retires: false, is_made: true };
    runs.first().cloned().map_or(other, |first| Runs { retires: !first.retires, ..first })
}

#[test]
fn who_is_connected_is_not_forgotten_however_long_it_says_nothing() {
    let mut lab = Lab::new(Some(2));
    let comes = |host| Happens::Comes { host, matches: false, is_proxy: false };
    let (replicas, volumes) = ([(0, 0)].into(), BTreeSet::new());
    for what in [
        comes(0),
        comes(2),
        Happens::Time(8 * 24 * 3600),
        Happens::Knows { host: 2, is_plain: true, replicas, volumes },
        Happens::Reports { host: 0, whole: true, runs: vec![], volumes: None },
        Happens::Befalls { host: 0, word: Word::Silent },
        Happens::Time(8 * 24 * 3600),
    ] {
        lab.takes(what);
        is_as_made_anew(&lab);
    }
    assert!(lab.book.view.hosts.contains_key(&name(HOSTS[0])));
    lab.takes(Happens::Befalls { host: 0, word: Word::Left });
    assert!(!lab.book.view.hosts.contains_key(&name(HOSTS[0])), "it had a week");
}

#[test]
fn what_was_taken_from_a_host_that_is_away_is_not_its_own_again_because_nobody_has_it() {
    let mut lab = Lab::settled(Some(2));
    let comes = |host| Happens::Comes { host, matches: false, is_proxy: false };
    let runs =
        Runs { is_plain: true, number: Some(0), serves: false, retires: false, is_made: true };
    let reports = |host, runs| Happens::Reports { host, whole: true, runs, volumes: None };
    for what in [
        comes(0),
        reports(0, vec![]),
        comes(1),
        reports(1, vec![runs]),
        Happens::Befalls { host: 1, word: Word::Left },
        Happens::Befalls { host: 0, word: Word::Departs },
    ] {
        lab.takes(what);
        is_as_made_anew(&lab);
    }
}

proptest! {
    #[test]
    fn nothing_is_forgotten_that_follows_from_a_word(
        all in prop::collection::vec(happens(), 0..40)
    ) {
        let mut lab = Lab::new(Some(2));
        for what in all {
            lab.takes(what);
            is_as_made_anew(&lab);
        }
    }
}
