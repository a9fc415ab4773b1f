//! What is here: asks Podman and the kernel, changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use fluke_model::bounds::MAX_VOLUMES_OF_HOST;
use fluke_model::directory::Subnet;
use fluke_model::gather::Gather;
use fluke_model::service::DeploymentId;
use fluke_model::time::Timestamp;
use fluke_model::volume::Volumes;

use super::desired::Desired;
use super::lives::Lives;
use super::memory::{Listing, Memory, Untold};
use super::wiring::Wiring;
use crate::services::bridge::{self, Interfaces};
use crate::services::observe::{self, Now};
use crate::services::plan::{Container, Network, State};
use crate::services::podman::create::DEPLOYMENT;
use crate::services::podman::{self, Details, Listed, Podman, PodmanError};

/// What was found.
#[derive(Debug)]
pub struct Seen {
    /// Every container, whoever's it is.
    pub containers: Vec<Container>,
    /// Images that are needed for something that is missing, and are here.
    pub present: BTreeSet<String>,
    /// The ids of images that containers are made of, whoever's they are.
    pub used: BTreeSet<String>,
    /// What containers are connected by.
    pub network: Network,
    /// The first processes of ours that run.
    pub processes: BTreeSet<i32>,
    /// Volumes of numbered replicas; none where that cannot be told.
    pub volumes: Option<Volumes>,
}

impl Seen {
    /// What somebody knows who could not look.
    pub fn nothing() -> Self {
        let (present, used, processes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (network, volumes) = (Network::Ready, None);
        Self { containers: Vec::new(), present, used, network, processes, volumes }
    }
}

/// What is known from looks before: nobody is asked for it again while it cannot have changed.
#[derive(Debug, Default)]
pub struct Known {
    memory: Memory,
    closely: Closely,
    wiring: Wiring,
}

impl Known {
    /// Has Podman asked next time, whatever its files say.
    pub fn doubt(&mut self) {
        self.memory.forget();
    }

    /// Has every container looked at closely next time, whatever the list says.
    pub fn doubt_details(&mut self) {
        self.closely.0.clear();
    }
}

/// Looks closely only where something is new: a list tells whether it is.
#[derive(Debug, Default)]
struct Closely(BTreeMap<String, (Mark, Details)>);

/// What makes a closer look worth while when it changes.
type Mark = (String, i64, Option<Vec<String>>);

/// What came of a closer look at one container.
enum Closer<'a> {
    /// It was not worth while, or it is gone.
    None,
    /// All there is to know.
    Seen(&'a Details),
    /// Podman itself cannot.
    Refused,
}

impl<'a> Closer<'a> {
    fn details(&self) -> Option<&'a Details> {
        match self {
            Self::Seen(details) => Some(details),
            Self::None | Self::Refused => None,
        }
    }
}

/// What a look takes.
#[derive(Debug)]
pub struct Look<'a> {
    /// Whom to ask.
    pub podman: &'a Podman,
    /// What should be.
    pub desired: &'a Desired,
    /// Where containers are.
    pub subnet: Subnet,
    /// The kernel's view.
    pub interfaces: &'a Interfaces,
    /// Who is known to run.
    pub lives: &'a Lives,
    /// What people's clocks show.
    pub time: Timestamp,
}

