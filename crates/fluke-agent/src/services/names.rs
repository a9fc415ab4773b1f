//! The DNS server of an agent: `<service>.internal` from the table of names, the rest from the
//! host's resolvers.
//!
//! `zone` decides and is pure, `listener` does. What is served is known from the listener
//! itself, never from what it was told.

mod forward;
mod listener;
mod question;
mod records;
mod resolvers;
mod shares;
mod zone;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::directory::Names;
use fluke_model::id::Hash256;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use listener::Report;
pub use question::{Question, Transport};
pub use resolvers::PORT;
pub use zone::{Verdict, answer};

use listener::{Listener, Order};
use records::Keeper;

/// The listener does nothing but answer; one that is silent for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a server listens and what it needs to know.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The address that containers have for their host; it need not be there yet.
    pub gateway: Ipv4Addr,
    /// [`PORT`], but for tests.
    pub port: u16,
    /// Where names are kept from one start to the next.
    pub records: PathBuf,
    /// The host's `resolv.conf`.
    pub resolvers: PathBuf,
}

/// Why names are not served as they should be.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    /// The address cannot be had.
    #[error(
        "cannot listen for DNS at {address}: {why}; it is tried again and again, but another DNS \
         server there, such as aardvark-dns of a network without --disable-dns, must go: see \
         `ss -lunp sport = :{}`", address.port()
    )]
    NotListening {
        /// Where.
        address: SocketAddrV4,
        /// In the kernel's words.
        why: String,
    },
    /// The listener's task does not answer.
    #[error("the DNS listener at {address} does not respond; it is started anew")]
    Stuck {
        /// Where.
        address: SocketAddrV4,
    },
    /// It answers from another table than it should.
    #[error("DNS answers from table {serving:?}, not from {wanted}")]
    Other {
        /// What it answers from.
        serving: Option<Hash256>,
        /// What it should.
        wanted: Hash256,
    },
    /// The table is served, but would be lost by a restart.
    #[error("cannot keep names in {}: {why}; make room, or make it writable", path.display())]
    NotKept {
        /// Where.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

/// A DNS server that runs until it is dropped.
#[derive(Debug)]
pub struct NamesServer {
    setup: Setup,
    orders: mpsc::Sender<Order>,
    task: JoinHandle<()>,
    keeper: Keeper,
}

impl NamesServer {
    /// Starts one, which answers from the names that were last known. Where it cannot listen, it
    /// says so when asked and goes on trying.
    pub fn start(setup: Setup) -> Self {
        let (names, keeper) = Keeper::open(&setup.records);
        let (orders, task) = listen(&setup, names);
        Self { setup, orders, task, keeper }
    }

    /// How the listener is, in its own words.
    pub async fn report(&self) -> Result<Report, NamesError> {
        let (asker, report) = oneshot::channel();
        self.order(Order::Report(asker), report).await
    }

    /// The hash of the table that the running listener answers from; none before there is one.
    pub async fn serving(&self) -> Result<Option<Hash256>, NamesError> {
        let report = self.report().await?;
        self.listening(&report)?;
        Ok(report.table)
    }

    /// What is wrong, if anything: nobody listens, another table is served, it cannot be kept.
    pub async fn check(&self, wanted: &Names) -> Result<(), NamesError> {
        // Whether or not anybody hears them, they are kept.
        self.keeper.look();
        let (serving, wanted) = (self.serving().await?, wanted.hash());
        if serving != Some(wanted) {
            return Err(NamesError::Other { serving, wanted });
        }
        self.keeper.problem().map_or(Ok(()), |why| {
            Err(NamesError::NotKept { path: self.setup.records.clone(), why })
        })
    }

    /// Serves `wanted` from now on, and has it kept without waiting for that; starts a listener that
    /// ended.
    pub async fn apply(&mut self, wanted: &Names) -> Result<(), NamesError> {
        let wanted = Arc::new(wanted.clone());
        self.keeper.keep(wanted.clone());
        let report = match self.serve(&wanted).await {
            Err(NamesError::Stuck { .. }) => {
                self.task.abort();
                (self.orders, self.task) = listen(&self.setup, Some(wanted.clone()));
                self.serve(&wanted).await?
            }
            report => report?,
        };
        self.listening(&report).map(drop)
    }

    /// Returns when names can be kept that could not be, or the other way round. Cancel-safe.
    pub async fn changed(&mut self) {
        self.keeper.changed().await;
    }

    async fn serve(&self, wanted: &Arc<Names>) -> Result<Report, NamesError> {
        let (asker, report) = oneshot::channel();
        self.order(Order::Serve(wanted.clone(), asker), report).await
    }

    async fn order(
        &self,
        order: Order,
        report: oneshot::Receiver<Report>,
    ) -> Result<Report, NamesError> {
        let asked = async {
            self.orders.send(order).await.ok()?;
            report.await.ok()
        };
        let report = tokio::time::timeout(PATIENCE, asked).await;
        report.ok().flatten().ok_or(NamesError::Stuck { address: self.address() })
    }

    fn listening(&self, report: &Report) -> Result<SocketAddrV4, NamesError> {
        let address = self.address();
        report.address.clone().map_err(|why| NamesError::NotListening { address, why })
    }

    fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.setup.gateway, self.setup.port)
    }
}

impl Drop for NamesServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn listen(setup: &Setup, names: Option<Arc<Names>>) -> (mpsc::Sender<Order>, JoinHandle<()>) {
    let address = SocketAddrV4::new(setup.gateway, setup.port);
    let resolvers = resolvers::Resolvers::new(setup.resolvers.clone(), address.into());
    let forwarder = forward::Forwarder::new(resolvers);
    let (orders, received) = mpsc::channel(16);
    let task = tokio::spawn(Listener::new(address, names, forwarder, received).run());
    (orders, task)
}

#[cfg(test)]
mod tests;
