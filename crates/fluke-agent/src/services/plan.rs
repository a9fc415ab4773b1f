//! What to do next about containers: a pure function of what should run and of what does.
//!
//! A *place* is one replica of one service. What is wanted there is a deployment; what is there may
//! be that deployment, and containers of other deployments, its *predecessors*. The order of
//! changes is: stop what belongs nowhere, start what stands still, deploy what is missing, replace
//! what differs. Waiting is not a change: for an image, for health, for the word that no route
//! leads to a predecessor any more. So nothing that waits holds up anything else.

mod condition;
mod network;
mod place;
mod report;
mod upkeep;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use fluke_model::id::ServiceName;
use fluke_model::policy::Policy;
use fluke_model::service::{
    ContainerSpec, DeploymentId, DeploymentReport, Health, HealthSpec, Phase, Replica,
};

use serde::{Deserialize, Serialize};

use network::Fate;
use place::Place;

pub use condition::{TIME_TO_LISTEN, is_well};
pub use words::ended;

/// Among what changes are done to, where all others are ids of containers.
pub const THE_NETWORK: &str = "the network";

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
    /// Where it accepts connections, once it is ready.
    pub listens: Vec<u16>,
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
    /// How it is asked how it feels, by its manifest and through nobody but us.
    pub check: Option<HealthSpec>,
    /// How it feels, if it is asked.
    pub health: Health,
    /// Why it is not what its deployment says, though its labels do.
    pub tampered: Option<String>,
    /// What of this host's environment was another when it was made. Its origin is one of its own
    /// then: it is what came before its deployment.
    pub outdated: Option<String>,
    /// What it was told to end for, if that was for its health or for its successor.
    pub told_to_end: Option<Ending>,
    /// Where it is reached.
    pub address: Option<Ipv4Addr>,
    /// What it was made from.
    pub image: String,
    /// What it runs.
    pub digest: Option<String>,
    /// What its health command complained of when it was last asked.
    pub complaint: Option<String>,
    /// How it ended, if it ran and does no more.
    pub exit: Option<Exit>,
    /// When it last started.
    pub started: Option<Instant>,
    /// Since when somebody asks it in this life how it feels: what nobody asked is not late.
    pub asked_since: Option<Instant>,
    /// Its first process, while it runs: another one in each of its lives.
    pub process: Option<i32>,
    /// A port at which it should accept connections, and was not found to in this life.
    pub silent_at: Option<u16>,
    /// Whether it is in the network of services, whoever's it is.
    pub in_network: bool,
}

impl Container {
    /// Whether it runs, or somebody is changing that.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Running | State::Changing)
    }
}

/// How a container's program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// What it said itself, or 128 and the signal that ended it.
    pub code: i32,
    /// Whether the kernel ended it for want of memory.
    pub out_of_memory: bool,
}

/// What becomes of a container that was told to end, and is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Its successor is started in its place; it serves again if that fails.
    MakesWay,
    /// It goes, and why.
    Goes(String),
    /// It is started again, and why.
    Returns(String),
}

/// What a container's labels say of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// Is there and can be nothing else than removed: paused, dead, unknown, or left by who began to
    /// stop it. It may still run, and have its volumes.
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

/// The network that containers of services are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// As it should be.
    Ready,
    /// There is none.
    Missing,
    /// It is another than it should be; how.
    Other(String),
    /// Podman would not tell: no reason to end what may well be as it should.
    Untold,
}

/// Whether somebody asked for services to be put right, so that policies do not hold them up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Asked {
    /// Nobody.
    #[default]
    Nobody,
    /// For everything.
    ForAll,
    /// For these services.
    For(BTreeSet<ServiceName>),
}

impl Asked {
    /// Whether it was about this service.
    pub fn covers(&self, service: &ServiceName) -> bool {
        match self {
            Self::Nobody => false,
            Self::ForAll => true,
            Self::For(names) => names.contains(service),
        }
    }
}

