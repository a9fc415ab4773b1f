//! The mesh as a section.

use std::net::SocketAddr;
use std::sync::Arc;

use fluke_model::directory::{Names, Peers, PublicKey, Subnet};
use fluke_model::id::Hash256;
use tokio::sync::watch;

use super::{Found, Section};
use crate::services::mesh::{Mesh, MeshError, Setup};

/// This host's end of the mesh, once it could be opened.
#[derive(Debug)]
pub struct MeshSection {
    setup: Setup,
    subnet: Subnet,
    /// Where names lead now.
    names: watch::Receiver<Option<Arc<Names>>>,
    mesh: Option<Mesh>,
}

impl MeshSection {
    /// Opens it; what fails is tried again with the next look, and told then.
    pub fn open(setup: Setup, subnet: Subnet, names: watch::Receiver<Option<Arc<Names>>>) -> Self {
        let mesh = Mesh::open(setup.clone()).ok();
        Self { setup, subnet, names, mesh }
    }

    fn mesh(&mut self) -> Result<&mut Mesh, MeshError> {
        match &mut self.mesh {
            Some(mesh) => Ok(mesh),
            none => Ok(none.insert(Mesh::open(self.setup.clone())?)),
        }
    }
}

impl Section for MeshSection {
    type Table = Peers;
    type Error = MeshError;

    async fn check(&mut self, wanted: &Peers) -> Result<Found, MeshError> {
        let (subnet, names) = (self.subnet, self.names.borrow().clone().unwrap_or_default());
        self.mesh()?.check(subnet, wanted, &names).await
    }

    async fn apply(&mut self, wanted: &Peers) -> Result<(), MeshError> {
        let subnet = self.subnet;
        self.mesh()?.apply(subnet, wanted).await
    }

    fn in_effect(&self) -> Hash256 {
        self.mesh.as_ref().map_or_else(|| Peers::default().hash(), Mesh::in_effect)
    }

    async fn changed(&mut self) {
        match &mut self.mesh {
            Some(mesh) => mesh.changed().await,
            None => std::future::pending().await,
        }
    }

    fn identity(&self) -> Option<(PublicKey, Vec<SocketAddr>)> {
        let mesh = self.mesh.as_ref()?;
        // Where there are none, it is this host that goes to the others; where they cannot be seen,
        // nobody knows.
        Some((mesh.public_key(), mesh.endpoints().ok()?))
    }
}
