mod coming;
mod moving;
mod releasing;
mod scratch;
mod subnets;
mod volumes;

use std::net::Ipv4Addr;
use std::sync::Arc;

use fluke_model::api::ServiceView;
use fluke_model::directory::{PublicKey, Subnet, Table};
use fluke_model::id::Hash256;
use fluke_model::label::Labels;
use fluke_model::message::{NodeType, SectionReport};
use fluke_model::policy::Policy;
use fluke_model::service::{DeploymentReport, Replica, Service};
use fluke_model::time::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::services::fixture::{came, deployment, name, service, web};
use crate::services::host::ROUTES_PATIENCE;
use crate::services::listing::{self, Looking};

/// A server's head, a clock, and agents that hear what it says.
struct Lab {
    book: Book,
    now: Instant,
    sessions: u64,
    told: BTreeMap<AgentName, Own>,
    moves: Vec<Move>,
    without_subnet: Vec<AgentName>,
    /// What people saw of each service when they last looked.
    seen: Seen,
}

/// How services look.
type Seen = BTreeMap<ServiceName, String>;

/// What is shown of each service, but for what only the clock changes.
fn seen(book: &Book, now: Instant) -> Seen {
    let looking = Looking { default_policy: Policy::Remediate, now, idle: &|_| vec![] };
    let look = |mut view: ServiceView| {
        for note in view.deployments.iter_mut().filter_map(|it| it.note.as_mut()) {
            note.truncate(note.find("it is started on another host").unwrap_or(note.len()));
        }
        format!("{view:#?}")
    };
    listing::services(book, looking).map(|(name, view)| (name.clone(), look(view()))).collect()
}

impl Lab {
    fn new(replicas: Option<u32>) -> Self {
        let now = Instant::now();
        let mut lab = Self::of(Book::new(now), now);
        lab.wants(service(replicas));
        lab
    }

    fn of(book: Book, now: Instant) -> Self {
        let (told, moves, without_subnet, seen) = Default::default();
        Self { book, now, sessions: 0, told, moves, without_subnet, seen }
    }

    /// One that has been there for a while.
    fn settled(replicas: Option<u32>) -> Self {
        let mut lab = Self::new(replicas);
        lab.passes(SETTLING);
        lab
    }

    fn wants(&mut self, service: Service) {
        self.book.want(&Services::from([(service.name.clone(), Arc::new(service))]));
        self.turn();
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
        self.turn();
    }

    fn turn(&mut self) {
        let news = self.book.go_through(self.now);
        self.told.extend(news.owns);
        self.moves.extend(news.moves);
        self.without_subnet.extend(news.without_subnet);
        let before = std::mem::replace(&mut self.seen, seen(&self.book, self.now));
        for (name, look) in self.seen.iter().filter(|(name, _)| !news.services.contains(*name)) {
            let before = before.get(name).map_or("", String::as_str);
            assert!(
                before == look,
                "whoever watches {name} is told, before and after: {before}\n{look}"
            );
        }
        let again = self.book.go_through(self.now);
        let is_at_rest = !again.directory && again.owns.is_empty() && again.moves.is_empty();
        assert!(is_at_rest, "nothing changed: {again:?}");
    }

    fn says(&mut self, host: &str, word: Word) -> Urgency {
        let session = self.book.sessions.get(&name(host)).copied().unwrap_or(SessionId(0));
        let now = Now { instant: self.now, wall: Timestamp(1) };
        let urgency = self.book.hear(&name(host), session, word, now);
        self.turn();
        urgency
    }

    fn comes(&mut self, host: &str, node_type: NodeType) {
        self.comes_as(host, came(Labels::default(), node_type));
    }

    fn comes_as(&mut self, host: &str, came: Word) {
        self.sessions += 1;
        let now = Now { instant: self.now, wall: Timestamp(1) };
        self.book.hear(&name(host), SessionId(self.sessions), came, now);
        self.turn();
    }

    /// Comes, and says what it runs.
    fn joins(&mut self, host: &str, deployments: Vec<DeploymentReport>) {
        self.comes(host, NodeType::Worker);
        self.reports(host, deployments);
    }

    fn reports(&mut self, host: &str, deployments: Vec<DeploymentReport>) -> Urgency {
        let report = ServicesReport { whole: true, deployments, ..ServicesReport::default() };
        self.says(host, Word::Services(report))
    }