/// A deployment or a container that did not work out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setback {
    /// Why.
    pub why: String,
    /// Left alone until then.
    pub until: Instant,
    /// Whether it ends by itself again and again: how it ended says more.
    pub is_restless: bool,
    /// Whether it is not tried again by itself while something else serves: each try would take that
    /// away.
    pub is_final: bool,
    /// Whether nobody answered: what was tried may still be done, and nothing is said against it.
    pub is_unheard: bool,
}

impl Setback {
    /// Something that failed, with no more to say of it.
    pub fn new(why: String, until: Instant) -> Self {
        Self { why, until, is_restless: false, is_final: false, is_unheard: false }
    }
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
    /// What they are connected by.
    pub network: &'a Network,
    /// What did not work out.
    pub setbacks: &'a BTreeMap<DeploymentId, Setback>,
    /// Containers, by id, and [`THE_NETWORK`], if they could not be changed.
    pub held_up: &'a BTreeMap<String, Setback>,
    /// Deployments that nothing leads to any more, and since when.
    pub released: &'a BTreeMap<DeploymentId, Instant>,
    /// Whether this host runs nothing but ours.
    pub exclusive: bool,
    /// Why nothing is touched here, if the host's own config says so.
    pub refused: Option<&'a str>,
    /// Whether somebody asked.
    pub asked: &'a Asked,
    /// Whether the server is away: then only what needs no telling is put right.
    pub alone: bool,
    /// How long a container goes on after nothing leads to it.
    pub drain: std::time::Duration,
    /// What time it is.
    pub now: Instant,
}

impl Situation<'_> {
    /// What keeps a change from being made now: it could not be a moment ago. What is started has
    /// pauses of its deployment, whatever else could not be done to it.
    fn holds_up(&self, change: &Change) -> Option<&Setback> {
        match change {
            Change::Start { .. } => None,
            _ => self.is_held_up(change.object()?),
        }
    }

    fn is_held_up(&self, object: &str) -> Option<&Setback> {
        self.held_up.get(object).filter(|setback| setback.until > self.now)
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Makes the network.
    MakeNetwork {
        /// Instead of one that is there, in which nothing is.
        replaces: bool,
    },
    /// Removes a container that does not run.
    Remove {
        /// Podman's name for it.
        container: String,
        /// Whose it was.
        origin: Origin,
        /// Why.
        why: Why,
    },
    /// Tells a container to end. It has its time for that, in which other changes go on.
    Stop {
        /// Podman's name for it.
        container: String,
        /// Whose it is.
        origin: Origin,
        /// Why.
        why: Why,
    },
    /// Starts a container.
    Start {
        /// Podman's name for it.
        container: String,
        /// Whose it is.
        origin: Origin,
        /// What it did instead.
        state: State,
        /// Why it was told to end, if it was to be started again.
        unwell: Option<String>,
    },
    /// Makes a container and starts it.
    Deploy {
        /// What.
        deployment: Deployment,
        /// What is in its place.
        replaces: Replaces,
        /// Whether it is only made, while what is in its place serves: that is stopped for nothing
        /// that cannot even be made.
        ahead: bool,
    },
}

/// What a container is made instead of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replaces {
    /// Nothing is there.
    Nothing,
    /// Another version.
    Version,
    /// The same, with other values of this host's environment; which.
    Values(String),
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
    /// Its successor needs its volumes; it is kept for the case that that one fails.
    MakesWay,
    /// It did not become well, and its predecessor serves.
    Unwell(String),
    /// It is not well, and nothing else could serve: it is started again.
    Restarted(String),
    /// It is not what it says it is.
    Tampered(String),
    /// Nothing can be made of the state it is in.
    Stuck,
}

