//! A service, and what hosts say of it, for tests.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fluke_model::directory::{Claim, Subnet};
use fluke_model::id::{AgentName, Hash256, PortName, ServiceName};
use fluke_model::label::{Labels, Selector};
use fluke_model::message::NodeType;
use fluke_model::service::{
    ContainerSpec, DeploymentId, DeploymentReport, Health, Phase, Port, RESCHEDULE_AFTER, Replica,
    Resources, Service, ServiceExecutor, Traffic,
};
use fluke_model::task::Location;
use fluke_model::time::Timestamp;
use fluke_model::verdict::Verdict;

use super::book::Word;
use super::claims::Claims;
use super::view::Came;

pub fn name(text: &str) -> AgentName {
    AgentName::new(text).expect("a name")
}

pub fn web() -> ServiceName {
    ServiceName::new("web").expect("a name")
}

/// `web`, on every host, with a domain.
pub fn service(replicas: Option<u32>) -> Service {
    Service {
        name: web(),
        description: None,
        policy: None,
        selector: Selector::default(),
        replicas,
        reschedule_after: RESCHEDULE_AFTER,
        container: ContainerSpec {
            image: "web:1".into(),
            command: None,
            env: BTreeMap::new(),
            volumes: BTreeMap::new(),
            health: None,
            resources: Resources::default(),
        },
        ports: vec![Port {
            name: PortName::new("http").expect("a name"),
            container: 3000,
            traffic: Traffic::Http { domain: Some("shop.example.com".into()) },
        }],
        defined: Location { file: "web.fluke.hcl".into(), line: 1 },
    }
}

/// One of `web` that serves.
pub fn deployment(text: &str, replica: Replica, address: impl Into<Ipv4Addr>) -> DeploymentReport {
    DeploymentReport {
        id: DeploymentId(Hash256::of(text.as_bytes())),
        service: web(),
        replica,
        verdict: Verdict::Satisfied,
        phase: Phase::Running,
        health: Health::None,
        image: "web:1".into(),
        digest: None,
        container: None,
        address: Some(address.into()),
        serves: true,
        note: None,
    }
}

/// All subnets that are free are taken, each by a host of its own, long ago.
pub fn take_all(claims: &mut Claims) {
    for number in 1..Subnet::COUNT {
        let subnet = Subnet::new(number).expect("in range");
        let (host, claim) = (name(&format!("x{number}")), Claim { subnet, since: Timestamp(9) });
        if claims.claim(&host, Some(claim), Timestamp(9)).granted != Some(claim) {
            claims.give_up(&host);
        }
    }
}

/// An agent that is here, and does all that there is for services.
pub fn came(labels: Labels, node_type: NodeType) -> Word {
    Word::Came(Came { labels, node_type, executors: ServiceExecutor::ALL.into() })
}
