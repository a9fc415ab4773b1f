use std::sync::Arc;

use fluke_model::directory::PublicKey;
use fluke_model::id::{Hash256, PortName, SessionId};
use fluke_model::label::Labels;
use fluke_model::message::{MeshReport, NetworkReport, NodeType, SectionReport, ServicesReport};
use fluke_model::time::Timestamp;
use fluke_model::verdict::Verdict;

use super::*;
use crate::reconcile::Now;
use crate::services::book::{SETTLING, Word};
use crate::services::fixture::{came, deployment, name, service, take_all, web};
use crate::services::view::{Came, Services};

/// What is known of `web`, and a clock.
struct Lab {
    book: Book,
    now: Instant,
}

impl Lab {
    fn new(replicas: Option<u32>) -> Self {
        let mut lab = Self { book: Book::new(Instant::now()), now: Instant::now() + SETTLING };
        lab.book.want(&Services::from([(web(), Arc::new(service(replicas)))]));
        lab.book.go_through(lab.now);
        lab
    }

    fn says(&mut self, host: &str, word: Word) {
        let now = Now { instant: self.now, wall: Timestamp(1) };
        self.book.hear(&name(host), SessionId(1), word, now);
        self.book.go_through(self.now);
    }

    fn joins(&mut self, host: &str, node_type: NodeType) {
        self.says(host, came(Labels::default(), node_type));
        self.runs(host, vec![]);
    }

    fn runs(&mut self, host: &str, deployments: Vec<DeploymentReport>) {
        let report = ServicesReport { whole: true, deployments, ..ServicesReport::default() };
        self.says(host, Word::Services(report));
    }

    /// What the host should have, running.
    fn wanted(&self, host: &str, replica: Replica) -> DeploymentReport {
        let id = DeploymentId::of(&web(), &service(None).container, replica, &name(host));
        DeploymentReport { id, ..deployment("web", replica, [10, 200, 1, 2]) }
    }

    fn seen(&self) -> ServiceView {
        service_seen(&self.book, self.now)
    }
}

fn service_seen(book: &Book, now: Instant) -> ServiceView {
    let looking = Looking { default_policy: Policy::Remediate, now, idle: &|_| vec![name("dev")] };
    super::service(book, "web", looking).expect("it is in Git")
}

#[test]
fn what_has_nowhere_to_run_says_so() {
    let mut lab = Lab::new(None);
    let seen = lab.seen();
    assert_eq!((seen.status, seen.counts.wanted), (Status::Drifted, 0));
    assert!(seen.waiting[0].contains("matches its selector"), "{:?}", seen.waiting);
    assert!(seen.waiting[0].ends_with("do not run containers: dev"), "{:?}", seen.waiting);

    lab = Lab::new(Some(2));
    let seen = lab.seen();
    assert_eq!((seen.status, seen.counts.wanted), (Status::Drifted, 2));
    assert!(seen.waiting[0].starts_with("replicas 0, 1 wait for a host"), "{:?}", seen.waiting);
}

#[test]
fn what_a_server_that_has_just_started_waits_for_is_its_agents() {
    let mut lab = Lab::new(Some(2));
    lab.book = Book::new(lab.now);
    lab.book.want(&Services::from([(web(), Arc::new(service(Some(2))))]));
    lab.joins("a", NodeType::Worker);
    let waiting = lab.seen().waiting;
    assert!(waiting[0].starts_with("replicas 0, 1 wait: this server has just started"));
    lab.now += SETTLING;
    assert!(lab.book.go_through(lab.now).services.contains(&web()));
    assert!(lab.seen().waiting.is_empty());
}