    fn placed(&self) -> BTreeMap<u32, AgentName> {
        let table = self.book.directory.placements.table().rows();
        table.get(&web()).map(|row| row.replicas.clone()).unwrap_or_default()
    }

    fn addresses(&self) -> Vec<String> {
        let names = self.book.directory.names.table();
        let addresses = names.addresses(&web()).expect("it has a name");
        addresses.iter().map(ToString::to_string).collect()
    }

    fn loads(&mut self, proxy: &str) {
        self.has_loaded(proxy, self.book.directory.routes.hash());
    }

    fn has_loaded(&mut self, proxy: &str, routes: Hash256) {
        let section = || SectionReport { hash: routes, problem: None, left_out: [].into() };
        let report = NetworkReport { names: section(), routes: Some(section()), mesh: section() };
        self.says(proxy, Word::Network(report));
    }
}

/// A replica on a host.
fn on(number: u32, host: &str) -> Whereabouts {
    Whereabouts { replicas: [(number, name(host))].into(), ..Whereabouts::default() }
}

fn at(last: u8) -> [u8; 4] {
    [10, 200, 1, last]
}

#[test]
fn a_server_that_starts_places_nothing_before_it_knows_who_is_there() {
    let mut lab = Lab::new(Some(2));
    lab.joins("new", vec![]);
    assert!(lab.placed().is_empty(), "others may have them");
    assert_eq!(lab.told[&name("new")].placed, Some(Placed::new()));
    lab.joins("old", vec![deployment("0", Replica::Number(0), at(4))]);
    assert_eq!(lab.placed(), BTreeMap::from([(0, name("old"))]));
    lab.passes(SETTLING);
    assert_eq!(lab.placed(), BTreeMap::from([(0, name("old")), (1, name("new"))]));
}

#[test]
fn who_knows_where_some_replicas_are_may_have_been_away_when_others_were_placed() {
    let mut lab = Lab::new(Some(2));
    let known = Table::from(vec![(web(), on(0, "old"))]);
    lab.comes("a", NodeType::Worker);
    lab.says("a", Word::Placements(known));
    lab.reports("a", vec![]);
    assert_eq!(lab.placed(), BTreeMap::from([(0, name("old"))]));
    lab.joins("late", vec![deployment("1", Replica::Number(1), at(4))]);
    lab.passes(SETTLING);
    assert_eq!(lab.placed(), BTreeMap::from([(0, name("old")), (1, name("late"))]));
}

#[test]
fn a_host_that_comes_is_not_told_what_others_say_that_it_has() {
    let mut lab = Lab::new(Some(1));
    lab.comes("a", NodeType::Worker);
    lab.says("a", Word::Placements(Table::from(vec![(web(), on(0, "b"))])));
    lab.comes("b", NodeType::Worker);
    assert_eq!(lab.told[&name("b")].placed, None, "it has a word to say first");
    lab.passes(SETTLING);
    let placed = lab.told[&name("b")].placed.clone().expect("it does not say anything");
    assert_eq!(placed[&web()], [0].into(), "so it must not be told to stop that one");
    lab.comes("b", NodeType::Worker);
    lab.reports("b", vec![]);
    lab.joins("c", vec![deployment("0", Replica::Number(0), at(4))]);
    assert_eq!(lab.placed(), BTreeMap::from([(0, name("c"))]), "it has it no more");
}

#[test]
fn what_was_given_to_a_stranger_goes_back_to_whoever_turns_out_to_run_it() {
    for known in ["a", "b", "c", "d"] {
        let mut lab = Lab::settled(Some(1));
        lab.joins("new", vec![]);
        assert_eq!(lab.placed()[&0], name("new"));
        lab.joins(known, vec![deployment("0", Replica::Number(0), at(4))]);
        assert_eq!(lab.placed()[&0], name(known));
    }
}

#[test]
fn a_host_gets_nothing_before_it_has_said_what_it_has() {
    let mut lab = Lab::settled(Some(2));
    lab.comes("a", NodeType::Worker);
    assert!(lab.placed().is_empty());
    assert_eq!(lab.told[&name("a")].placed, None, "what it should be is not known");
    lab.reports("a", vec![]);
    assert_eq!(lab.told[&name("a")].placed.as_ref().map(|placed| placed[&web()].len()), Some(2));
}

