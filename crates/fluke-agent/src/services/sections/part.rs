//! One part of the directory, and whoever works on it: what takes long holds up nobody.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::id::StepAddress;
use fluke_model::message::{Fact, SectionReport, Subject};
use fluke_model::verdict::{Outcome, Output};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{Account, Identity};
use crate::services::lane::saying::{Note, Scribe};
use crate::services::section::{Kept, Looked, Section, Tabular};

/// Most of what is to be done is done within this; what is not goes on by itself.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);

/// A part.
#[derive(Debug)]
pub(super) struct Part<S: Section> {
    /// Its name in events.
    name: &'static str,
    place: Place<S>,
    /// What was last known of it.
    report: SectionReport,
    /// What others need to know of it, as it was last known.
    identity: Option<Identity>,
    /// Whether somebody doubted it, or forgave it, while it was away.
    is_doubted: bool,
    is_forgiven: bool,
}

/// Where it is.
#[derive(Debug)]
enum Place<S: Section> {
    Here(Kept<S>),
    /// With somebody who works on it.
    Away(Worker<S>),
    /// Nowhere, for no longer than it takes to say so.
    Between,
    /// This host's own config refuses it: nothing of it is touched.
    Refused,
}

/// A task that works on a part until it is done, or until nobody waits for it any more.
#[derive(Debug)]
struct Worker<S: Section> {
    task: JoinHandle<Kept<S>>,
    stop: Arc<Notify>,
}

impl<S: Section> Drop for Worker<S> {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

impl<S: Section> Part<S> {
    /// One that nobody has looked at, with what it had before; or, if it is refused, one that nobody
    /// will.
    pub(super) fn open(
        name: &'static str,
        refused: Option<&str>,
        before: Option<&Arc<S::Table>>,
        section: impl FnOnce() -> S,
    ) -> Self {
        let Some(why) = refused else { return Self::new(name, section(), before) };
        let (hash, problem) = (S::Table::default().hash(), Some(why.to_owned()));
        let report = SectionReport { hash, problem, left_out: BTreeSet::new() };
        let (place, identity) = (Place::Refused, None);
        Self { name, place, report, identity, is_doubted: false, is_forgiven: false }
    }

    fn new(name: &'static str, section: S, before: Option<&Arc<S::Table>>) -> Self {
        let kept = Kept::new(section, before);
        let (report, identity) = (kept.report(), kept.section().identity());
        let place = Place::Here(kept);
        Self { name, place, report, identity, is_doubted: false, is_forgiven: false }
    }

    /// What others need to know of it; while it is worked on, or cannot tell, what they were told.
    pub(super) fn identity(&mut self) -> Option<Identity> {
        if let Some(known) = self.here().and_then(Section::identity) {
            self.identity = Some(known);
        }
        self.identity.clone()
    }

    /// The thing itself, unless it is worked on.
    fn here(&self) -> Option<&S> {
        match &self.place {
            Place::Here(kept) => Some(kept.section()),
            Place::Away(..) | Place::Between | Place::Refused => None,
        }
    }

    /// Has it made as its table says. Returns when it is, or when that takes long: then
    /// [`Part::changed`] tells when it came to its end, and whoever settles next finds it here.
    pub(super) async fn settle(
        &mut self,
        table: Option<&Arc<S::Table>>,
        account: Option<&Account>,
        scribe: &Scribe,
    ) {
        let Some(wanted) = table else { return };
        if let Place::Away(worker) = &self.place
            && worker.task.is_finished()
        {
            self.is_back().await;
        }
        let mut kept = match std::mem::replace(&mut self.place, Place::Between) {
            Place::Here(kept) if kept.is_due(wanted, Instant::now()) => kept,
            other => {
                self.place = other;
                return;
            }
        };
        let stop = Arc::new(Notify::new());
        let (name, wanted, account) = (self.name, wanted.clone(), account.cloned());
        let (scribe, stopped) = (scribe.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let stopped = stopped.notified();
            settle(&mut kept, &wanted, name, account.as_ref(), &scribe, stopped).await;
            kept
        });
        self.place = Place::Away(Worker { task, stop });
        // Who does not wait any longer finds it where it is.
        let _ = tokio::time::timeout(PATIENCE, self.is_back()).await;
    }

    /// Has it looked at next time.
    pub(super) fn doubt(&mut self) {
        match &mut self.place {
            Place::Here(kept) => kept.doubt(),
            Place::Away(..) | Place::Between | Place::Refused => self.is_doubted = true,
        }
    }

    /// Tries at once what failed before.
    pub(super) fn forgive(&mut self) {
        match &mut self.place {
            Place::Here(kept) => kept.forgive(),
            Place::Away(..) | Place::Between | Place::Refused => self.is_forgiven = true,
        }
    }

    /// When it is worth another try.
    pub(super) fn look_at(&self) -> Option<Instant> {
        match &self.place {
            Place::Here(kept) => kept.look_at(),
            Place::Away(..) | Place::Between | Place::Refused => None,
        }
    }

    /// Waits until it may have changed by itself, or what was done to it came to its end.
    /// Cancel-safe.
    pub(super) async fn changed(&mut self) {
        match &mut self.place {
            Place::Here(kept) => kept.changed().await,
            Place::Away(..) | Place::Between => self.is_back().await,
            Place::Refused => std::future::pending().await,
        }
    }

    /// How it is; while it is worked on, how it was.
    pub(super) fn report(&self) -> SectionReport {
        match &self.place {
            Place::Here(kept) => kept.report(),
            Place::Away(..) | Place::Between | Place::Refused => self.report.clone(),
        }
    }

    /// Waits until nobody works on it. Cancel-safe.
    async fn is_back(&mut self) {
        let Place::Away(worker) = &mut self.place else { return };
        let mut kept = match (&mut worker.task).await {
            Ok(kept) => kept,
            // A fault of our own ends the lane, which is begun anew.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => std::future::pending().await,
            },
        };
        if std::mem::take(&mut self.is_doubted) {
            kept.doubt();
        }
        if std::mem::take(&mut self.is_forgiven) {
            kept.forgive();
        }
        self.report = kept.report();
        self.place = Place::Here(kept);
    }
}

/// Makes a part as its table says, and takes down what was not news. Whoever does not want to wait
/// any longer says so by `stop`.
async fn settle<S: Section>(
    kept: &mut Kept<S>,
    wanted: &Arc<S::Table>,
    part: &str,
    account: Option<&Account>,
    scribe: &Scribe,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let looked = tokio::select! {
        biased;
        () = &mut stop => return,
        looked = kept.look(wanted, Instant::now) => looked,
    };
    let (drift, is_news) = match looked {
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
    let failure = tokio::select! {
        biased;
        () = &mut stop => Some("it was given up in the middle, and is begun anew".to_owned()),
        done = kept.put_right(wanted, drift.clone(), Instant::now) => done.err(),
    };
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
