use std::time::Duration;

use fluke_model::directory::{Claim, PublicKey, Subnet, Table};
use fluke_model::label::Labels;
use fluke_model::message::{MeshReport, NetworkReport, SectionReport, ServicesReport};
use fluke_model::time::Timestamp;

use super::*;
use crate::services::fixture::{deployment, name, service, web};

/// A server's head, and a clock.
struct Lab {
    view: View,
    services: Services,
    editions: Editions,
    now: Instant,
}

impl Lab {
    fn with(replicas: Option<u32>, hosts: &[&str]) -> Self {
        let services = Services::from([(web(), Arc::new(service(replicas)))]);
        let (view, editions) = (View::default(), Editions::default());
        let mut lab = Self { view, services, editions, now: Instant::now() };
        hosts.iter().for_each(|host| lab.comes(host, NodeType::Worker));
        lab
    }

    fn comes(&mut self, host: &str, node_type: NodeType) {
        let labels = Some(Labels::default());
        let here = HostView { labels, node_type, ..HostView::new(Presence::Here) };
        self.view.hosts.insert(name(host), here);
    }

    fn is(&mut self, host: &str, presence: impl Fn(Instant) -> Presence) {
        let now = self.now;
        self.host(host, |host| host.presence = presence(now));
    }

    fn host(&mut self, host: &str, change: impl FnOnce(&mut HostView)) {
        self.view.hosts.change(&name(host), change).expect("it is known");
    }

    fn says(&mut self, host: &str, deployments: Vec<DeploymentReport>) {
        let report = ServicesReport { whole: true, deployments, ..ServicesReport::default() };
        self.host(host, |host| host.reported(report));
    }

    fn place(&mut self) -> Placement {
        let (placement, _) = self.view.place(&self.services[&web()], self.now);
        self.view.give(&web(), &placement);
        placement
    }

    fn serving(&self, service: &Service, before: &[[u8; 4]]) -> BTreeSet<Ipv4Addr> {
        let before = before.iter().copied().map(Ipv4Addr::from).collect();
        self.view.serving(service, &self.services, &before, self.now)
    }

    fn addresses(&self) -> Vec<String> {
        let serving = self.serving(&self.services[&web()], &[]);
        serving.iter().map(|address| address.to_string()).collect()
    }