#[test]
fn a_host_that_refuses_is_said_to_and_replicas_say_why_they_wait() {
    let refusing = |executors: &[ServiceExecutor]| {
        let executors = executors.iter().copied().collect();
        Word::Came(Came { labels: Labels::default(), node_type: NodeType::Worker, executors })
    };
    let mut lab = Lab::new(Some(1));
    lab.says("a", refusing(&[]));
    lab.runs("a", vec![]);
    let seen = lab.seen();
    assert!(seen.deployments.is_empty(), "it is not given to that host");
    assert!(seen.waiting[0].contains("does not list both"), "{:?}", seen.waiting);
    assert!(seen.waiting[0].contains("`mesh`: a; these"), "{:?}", seen.waiting);

    // Nor to one that nobody could reach, which is no fault of its config.
    let key = PublicKey([1; 32]);
    let mesh = Word::Mesh(MeshReport { public_key: key, endpoints: vec![], claim: None });
    lab = Lab::new(Some(1));
    take_all(lab.book.claims_mut());
    lab.joins("a", NodeType::Worker);
    lab.says("a", mesh.clone());
    let seen = lab.seen();
    assert!(seen.deployments.is_empty(), "{:?}", seen.deployments);
    assert!(
        seen.waiting[0].contains("connected; no subnet is left for these, which match: a; these")
    );
    lab = Lab::new(None);
    take_all(lab.book.claims_mut());
    lab.joins("a", NodeType::Worker);
    lab.says("a", mesh);
    lab.runs("a", vec![lab.wanted("a", Replica::Own)]);
    let seen = lab.seen();
    let note = seen.deployments[0].note.as_deref();
    assert!(note.is_some_and(|note| note.starts_with("nothing leads to it: no subnet is left")));
    assert_eq!((seen.counts.running, seen.counts.serving), (1, 0));

    lab = Lab::new(None);
    lab.says("a", refusing(&[]));
    let why = "refused by this host's own config";
    let it = lab.wanted("a", Replica::Own);
    let verdict = Verdict::Error { reason: why.into() };
    let (phase, note) = (Phase::Missing, Some(why.into()));
    lab.runs("a", vec![DeploymentReport { verdict, phase, note, serves: false, ..it }]);
    let seen = lab.seen();
    assert_eq!((seen.status, seen.counts.failed), (Status::Failed, 1));
    let it = &seen.deployments[0];
    assert_eq!((it.refused, it.note.as_deref()), (true, Some(why)));

    lab = Lab::new(None);
    lab.says("a", refusing(&[ServiceExecutor::Container]));
    lab.runs("a", vec![lab.wanted("a", Replica::Own)]);
    let it = &lab.seen().deployments[0];
    assert_eq!((it.refused, it.serves, it.status), (false, false, Status::InSync));
    assert!(it.note.as_deref().is_some_and(|note| note.contains("`mesh`")), "{:?}", it.note);
}

#[test]
fn a_replica_that_nobody_has_spoken_of_is_missing_and_one_that_runs_is_well() {
    let mut lab = Lab::new(Some(1));
    lab.joins("a", NodeType::Worker);
    let seen = lab.seen();
    let [it] = &seen.deployments[..] else { panic!("one: {:?}", seen.deployments) };
    assert_eq!((it.phase, it.status, it.replica), (Phase::Missing, Status::Drifted, Some(0)));
    assert!(seen.waiting.is_empty());

    lab.runs("a", vec![lab.wanted("a", Replica::Number(0))]);
    let seen = lab.seen();
    assert_eq!((seen.status, seen.counts.serving), (Status::InSync, 1));
    assert_eq!(seen.addresses, [[10, 200, 1, 2].into()] as [std::net::Ipv4Addr; 1]);
    assert_eq!(seen.hostname, "web.internal");
}

#[test]
fn what_goes_is_listed_and_not_counted() {
    let mut lab = Lab::new(None);
    lab.joins("a", NodeType::Worker);
    let old = deployment("old", Replica::Own, [10, 200, 1, 9]);
    let old = DeploymentReport { phase: Phase::Retiring, serves: false, ..old };
    lab.runs("a", vec![lab.wanted("a", Replica::Own), old]);
    let seen = lab.seen();
    assert_eq!((seen.deployments.len(), seen.counts.wanted, seen.counts.running), (2, 1, 1));
    assert_eq!(seen.status, Status::Applying);
}

