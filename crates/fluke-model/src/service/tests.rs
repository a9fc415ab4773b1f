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

#[test]
fn how_a_service_is_reached_is_not_part_of_what_hosts_run() {
    let service = |domain: &str| Service {
        name: ServiceName::new("web").expect("a name"),
        description: None,
        policy: None,
        selector: Selector::default(),
        replicas: None,
        reschedule_after: RESCHEDULE_AFTER,
        container: container("web:1"),
        ports: vec![Port {
            name: PortName::new("http").expect("a name"),
            container: 80,
            traffic: Traffic::Http { domain: Some(domain.into()) },
        }],
        defined: Location { file: "web.fluke.hcl".into(), line: 1 },
    };
    let resolved =
        |domain| SnapshotService::new(&service(domain), Policy::Remediate, vec![Replica::Own]);
    assert_eq!(resolved("a.example").hash(), resolved("b.example").hash());
}
