//! What tests of services begin with.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluke_model::id::{AgentName, ServiceName};
use fluke_model::policy::Policy;
use fluke_model::service::{ContainerSpec, DeploymentId, Health, Replica, Resources};

use super::plan::{Container, Deployment, Origin, State};

/// The host that all of them are on.
pub const HOST: &str = "h1";

pub fn service(name: &str) -> ServiceName {
    ServiceName::new(name).expect("a name")
}

/// What a container is made from, with nothing but an image.
pub fn spec(image: &str) -> ContainerSpec {
    ContainerSpec {
        image: image.into(),
        command: None,
        env: BTreeMap::new(),
        volumes: BTreeMap::new(),
        health: None,
        resources: Resources::default(),
    }
}

/// The deployment of a service that every host has one of.
pub fn deployment(name: &str, spec: ContainerSpec) -> Deployment {
    replica(name, Replica::Own, spec)
}

/// The deployment of one of a service's replicas.
pub fn replica(name: &str, replica: Replica, spec: ContainerSpec) -> Deployment {
    let (service, host) = (service(name), AgentName::new(HOST).expect("a name"));
    Deployment {
        id: DeploymentId::of(&service, &spec, replica, &host),
        service,
        replica,
        policy: Policy::Remediate,
        spec: Arc::new(spec),
        listens: Vec::new(),
    }
}

/// A container of it, of which nothing else is known.
pub fn container(id: &str, of: &Deployment, state: State) -> Container {
    Container {
        id: id.into(),
        name: id.into(),
        is_ours: true,
        origin: Origin {
            deployment: Some(of.id),
            service: Some(of.service.clone()),
            replica: Some(of.replica),
        },
        state,
        check: of.spec.health.clone(),
        health: Health::None,
        tampered: None,
        outdated: None,
        told_to_end: None,
        address: None,
        image: of.spec.image.clone(),
        digest: None,
        started: None,
        process: None,
        silent_at: None,
        asked_since: None,
        complaint: None,
        exit: None,
        in_network: true,
    }
}
