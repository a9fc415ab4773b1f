//! What a snapshot means for this host's containers. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fluke_model::id::{AgentName, ServiceName};
use fluke_model::service::{ContainerSpec, DeploymentId};

use crate::host::environment::Environment;
use crate::host::output::Secrets;
use crate::services::plan::{Container, Deployment};
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
    env: BTreeMap<DeploymentId, Result<Arc<Given>, String>>,
}

/// What a container gets of the host.
#[derive(Debug, Default)]
struct Given {
    env: BTreeMap<String, String>,
    /// What of it came out of the host's environment.
    secrets: Secrets,
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
            let (spec, expanded) = (container.clone(), expand(container, environment));
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

    /// Whether it may be touched: it is not of a service that a newer server speaks of.
    pub fn understands(&self, container: &Container) -> bool {
        let service = container.origin.service.as_ref();
        service.is_none_or(|service| !self.not_understood.contains(service))
    }

    /// What a deployment gets of the host's environment, or why it cannot.
    pub fn env(&self, id: DeploymentId) -> Result<&BTreeMap<String, String>, &str> {
        match self.env.get(&id) {
            Some(Ok(given)) => Ok(&given.env),
            Some(Err(why)) => Err(why),
            None => Err("it is not wanted here any more"),
        }
    }

    /// What is shown to nobody of what a deployment gets; none where that cannot be told.
    pub fn secrets(&self, id: DeploymentId) -> Option<&Secrets> {
        self.env.get(&id)?.as_ref().ok().map(|given| &given.secrets)
    }
}

fn expand(spec: &ContainerSpec, environment: &Environment) -> Result<Arc<Given>, String> {
    let (mut env, mut taken) = (BTreeMap::new(), Vec::new());
    for (key, value) in &spec.env {
        let expanded = environment.expand(key, value).map_err(|error| error.to_string())?;
        let text = expanded.value.into_string();
        let text = text.map_err(|_| format!("the value of env `{key}` is not UTF-8"))?;
        taken.extend(expanded.taken);
        env.insert(key.clone(), text);
    }
    let secrets = Secrets::new(taken.iter().map(|value| value.as_bytes()));
    Ok(Arc::new(Given { env, secrets }))
}