#[test]
fn what_the_old_version_serves_is_served_while_the_new_one_fails() {
    let mut lab = Lab::new(None);
    lab.joins("a", NodeType::Worker);
    let new = lab.wanted("a", Replica::Own);
    let new = DeploymentReport { phase: Phase::Failed, serves: false, ..new };
    let old = deployment("web", Replica::Own, [10, 200, 1, 9]);
    let old = DeploymentReport { phase: Phase::Retiring, ..old };
    lab.runs("a", vec![new, old.clone()]);
    let seen = lab.seen();
    assert_eq!((seen.status, seen.counts.serving, seen.counts.failed), (Status::Failed, 1, 1));

    lab.runs("a", vec![lab.wanted("a", Replica::Own), old]);
    assert_eq!(lab.seen().counts.serving, 1, "two versions of one replica are one replica");
}

#[test]
fn a_host_that_is_away_does_not_hide_what_failed_on_others() {
    let mut lab = Lab::new(None);
    for host in ["a", "b"] {
        lab.joins(host, NodeType::Worker);
        lab.runs(host, vec![lab.wanted(host, Replica::Own)]);
    }
    lab.says("a", Word::Silent);
    let seen = lab.seen();
    assert_eq!((seen.status, seen.counts.serving), (Status::InSync, 1));
    let a = &seen.deployments[0];
    assert_eq!((a.status, a.note.as_deref()), (Status::Offline, Some("its host does not answer")));
    lab.says("a", Word::GoesDown);
    let a = &lab.seen().deployments[0];
    let why = Some("its host was shut down or rebooted");
    assert_eq!((a.status, a.connected, a.note.as_deref()), (Status::Offline, false, why));

    let failed = DeploymentReport { phase: Phase::Failed, ..lab.wanted("b", Replica::Own) };
    lab.runs("b", vec![failed]);
    assert_eq!(lab.seen().status, Status::Failed);
}

/// `web` with a volume for hosts with the label `role=db`, and hosts that have its data.
mod volumes {
    use fluke_model::id::VolumeName;
    use fluke_model::label::Selector;
    use fluke_model::volume::Volume;

    use super::*;

    fn labels(role: &str) -> Labels {
        Labels([Labels::parse_pair(role).expect("a label")].into())
    }

    fn data() -> VolumeName {
        VolumeName::new("data").expect("a name")
    }

    fn lab() -> Lab {
        let mut service = service(Some(1));
        service.selector = Selector { match_labels: labels("role=db").0, ..Selector::default() };
        service.container.volumes.insert(data(), "/data".into());
        let mut lab = Lab::new(None);
        lab.book.want(&Services::from([(web(), Arc::new(service))]));
        lab
    }

    impl Lab {
        fn has_data(&mut self, host: &str, role: &str, deployments: Vec<DeploymentReport>) {
            let came = came(labels(role), NodeType::Worker);
            self.says(host, came);
            let volume = Volume { service: web(), replica: Replica::Number(0), name: data() };
            let volumes = Some([volume].into());
            let report =
                ServicesReport { whole: true, deployments, volumes, ..ServicesReport::default() };
            self.says(host, Word::Services(report));
        }
    }

    #[test]
    fn a_replica_whose_host_does_not_match_any_more_says_what_it_waits_for_and_what_to_do() {
        let mut lab = lab();
        lab.has_data("db-1", "role=db", vec![]);
        lab.has_data("db-1", "role=spare", vec![]);
        let seen = lab.seen();
        assert_eq!((seen.status, seen.deployments.len()), (Status::Drifted, 0));
        assert_eq!(
            seen.waiting,
            [
                "replica 0 waits: its volume `data` is on host db-1, which does not match the selector \
              any more; remove the volume there (`podman volume rm fluke.web.data.0`) or label the \
              host"
            ]
        );
        let retiring = deployment("0", Replica::Number(0), [10, 200, 1, 2]);
        let retiring = DeploymentReport { phase: Phase::Retiring, ..retiring };
        lab.has_data("db-1", "role=spare", vec![retiring]);
        let seen = lab.seen();
        assert!(seen.waiting[0].ends_with("until then it goes on running there"), "{seen:?}");
        lab.has_data("db-1", "role=db", vec![]);
        assert!(lab.seen().waiting.is_empty());
    }