#[test]
fn an_agent_that_restarts_finds_everything_as_it_was() {
    let mut lab = Lab::settled(Some(1));
    lab.joins("a", vec![]);
    lab.joins("b", vec![]);
    let holder = lab.placed()[&0].to_string();
    let it = deployment("0", Replica::Number(0), at(4));
    lab.reports(&holder, vec![it.clone()]);
    lab.says(&holder, Word::Left);
    lab.passes(Duration::from_secs(29));
    assert_eq!(lab.addresses(), ["10.200.1.4"]);
    lab.comes(&holder, NodeType::Worker);
    assert_eq!(lab.addresses(), ["10.200.1.4"]);
    assert!(lab.told[&name(&holder)].placed.is_some(), "it need not wait for its own word");
    lab.passes(RESTART_GRACE);
    lab.reports(&holder, vec![it]);
    assert_eq!(lab.placed()[&0], name(&holder));
}

#[test]
fn an_agent_that_stays_away_is_not_led_to_and_loses_its_replicas_in_their_time() {
    let mut lab = Lab::settled(Some(2));
    lab.joins("a", vec![]);
    lab.joins("b", vec![]);
    for (number, host) in lab.placed() {
        let id = number.to_string();
        lab.reports(
            host.as_str(),
            vec![deployment(&id, Replica::Number(number), at(number as u8))],
        );
    }
    let of_a = lab.placed().iter().find(|(_, host)| **host == name("a")).map(|(it, _)| *it);
    let of_a = of_a.expect("they are spread");
    lab.says("a", Word::Left);
    assert_eq!(lab.book.due(), Some(lab.now + RESTART_GRACE));
    lab.passes(RESTART_GRACE);
    assert_eq!(lab.addresses().len(), 1);
    assert_eq!(lab.placed()[&of_a], name("a"), "it may come back");
    let due = lab.book.due().expect("its time will be up");
    lab.passes(due - lab.now);
    assert_eq!(lab.placed()[&of_a], name("b"));
}

#[test]
fn what_dies_is_told_at_once_and_what_comes_may_wait_for_more() {
    let mut lab = Lab::settled(None);
    lab.joins("a", vec![]);
    let it = deployment("a", Replica::Own, at(4));
    assert_eq!(lab.reports("a", vec![it.clone()]), Urgency::Soon);
    let ill = DeploymentReport { serves: false, ..it.clone() };
    assert_eq!(lab.reports("a", vec![ill]), Urgency::Now);
    lab.reports("a", vec![it]);
    lab.joins("b", vec![deployment("b", Replica::Own, at(5))]);
    assert_eq!(lab.addresses().len(), 2);
    assert_eq!(lab.says("b", Word::Silent), Urgency::Now);
    assert_eq!(lab.addresses(), ["10.200.1.4"]);
    assert_eq!(lab.says("b", Word::Silent), Urgency::None, "it is known");
    lab.says("b", Word::Answers);
    assert_eq!(lab.addresses().len(), 2);
}

#[test]
fn the_words_of_a_session_that_is_over_count_no_more() {
    let mut lab = Lab::settled(None);
    lab.joins("a", vec![deployment("a", Replica::Own, at(4))]);
    let old = lab.book.sessions[&name("a")];
    lab.joins("a", vec![deployment("a", Replica::Own, at(4))]);
    let now = Now { instant: lab.now, wall: Timestamp(1) };
    assert_eq!(lab.book.hear(&name("a"), old, Word::Left, now), Urgency::None);
    lab.passes(RESTART_GRACE);
    assert_eq!(lab.addresses(), ["10.200.1.4"]);
}

/// How a host is reached that nobody else is like.
fn mesh(key: u8) -> Word {
    let claim = Subnet::new(key.into()).map(|subnet| Claim { subnet, since: Timestamp(1) });
    Word::Mesh(MeshReport { public_key: PublicKey([key; 32]), endpoints: vec![], claim })
}