impl Look<'_> {
    /// Looks at everything.
    pub async fn around(&self, known: &mut Known) -> Result<Seen, PodmanError> {
        let Known { memory, closely, wiring } = known;
        let listing = match self.recalled(memory) {
            Some(listing) => listing,
            None => {
                wiring.forget();
                self.list(memory).await?
            }
        };
        let network = match &listing.network {
            _ if self.desired.wanted.is_empty() => Network::Ready,
            Ok(found) => bridge::judge(found.as_ref(), self.subnet),
            Err(Untold) => Network::Untold,
        };
        let listed = &listing.containers;
        closely.0.retain(|id, _| listed.iter().any(|it| it.id == *id));
        wiring.see(&ran(listed).gather(), self.interfaces);
        let mut containers = Vec::with_capacity(listed.len());
        let mut processes = BTreeSet::new();
        for it in listed.iter() {
            let closer = self.details(it, closely).await?;
            let mut container = self.understood(it, closer.details());
            if matches!(closer, Closer::Refused) && !container.is_up() {
                // As after a power cut: Podman has its name, and nothing to start it from.
                container.state = State::Stuck;
            }
            if container.is_up() && self.lives.is_overdue(it.pid) {
                // Podman will never say that it has ended, also of one that it tried to stop.
                container.state = State::Stuck;
            }
            if container.tampered.is_none() {
                container.tampered = self.is_cut_off(&container, wiring);
            }
            if container.is_ours && it.pid > 0 {
                processes.insert(it.pid);
            }
            containers.push(container);
        }
        let present = self.images(&containers).await?;
        let used = listed.iter().map(|it| it.image_id.clone()).gather();
        let volumes = listing.volumes.clone();
        Ok(Seen { containers, present, used, network, processes, volumes })
    }

    /// What there is, where it is known without asking.
    fn recalled(&self, memory: &Memory) -> Option<Arc<Listing>> {
        let listing = memory.recall(memory.stamp().as_ref(), Instant::now())?;
        self.do_all_run(&listing.containers).then_some(listing)
    }

    /// What there is, as Podman says.
    async fn list(&self, memory: &mut Memory) -> Result<Arc<Listing>, PodmanError> {
        let stamp = memory.stamp();
        let listing = Arc::new(Listing {
            containers: self.podman.list().await?,
            volumes: self.volumes().await,
            network: self.network().await?,
        });
        memory.learn(self.podman).await;
        memory.keep(stamp, &listing, Instant::now());
        Ok(listing)
    }

    /// Whether all of ours that ran when this was listed still do.
    fn do_all_run(&self, listed: &[Listed]) -> bool {
        let runs =
            |process| self.lives.knows(process) || self.interfaces.other_end(process).is_some();
        !self.lives.has_one_ended() && ran(listed).all(runs)
    }

    async fn network(&self) -> Result<Result<Option<podman::Network>, Untold>, PodmanError> {
        match self.podman.network(bridge::NETWORK).await {
            Ok(found) => Ok(Ok(found)),
            Err(error) if error.is_an_answer() => {
                tracing::warn!(%error, "the network of containers cannot be looked at");
                Ok(Err(Untold))
            }
            Err(error) => Err(error),
        }
    }

    /// The volumes of replicas that may be elsewhere, which others have to know of.
    async fn volumes(&self) -> Option<Volumes> {
        match self.podman.volumes().await {
            Ok(mut volumes) => {
                volumes.retain(|volume| volume.replica.number().is_some());
                Some(volumes.into_iter().take(MAX_VOLUMES_OF_HOST).gather())
            }
            Err(error) => {
                // Containers can be kept without; others are told what was known.
                tracing::debug!(%error, "volumes cannot be looked at");
                None
            }
        }
    }

    /// A closer look at one of ours, unless nothing is new about it.
    async fn details<'c>(
        &self,
        listed: &Listed,
        closely: &'c mut Closely,
    ) -> Result<Closer<'c>, PodmanError> {
        if !is_deployed(listed) {
            return Ok(Closer::None);
        }
        let mark = (listed.state.clone(), listed.started_at, listed.networks.clone());
        if closely.0.get(&listed.id).is_none_or(|(known, _)| *known != mark) {
            match self.podman.inspect(&listed.id).await {
                Ok(details) => drop(closely.0.insert(listed.id.clone(), (mark, details))),
                // Gone since it was listed: the next look tells.
                Err(error) if error.is_not_found() => return Ok(Closer::None),
                // One that was damaged keeps nobody from looking at the others.
                Err(error) if error.is_an_answer() => {
                    tracing::warn!(%error, "a container cannot be looked at closely");
                    closely.0.remove(&listed.id);
                    return Ok(Closer::Refused);
                }
                Err(error) => return Err(error),
            }
        }
        let known = closely.0.get(&listed.id);
        Ok(known.map_or(Closer::None, |(_, details)| Closer::Seen(details)))
    }

    fn understood(&self, listed: &Listed, details: Option<&Details>) -> Container {
        let labels = listed.labels.as_ref();
        let id = labels.and_then(|labels| labels.get(DEPLOYMENT));
        let id = id.and_then(|text| text.clone().try_into().ok()).map(DeploymentId);
        let none = BTreeMap::new();
        let wanted = id.and_then(|id| {
            Some((self.desired.deployment(id)?, self.desired.env_so_far(id).unwrap_or(&none)))
        });
        let now = Now { instant: Instant::now(), unix: (self.time.0 / 1000) as i64 };
        observe::container(listed, details, wanted, bridge::NETWORK, now)
    }

    /// Whether it runs in a network that nothing leads into: the bridge was removed under it.
    fn is_cut_off(&self, container: &Container, wiring: &Wiring) -> Option<String> {
        let process = container.process.filter(|_| container.in_network)?;
        let leads_there = wiring.leads_there(process)?;
        if let Some(address) = container.address.filter(|it| !self.subnet.contains(*it)) {
            return Some(format!("its address, {address}, is not of this host's subnet"));
        }
        (!leads_there).then(|| "it is cut off from its network".into())
    }

    /// Which of the images that something missing needs are here.
    async fn images(&self, containers: &[Container]) -> Result<BTreeSet<String>, PodmanError> {
        let is_there = |id| containers.iter().any(|it| it.origin.deployment == Some(id));
        let missing = self.desired.wanted.iter().filter(|wanted| !is_there(wanted.id));
        let needed: BTreeSet<&String> = missing.map(|wanted| &wanted.spec.image).gather();
        let mut present = BTreeSet::new();
        for image in needed {
            match self.podman.image(image).await {
                Ok(found) => present.extend(found.map(|_| image.clone())),
                // One that was damaged is fetched anew.
                Err(error) if error.is_an_answer() => {
                    tracing::warn!(%error, "an image cannot be looked at");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(present)
    }
}

/// The first processes of ours that ran when this was listed.
fn ran(listed: &[Listed]) -> impl Iterator<Item = i32> {
    listed.iter().filter(|it| it.pid > 0 && is_deployed(it)).map(|it| it.pid)
}

/// Whether it is of a deployment, as its labels say.
fn is_deployed(listed: &Listed) -> bool {
    listed.labels.as_ref().is_some_and(|labels| labels.contains_key(DEPLOYMENT))
}

#[cfg(test)]
mod tests;