    #[test]
    fn a_replica_says_that_it_waits_for_a_host_that_is_away_and_that_another_has_its_volume_too() {
        let mut lab = lab();
        lab.has_data("db-1", "role=db", vec![]);
        lab.says("db-1", Word::Silent);
        let note = lab.seen().deployments.remove(0).note.expect("one");
        assert_eq!(
            note,
            "its host does not answer; it waits for that host, where its volume `data` is"
        );
        lab.has_data("db-2", "role=db", vec![]);
        let it = lab.seen().deployments.remove(0);
        assert_eq!(it.agent, name("db-1"), "it stays where it was");
        assert!(it.note.is_some_and(|note| note.ends_with(
            "its volume `data` is on each of db-1, db-2, and which is the right one only people can \
             tell: look into them, and remove the others (`podman volume rm fluke.web.data.0`)"
        )));
    }
}

#[test]
fn a_route_says_how_many_proxies_have_it() {
    let mut lab = Lab::new(None);
    lab.joins("p", NodeType::Proxy);
    lab.runs("p", vec![lab.wanted("p", Replica::Own)]);
    let route = lab.seen().routes.remove(0);
    assert_eq!((route.loaded, route.proxies), (0, 1));
    assert_eq!(route.domain.as_deref(), Some("shop.example.com"));
    let hash = lab.book.directory().routes.hash();
    let section = || SectionReport { hash, problem: None, left_out: [].into() };
    let report = NetworkReport { names: section(), routes: Some(section()), mesh: section() };
    lab.says("p", Word::Network(report));
    assert_eq!(lab.seen().routes[0].loaded, 1);
}

#[test]
fn a_replica_without_volumes_says_when_it_moves_from_a_host_that_is_away() {
    let mut lab = Lab::new(Some(1));
    lab.joins("a", NodeType::Worker);
    lab.runs("a", vec![lab.wanted("a", Replica::Number(0))]);
    assert_eq!(lab.seen().deployments[0].note, None);
    lab.says("a", Word::Silent);
    for (passed, when) in [
        (0, "in 5m, once this one was away for 5m"),
        (170, "in 2m10s, once this one was away for 5m"),
        (130, "as soon as there is one"),
    ] {
        lab.now += Duration::from_secs(passed);
        let note = lab.seen().deployments.remove(0).note.expect("one");
        let moves = "its host does not answer; it is started on another host that matches";
        assert_eq!(note, format!("{moves} {when}"));
    }
}

#[test]
fn when_a_replica_moves_is_told_as_manifests_write_it() {
    for (patience, told) in [(7_200_000, "2h"), (500, "500ms"), (5_405_000, "1h30m5s")] {
        let mut lab = Lab::new(Some(1));
        let reschedule_after = Duration::from_millis(patience);
        let wanted = fluke_model::service::Service { reschedule_after, ..service(Some(1)) };
        lab.book.want(&Services::from([(web(), Arc::new(wanted))]));
        lab.joins("a", NodeType::Worker);
        lab.runs("a", vec![lab.wanted("a", Replica::Number(0))]);
        lab.says("a", Word::Silent);
        lab.now += Duration::from_millis(100);
        let note = lab.seen().deployments.remove(0).note.expect("one");
        assert!(note.ends_with(&format!("once this one was away for {told}")), "{note}");
        assert!(!note.contains("in 0"), "{note}");
    }
}

#[test]
fn a_replica_that_waits_for_a_host_says_which_ones_have_not_spoken_yet() {
    let mut lab = Lab::new(Some(1));
    lab.says("a", came(Labels::default(), NodeType::Worker));
    let [why] = &lab.seen().waiting[..] else { panic!("it waits") };
    assert!(why.contains("but for these, which have not said yet what runs there: a;"), "{why}");
    lab.runs("a", vec![]);
    assert!(lab.seen().waiting.is_empty(), "a has it");
}

#[test]
fn only_numbered_replicas_without_volumes_move_from_a_host_that_is_away() {
    assert_eq!(Lab::new(None).seen().reschedule_after_ms, None);
    let mut lab = Lab::new(Some(1));
    assert_eq!(lab.seen().reschedule_after_ms, Some(300_000));
    let mut stays = service(Some(1));
    let data = fluke_model::id::VolumeName::new("data").expect("a name");
    stays.container.volumes.insert(data, "/data".into());
    lab.book.want(&Services::from([(web(), Arc::new(stays))]));
    assert_eq!(lab.seen().reschedule_after_ms, None);
}

