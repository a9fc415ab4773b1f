//! Mesh, names and routes of this host, in this order: nobody is led where no way leads.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::directory::Subnet;
use fluke_model::id::StepAddress;
use fluke_model::message::{Fact, NetworkReport, NodeType, Subject};
use fluke_model::verdict::{Outcome, Output};

use super::inbox::Tables;
use super::kept::Folder;
use super::lane::saying::{Note, Scribe};
use super::lane::state::Cause;
use super::names;
use super::section::{Kept, Looked, MeshSection, NamesSection, RoutesSection, Section};
use super::{MeshConfig, ServicesConfig};
use super::{mesh, routes};
use crate::state::Held;

/// All of them.
#[derive(Debug)]
pub struct Sections {
    names: Kept<NamesSection>,
    /// Only proxies have routes.
    routes: Option<Kept<RoutesSection>>,
    mesh: Kept<MeshSection>,
}

/// On whose account something is done, for the record.
#[derive(Debug, Clone)]
pub struct Account {
    /// Why.
    pub cause: Cause,
    /// Under which snapshot.
    pub held: Arc<Held>,
}

impl Sections {
    /// Starts what this host has of them, with what was last known.
    pub fn open(
        config: &ServicesConfig,
        node_type: NodeType,
        folder: &Folder,
        subnet: Subnet,
    ) -> Self {
        let names = names::Setup {
            gateway: subnet.gateway(),
            port: config.dns_port,
            records: folder.names(),
            resolvers: PathBuf::from(&config.resolvers),
        };
        let routes = match node_type {
            NodeType::Worker => None,
            NodeType::Proxy => {
                Some(Kept::new(RoutesSection::new(settings(config, folder, subnet))))
            }
        };
        let MeshConfig { port, endpoint } = config.mesh;
        let mesh = mesh::Setup { port, endpoint, ..mesh::Setup::new(folder.path()) };
        Self {
            names: Kept::new(NamesSection::start(names)),
            routes,
            mesh: Kept::new(MeshSection::open(mesh, subnet)),
        }
    }

    /// Makes each as its table says, one after the other; a failure stops none of the others.
    pub async fn settle(&mut self, tables: &Tables, account: Option<&Account>, scribe: &Scribe) {
        use NetworkReport as Part;
        settle(&mut self.mesh, tables.peers.as_ref(), Part::MESH, account, scribe).await;
        settle(&mut self.names, tables.names.as_ref(), Part::NAMES, account, scribe).await;
        if let Some(routes) = &mut self.routes {
            settle(routes, tables.routes.as_ref(), Part::ROUTES, account, scribe).await;
        }
    }

    /// Has all of them looked at next time.
    pub fn doubt(&mut self) {
        self.names.doubt();
        self.routes.iter_mut().for_each(Kept::doubt);
        self.mesh.doubt();
    }

    /// Tries at once what failed before.
    pub fn forgive(&mut self) {
        self.names.forgive();
        self.routes.iter_mut().for_each(Kept::forgive);
        self.mesh.forgive();
    }

    /// When one of them is worth another try.
    pub fn look_at(&self) -> Option<Instant> {
        let routes = self.routes.as_ref().and_then(Kept::look_at);
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
            routes: self.routes.as_ref().map(Kept::report),
            mesh: self.mesh.report(),
        }
    }

    /// What others need to know of this host, once it is in the mesh.
    pub fn mesh(&self) -> &MeshSection {
        self.mesh.section()
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

async fn settle<S: Section>(
    kept: &mut Kept<S>,
    table: Option<&Arc<S::Table>>,
    part: &str,
    account: Option<&Account>,
    scribe: &Scribe,
) {
    let Some(wanted) = table else { return };
    let (drift, is_news) = match kept.look(wanted, Instant::now()).await {
        Looked::Fine => return,
        Looked::Differs { drift, is_news } => (drift, is_news),
    };
    let noted =
        account.and_then(|account| Some((account, StepAddress::try_from(part.to_owned()).ok()?)));
    let note = |fact| {
        let (account, part) = noted.clone()?;
        let Account { cause, held } = account.clone();
        Some(Note { cause, held, subject: Subject::Service { service: None, part }, fact })
    };
    let began = || note(Fact::Began { reason: drift.clone() });
    // What the server says anew is no drift; that it cannot be done is worth telling.
    if let Some(note) = began().filter(|_| !is_news) {
        scribe.record(note).await;
    }
    let start = Instant::now();
    let failure = kept.put_right(wanted, Instant::now()).await.err();
    if is_news && failure.is_none() {
        return;
    }
    if let Some(note) = began().filter(|_| is_news) {
        scribe.record(note).await;
    }
    if let Some(note) = note(ended(failure, start.elapsed())) {
        scribe.record(note).await;
    }
}

fn ended(failure: Option<String>, took: Duration) -> Fact {
    Fact::Ended {
        outcome: if failure.is_none() { Outcome::Success } else { Outcome::Failure },
        duration_ms: took.as_millis().try_into().unwrap_or(u64::MAX),
        output: Output::from_text(failure.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;
