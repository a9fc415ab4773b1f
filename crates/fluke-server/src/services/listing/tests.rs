use std::sync::Arc;

use fluke_model::directory::PublicKey;
use fluke_model::id::{Hash256, SessionId};
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
    let section = || SectionReport { hash, problem: None };
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
fn a_route_that_a_proxy_leaves_out_is_not_loaded_there_and_says_why() {
    let mut lab = Lab::new(None);
    lab.joins("p", NodeType::Proxy);
    lab.runs("p", vec![lab.wanted("p", Replica::Own)]);
    let hash = lab.book.directory().routes.hash();
    for (problem, loaded) in [
        ("all other routes are in effect, but web.http is left out: its port is taken", 0),
        ("all other routes are in effect, but old-web.http is left out: its port is taken", 1),
        ("a certificate cannot be read", 1),
    ] {
        let section =
            |problem: Option<&str>| SectionReport { hash, problem: problem.map(Into::into) };
        let routes = Some(section(Some(problem)));
        let report = NetworkReport { names: section(None), routes, mesh: section(None) };
        lab.says("p", Word::Network(report));
        let route = lab.seen().routes.remove(0);
        assert_eq!((route.loaded, route.proxies), (loaded, 1), "{problem}");
        let why = (loaded == 0).then(|| format!("p: {problem}"));
        assert_eq!(route.behind, Vec::from_iter(why));
    }
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

    let section =
        || SectionReport { hash: Hash256::of(b"old"), problem: Some("Traefik is gone".into()) };
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