#[test]
fn a_route_that_a_proxy_leaves_out_is_not_loaded_there_and_says_why() {
    let mut lab = Lab::new(None);
    lab.joins("p", NodeType::Proxy);
    lab.runs("p", vec![lab.wanted("p", Replica::Own)]);
    let hash = lab.book.directory().routes.hash();
    let problem = "all other routes are in effect, but many are left out";
    for (left_out, loaded) in [("web", 0), ("old-web", 1)] {
        let service = ServiceName::new(left_out).expect("a name");
        let left_out = RouteKey { service, port: PortName::new("http").expect("a name") };
        let well = SectionReport { hash, problem: None, left_out: [].into() };
        let routes = SectionReport {
            problem: Some(problem.into()),
            left_out: [left_out].into(),
            ..well.clone()
        };
        let (names, mesh) = (well.clone(), well);
        lab.says("p", Word::Network(NetworkReport { names, routes: Some(routes), mesh }));
        let route = lab.seen().routes.remove(0);
        assert_eq!((route.loaded, route.proxies), (loaded, 1));
        let why = (loaded == 0).then(|| format!("p: {problem}"));
        assert_eq!(route.behind, Vec::from_iter(why));
    }
}

/// `web` and `other` on a host, and two proxies that have loaded what there is.
mod two_services {
    use super::*;

    struct Two {
        lab: Lab,
        loaded: Hash256,
    }

    fn other() -> ServiceName {
        ServiceName::new("other").expect("a name")
    }

    impl Two {
        fn new() -> Self {
            let mut lab = Lab::new(None);
            let other = Service { name: other(), ..service(None) };
            let all = [service(None), other].map(|it| (it.name.clone(), Arc::new(it)));
            lab.book.want(&Services::from(all));
            lab.joins("p1", NodeType::Proxy);
            lab.joins("p2", NodeType::Proxy);
            lab.joins("a", NodeType::Worker);
            let mut two = Self { loaded: lab.book.directory().routes.hash(), lab };
            two.serve(&[2, 3]);
            two.load("p1");
            two.load("p2");
            two
        }

        /// `web` serves at these, `other` where it always does.
        fn serve(&mut self, at: &[u8]) {
            let web = |last: &u8| deployment(&last.to_string(), Replica::Own, [10, 200, 1, *last]);
            let it = deployment("other", Replica::Own, [10, 200, 1, 9]);
            let it = DeploymentReport { service: other(), ..it };
            self.lab.runs("a", at.iter().map(web).chain([it]).collect());
            self.loaded = self.lab.book.directory().routes.hash();
        }

        /// A proxy has loaded the newest ones; says who looks otherwise for it.
        fn load(&mut self, proxy: &str) -> BTreeSet<ServiceName> {
            let section =
                || SectionReport { hash: self.loaded, problem: None, left_out: [].into() };
            let routes = Some(section());
            let report = NetworkReport { names: section(), routes, mesh: section() };
            let now = Now { instant: self.lab.now, wall: Timestamp(1) };
            self.lab.book.hear(&name(proxy), SessionId(1), Word::Network(report), now);
            self.lab.book.go_through(self.lab.now).services
        }

        fn loaded(&self) -> Vec<u32> {
            let (now, idle) = (self.lab.now, |_: &Selector| Vec::new());
            let looking = Looking { default_policy: Policy::Remediate, now, idle: &idle };
            let all = services(&self.lab.book, looking);
            all.map(|(_, view)| view().routes[0].loaded).collect()
        }
    }

    #[test]
    fn a_route_that_stays_as_it_is_stays_loaded_whatever_becomes_of_others() {
        let mut two = Two::new();
        assert_eq!(two.loaded(), [2, 2]);
        for (round, at) in [[2], [3], [2], [3]].iter().enumerate() {
            two.serve(at);
            assert_eq!(two.loaded(), [2, 0], "{round}: nothing has become of `other`");
        }
        let lacking = |two: &Two| {
            tallies(&two.lab.book, two.lab.now).map(|it| it.lacks_a_way).collect::<Vec<_>>()
        };
        assert_eq!(lacking(&two), [false, true]);
        assert_eq!(two.load("p1"), [web()].into(), "no other looks otherwise");
        assert_eq!(two.loaded(), [2, 1]);
        assert_eq!(lacking(&two), [false, false]);
        assert_eq!(two.load("p2"), [web()].into());
        assert_eq!(two.loaded(), [2, 2]);
    }