#[test]
fn a_server_that_starts_knows_when_all_are_back_that_somebody_knows() {
    let mut lab = Lab::settled(None);
    let comes = |lab: &mut Lab, host: &str, key: u8| {
        lab.comes(host, NodeType::Worker);
        lab.says(host, mesh(key));
    };
    for (host, key) in [("a", 1), ("b", 2)] {
        comes(&mut lab, host, key);
        lab.reports(host, vec![]);
    }
    let before = Some(lab.book.directory.peers.hash());
    lab = Lab::settled(None);
    comes(&mut lab, "a", 1);
    lab.reports("a", vec![]);
    let is_whole = |lab: &Lab, peers| lab.book.directory.is_whole_for(peers);
    let alone = Some(lab.book.directory.peers.hash());
    assert!(!is_whole(&lab, before), "b is missing");
    assert!(is_whole(&lab, alone), "whoever never heard of b does not miss it");
    assert!(!is_whole(&lab, None), "nobody can tell whom that one knows");
    comes(&mut lab, "b", 2);
    assert_eq!(Some(lab.book.directory.peers.hash()), before);
    assert!(!is_whole(&lab, before), "it may run something");
    lab.reports("b", vec![]);
    assert!(is_whole(&lab, before));
}

#[test]
fn a_repository_without_services_is_no_work() {
    let now = Instant::now();
    let mut book = Book::new(now);
    book.want(&Services::new());
    assert!(book.go_through(now).directory, "that there are none is known from now on");
    book.want(&Services::new());
    let news = book.go_through(now);
    assert!(!news.directory && news.owns.is_empty() && news.services.is_empty());
    assert_eq!(book.due(), None);
}

#[test]
fn a_commit_that_leaves_services_as_they_are_is_no_work() {
    let mut lab = Lab::settled(Some(1));
    lab.joins("a", vec![deployment("0", Replica::Number(0), at(4))]);
    let again = Service { description: Some("now with words".into()), ..service(Some(1)) };
    for (wanted, is_work) in [(service(Some(1)), false), (again.clone(), true), (again, false)] {
        lab.book.want(&Services::from([(web(), Arc::new(wanted))]));
        let Changed { unplaced, unlisted, .. } = &lab.book.changed;
        assert_eq!(unplaced.contains(&web()) && unlisted.contains(&web()), is_work);
        assert_eq!(lab.book.go_through(lab.now).services.contains(&web()), is_work);
    }
}

#[test]
fn how_one_service_feels_is_no_work_for_others_that_have_no_rest() {
    let mut lab = Lab::settled(None);
    let db = ServiceName::new("db").expect("a name");
    let restless = Service { name: db.clone(), ..service(Some(3)) };
    let all = [service(None), restless].map(|it| (it.name.clone(), Arc::new(it)));
    lab.book.want(&Services::from(all));
    lab.turn();
    let it = deployment("a", Replica::Own, at(4));
    lab.joins("a", vec![it.clone()]);
    assert!(lab.book.restless.contains(&db), "there are fewer hosts than replicas");
    let ill = DeploymentReport { serves: false, ..it };
    let report = ServicesReport { deployments: vec![ill], ..ServicesReport::default() };
    let now = Now { instant: lab.now, wall: Timestamp(1) };
    let session = lab.book.sessions[&name("a")];
    lab.book.hear(&name("a"), session, Word::Services(report), now);
    assert_eq!(lab.book.changed.unplaced, [web()].into());
    lab.turn();
    lab.comes("b", NodeType::Worker);
    let whole = ServicesReport { whole: true, ..ServicesReport::default() };
    let session = lab.book.sessions[&name("b")];
    lab.book.hear(&name("b"), session, Word::Services(whole), now);
    assert!(lab.book.changed.unplaced.contains(&db), "somebody came who may take some");
}

