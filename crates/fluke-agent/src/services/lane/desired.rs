//! What a snapshot means for this host's containers. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
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
    /// What each gets of the host's environment.
    env: BTreeMap<DeploymentId, Arc<Given>>,
}

/// What a container gets of the host.
#[derive(Debug, Default)]
struct Given {
    /// As far as it can be made.
    env: BTreeMap<String, String>,
    /// Why not all of it can.
    lacks: Option<String>,
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
        let given = self.env.get(&id).ok_or("it is not wanted here any more")?;
        given.lacks.as_deref().map_or(Ok(&given.env), Err)
    }

    /// What of it can be told now: what is lacking cannot be held against what has it.
    pub fn env_so_far(&self, id: DeploymentId) -> Option<&BTreeMap<String, String>> {
        self.env.get(&id).map(|given| &given.env)
    }

    /// What is shown to nobody of what a deployment gets; none where that cannot be told.
    pub fn secrets(&self, id: DeploymentId) -> Option<&Secrets> {
        self.env.get(&id).filter(|given| given.lacks.is_none()).map(|given| &given.secrets)
    }
}

fn expand(spec: &ContainerSpec, environment: &Environment) -> Arc<Given> {
    let (mut env, mut taken, mut lacks) = (BTreeMap::new(), Vec::new(), None);
    for (key, value) in &spec.env {
        match variable(key, value, environment) {
            Ok((text, secrets)) => {
                taken.extend(secrets);
                env.insert(key.clone(), text);
            }
            Err(why) => drop(lacks.get_or_insert(why)),
        }
    }
    let secrets = Secrets::new(taken.iter().map(|value| value.as_bytes()));
    Arc::new(Given { env, lacks, secrets })
}

/// The value of one variable, and what of it came out of the host's environment.
fn variable(
    key: &str,
    value: &str,
    environment: &Environment,
) -> Result<(String, Vec<OsString>), String> {
    let expanded = environment.expand(key, value).map_err(|error| error.to_string())?;
    let text = expanded.value.into_string();
    let text = text.map_err(|_| format!("the value of env `{key}` is not UTF-8"))?;
    Ok((text, expanded.taken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Allow;
    use crate::services::lane::tests::{asleep, service, spec, wanting};

    #[tokio::test]
    async fn what_one_variable_lacks_hides_nothing_of_the_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut lane = asleep(dir.path(), &Allow::default());
        lane.environment = Environment::from_pairs([("GREETING", "hello")]);
        let mut web = spec("true");
        web.env = [("A", "$GONE"), ("B", "$GREETING")].map(|(k, v)| (k.into(), v.into())).into();
        let desired = wanting(&lane, service("web", web));
        let id = desired.wanted[0].id;
        let said = desired.env(id).expect_err("nothing is made without it");
        assert!(said.starts_with("env `A` refers to `$GONE`, which is not set"), "{said}");
        let known = BTreeMap::from([("B".to_owned(), "hello".to_owned())]);
        assert_eq!(desired.env_so_far(id), Some(&known));
        assert!(desired.secrets(id).is_none(), "not all of them are known");
    }
}
