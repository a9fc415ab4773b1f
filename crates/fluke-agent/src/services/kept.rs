//! What the lane keeps across restarts, in its own folder of the state directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluke_model::directory::Claim;
use fluke_model::service::DeploymentId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::addresses::Addresses;
use super::fetched::Fetched;
use super::inbox::Tables;
use super::lane::forgotten::Remains;
use crate::host::files;

/// The folder. A disk that takes nothing costs what a restart would lose, no more.
#[derive(Debug, Clone)]
pub struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// Within this state directory.
    pub fn within(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("services") }
    }

    /// Where names are kept, by the DNS server itself.
    pub fn names(&self) -> PathBuf {
        self.dir.join("names.json")
    }

    /// Where Traefik has all that it reads and writes.
    pub fn proxy(&self) -> PathBuf {
        self.dir.join("traefik")
    }

    /// Where a part may keep what is its own.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The subnet that is this host's.
    pub fn claim(&self) -> Option<Claim> {
        self.load("claim.json")
    }

    /// Keeps the subnet that is this host's.
    pub fn keep_claim(&self, claim: &Claim) {
        self.save("claim.json", claim);
    }

    /// Which deployment has which address.
    pub fn addresses(&self) -> Addresses {
        self.load("addresses.json").unwrap_or_default()
    }

    /// Keeps which deployment has which address.
    pub fn keep_addresses(&self, addresses: &Addresses) {
        self.save("addresses.json", addresses);
    }

    /// The images that were fetched for services.
    pub fn fetched(&self) -> Fetched {
        self.load("fetched.json").unwrap_or_default()
    }

    /// Keeps which images were fetched for services.
    pub fn keep_fetched(&self, fetched: &Fetched) {
        self.save("fetched.json", fetched);
    }

    /// The deployments that were given up for good, and why.
    pub fn given_up(&self) -> BTreeMap<DeploymentId, String> {
        self.load("given-up.json").unwrap_or_default()
    }

    /// Keeps which deployments were given up for good.
    pub fn keep_given_up(&self, given_up: &BTreeMap<DeploymentId, String>) {
        self.save("given-up.json", given_up);
    }

    /// Containers that made way for their successors, and may have to serve again.
    pub fn made_way(&self) -> BTreeSet<String> {
        self.load("made-way.json").unwrap_or_default()
    }

    /// Keeps which containers made way.
    pub fn keep_made_way(&self, made_way: &BTreeSet<String>) {
        self.save("made-way.json", made_way);
    }

    /// What goes on of containers that Podman forgot, and is to be ended.
    pub fn left(&self) -> BTreeMap<String, Remains> {
        self.load("left.json").unwrap_or_default()
    }

    /// Keeps what is to be ended.
    pub fn keep_left(&self, left: &BTreeMap<String, Remains>) {
        self.save("left.json", left);
    }

    /// The tables that were last heard.
    pub fn tables(&self) -> Tables {
        Tables {
            names: self.load("names.json").map(Arc::new),
            routes: self.load("routes.json").map(Arc::new),
            peers: self.load("peers.json").map(Arc::new),
            placements: self.load("placements.json").map(Arc::new),
        }
    }

    /// Keeps the tables, but for those that are as `before`; the DNS server keeps names itself.
    pub fn keep_tables(&self, tables: &Tables, before: &Tables) {
        let Tables { names: _, routes, peers, placements } = tables;
        if let Some(routes) = routes.as_ref().filter(|it| before.routes.as_ref() != Some(it)) {
            self.save("routes.json", routes.as_ref());
        }
        if let Some(peers) = peers.as_ref().filter(|it| before.peers.as_ref() != Some(it)) {
            self.save("peers.json", peers.as_ref());
        }
        if let Some(placements) =
            placements.as_ref().filter(|it| before.placements.as_ref() != Some(it))
        {
            self.save("placements.json", placements.as_ref());
        }
    }

    fn load<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let path = self.dir.join(name);
        let content = files::read(&path).ok().flatten()?;
        match serde_json::from_slice(&content) {
            Ok(value) => Some(value),
            Err(error) => {
                let aside = files::quarantine(&path);
                tracing::warn!(
                    path = %path.display(), %error, ?aside,
                    "a state file is damaged; it is made anew"
                );
                None
            }
        }
    }

    fn save(&self, name: &str, value: &impl Serialize) {
        let path = self.dir.join(name);
        let saved = files::private_dir(&self.dir)
            .and_then(|()| serde_json::to_vec(value).map_err(std::io::Error::other))
            .and_then(|content| files::replace(&path, &content));
        if let Err(error) = saved {
            tracing::warn!(
                path = %path.display(), %error,
                "state cannot be written: it is kept in memory, where a restart loses it"
            );
        }
    }
}
