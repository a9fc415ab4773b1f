//! The services' lane: containers, names, routes and mesh of this host, kept as they should be.
//!
//! ```text
//!  agent ─▶ inbox ─▶ lane ─▶ plan       what next? (pure)
//!    ▲                │
//!    │                ├────▶ podman     containers, by its socket
//!    └──── reports ───┤
//!          records    └────▶ sections   names, routes, mesh
//! ```

pub mod addresses;
pub mod bridge;
pub mod ceiling;
pub mod fetched;
#[cfg(test)]
mod fixture;
pub mod inbox;
pub mod kept;
mod lane;
pub mod leaving;
pub mod mesh;
pub mod names;
pub mod observe;
mod plain;
pub mod plan;
pub mod podman;
pub mod routes;
pub mod section;
pub mod sections;
pub mod setback;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::AgentName;
use fluke_model::message::NodeType;
use fluke_model::service::ServiceExecutor;
use fluke_model::time::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::host::environment::Environment;
use crate::state::Held;
use ceiling::Ceiling;
use inbox::Inbox;
use kept::Folder;
use lane::{Lane, Start};
use podman::Podman;

pub use lane::saying::{FromLane, Note};
pub use routes::{Acme, Certificate};

/// What people's clocks show.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What is under way when nothing leads to a container any more may take so long.
const DRAIN: Duration = Duration::from_secs(5);

/// Long enough to go back to what ran the week before without fetching it again.
pub const KEEP_IMAGES: Duration = Duration::from_secs(7 * 24 * 3600);

/// More than any image takes that is not waited for in vain.
pub const PULL_TIMEOUT: Duration = Duration::from_secs(3600);

/// What may wait for the agent: it takes everything at once.
const QUEUE: usize = 16;

/// What the lane is told by the agent's config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicesConfig {
    /// Where Podman listens.
    pub socket: PathBuf,
    /// Whether this host runs nothing but services.
    pub exclusive: bool,
    /// How long an image that was fetched stays after its last use.
    pub keep_images: Duration,
    /// How long it may take to fetch an image.
    pub pull_timeout: Duration,
    /// How public traffic is taken, where it is.
    pub proxy: Option<ProxyConfig>,
    /// How the host is in the mesh.
    pub mesh: MeshConfig,
    /// The host's resolvers, as `resolv.conf` names them.
    pub resolvers: PathBuf,
    /// Where names are answered.
    pub dns_port: u16,
    /// How long a container goes on after nothing leads to it.
    pub drain: Duration,
    /// Where `sysfs` is.
    pub sys: PathBuf,
    /// Where `procfs` is.
    pub proc: PathBuf,
}

/// How a host is in the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeshConfig {
    /// Where WireGuard listens, by UDP.
    pub port: u16,
    /// Where others reach it, if not at its own addresses.
    pub endpoint: Option<SocketAddr>,
}

impl Default for MeshConfig {
    fn default() -> Self {
        Self { port: mesh::PORT, endpoint: None }
    }
}

/// How public traffic is taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyConfig {
    /// Traefik; looked for in `PATH` where it is not given.
    pub program: Option<PathBuf>,
    /// Who gives certificates, if anybody.
    pub acme: Option<Acme>,
    /// Certificates that were given.
    pub certificates: Vec<Certificate>,
}

impl Default for ServicesConfig {
    fn default() -> Self {
        Self {
            socket: podman::SOCKET.into(),
            exclusive: false,
            keep_images: KEEP_IMAGES,
            pull_timeout: PULL_TIMEOUT,
            proxy: None,
            mesh: MeshConfig::default(),
            resolvers: "/etc/resolv.conf".into(),
            dns_port: names::PORT,
            drain: DRAIN,
            sys: "/sys".into(),
            proc: "/proc".into(),
        }
    }
}

/// A lane that runs, as the agent has it.
#[derive(Debug)]
pub struct Services {
    /// What the lane is told.
    pub inbox: Arc<Inbox>,
    said: mpsc::Receiver<FromLane>,
    task: JoinHandle<()>,
}

/// What a lane is started with.
pub struct Opening<'a> {
    /// Whose it is.
    pub host: AgentName,
    /// What part its host plays.
    pub node_type: NodeType,
    /// What it was told.
    pub config: ServicesConfig,
    /// What may be done here at all.
    pub ceiling: Ceiling,
    /// What containers get of the host's environment.
    pub environment: Environment,
    /// What people's clocks show.
    pub clock: Clock,
    /// The agent's.
    pub state_dir: &'a Path,
    /// What the host should be, as far as it is known.
    pub held: Option<Arc<Held>>,
    /// How long to wait before it begins.
    pub after: Duration,
}

impl Services {
    /// Starts a lane with what was kept; nothing where this program cannot speak to Podman at all.
    pub fn start(opening: Opening<'_>) -> Option<Self> {
        let Opening {
            host,
            node_type,
            config,
            ceiling,
            environment,
            clock,
            state_dir,
            held,
            after,
        } = opening;
        let podman = Podman::at(&config.socket)
            .inspect_err(|error| tracing::error!(%error, "services are not looked after"))
            .ok()?;
        let folder = Folder::within(state_dir);
        let proxy = folder.proxy();
        let may_end_proxy = ceiling.refuses(ServiceExecutor::Routes).is_none();
        let inbox = Arc::new(Inbox::new(held, folder.tables()));
        let (out, said) = mpsc::channel(QUEUE);
        let lane = Lane::new(Start {
            host,
            node_type,
            config,
            ceiling,
            environment,
            clock,
            folder,
            inbox: inbox.clone(),
            scribe: lane::saying::Scribe(out),
            podman,
        });
        let task = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            match node_type {
                // It may have been a proxy before.
                NodeType::Worker if may_end_proxy => {
                    tokio::join!(lane.run(), routes::end_what_is_left(&proxy));
                }
                NodeType::Worker | NodeType::Proxy => lane.run().await,
            }
        });
        Some(Self { inbox, said, task })
    }

    /// What the lane says. Cancel-safe.
    pub async fn next(&mut self) -> Option<FromLane> {
        self.said.recv().await
    }

    /// What the lane has said already.
    pub fn try_next(&mut self) -> Option<FromLane> {
        self.said.try_recv().ok()
    }

    /// Ends it, whatever it does.
    pub fn abort(&self) {
        self.task.abort();
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        self.task.abort();
    }
}
