//! One part of the directory on this host: names, routes, mesh. All are kept in the same way.

mod mesh;
mod routes;

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::directory::{Names, PublicKey, RouteKey, Table};
use fluke_model::id::Hash256;
use fluke_model::message::SectionReport;
use serde::Serialize;

use super::names::{NamesError, NamesServer, Setup};
use super::setback::Setbacks;

pub use mesh::MeshSection;
pub use routes::RoutesSection;

/// How long one check or one apply may take.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Something on this host that does as a table says.
pub trait Section: Send + 'static {
    /// What it does as.
    type Table: Tabular;
    /// Why it cannot.
    type Error: Error + Send;

    /// How reality differs from `wanted`. Changes nothing that counts.
    fn check(
        &mut self,
        wanted: &Self::Table,
    ) -> impl Future<Output = Result<Found, Self::Error>> + Send;

    /// Makes it so. Cancel-safe.
    fn apply(
        &mut self,
        wanted: &Self::Table,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Tries at once what it leaves alone by itself.
    fn forgive(&mut self) {}

    /// The hash of the table that reality has now, as far as was seen.
    fn in_effect(&self) -> Hash256;

    /// What of that table is not in effect all the same, of routes.
    fn left_out(&self) -> BTreeSet<RouteKey> {
        BTreeSet::new()
    }

    /// Resolves when reality may have changed by itself. Cancel-safe.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// What others need to know of it, for the mesh; nothing where that cannot be told now.
    fn identity(&self) -> Option<(PublicKey, Vec<std::net::SocketAddr>)> {
        None
    }
}

/// What a check found; nothing where all is as the table says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// What differs, in words, and can be put right.
    pub drift: Option<String>,
    /// What cannot be had until somebody does something about it. It is reported, and keeps nothing
    /// else from being put right.
    pub problem: Option<String>,
}

impl Found {
    /// Something differs.
    pub fn drift(words: impl ToString) -> Self {
        Self { drift: Some(words.to_string()), problem: None }
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
    /// The table that was last looked for.
    looked: Option<Hash256>,
    problem: Option<String>,
    /// By what is wrong: something else that is wrong is put right all the same.
    setbacks: Setbacks<String>,
    /// What is wrong, and left alone for a while.
    held: Option<String>,
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
            looked: None,
            problem: None,
            setbacks: Setbacks::default(),
            held: None,
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
        self.section.forgive();
        self.setbacks.forget_all();
        self.in_doubt = true;
    }

    /// When what is left alone is worth another try.
    pub fn look_at(&self) -> Option<Instant> {
        let setback = self.setbacks.marks().get(self.held.as_ref()?)?;
        Some(setback.until)
    }

    /// Whether a look is worth while.
    pub fn is_due(&self, wanted: &S::Table, now: Instant) -> bool {
        let is_other = self.looked != Some(wanted.hash());
        is_other || self.in_doubt || self.look_at().is_some_and(|at| at <= now)
    }

    /// Looks whether it is as `wanted` says, if that is worth while.
    pub async fn look(
        &mut self,
        wanted: &Arc<S::Table>,
        clock: impl Fn() -> Instant + Send,
    ) -> Looked {
        let now = clock();
        if !self.is_due(wanted, now) {
            return Looked::Fine;
        }
        let hash = wanted.hash();
        match self.looked.replace(hash) {
            Some(same) if same == hash => self.setbacks.forget_past(now),
            _ => self.setbacks.forget_all(),
        }
        match self.differs(wanted).await {
            Ok(Found { drift: None, problem }) => self.is_well(hash, problem),
            Ok(Found { drift: Some(drift), .. }) => {
                if self.setbacks.is_due(&drift, now) {
                    // Whoever gives up before it is put right looks again.
                    self.in_doubt = true;
                    let is_news = self.settled != Some(hash) && !self.has_failed;
                    return Looked::Differs { drift, is_news };
                }
                (self.held, self.in_doubt) = (Some(drift), false);
            }
            // A check that could not tell is no reason to change anything.
            Err(why) => self.failed(why.clone(), why, clock()),
        }
        Looked::Fine
    }

