//! What to do next about containers: a pure function of what should run and of what does.
//!
//! A *place* is one replica of one service. What is wanted there is a deployment; what is there may
//! be that deployment, and containers of other deployments, its *predecessors*. The order of
//! changes is: stop what belongs nowhere, start what stands still, deploy what is missing, replace
//! what differs. Waiting is not a change: for an image, for health, for the word that no route
//! leads to a predecessor any more. So nothing that waits holds up anything else.

mod place;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use fluke_model::id::ServiceName;
use fluke_model::policy::Policy;
use fluke_model::service::{ContainerSpec, DeploymentId, DeploymentReport, Health, Replica};

use place::Place;

/// A deployment that this host should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Its identity.
    pub id: DeploymentId,
    /// Of which service.
    pub service: ServiceName,
    /// Which of its replicas.
    pub replica: Replica,
    /// What happens when it is not as it should be.
    pub policy: Policy,
    /// What it is made from.
    pub spec: Arc<ContainerSpec>,
}

/// A container that is on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Podman's.
    pub id: String,
    /// For people.
    pub name: String,
    /// Whether it carries any of our labels.
    pub is_ours: bool,
    /// Whose it is, as far as its labels say.
    pub origin: Origin,
    /// What it does.
    pub state: State,
    /// How it feels.
    pub health: Health,
    /// Why it is not what its deployment says, though its labels do.
    pub tampered: Option<String>,
    /// Where it is reached.
    pub address: Option<Ipv4Addr>,
    /// What it runs.
    pub digest: Option<String>,
    /// When it last started.
    pub started: Option<Instant>,
}

/// What a container's labels say of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Which deployment.
    pub deployment: Option<DeploymentId>,
    /// Of which service.
    pub service: Option<ServiceName>,
    /// Which of its replicas.
    pub replica: Option<Replica>,
}

/// What a container does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Was never started.
    Created,
    /// Runs.
    Running,
    /// Ran.
    Exited,
    /// Is on its way from one to another, by whoever's hand.
    Changing,
    /// Is there and can be nothing else than removed: paused, dead, unknown.
    Stuck,
}

/// What is known of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// It is on this host.
    Present,
    /// It is being fetched; how far that is.
    Coming(String),
    /// It could not be fetched; why, and from when on to try again.
    Failed(String, Instant),
    /// Nobody asked for it.
    Absent,
}

/// A deployment that did not work out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setback {
    /// Why.
    pub why: String,
    /// Left alone until then.
    pub until: Instant,
}

/// All that is decided upon.
#[derive(Debug)]
pub struct Situation<'a> {
    /// What should be here.
    pub wanted: &'a [Deployment],
    /// Services that a newer server speaks of: nothing of them is touched.
    pub not_understood: &'a BTreeSet<ServiceName>,
    /// What is here.
    pub containers: &'a [Container],
    /// By name.
    pub images: &'a BTreeMap<String, Image>,
    /// What did not work out.
    pub setbacks: &'a BTreeMap<DeploymentId, Setback>,
    /// Deployments that nothing leads to any more, and since when.
    pub released: &'a BTreeMap<DeploymentId, Instant>,
    /// Whether this host runs nothing but ours.
    pub exclusive: bool,
    /// Whether somebody asked, so that policies and pauses do not hold anything up.
    pub manual: bool,
    /// How long a container goes on after nothing leads to it.
    pub drain: std::time::Duration,
    /// What time it is.
    pub now: Instant,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Stops a container and removes it.
    Remove {
        /// Podman's name for it.
        container: String,
        /// Whose it was.
        origin: Origin,
        /// Why.
        why: Why,
    },
    /// Stops a container, and keeps it for the case that its successor fails.
    Stop {
        /// Podman's name for it.
        container: String,
        /// Whose it is.
        origin: Origin,
    },
    /// Starts a container.
    Start {
        /// Podman's name for it.
        container: String,
        /// Whose it is.
        origin: Origin,
        /// What it did instead.
        state: State,
    },
    /// Makes a container and starts it.
    Deploy {
        /// What.
        deployment: Deployment,
        /// Whether something else runs in its place.
        replaces: bool,
    },
}

/// Why a container goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It belongs nowhere.
    Orphan,
    /// There is another one of the same deployment.
    Double,
    /// Its successor serves, and nothing leads to it any more.
    Succeeded,
    /// It did not become well, and its predecessor serves.
    Unwell(String),
    /// It is not what it says it is.
    Tampered(String),
    /// Nothing can be made of the state it is in.
    Stuck,
}

impl Change {
    /// The place in the order of changes.
    fn rank(&self) -> u8 {
        match self {
            Self::Remove { why: Why::Orphan | Why::Double | Why::Succeeded, .. } => 1,
            Self::Start { .. } => 2,
            Self::Deploy { replaces: false, .. } => 3,
            Self::Remove { .. } | Self::Stop { .. } | Self::Deploy { .. } => 4,
        }
    }
}

/// What is to be done, and what is to be said.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// In order; after the first one, look again.
    pub changes: Vec<Change>,
    /// Images that are needed and not here.
    pub fetch: BTreeSet<String>,
    /// How everything is.
    pub reports: Vec<DeploymentReport>,
    /// When to look again though nothing happened.
    pub look_at: Option<Instant>,
    /// What policies leave to a human, in words.
    pub awaits_human: Vec<(ServiceName, String)>,
}

/// Decides.
pub fn plan(situation: &Situation<'_>) -> Plan {
    let mut plan = Plan {
        changes: Vec::new(),
        fetch: BTreeSet::new(),
        reports: Vec::new(),
        look_at: None,
        awaits_human: Vec::new(),
    };
    for place in Place::all(situation) {
        place.plan(situation, &mut plan);
    }
    for container in strays(situation) {
        plan.changes.push(Change::Remove {
            container: container.id.clone(),
            origin: container.origin.clone(),
            why: Why::Orphan,
        });
    }
    plan.changes.sort_by_key(Change::rank);
    plan
}

/// Containers that belong to no place at all: ours without saying whose, or, where the host is
/// ours alone, anybody's.
fn strays<'a>(situation: &'a Situation<'_>) -> impl Iterator<Item = &'a Container> {
    let is_named = |container: &Container| {
        container.origin.service.is_some() && container.origin.deployment.is_some()
    };
    let not_understood = |container: &Container| {
        let service = container.origin.service.as_ref();
        service.is_some_and(|service| situation.not_understood.contains(service))
    };
    situation.containers.iter().filter(move |container| {
        let may_go = container.is_ours || situation.exclusive;
        may_go && !is_named(container) && !not_understood(container)
    })
}

impl Plan {
    /// Looks again at `instant`, or earlier.
    fn look_by(&mut self, instant: Instant) {
        self.look_at = Some(self.look_at.map_or(instant, |known| known.min(instant)));
    }
}

#[cfg(test)]
mod tests;
