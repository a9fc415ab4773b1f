use std::collections::BTreeMap;

use fluke_model::directory::{Peer, Peers, PublicKey, Subnet};
use fluke_model::message::{NetworkReport, Section, ServicesReport};
use fluke_model::policy::Policy;
use fluke_model::service::{ContainerSpec, Phase, Replica, Resources, SnapshotService};

use super::*;

const NOW: Timestamp = Timestamp(1_000);

fn host() -> AgentName {
    AgentName::new("web-eu-00000").expect("a name")
}

fn web() -> ServiceName {
    ServiceName::new("web").expect("a name")
}

fn snapshot(images: &[&str]) -> Snapshot {
    let service = |image: &&str| {
        let container = ContainerSpec {
            image: image.to_string(),
            command: None,
            env: BTreeMap::new(),
            volumes: BTreeMap::new(),
            health: None,
            resources: Resources::default(),
        };
        Arc::new(SnapshotService {
            name: web(),
            policy: Policy::Remediate,
            container: Some(Arc::new(container)),
            replicas: vec![Replica::Own],
            listens: Vec::new(),
        })
    };
    Snapshot::new(Vec::new()).with_services(images.iter().map(service).collect())
}

/// A host that runs one container, and has said so.
fn running() -> Services {
    let mut services = Services::kept(host(), NodeType::Worker, Arc::default());
    assert_eq!(services.says(NOW), [], "it has nothing to do with services");
    services.should_be(&snapshot(&["web:1"]));
    services.says(NOW);
    services.make(false, None, NOW);
    services.says(NOW);
    services
}

fn report(said: &[ToServer]) -> &ServicesReport {
    match said {
        [ToServer::Services(report), ..] => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_says_all_in_the_order_of_an_agent_and_then_what_is_new() {
    let mut services = Services::kept(host(), NodeType::Worker, Arc::default());
    services.should_be(&snapshot(&["web:1"]));
    let said = services.says(NOW);
    let [ToServer::Services(report), ToServer::Mesh(mesh), ToServer::Network(network)] = &said[..]
    else {
        panic!("{said:?}");
    };
    assert!(report.whole && report.deployments[0].phase == Phase::Missing);
    let subnet = mesh.claim.expect("it claims one").subnet;
    assert!(network.routes.is_none() && mesh.endpoints.len() == 2);
    services.make(false, None, NOW);
    let said = services.says(NOW);
    let [ToServer::Services(ServicesReport { whole: false, deployments, .. })] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(deployments[0].serves && deployments[0].digest.is_some());
    assert!(deployments[0].address.is_some_and(|address| subnet.contains(address)));
    assert_eq!(services.says(NOW), []);
    services.reconnects();
    assert_eq!(services.says(NOW).len(), 3);
}

#[test]
fn what_is_replaced_serves_until_its_successor_does_and_goes_when_it_is_released() {
    let mut services = running();
    let first = services.serves_at(&web()).expect("it serves");
    services.should_be(&snapshot(&["web:2"]));
    let said = services.says(NOW);
    let old = &report(&said).deployments[0];
    assert!(old.phase == Phase::Retiring && old.serves);
    services.make(false, None, NOW);
    let said = services.says(NOW);
    let serves: Vec<bool> = report(&said).deployments.iter().map(|it| it.serves).collect();
    assert_eq!(serves, [false, true]);
    assert_ne!(services.serves_at(&web()), Some(first), "versions take turns");
    let old = report(&said).deployments[0].id;
    services.let_go(&[old]);
    assert_eq!(report(&services.says(NOW)).gone, [old]);
}

#[test]
fn a_container_that_ends_serves_no_more_until_it_is_made_again() {
    let mut services = running();
    let (service, was) = services.suffer(Mishap::Death, None, 7).expect("one runs");
    assert_eq!((service, services.serves_at(&web())), (web(), None));
    let said = services.says(NOW);
    assert_eq!(report(&said).deployments[0].phase, Phase::Stopped);
    assert_eq!(services.due_by_itself().len(), 1);
    services.make(false, None, NOW);
    assert_eq!(services.serves_at(&web()), Some(was), "it keeps its address");
    assert!(services.suffer(Mishap::Illness, None, 0).is_none(), "nobody asks how it is");
}

#[test]
fn whoever_is_told_another_subnet_moves_there() {
    let mut services = running();
    services.says(NOW);
    let claim = Claim { subnet: Subnet::new(4321).expect("in range"), since: Timestamp(5) };
    services.is_granted(claim);
    let said = services.says(NOW);
    let [ToServer::Services(report), ToServer::Mesh(mesh)] = &said[..] else { panic!("{said:?}") };
    assert!(report.deployments[0].address.is_some_and(|it| claim.subnet.contains(it)));
    assert_eq!(mesh.claim, Some(claim));
}

#[test]
fn it_tells_which_tables_it_holds_and_asks_for_those_that_do_not_fit() {
    let mut services = running();
    let peer = Peer {
        public_key: PublicKey([1; 32]),
        endpoints: Vec::new(),
        subnet: Subnet::new(1).expect("in range"),
        since: NOW,
    };
    let (none, one) = (Peers::default(), Peers::from_iter([(host(), peer)]));
    assert_eq!(services.edit(DirectoryEdit::Peers(one.whole())), None);
    let said = services.says(NOW);
    let [ToServer::Network(NetworkReport { mesh, .. })] = &said[..] else { panic!("{said:?}") };
    assert_eq!(mesh.hash, one.hash());
    let misfit = services.edit(DirectoryEdit::Peers(one.since(&none)));
    assert_eq!(misfit, Some(ToServer::Resend(Section::Peers)));
}