    #[test]
    fn what_a_proxy_leads_to_that_is_stuck_stays_loaded_however_much_becomes_of_others() {
        let mut two = Two::new();
        for (one, another) in (10..45).flat_map(|one| (50..85).map(move |it| (one, it))) {
            two.serve(&[one, another]);
        }
        assert_eq!(two.loaded(), [2, 0]);
    }

    #[test]
    fn one_that_is_not_waited_for_any_more_is_named_by_what_it_lacks() {
        let mut two = Two::new();
        two.serve(&[4]);
        two.load("p1");
        two.lab.now += ROUTES_PATIENCE;
        let news = two.lab.book.go_through(two.lab.now);
        assert_eq!(news.services, [web()].into());
        assert_eq!(two.loaded(), [2, 1]);
    }

    #[test]
    fn one_that_comes_on_after_it_was_given_up_is_waited_for_again_with_what_it_lacks() {
        let mut two = Two::new();
        two.serve(&[4]);
        let first = two.loaded;
        two.load("p1");
        two.lab.now += ROUTES_PATIENCE;
        two.lab.book.go_through(two.lab.now);
        let given_up = |two: &Two| two.lab.seen().routes[0].behind.len();
        assert_eq!(given_up(&two), 1);
        two.serve(&[5]);
        two.loaded = first;
        assert_eq!(two.load("p2"), [web()].into(), "it lacks the next one, and is on its way");
        assert_eq!((given_up(&two), two.loaded()), (0, vec![2, 0]));
    }

    #[test]
    fn what_waits_for_proxies_to_go_looks_otherwise_when_one_of_them_has_come_on() {
        let mut two = Two::new();
        two.serve(&[2]);
        let old = deployment("old", Replica::Own, [10, 200, 1, 8]);
        let old = DeploymentReport { phase: Phase::Retiring, serves: false, ..old };
        let old = DeploymentReport { service: other(), ..old };
        let deployments = vec![old];
        let report = ServicesReport { deployments, ..ServicesReport::default() };
        two.lab.says("a", Word::Services(report));
        let waits_for = |two: &Two| {
            let (now, idle) = (two.lab.now, |_: &Selector| Vec::new());
            let looking = Looking { default_policy: Policy::Remediate, now, idle: &idle };
            let seen = super::super::service(&two.lab.book, "other", looking).expect("in Git");
            let mut notes = seen.deployments.iter().filter_map(|it| it.note.as_deref());
            let note = notes.find(|note| note.starts_with("it goes once"));
            note.and_then(|note| Some(note.rsplit_once(": ")?.1.to_string())).unwrap_or_default()
        };
        assert_eq!(waits_for(&two), "p1, p2");
        // Its own routes are as they were: it is only led past what has to go.
        let both = BTreeSet::from([other(), web()]);
        assert_eq!(two.load("p1"), both);
        assert_eq!(waits_for(&two), "p2");
        two.lab.now += ROUTES_PATIENCE;
        assert_eq!(two.lab.book.go_through(two.lab.now).services, both);
        assert_eq!(waits_for(&two), "", "nobody is waited for");
    }
}

/// What somebody counts who goes through the list; what retires is listed, and not wanted.
fn counted_by_hand(seen: &ServiceView) -> ReplicaCounts {
    let count = |is: &dyn Fn(&DeploymentView) -> bool| {
        let is_wanted = |it: &&DeploymentView| it.phase != Phase::Retiring;
        seen.deployments.iter().filter(is_wanted).filter(|it| is(it)).count() as u32
    };
    let serving = seen.deployments.iter().filter(|it| it.serves && it.status != Status::Offline);
    ReplicaCounts {
        wanted: seen.replicas.expect("numbered ones"),
        running: count(&|it| it.phase == Phase::Running && it.status != Status::Offline),
        serving: serving.map(|it| it.replica).collect::<BTreeSet<_>>().len() as u32,
        failed: count(&|it| it.status == Status::Failed),
    }
}

