//! What is left of services on a host whose agent goes for good: looked for, and taken away.
//!
//! Containers and volumes are for people to remove: nothing here touches them.

use std::path::{Path, PathBuf};

use super::kept::Folder;
use super::observe;
use super::podman::{Podman, PodmanError};
use super::routes::{self, RoutesError, Supervisor, Systemd};
use super::{bridge, mesh};

pub use super::bridge::NETWORK;
pub use super::mesh::{INTERFACE, MeshError, RULES};

/// What there is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remains {
    /// Units of Traefik.
    pub proxies: Vec<String>,
    /// Whether the host is in the mesh.
    pub mesh: bool,
    /// Whether the network of containers is there, and nothing is in it.
    pub empty_network: bool,
    /// The names of containers of services.
    pub containers: Vec<String>,
    /// The names of their volumes.
    pub volumes: Vec<String>,
}

/// Where an agent had what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// What it kept.
    pub state_dir: PathBuf,
    /// Where it found Podman.
    pub socket: PathBuf,
}

impl Remains {
    /// Looks for everything; what cannot be seen is not there.
    pub async fn look(places: &Places) -> Self {
        let running = Systemd::default().running().await.unwrap_or_default();
        let proxies = running.iter().map(|one| routes::name(&one.generation)).collect();
        let mut found = Self { proxies, mesh: mesh::is_left(INTERFACE), ..Self::default() };
        if places.socket.exists() {
            // Without Podman there are no containers.
            let _ = found.look_at_podman(&places.socket).await;
        }
        found
    }

    async fn look_at_podman(&mut self, socket: &Path) -> Result<(), PodmanError> {
        let podman = Podman::at(socket)?;
        let listed = podman.list().await?;
        let is_inside = |networks: &Vec<String>| networks.iter().any(|name| name == NETWORK);
        let is_used = listed.iter().any(|it| it.networks.as_ref().is_some_and(is_inside));
        let ours = listed.iter().filter(|it| observe::is_ours(it));
        self.containers = ours.flat_map(|it| it.names.first().cloned()).collect();
        self.volumes = podman.volumes().await?.iter().map(ToString::to_string).collect();
        self.empty_network = !is_used && podman.network(bridge::NETWORK).await?.is_some();
        Ok(())
    }
}

/// Has Traefik end, and removes what it was told.
pub async fn end_proxy(places: &Places) -> Result<(), RoutesError> {
    let folder = Folder::within(&places.state_dir).proxy();
    routes::end(&mut Systemd::default(), &folder).await
}

/// Leaves the mesh.
pub async fn leave_mesh() -> Result<(), MeshError> {
    mesh::leave(INTERFACE).await
}

/// Removes the network that containers were in.
pub async fn remove_network(places: &Places) -> Result<(), PodmanError> {
    Podman::at(&places.socket)?.remove_network(NETWORK).await
}
