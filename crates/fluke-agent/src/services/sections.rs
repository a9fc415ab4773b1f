//! Mesh, names and routes of this host, in this order: nobody is led where no way leads.

mod part;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fluke_model::directory::{Names, PublicKey, Subnet};
use fluke_model::message::{NetworkReport, NodeType};
use fluke_model::service::ServiceExecutor;
use tokio::sync::watch;

use super::ceiling::Ceiling;
use super::inbox::Tables;
use super::kept::Folder;
use super::lane::saying::Scribe;
use super::lane::state::Cause;
use super::names;
use super::section::{MeshSection, NamesSection, RoutesSection};
use super::{MeshConfig, ServicesConfig};
use super::{mesh, routes};
use crate::state::Held;
use part::Part;

/// All of them.
#[derive(Debug)]
pub struct Sections {
    names: Part<NamesSection>,
    /// Only proxies have routes.
    routes: Option<Part<RoutesSection>>,
    mesh: Part<MeshSection>,
    /// Where names lead, for the mesh: whom nobody is led to may well be silent.
    led_to: watch::Sender<Option<Arc<Names>>>,
}

/// A host's key in the mesh, and where it may be reached.
pub type Identity = (PublicKey, Vec<SocketAddr>);

/// On whose account something is done, for the record.
#[derive(Debug, Clone)]
pub struct Account {
    /// Why.
    pub cause: Cause,
    /// Under which snapshot.
    pub held: Arc<Held>,
}

impl Sections {
    /// Starts what this host has of them, with what was last known; `before`: what they had when the
    /// agent ended, which a reboot may have taken.
    pub fn open(
        config: &ServicesConfig,
        node_type: NodeType,
        ceiling: &Ceiling,
        folder: &Folder,
        subnet: Subnet,
        before: &Tables,
    ) -> Self {
        let refused = |executor| ceiling.refuses(executor);
        let names = names::Setup {
            gateway: subnet.gateway(),
            port: config.dns_port,
            records: folder.names(),
            resolvers: PathBuf::from(&config.resolvers),
        };
        let routes = match node_type {
            NodeType::Worker => None,
            NodeType::Proxy => {
                let section = || RoutesSection::new(settings(config, folder, subnet));
                let why = refused(ServiceExecutor::Routes);
                Some(Part::open(NetworkReport::ROUTES, why, before.routes.as_ref(), section))
            }
        };
        let MeshConfig { port, endpoint } = config.mesh;
        let mesh = mesh::Setup { port, endpoint, ..mesh::Setup::new(folder.path()) };
        let why = refused(ServiceExecutor::Mesh);
        let led_to = watch::Sender::new(None);
        let mesh = Part::open(NetworkReport::MESH, why, before.peers.as_ref(), || {
            MeshSection::open(mesh, subnet, led_to.subscribe())
        });
        // They are answered by the agent itself, which begins with those that it kept.
        let names = Part::open(NetworkReport::NAMES, refused(ServiceExecutor::Dns), None, || {
            NamesSection::start(names)
        });
        Self { names, routes, mesh, led_to }
    }

    /// Makes each as its table says, one after the other; one that fails stops none of the others,
    /// and one that takes long is not waited for.
    pub async fn settle(&mut self, tables: &Tables, account: Option<&Account>, scribe: &Scribe) {
        self.led_to.send_replace(tables.names.clone());
        self.mesh.settle(tables.peers.as_ref(), account, scribe).await;
        self.names.settle(tables.names.as_ref(), account, scribe).await;
        if let Some(routes) = &mut self.routes {
            routes.settle(tables.routes.as_ref(), account, scribe).await;
        }
    }

    /// Has all of them looked at next time.
    pub fn doubt(&mut self) {
        self.names.doubt();
        self.routes.iter_mut().for_each(Part::doubt);
        self.mesh.doubt();
    }

    /// Tries at once what failed before.
    pub fn forgive(&mut self) {
        self.names.forgive();
        self.routes.iter_mut().for_each(Part::forgive);
        self.mesh.forgive();
    }

    /// When one of them is worth another try.
    pub fn look_at(&self) -> Option<Instant> {
        let routes = self.routes.as_ref().and_then(Part::look_at);
        [self.names.look_at(), routes, self.mesh.look_at()].into_iter().flatten().min()
    }

    /// Waits until one of them may have changed by itself. Cancel-safe.
    pub async fn changed(&mut self) {
        let routes = async {
            match &mut self.routes {
                Some(routes) => routes.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.names.changed() => {}
            () = routes => {}
            () = self.mesh.changed() => {}
        }
    }

    /// How they are.
    pub fn report(&self) -> NetworkReport {
        NetworkReport {
            names: self.names.report(),
            routes: self.routes.as_ref().map(Part::report),
            mesh: self.mesh.report(),
        }
    }

    /// What others need to know of this host, once it is in the mesh.
    pub fn identity(&mut self) -> Option<Identity> {
        self.mesh.identity()
    }
}

/// How the proxy of this host is set up.
fn settings(config: &ServicesConfig, folder: &Folder, subnet: Subnet) -> routes::Settings {
    let proxy = config.proxy.clone().unwrap_or_default();
    routes::Settings {
        program: proxy.program,
        certificates: proxy.certificates,
        acme: proxy.acme,
        ..routes::Settings::new(folder.proxy(), subnet)
    }
}
