use super::*;

fn container(image: &str) -> ContainerSpec {
    ContainerSpec {
        image: image.into(),
        command: None,
        env: BTreeMap::new(),
        volumes: BTreeMap::new(),
        health: None,
        resources: Resources::default(),
    }
}

fn id(service: &str, image: &str, replica: Replica, host: &str) -> DeploymentId {
    let service = ServiceName::new(service).expect("a name");
    let host = AgentName::new(host).expect("a name");
    DeploymentId::of(&service, &container(image), replica, &host)
}

#[test]
fn a_numbered_replica_is_the_same_deployment_wherever_it_runs() {
    let one = Replica::Number(1);
    assert_eq!(id("web", "web:1", one, "a"), id("web", "web:1", one, "b"));
    assert_ne!(id("web", "web:1", one, "a"), id("web", "web:1", Replica::Number(2), "a"));
}

#[test]
fn a_host_s_own_replica_is_another_deployment_on_every_host() {
    assert_eq!(id("web", "web:1", Replica::Own, "a"), id("web", "web:1", Replica::Own, "a"));
    assert_ne!(id("web", "web:1", Replica::Own, "a"), id("web", "web:1", Replica::Own, "b"));
}

#[test]
fn whatever_runs_differently_is_another_deployment() {
    let base = id("web", "web:1", Replica::Own, "a");
    assert_ne!(base, id("web", "web:2", Replica::Own, "a"));
    assert_ne!(base, id("api", "web:1", Replica::Own, "a"));
}

fn with_ports(ports: &[(&str, u16, Traffic)]) -> SnapshotService {
    let port = |(name, container, traffic): &(&str, u16, Traffic)| Port {
        name: PortName::new(*name).expect("a name"),
        container: *container,
        traffic: traffic.clone(),
    };
    let service = Service {
        name: ServiceName::new("web").expect("a name"),
        description: None,
        policy: None,
        selector: Selector::default(),
        replicas: None,
        reschedule_after: RESCHEDULE_AFTER,
        container: container("web:1"),
        ports: ports.iter().map(port).collect(),
        defined: Location { file: "web.fluke.hcl".into(), line: 1 },
    };
    SnapshotService::new(&service, Policy::Remediate, vec![Replica::Own])
}

#[test]
fn who_is_led_to_a_service_is_not_part_of_what_hosts_run() {
    let at =
        |domain: &str| with_ports(&[("http", 80, Traffic::Http { domain: Some(domain.into()) })]);
    assert_eq!(at("a.example").hash(), at("b.example").hash());
}

#[test]
fn hosts_know_where_connections_are_accepted() {
    let (http, tcp) =
        (Traffic::Http { domain: None }, Traffic::Tcp { external: None, domain: None });
    let udp = Traffic::Udp { external: Some(7777) };
    let service = with_ports(&[
        ("web", 8080, http.clone()),
        ("game", 7777, udp),
        ("db", 5432, tcp),
        ("again", 8080, http),
    ]);
    assert_eq!(service.listens, [5432, 8080]);
    assert_ne!(service.hash(), with_ports(&[]).hash());
    let host = AgentName::new("a").expect("a name");
    let id = |service: &SnapshotService| service.deployments(&host).map(|(_, id)| id).last();
    assert_eq!(id(&service), id(&with_ports(&[])), "another port needs no other container");
}