#[test]
fn what_is_counted_is_what_is_seen() {
    let mut lab = Lab::new(Some(3));
    let counts = |lab: &Lab, what: &str| {
        let (seen, all) = (lab.seen(), tallies(&lab.book, lab.now).collect::<Vec<_>>());
        let [Tally { status, replicas, lacks_a_way }] = all[..] else { panic!("one: {all:?}") };
        assert_eq!(replicas, counted_by_hand(&seen), "{what}: {:?}", seen.deployments);
        assert_eq!((status, replicas), (seen.status, seen.counts), "{what}");
        assert_eq!(lacks_a_way, seen.routes.iter().any(|it| it.loaded == 0), "{what}");
        (status, [replicas.running, replicas.serving, replicas.failed], lacks_a_way)
    };
    lab.joins("a", NodeType::Worker);
    assert_eq!(counts(&lab, "nothing runs"), (Status::Drifted, [0, 0, 0], true));
    let [one, two, three] = [0, 1, 2].map(|it| lab.wanted("a", Replica::Number(it)));
    lab.runs("a", vec![one.clone()]);
    assert_eq!(counts(&lab, "one of three"), (Status::Drifted, [1, 1, 0], true));

    // The second fails, and what it was to replace goes on; the third runs, and does not serve yet.
    let verdict = Verdict::Error { reason: "it does not start".into() };
    let two = DeploymentReport { phase: Phase::Failed, verdict, serves: false, ..two };
    let old = deployment("old", Replica::Number(1), [10, 200, 1, 7]);
    let old = DeploymentReport { phase: Phase::Retiring, ..old };
    let three = DeploymentReport { serves: false, ..three };
    lab.runs("a", vec![one, two, old, three]);
    assert_eq!(counts(&lab, "all kinds"), (Status::Failed, [2, 2, 1], true));

    let hash = lab.book.directory().routes.hash();
    for (proxy, loaded, lacks) in
        [("p1", Hash256::of(b"old"), true), ("p2", hash, false), ("p3", Hash256::of(b"old"), false)]
    {
        let executors = [ServiceExecutor::Routes].into();
        let (labels, node_type) = (Labels::default(), NodeType::Proxy);
        lab.says(proxy, Word::Came(Came { labels, node_type, executors }));
        let section = || SectionReport { hash: loaded, problem: None, left_out: [].into() };
        let routes = Some(section());
        lab.says(proxy, Word::Network(NetworkReport { names: section(), routes, mesh: section() }));
        assert_eq!(counts(&lab, proxy), (Status::Failed, [2, 2, 1], lacks));
    }
    lab.says("a", Word::Silent);
    assert_eq!(counts(&lab, "nobody answers").1, [0, 0, 0]);
}

#[test]
fn a_proxy_that_is_waited_for_is_named_and_one_that_is_not_any_more_with_its_problem() {
    let mut lab = Lab::new(None);
    lab.joins("p", NodeType::Proxy);
    let old = deployment("old", Replica::Own, [10, 200, 1, 9]);
    let old = DeploymentReport { phase: Phase::Retiring, serves: false, ..old };
    lab.runs("p", vec![lab.wanted("p", Replica::Own), old]);
    let seen = lab.seen();
    let note = seen.deployments.iter().find_map(|it| it.note.as_deref());
    assert_eq!(note, Some("it goes once proxies have loaded routes without it: p"));
    assert!(seen.routes[0].behind.is_empty());

    let section = || SectionReport {
        hash: Hash256::of(b"old"),
        problem: Some("Traefik is gone".into()),
        left_out: [].into(),
    };
    let report = NetworkReport { names: section(), routes: Some(section()), mesh: section() };
    lab.says("p", Word::Network(report));
    lab.now += ROUTES_PATIENCE;
    lab.book.go_through(lab.now);
    assert_eq!(
        lab.seen().routes[0].behind,
        [
            "p has not come on with its routes for 30 seconds, and is not waited for: Traefik is gone"
        ]
    );
}