#[test]
fn what_a_host_says_of_its_network_is_work_where_somebody_waits_for_it() {
    let mut lab = Lab::settled(None);
    for (host, node_type) in [("worker", NodeType::Worker), ("edge", NodeType::Proxy)] {
        lab.comes(host, node_type);
        let said = |lab: &mut Lab, routes: &[u8]| {
            let section =
                SectionReport { hash: Hash256::of(routes), problem: None, left_out: [].into() };
            let (names, mesh) = (section.clone(), section.clone());
            lab.says(host, Word::Network(NetworkReport { names, routes: Some(section), mesh }))
        };
        let of_a_proxy = if host == "edge" { Urgency::Soon } else { Urgency::None };
        assert_eq!(said(&mut lab, b"some"), of_a_proxy, "{host}");
        assert_eq!(said(&mut lab, b"some"), Urgency::None, "{host} has loaded nothing else");
        assert_eq!(said(&mut lab, b"others"), of_a_proxy, "{host}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Comes(usize),
    Reports(usize, Vec<(u32, bool, bool)>),
    Leaves(usize),
    GoesDown(usize),
    FallsSilent(usize),
    Answers(usize),
    Wants(Option<u32>),
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let host = 0..4usize;
    let deployments = prop::collection::vec((0..4u32, any::<bool>(), any::<bool>()), 0..3);
    prop_oneof![
        3 => host.clone().prop_map(Step::Comes),
        4 => (host.clone(), deployments).prop_map(|(host, all)| Step::Reports(host, all)),
        1 => host.clone().prop_map(Step::Leaves),
        1 => host.clone().prop_map(Step::GoesDown),
        1 => host.clone().prop_map(Step::FallsSilent),
        1 => host.prop_map(Step::Answers),
        1 => prop::option::of(0..4u32).prop_map(Step::Wants),
        1 => (0..400u64).prop_map(Step::Time),
    ]
}

const HOSTS: [&str; 4] = ["a", "b", "c", "d"];

fn report(host: usize, (number, serves, retires): (u32, bool, bool)) -> DeploymentReport {
    let it = deployment(
        &format!("{host}-{number}"),
        Replica::Number(number),
        [10, 200, host as u8, number as u8],
    );
    let phase = if retires { Phase::Retiring } else { Phase::Running };
    DeploymentReport { serves, phase, ..it }
}

proptest! {
    /// Whatever happens in whatever order: no replica is given to two hosts, no name leads to what
    /// does not serve, and whoever follows the edits has what everybody has.
    #[test]
    fn no_two_hosts_have_one_replica_and_no_name_leads_nowhere(
        steps in prop::collection::vec(step(), 0..40)
    ) {
        let mut lab = Lab::settled(Some(3));
        let mut follower = lab.book.directory.names.table().clone();
        for step in steps {
            match step {
                Step::Comes(host) => lab.comes(HOSTS[host], NodeType::Worker),
                Step::Reports(host, all) => {
                    let all = all.into_iter().map(|one| report(host, one)).collect();
                    lab.reports(HOSTS[host], all);
                }
                Step::Leaves(host) => drop(lab.says(HOSTS[host], Word::Left)),
                Step::GoesDown(host) => drop(lab.says(HOSTS[host], Word::GoesDown)),
                Step::FallsSilent(host) => drop(lab.says(HOSTS[host], Word::Silent)),
                Step::Answers(host) => drop(lab.says(HOSTS[host], Word::Answers)),
                Step::Wants(replicas) => lab.wants(service(replicas)),
                Step::Time(seconds) => lab.passes(Duration::from_secs(seconds)),
            }
            let mut given = BTreeSet::new();
            for name in lab.book.sessions.keys() {
                let placed = lab.book.owns[name].placed.iter().flatten();
                for number in placed.flat_map(|(_, numbers)| numbers) {
                    prop_assert!(given.insert(*number), "{number} is given twice");
                }
            }
            let serving: BTreeSet<Ipv4Addr> = lab.book.view.hosts.values()
                .flat_map(|host| host.deployments.values())
                .filter(|it| it.serves)
                .filter_map(|it| it.address)
                .collect();
            let names = &lab.book.directory.names;
            let led_to = names.table().addresses(&web()).expect("it has a name");
            prop_assert!(led_to.iter().all(|address| serving.contains(address)));
            if let Some(edit) = names.edit_for(Some(follower.hash())) {
                follower.apply(edit).map_err(|error| TestCaseError::fail(error.to_string()))?;
            }
            prop_assert_eq!(&follower, names.table());
        }
        for (number, host) in HOSTS.iter().enumerate() {
            lab.comes(host, NodeType::Worker);
            lab.reports(host, vec![report(number, (9, false, false))]);
        }
        lab.wants(service(Some(3)));
        prop_assert_eq!(lab.placed().len(), 3, "there is room for all");
    }
}

#[test]
fn who_goes_for_good_is_led_to_no_more_at_once_and_who_restarts_still_is() {
    let mut lab = Lab::new(None);
    for (host, third) in [("a", 1), ("b", 2)] {
        lab.joins(host, vec![deployment(host, Replica::Own, [10, 200, third, 5])]);
        let claim =
            Some(Claim { subnet: Subnet::new(third.into()).expect("one"), since: Timestamp(1) });
        let (public_key, endpoints) = (PublicKey([third; 32]), Vec::new());
        lab.says(host, Word::Mesh(MeshReport { public_key, endpoints, claim }));
    }
    let led_to = |lab: &Lab| lab.addresses().len();
    let peers = |lab: &Lab| lab.book.directory().peers.table().rows().len();
    lab.says("b", Word::Left);
    assert_eq!((led_to(&lab), peers(&lab)), (2, 2), "its agent restarts");
    lab.joins("b", vec![deployment("b", Replica::Own, [10, 200, 2, 5])]);

    assert_eq!(lab.says("b", Word::Departs), Urgency::Now);
    assert_eq!((led_to(&lab), peers(&lab)), (1, 1));
    assert!(!lab.book.view().hosts.contains_key(&name("b")), "nothing is waited for");
    assert_eq!(lab.says("b", Word::Left), Urgency::None);
    lab.says("a", Word::Departs);
    assert_eq!(led_to(&lab), 0, "this is no mere suspicion");
}

#[test]
fn a_host_that_goes_down_is_led_to_no_more_at_once_though_there_is_nobody_else() {
    let mut lab = Lab::settled(None);
    for (host, last) in [("a", 4), ("b", 5)] {
        lab.joins(host, vec![deployment(host, Replica::Own, at(last))]);
    }
    assert_eq!(lab.says("b", Word::GoesDown), Urgency::Now);
    assert_eq!(lab.addresses(), ["10.200.1.4"]);
    for word in [Word::Answers, Word::Silent, Word::Left] {
        assert_eq!(lab.says("b", word), Urgency::None, "it was the last word");
    }
    lab.comes("b", NodeType::Worker);
    assert_eq!(lab.addresses(), ["10.200.1.4"], "it was booted, and runs nothing yet");
    lab.reports("b", vec![deployment("b", Replica::Own, at(5))]);
    assert_eq!(lab.addresses().len(), 2);
    lab.says("b", Word::Silent);
    lab.says("a", Word::GoesDown);
    assert_eq!(lab.addresses(), ["10.200.1.5"], "somewhere to go is better than nowhere");
    lab.says("b", Word::Answers);
    lab.says("b", Word::GoesDown);
    assert_eq!(lab.addresses(), [] as [&str; 0], "nobody is there, by their own word");
}

#[test]
fn replicas_of_a_host_that_goes_down_wait_for_it_as_for_one_that_is_away() {
    let mut lab = Lab::settled(Some(1));
    lab.joins("a", vec![deployment("0", Replica::Number(0), at(4))]);
    lab.joins("b", vec![]);
    lab.says("a", Word::GoesDown);
    assert_eq!(lab.placed()[&0], name("a"), "it may come back");
    let due = lab.book.due().expect("its time will be up");
    assert_eq!(due, lab.now + service(Some(1)).reschedule_after);
    lab.passes(due - lab.now);
    assert_eq!(lab.placed()[&0], name("b"));
}

#[test]
fn replicas_of_who_goes_for_good_move_at_once_but_for_those_with_volumes() {
    for is_stateful in [false, true] {
        let mut lab = Lab::new(Some(1));
        let mut wanted = service(Some(1));
        let data = fluke_model::id::VolumeName::new("data").expect("a name");
        if is_stateful {
            wanted.container.volumes.insert(data, "/data".into());
        }
        lab.wants(wanted);
        lab.joins("a", vec![]);
        lab.joins("b", vec![]);
        lab.passes(SETTLING);
        let of = |lab: &Lab| {
            let placements = &lab.book.directory().placements;
            placements.table().rows()[&web()].replicas[&0].to_string()
        };
        let at = of(&lab);
        lab.says(&at, Word::Departs);
        assert_eq!(of(&lab) == at, is_stateful, "stateful: {is_stateful}");
    }
}
