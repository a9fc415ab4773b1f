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

/// Written down, since they outlast a program: what an agent finds on its host was named by another
/// version, and what a server says by the server's. If one of these becomes another, every container
/// of every fleet is replaced on the day of the update.
#[test]
fn the_same_commit_gives_the_same_names_in_every_version() {
    let volume = VolumeName::new("data").expect("a name");
    let full = ContainerSpec {
        image: "registry.example/web:1".into(),
        command: Some(vec!["serve".into(), "--port=80".into()]),
        env: [("MODE".into(), "fast".into()), ("TOKEN".into(), "$TOKEN".into())].into(),
        volumes: [(volume, "/data".into())].into(),
        health: Some(HealthSpec {
            command: "curl -f localhost".into(),
            interval_ms: 10_000,
            timeout_ms: 5_000,
            retries: 3,
            start_period_ms: 30_000,
        }),
        resources: Resources { cpu_millis: Some(500), memory: Some(1 << 30) },
    };
    let (name, host) = (ServiceName::new("web"), AgentName::new("app-1"));
    let (name, host) = (name.expect("a name"), host.expect("a name"));
    let named = |container: &ContainerSpec, replica| {
        DeploymentId::of(&name, container, replica, &host).to_string()
    };
    let hashed = |container: &ContainerSpec, replica, listens: &[u16]| {
        let service = SnapshotService {
            name: name.clone(),
            policy: Policy::Remediate,
            container: Some(Arc::new(container.clone())),
            replicas: vec![replica],
            listens: listens.to_vec(),
        };
        service.hash().to_string()
    };
    let least = container("web:1");
    assert_eq!(
        [
            named(&full, Replica::Number(2)),
            named(&full, Replica::Own),
            named(&least, Replica::Number(2)),
            hashed(&full, Replica::Number(2), &[80, 443]),
            hashed(&least, Replica::Own, &[]),
        ],
        [
            "55f72ac1ab02290e64af563065324e152b9f32c17cc8e8a1f434a884937156b5",
            "956e1db7aeb64e517a73fd25d8823e8c1f8e419f592702a3c287b0d9e7785935",
            "cf923a43fd857d99fdbbc784546b7efa185879fe66543014f340ed5268108ba8",
            "ceedaf32c7554c9ab0297dbcbbe2019bb61a1c30e9b383520bcf8bf2be34e131",
            "2fbfea2ce96b05905b350278e28a22f5f34659b4b9d318dbb90c93d60997bf6e",
        ]
    );
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