    fn passes(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn loads(&mut self, proxy: &str, routes: Hash256) {
        let section = || SectionReport { hash: routes, problem: None, left_out: [].into() };
        let report = NetworkReport { names: section(), routes: Some(section()), mesh: section() };
        self.host(proxy, |host| host.network = Some(report));
    }

    fn routes_now(&self) -> BTreeMap<RouteKey, Route> {
        let of = |service: &Arc<Service>| {
            let serving = self.serving(service, &[]);
            routes_of(service, &serving).collect::<Vec<_>>()
        };
        self.services.values().flat_map(of).collect()
    }

    fn routes(&self) -> Hash256 {
        Table::from(self.routes_now()).hash()
    }

    fn released(&mut self, host: &str) -> usize {
        let leavers = self.view.leavers(&self.services, self.now);
        self.editions.issue(self.routes(), [], |_| false);
        self.editions.lead_to_none_of(leavers);
        let released = self.view.released(&self.editions, self.now);
        released.get(&name(host)).map_or(0, |released| released.len())
    }
}

#[test]
fn a_name_leads_to_what_serves_anywhere() {
    let mut lab = Lab::with(None, &["a", "b"]);
    assert_eq!(lab.addresses(), [""; 0], "it has a name before anything serves");
    lab.says("a", vec![deployment("a", Replica::Own, [10, 200, 1, 5])]);
    let ill = DeploymentReport { serves: false, ..deployment("b", Replica::Own, [10, 200, 2, 5]) };
    lab.says("b", vec![ill]);
    assert_eq!(lab.addresses(), ["10.200.1.5"]);
    lab.says("b", vec![deployment("b", Replica::Own, [10, 200, 2, 5])]);
    assert_eq!(lab.addresses(), ["10.200.1.5", "10.200.2.5"]);
}

#[test]
fn what_is_on_a_silent_machine_is_not_led_to_and_what_is_behind_a_restarting_agent_is() {
    let mut lab = Lab::with(None, &["a", "b"]);
    lab.says("a", vec![deployment("a", Replica::Own, [10, 200, 1, 5])]);
    lab.says("b", vec![deployment("b", Replica::Own, [10, 200, 2, 5])]);
    lab.is("b", |now| Presence::Restarting(Absence::begins(now)));
    assert_eq!(lab.addresses().len(), 2);
    lab.passes(30);
    assert_eq!(lab.addresses(), ["10.200.1.5"], "it did not come back");
    lab.is("b", |_| Presence::Here);
    assert_eq!(lab.addresses().len(), 2);
    lab.is("b", Presence::Silent);
    assert_eq!(lab.addresses(), ["10.200.1.5"]);
}

#[test]
fn the_last_one_is_not_taken_out_on_suspicion() {
    let mut lab = Lab::with(None, &["a"]);
    lab.says("a", vec![deployment("a", Replica::Own, [10, 200, 1, 5])]);
    lab.is("a", Presence::Silent);
    assert_eq!(lab.addresses(), ["10.200.1.5"]);
}

#[test]
fn a_route_leads_to_the_port_of_every_container_that_serves() {
    let mut lab = Lab::with(None, &["a"]);
    lab.says("a", vec![deployment("a", Replica::Own, [10, 200, 1, 5])]);
    let routes = lab.routes_now();
    let (key, route) = routes.iter().next().expect("one");
    assert_eq!((key.service.as_str(), key.port.as_str()), ("web", "http"));
    let upstreams: Vec<String> = route.upstreams.iter().map(|it| it.to_string()).collect();
    assert_eq!(upstreams, ["10.200.1.5:3000"]);
}

#[test]
fn a_restarted_server_places_nothing_anew_once_one_host_has_told_it() {
    let mut lab = Lab::with(Some(2), &["a", "b", "c"]);
    let before = lab.place();
    let known = lab.view.placements(&[web()].into(), &lab.services);
    let known = known.into_iter().filter_map(|(name, row)| Some((name, row?))).collect();
    let teller = before.values().next().expect("two are placed").to_string();

    let mut lab = Lab::with(Some(2), &[&teller]);
    let now = lab.now;
    lab.view.hear_of(&known, now);
    let numbers: Vec<u32> =
        before.iter().filter(|(_, at)| at.as_str() == teller).map(|(number, _)| *number).collect();
    let runs = numbers.iter().map(|n| deployment("x", Replica::Number(*n), [10, 200, 1, 5]));
    let runs = runs.collect();
    lab.says(&teller, runs);
    assert_eq!(lab.place(), before);
    lab.passes(299);
    assert_eq!(lab.place(), before);
    lab.passes(1);
    assert!(lab.place().values().all(|at| at.as_str() == teller), "the other one never came");
}

#[test]
fn what_is_not_wanted_any_more_is_released_when_no_proxy_leads_to_it() {
    let mut lab = Lab::with(None, &["a"]);
    lab.comes("p", NodeType::Proxy);
    let old = deployment("old", Replica::Own, [10, 200, 1, 4]);
    let old = DeploymentReport { phase: Phase::Retiring, serves: true, ..old };
    let new = deployment("new", Replica::Own, [10, 200, 1, 5]);
    let starting = DeploymentReport { serves: false, phase: Phase::Starting, ..new.clone() };
    lab.says("a", vec![old.clone(), starting]);
    let routes = lab.routes();
    lab.loads("p", routes);
    assert_eq!(lab.released("a"), 0, "its successor does not serve");

    lab.says("a", vec![DeploymentReport { serves: false, ..old }, new]);
    assert_eq!(lab.released("a"), 0, "the proxy still leads to it");
    let routes = lab.routes();
    lab.loads("p", routes);
    assert_eq!(lab.released("a"), 1);
}

#[test]
fn a_replica_that_moved_is_released_once_it_serves_in_its_new_place() {
    let mut lab = Lab::with(Some(1), &["a", "b"]);
    let old = deployment("it", Replica::Number(0), [10, 200, 1, 4]);
    lab.says("a", vec![DeploymentReport { phase: Phase::Retiring, ..old }]);
    assert_eq!(lab.released("a"), 0);
    lab.says("b", vec![deployment("it", Replica::Number(0), [10, 200, 2, 4])]);
    assert_eq!(lab.released("a"), 1);
}

#[test]
fn what_was_taken_out_of_git_is_released_once_no_proxy_leads_to_it() {
    let mut lab = Lab::with(None, &["a"]);
    let it = deployment("it", Replica::Own, [10, 200, 1, 4]);
    lab.says("a", vec![DeploymentReport { phase: Phase::Retiring, ..it }]);
    lab.services.clear();
    assert_eq!(lab.released("a"), 1);
    lab.comes("p", NodeType::Proxy);
    assert_eq!(lab.released("a"), 0, "nobody knows what the proxy has loaded");
}

#[test]
fn a_peer_is_whoever_has_a_key_and_a_subnet() {
    let mut lab = Lab::with(None, &["a", "b"]);
    let claim = Claim { subnet: Subnet::new(7).expect("in range"), since: Timestamp(1) };
    let mesh = MeshReport {
        public_key: PublicKey([1; 32]),
        endpoints: vec!["192.0.2.1:51820".parse().expect("an address")],
        claim: Some(claim),
    };
    lab.host("a", |host| host.mesh = Some(mesh));
    assert_eq!(lab.view.peer(&name("a")), None);
    lab.view.claims.claim(&name("a"), Some(claim), Timestamp(2));
    lab.is("a", Presence::Silent);
    assert!(lab.view.peer(&name("a")).is_some() && lab.view.peer(&name("b")).is_none());
}

/// All that a host does for services, but for this.
fn all_but(refused: ServiceExecutor) -> BTreeSet<ServiceExecutor> {
    ServiceExecutor::ALL.into_iter().filter(|it| *it != refused).collect()
}

#[test]
fn replicas_go_where_containers_may_run_and_be_reached() {
    for refused in [ServiceExecutor::Container, ServiceExecutor::Mesh] {
        let mut lab = Lab::with(Some(3), &["a", "b"]);
        lab.host("b", |host| host.executors = all_but(refused));
        assert!(lab.place().values().all(|at| at.as_str() == "a"), "{refused:?}");
    }
    for refused in [ServiceExecutor::Dns, ServiceExecutor::Routes] {
        let mut lab = Lab::with(Some(4), &["a", "b"]);
        lab.host("b", |host| host.executors = all_but(refused));
        let on_b = lab.place().values().filter(|at| at.as_str() == "b").count();
        assert_eq!(on_b, 2, "{refused:?} is nothing that replicas need");
    }
}

#[test]
fn a_replica_leaves_a_host_that_refuses_it_now_unless_its_volume_is_there() {
    let mut lab = Lab::with(Some(1), &["a", "b"]);
    let at = lab.place()[&0].to_string();
    lab.says(&at, vec![deployment("0", Replica::Number(0), [10, 200, 1, 5])]);
    lab.host(&at, |host| host.executors = BTreeSet::new());
    assert_ne!(lab.place()[&0].as_str(), at);

    let mut stateful = service(Some(1));
    let data = fluke_model::id::VolumeName::new("data").expect("a name");
    stateful.container.volumes.insert(data.clone(), "/data".into());
    lab.services = Services::from([(web(), Arc::new(stateful))]);
    let kept = BTreeMap::from([(0, BTreeSet::from([data]))]);
    lab.host(&at, |host| drop(host.volumes.insert(web(), kept)));
    assert_eq!(lab.place()[&0].as_str(), at, "data is not left behind");
}

#[test]
fn nobody_is_led_to_a_host_that_is_not_in_the_mesh() {
    let mut lab = Lab::with(None, &["a", "b"]);
    lab.says("a", vec![deployment("a", Replica::Own, [10, 200, 1, 5])]);
    lab.says("b", vec![deployment("b", Replica::Own, [10, 200, 2, 5])]);
    lab.host("b", |host| host.executors = all_but(ServiceExecutor::Mesh));
    assert_eq!(lab.addresses(), ["10.200.1.5"]);
}

#[test]
fn nobody_is_led_to_a_host_on_its_mere_word() {
    let mut lab = Lab::with(Some(1), &["a", "b"]);
    let role = Labels::parse_pair("role=web").expect("a label");
    let mut wanted = service(Some(1));
    wanted.selector.match_labels.extend([role]);
    lab.says("b", vec![deployment("b", Replica::Number(0), [10, 200, 2, 5])]);
    assert_eq!(lab.serving(&wanted, &[]).len(), 0, "the service is not for such a host");
    assert_eq!(lab.serving(&wanted, &[[10, 200, 2, 5]]).len(), 1, "it was, until now");

    let claim = Claim { subnet: Subnet::new(2).expect("in range"), since: Timestamp(1) };
    lab.view.claims.claim(&name("a"), Some(claim), Timestamp(1));
    lab.says("a", vec![deployment("a", Replica::Number(0), [10, 200, 3, 5])]);
    assert!(!lab.addresses().contains(&"10.200.3.5".to_string()), "that is not its subnet");
}

#[test]
fn a_proxy_whose_config_refuses_routes_is_not_waited_for() {
    let mut lab = Lab::with(None, &["a"]);
    lab.comes("p", NodeType::Proxy);
    let routes = lab.routes();
    assert_eq!(lab.view.proxies_without(routes, lab.now).count(), 1);
    lab.host("p", |host| host.executors = all_but(ServiceExecutor::Routes));
    assert_eq!(lab.view.proxies_without(routes, lab.now).count(), 0);
}