impl Change {
    /// The place in the order of changes.
    fn rank(&self) -> u8 {
        match self {
            // Without it nothing that follows can be done.
            Self::MakeNetwork { .. } => 0,
            Self::Remove { why, .. } | Self::Stop { why, .. } => match why {
                Why::Orphan | Why::Double | Why::Succeeded => 1,
                Why::Restarted(_) => 2,
                Why::MakesWay | Why::Unwell(_) | Why::Tampered(_) | Why::Stuck => 4,
            },
            Self::Start { .. } => 2,
            Self::Deploy { replaces: Replaces::Nothing, .. } => 3,
            Self::Deploy { .. } => 4,
        }
    }

    /// Of which service it is; none of what services share, and of what nobody knows.
    pub fn service(&self) -> Option<&ServiceName> {
        match self {
            Self::MakeNetwork { .. } => None,
            Self::Remove { origin, .. }
            | Self::Stop { origin, .. }
            | Self::Start { origin, .. } => origin.service.as_ref(),
            Self::Deploy { deployment, .. } => Some(&deployment.service),
        }
    }

    /// What it is done to, if that is there: a container, or [`THE_NETWORK`].
    pub fn object(&self) -> Option<&str> {
        match self {
            Self::Remove { container, .. }
            | Self::Stop { container, .. }
            | Self::Start { container, .. } => Some(container),
            Self::MakeNetwork { .. } => Some(THE_NETWORK),
            Self::Deploy { .. } => None,
        }
    }
}

/// What is to be done, and what is to be said.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In order; after the first one, look again.
    pub changes: Vec<Change>,
    /// Images that are needed and not here.
    pub fetch: BTreeSet<String>,
    /// How everything is.
    pub reports: Vec<DeploymentReport>,
    /// When to look again though nothing happened.
    pub look_at: Option<Instant>,
    /// Why the network cannot be made as it should be.
    pub network_problem: Option<String>,
}

/// Decides.
pub fn plan(situation: &Situation<'_>) -> Plan {
    let (mut plan, fate) = (Plan::default(), Fate::of(situation));
    for place in Place::all(situation) {
        place.plan(situation, &fate, &mut plan);
    }
    plan.changes.extend(strays(situation).filter_map(|stray| place::remove(stray, Why::Orphan)));
    fate.plan(&mut plan);
    plan.leave_alone(situation);
    plan.changes.sort_by_key(Change::rank);
    if let Some(why) = situation.refused {
        plan.touch_nothing(why);
    }
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
    /// Whether a deployment serves in the place of its successor. Whatever was said of it before,
    /// others are led to it from now on.
    pub fn leads_again_to(&self, id: DeploymentId) -> bool {
        let mut retiring = self.reports.iter().filter(|it| it.phase == Phase::Retiring);
        retiring.any(|it| it.id == id && it.serves && self.wants_in_place_of(it))
    }

    fn wants_in_place_of(&self, old: &DeploymentReport) -> bool {
        let mut wanted = self.reports.iter().filter(|it| it.phase != Phase::Retiring);
        wanted.any(|it| it.service == old.service && it.replica == old.replica)
    }

    /// Leaves out what is done to containers that could not be changed a moment ago.
    fn leave_alone(&mut self, situation: &Situation<'_>) {
        let held_up = self.changes.iter().filter_map(|change| situation.holds_up(change));
        let until = held_up.map(|setback| setback.until).min();
        self.changes.retain(|change| situation.holds_up(change).is_none());
        until.into_iter().for_each(|until| self.look_by(until));
    }

    /// Nothing is done and nothing fetched: what is here stays as it is, and it is said why.
    fn touch_nothing(&mut self, why: &str) {
        self.changes.clear();
        self.fetch.clear();
        self.network_problem = None;
        self.reports.iter_mut().for_each(|it| report::refuse(it, why));
    }

    /// Looks again at `instant`, or earlier.
    fn look_by(&mut self, instant: Instant) {
        self.look_at = Some(self.look_at.map_or(instant, |known| known.min(instant)));
    }
}

#[cfg(test)]
mod tests;