    /// Makes it as `wanted` says, where it was found to differ by `drift`, and looks whether it is.
    pub async fn put_right(
        &mut self,
        wanted: &Arc<S::Table>,
        drift: String,
        clock: impl Fn() -> Instant + Send,
    ) -> Result<(), String> {
        let applied = self.apply(wanted).await;
        let (what, why) = match (self.differs(wanted).await, applied) {
            // It could not be put right, and now there is nothing to put right before somebody does
            // something.
            (Ok(Found { drift: None, problem: Some(_) }), Err(why)) => (drift, why),
            (Ok(Found { drift: None, problem }), _) => {
                self.is_well(wanted.hash(), problem);
                return Ok(());
            }
            (Ok(Found { drift: Some(still), .. }), Err(why)) => (still, why),
            (Ok(Found { drift: Some(still), .. }), Ok(())) => {
                let why = format!("it was put right, and still is not: {still}");
                (still, why)
            }
            (Err(_), Err(why)) | (Err(why), Ok(())) => (drift, why),
        };
        self.failed(what, why.clone(), clock());
        (self.settled, self.has_failed) = (None, true);
        Err(why)
    }

    /// Waits until it may have changed by itself. Cancel-safe.
    pub async fn changed(&mut self) {
        self.section.changed().await;
        self.in_doubt = true;
    }

    /// How it is.
    pub fn report(&self) -> SectionReport {
        let (hash, problem) = (self.section.in_effect(), self.problem.clone());
        SectionReport { hash, problem, left_out: self.section.left_out() }
    }

    async fn differs(&mut self, wanted: &S::Table) -> Result<Found, String> {
        match tokio::time::timeout(LIMIT, self.section.check(wanted)).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it could not be looked at within {} s", LIMIT.as_secs())),
        }
    }

    async fn apply(&mut self, wanted: &S::Table) -> Result<(), String> {
        match tokio::time::timeout(LIMIT, self.section.apply(wanted)).await {
            Ok(applied) => applied.map_err(|error| error.to_string()),
            Err(_) => Err(format!("it took more than {} s", LIMIT.as_secs())),
        }
    }

    fn is_well(&mut self, hash: Hash256, problem: Option<String>) {
        (self.settled, self.problem) = (Some(hash), problem);
        (self.held, self.has_failed, self.in_doubt) = (None, false, false);
        self.setbacks.forget_all();
    }

    /// `what` is wrong, and left alone for a while from now on, when all that was tried is over.
    fn failed(&mut self, what: String, why: String, now: Instant) {
        self.setbacks.gave_up(what.clone(), why.clone(), now);
        (self.held, self.problem, self.in_doubt) = (Some(what), Some(why), false);
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

    async fn check(&mut self, wanted: &Names) -> Result<Found, NamesError> {
        match self.server.report().await {
            // It is started anew.
            Err(stuck) => return Ok(Found::drift(stuck)),
            Ok(report) => {
                self.serving = report.table.unwrap_or(Names::default().hash());
                if report.table != Some(wanted.hash()) {
                    return Ok(Found::drift("DNS answers from another table"));
                }
            }
        }
        Ok(match self.server.check(wanted).await {
            Ok(()) => Found::default(),
            // It goes on trying by itself.
            Err(error @ (NamesError::NotListening { .. } | NamesError::NotKept { .. })) => {
                Found { drift: None, problem: Some(error.to_string()) }
            }
            Err(error) => Found::drift(error),
        })
    }

    async fn apply(&mut self, wanted: &Names) -> Result<(), NamesError> {
        let applied = self.server.apply(wanted).await;
        self.serving = wanted.hash();
        match applied {
            // It goes on trying by itself.
            Err(NamesError::NotListening { .. }) => Ok(()),
            applied => applied,
        }
    }

    fn in_effect(&self) -> Hash256 {
        self.serving
    }

    async fn changed(&mut self) {
        self.server.changed().await;
    }
}
