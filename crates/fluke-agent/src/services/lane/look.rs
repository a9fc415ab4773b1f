//! What is here: asks Podman and the kernel, changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use fluke_model::directory::Subnet;
use fluke_model::service::DeploymentId;
use fluke_model::time::Timestamp;

use super::desired::Desired;
use crate::services::bridge::{self, Interfaces};
use crate::services::observe::{self, Now};
use crate::services::plan::{Container, Network};
use crate::services::podman::create::DEPLOYMENT;
use crate::services::podman::{Details, Listed, Podman, PodmanError};

/// What was found.
#[derive(Debug)]
pub struct Seen {
    /// Every container, whoever's it is.
    pub containers: Vec<Container>,
    /// Images that are needed for something that is missing, and are here.
    pub present: BTreeSet<String>,
    /// What containers are connected by.
    pub network: Network,
}

/// Looks closely only where something is new: a list tells whether it is.
#[derive(Debug, Default)]
pub struct Closely(BTreeMap<String, (Mark, Details)>);

/// What makes a closer look worth while when it changes.
type Mark = (String, i64, Option<Vec<String>>);

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
    /// What people's clocks show.
    pub time: Timestamp,
}

impl Look<'_> {
    /// Looks at everything.
    pub async fn around(&self, closely: &mut Closely) -> Result<Seen, PodmanError> {
        let network = match self.desired.wanted.is_empty() {
            true => Network::Ready,
            false => {
                let found = self.podman.network(bridge::NETWORK).await?;
                bridge::judge(found.as_ref(), self.subnet)
            }
        };
        let listed = self.podman.list().await?;
        closely.0.retain(|id, _| listed.iter().any(|it| it.id == *id));
        let attached = self.interfaces.attached();
        let mut containers = Vec::with_capacity(listed.len());
        for it in &listed {
            let details = self.details(it, closely).await?;
            let mut container = self.understood(it, details);
            if container.tampered.is_none() {
                container.tampered = self.is_cut_off(it, &container, &attached);
            }
            containers.push(container);
        }
        let present = self.images(&containers).await?;
        Ok(Seen { containers, present, network })
    }

    /// A closer look at one of ours, unless nothing is new about it.
    async fn details<'c>(
        &self,
        listed: &Listed,
        closely: &'c mut Closely,
    ) -> Result<Option<&'c Details>, PodmanError> {
        let labels = listed.labels.as_ref();
        if !labels.is_some_and(|labels| labels.contains_key(DEPLOYMENT)) {
            return Ok(None);
        }
        let mark = (listed.state.clone(), listed.started_at, listed.networks.clone());
        if closely.0.get(&listed.id).is_none_or(|(known, _)| *known != mark) {
            match self.podman.inspect(&listed.id).await {
                Ok(details) => drop(closely.0.insert(listed.id.clone(), (mark, details))),
                // Gone since it was listed: the next look tells.
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(closely.0.get(&listed.id).map(|(_, details)| details))
    }

    fn understood(&self, listed: &Listed, details: Option<&Details>) -> Container {
        let labels = listed.labels.as_ref();
        let id = labels.and_then(|labels| labels.get(DEPLOYMENT));
        let id = id.and_then(|text| text.clone().try_into().ok()).map(DeploymentId);
        let none = BTreeMap::new();
        let wanted = id.and_then(|id| {
            // Without the host's variables, what there is cannot be held against them.
            Some((self.desired.deployment(id)?, self.desired.env(id).unwrap_or(&none)))
        });
        let now = Now { instant: Instant::now(), unix: (self.time.0 / 1000) as i64 };
        observe::container(listed, details, wanted, bridge::NETWORK, now)
    }

    /// Whether it runs in a network that nothing leads into: the bridge was removed under it.
    fn is_cut_off(
        &self,
        listed: &Listed,
        container: &Container,
        attached: &BTreeSet<u32>,
    ) -> Option<String> {
        let is_in = container.is_ours && container.in_network && listed.pid > 0;
        let own = is_in.then(|| self.interfaces.other_end(listed.pid)).flatten()?;
        if let Some(address) = container.address.filter(|it| !self.subnet.contains(*it)) {
            return Some(format!("its address, {address}, is not of this host's subnet"));
        }
        (!attached.contains(&own)).then(|| "it is cut off from its network".into())
    }

    /// Which of the images that something missing needs are here.
    async fn images(&self, containers: &[Container]) -> Result<BTreeSet<String>, PodmanError> {
        let is_there = |id| containers.iter().any(|it| it.origin.deployment == Some(id));
        let missing = self.desired.wanted.iter().filter(|wanted| !is_there(wanted.id));
        let needed: BTreeSet<&String> = missing.map(|wanted| &wanted.spec.image).collect();
        let mut present = BTreeSet::new();
        for image in needed {
            if self.podman.image(image).await?.is_some() {
                present.insert(image.clone());
            }
        }
        Ok(present)
    }
}
