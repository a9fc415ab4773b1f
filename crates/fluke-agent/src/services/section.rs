//! One part of the directory on this host: names, routes, mesh. All are kept in the same way.

mod mesh;
mod routes;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::directory::{Names, PublicKey, Table};
use fluke_model::id::Hash256;
use fluke_model::message::SectionReport;
use serde::Serialize;

use super::names::{NamesError, NamesServer, Setup};
use super::setback::Setbacks;

pub use mesh::MeshSection;
pub use routes::RoutesSection;

/// How long one check or one apply may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Something on this host that does as a table says.
pub trait Section: Send + 'static {
    /// What it does as.
    type Table: Tabular;
    /// Why it cannot.
    type Error: Error + Send;

    /// What differs from reality, in words; nothing where all is as `wanted` says.
    fn check(
        &mut self,
        wanted: &Self::Table,
    ) -> impl Future<Output = Result<Option<String>, Self::Error>> + Send;

    /// Makes it so. Cancel-safe.
    fn apply(
        &mut self,
        wanted: &Self::Table,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The hash of the table that reality has now, as far as was seen.
    fn in_effect(&self) -> Hash256;

    /// Resolves when reality may have changed by itself. Cancel-safe.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// What others need to know of it, for the mesh.
    fn identity(&self) -> Option<(PublicKey, Vec<std::net::SocketAddr>)> {
        None
    }
}

/// A table, whatever is in it.
pub trait Tabular: Default + Send + Sync + 'static {
    /// Equal for equal content.
    fn hash(&self) -> Hash256;
}

impl<K, V> Tabular for Table<K, V>
where
    K: Ord + Clone + Serialize + Send + Sync + 'static,
    V: Clone + PartialEq + Serialize + Send + Sync + 'static,
{
    fn hash(&self) -> Hash256 {
        Table::hash(self)
    }
}

/// What a look at a section told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// There is nothing to do, or nothing can be told.
    Fine,
    /// It is not as it should be.
    Differs {
        /// How.
        drift: String,
        /// Whether it never was so far, nor was it tried: the table is new.
        is_news: bool,
    },
}

/// A section, and what is known of it.
#[derive(Debug)]
pub struct Kept<S: Section> {
    section: S,
    /// The table that was last found in effect.
    settled: Option<Hash256>,
    problem: Option<String>,
    setbacks: Setbacks<Hash256>,
    /// Whether it could not be put right, and was not well since.
    has_failed: bool,
    /// Whether it is worth a look though the table is the same.
    in_doubt: bool,
}

impl<S: Section> Kept<S> {
    /// One that nobody has looked at. It had this table before, if it did: what is not so any more
    /// is drift then, and no news.
    pub fn new(section: S, before: Option<&Arc<S::Table>>) -> Self {
        Self {
            section,
            settled: before.map(|table| table.hash()),
            problem: None,
            setbacks: Setbacks::default(),
            has_failed: false,
            in_doubt: true,
        }
    }

    /// The thing itself.
    pub fn section(&self) -> &S {
        &self.section
    }

    /// Has it looked at next time.
    pub fn doubt(&mut self) {
        self.in_doubt = true;
    }

    /// Tries at once what failed before.
    pub fn forgive(&mut self) {
        self.setbacks.forget_all();
        self.in_doubt = true;
    }

    /// When it is worth another try.
    pub fn look_at(&self) -> Option<Instant> {
        self.setbacks.marks().values().map(|setback| setback.until).min()
    }

    /// Whether a look is worth while.
    pub fn is_due(&self, wanted: &S::Table, now: Instant) -> bool {
        let hash = wanted.hash();
        let is_other = self.settled != Some(hash);
        self.setbacks.is_due(&hash, now) && (is_other || self.in_doubt)
    }

    /// Looks whether it is as `wanted` says, if that is worth while.
    pub async fn look(&mut self, wanted: &Arc<S::Table>, now: Instant) -> Looked {
        let hash = wanted.hash();
        self.setbacks.retain(|of| *of == hash);
        if !self.is_due(wanted, now) {
            return Looked::Fine;
        }
        let is_other = self.settled != Some(hash);
        self.in_doubt = false;
        match self.differs(wanted).await {
            Ok(None) => self.is_well(hash),
            Ok(Some(drift)) => {
                return Looked::Differs { drift, is_news: is_other && !self.has_failed };
            }
            // A check that could not tell is no reason to change anything.
            Err(why) => self.failed(hash, why, now),
        }
        Looked::Fine
    }

    /// Makes it as `wanted` says, and looks whether it is.
    pub async fn put_right(&mut self, wanted: &Arc<S::Table>, now: Instant) -> Result<(), String> {
        let done = self.apply(wanted).await;
        match &done {
            Ok(()) => self.is_well(wanted.hash()),
            Err(why) => {
                self.failed(wanted.hash(), why.clone(), now);
                self.has_failed = true;
            }
        }
        done
    }

    /// Waits until it may have changed by itself. Cancel-safe.
    pub async fn changed(&mut self) {
        self.section.changed().await;
        self.in_doubt = true;
    }

    /// How it is.
    pub fn report(&self) -> SectionReport {
        SectionReport { hash: self.section.in_effect(), problem: self.problem.clone() }
    }

    async fn differs(&mut self, wanted: &S::Table) -> Result<Option<String>, String> {
        match tokio::time::timeout(LIMIT, self.section.check(wanted)).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it could not be looked at within {} s", LIMIT.as_secs())),
        }
    }

    async fn apply(&mut self, wanted: &S::Table) -> Result<(), String> {
        match tokio::time::timeout(LIMIT, self.section.apply(wanted)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("it took more than {} s", LIMIT.as_secs())),
        }
        match self.differs(wanted).await? {
            None => Ok(()),
            Some(still) => Err(format!("it was put right, and still is not: {still}")),
        }
    }

    fn is_well(&mut self, hash: Hash256) {
        self.settled = Some(hash);
        self.problem = None;
        self.has_failed = false;
        self.setbacks.forget_all();
    }

    fn failed(&mut self, hash: Hash256, why: String, now: Instant) {
        self.setbacks.failed(hash, why.clone(), now);
        self.problem = Some(why);
        self.settled = None;
    }
}

/// The DNS server as a section.
#[derive(Debug)]
pub struct NamesSection {
    server: NamesServer,
    serving: Hash256,
}

impl NamesSection {
    /// Starts it, with the names that were last known.
    pub fn start(setup: Setup) -> Self {
        Self { server: NamesServer::start(setup), serving: Names::default().hash() }
    }
}

impl Section for NamesSection {
    type Table = Names;
    type Error = NamesError;

    async fn check(&mut self, wanted: &Names) -> Result<Option<String>, NamesError> {
        match self.server.report().await {
            // It is started anew.
            Err(stuck) => return Ok(Some(stuck.to_string())),
            Ok(report) => {
                self.serving = report.table.unwrap_or(Names::default().hash());
                if report.table != Some(wanted.hash()) {
                    return Ok(Some("DNS answers from another table".into()));
                }
            }
        }
        match self.server.check(wanted).await {
            Ok(()) => Ok(None),
            // It goes on trying by itself.
            Err(error @ NamesError::NotListening { .. }) => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    async fn apply(&mut self, wanted: &Names) -> Result<(), NamesError> {
        let applied = self.server.apply(wanted).await;
        self.serving = wanted.hash();
        applied
    }

    fn in_effect(&self) -> Hash256 {
        self.serving
    }

    async fn changed(&mut self) {
        std::future::pending().await
    }
}
