//! What a snapshot means for this host's containers. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluke_model::id::{AgentName, ServiceName};
use fluke_model::service::{ContainerSpec, DeploymentId};

use crate::host::environment::Environment;
use crate::services::plan::Deployment;
use crate::state::Held;

/// All containers that should be here.
#[derive(Debug)]
pub struct Desired {
    /// What it comes from.
    pub held: Arc<Held>,
    /// By service and replica.
    pub wanted: Vec<Deployment>,
    /// Services that a newer server speaks of.
    pub not_understood: BTreeSet<ServiceName>,
    /// What each gets of the host's environment, or why it cannot.
    env: BTreeMap<DeploymentId, Result<BTreeMap<String, String>, String>>,
}

impl Desired {
    /// What `held` means on `host`.
    pub fn new(held: Arc<Held>, host: &AgentName, environment: &Environment) -> Self {
        let (mut wanted, mut not_understood) = (Vec::new(), BTreeSet::new());
        let mut env = BTreeMap::new();
        for service in held.snapshot.services() {
            let Some(container) = &service.container else {
                not_understood.insert(service.name.clone());
                continue;
            };
            let (spec, expanded) = (Arc::new(container.clone()), expand(container, environment));
            for (replica, id) in service.deployments(host) {
                env.insert(id, expanded.clone());
                wanted.push(Deployment {
                    id,
                    service: service.name.clone(),
                    replica,
                    policy: service.policy,
                    spec: spec.clone(),
                    listens: service.listens.clone(),
                });
            }
        }
        Self { held, wanted, not_understood, env }
    }

    /// The deployment of this identity.
    pub fn deployment(&self, id: DeploymentId) -> Option<&Deployment> {
        self.wanted.iter().find(|wanted| wanted.id == id)
    }

    /// What a deployment gets of the host's environment, or why it cannot.
    pub fn env(&self, id: DeploymentId) -> Result<&BTreeMap<String, String>, &str> {
        match self.env.get(&id) {
            Some(Ok(env)) => Ok(env),
            Some(Err(why)) => Err(why),
            None => Err("it is not wanted here any more"),
        }
    }
}

fn expand(
    spec: &ContainerSpec,
    environment: &Environment,
) -> Result<BTreeMap<String, String>, String> {
    let each = |(key, value): (&String, &String)| {
        let expanded = environment.expand(key, value).map_err(|error| error.to_string())?;
        let text = expanded.value.into_string();
        let text = text.map_err(|_| format!("the value of env `{key}` is not UTF-8"))?;
        Ok((key.clone(), text))
    };
    spec.env.iter().map(each).collect()
}
