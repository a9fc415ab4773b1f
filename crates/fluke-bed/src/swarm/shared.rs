//! What all members of a swarm share.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use fluke_model::directory::{NameKey, Names};
use fluke_model::id::{CommitId, Hash256, ServiceName};
use fluke_model::snapshot::Snapshot;
use fluke_wire::client::Prepared;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::meter::Meter;
use super::services::shelf::Shelves;
use super::timing::Times;
use super::{Statistics, SwarmError, SwarmOptions, Timings, lock};

/// Where times are noted.
#[derive(Debug, Default)]
pub(super) struct Stopwatches {
    pub(super) join: Times,
    pub(super) notice: Times,
    pub(super) record: Times,
    pub(super) repair: Times,
    pub(super) commit: Times,
    pub(super) answer: Times,
    pub(super) names: Times,
}

/// The newest commit that anybody heard of.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) commit: Option<CommitId>,
    pub(super) began: Option<Instant>,
    /// The next commit began then.
    pub(super) expected: Option<Instant>,
}

/// What members share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) target: Prepared,
    pub(super) check_takes: Duration,
    pub(super) slow_takes: Mutex<Duration>,
    pub(super) apply_takes: Duration,
    pub(super) start_takes: Duration,
    pub(super) doors: Semaphore,
    pub(super) held: watch::Sender<bool>,
    pub(super) counts: Counts,
    pub(super) meter: Meter,
    pub(super) stopwatches: Stopwatches,
    pub(super) round: Mutex<Round>,
    pub(super) snapshots: Mutex<HashMap<Hash256, Weak<Snapshot>>>,
    pub(super) why: Mutex<Option<String>>,
    pub(super) shelves: Arc<Shelves>,
    pub(super) lost: Mutex<Option<Lost>>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connected: AtomicU64,
    pub(super) sessions: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) checks: AtomicU64,
    pub(super) applies: AtomicU64,
    /// Drifts that are over, as far as the server knows.
    pub(super) repaired: AtomicU64,
    pub(super) edits: AtomicU64,
    pub(super) resends: AtomicU64,
}

/// A container that is gone, and that everybody is waited for to hear of.
#[derive(Debug)]
pub(super) struct Lost {
    service: ServiceName,
    address: Ipv4Addr,
    since: Instant,
    /// Tells it from others before it.
    number: u64,
}

impl Shared {
    pub(super) fn new(options: SwarmOptions) -> Result<Self, SwarmError> {
        Ok(Self {
            target: Prepared::new(options.target)?,
            check_takes: options.check_takes,
            slow_takes: Mutex::new(options.slow_takes),
            apply_takes: options.apply_takes,
            start_takes: options.start_takes,
            doors: Semaphore::new(options.at_once.max(1)),
            held: watch::Sender::new(false),
            counts: Counts::default(),
            meter: Meter::default(),
            stopwatches: Stopwatches::default(),
            round: Mutex::default(),
            snapshots: Mutex::default(),
            why: Mutex::default(),
            shelves: Arc::default(),
            lost: Mutex::default(),
        })
    }

    /// The one copy of a snapshot: most members hold the same.
    pub(super) fn share(&self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        let mut known = lock(&self.snapshots);
        if let Some(same) = known.get(&snapshot.hash()).and_then(Weak::upgrade) {
            return same;
        }
        known.retain(|_, snapshot| snapshot.strong_count() > 0);
        known.insert(snapshot.hash(), Arc::downgrade(&snapshot));
        snapshot
    }

    /// Somebody heard of a commit, maybe as the first of all.
    pub(super) fn hears_of(&self, commit: &CommitId) {
        let mut round = lock(&self.round);
        if round.commit.as_ref() != Some(commit) {
            let began = round.expected.take().unwrap_or_else(Instant::now);
            (round.commit, round.began) = (Some(commit.clone()), Some(began));
            self.stopwatches.commit.forget();
        }
    }

    /// Somebody answered who was told of a commit, if that is still the newest.
    pub(super) fn has_answered(&self, commit: &CommitId) {
        let round = lock(&self.round);
        if let Some(began) = round.began.filter(|_| round.commit.as_ref() == Some(commit)) {
            self.stopwatches.commit.note(began.elapsed());
        }
    }

    /// A container ended; nobody has heard of it yet.
    pub(super) fn loses(&self, service: ServiceName, address: Ipv4Addr) {
        let mut lost = lock(&self.lost);
        let number = lost.as_ref().map_or(1, |before| before.number + 1);
        self.stopwatches.names.forget();
        *lost = Some(Lost { service, address, since: Instant::now(), number });
    }

    /// Nobody is waited for to hear of a container that is gone.
    pub(super) fn looks_for_nobody(&self) {
        self.stopwatches.names.forget();
        if let Some(lost) = &mut *lock(&self.lost) {
            (lost.number, lost.address) = (lost.number + 1, Ipv4Addr::UNSPECIFIED);
        }
    }

    /// Somebody has other names than before. `noted`: the last loss that it was found to know of.
    pub(super) fn has_names(&self, names: &Names, noted: &mut u64) {
        let lost = lock(&self.lost);
        let Some(lost) = lost.as_ref().filter(|lost| lost.number != *noted) else { return };
        let address = Some(lost.address);
        let key = NameKey { service: lost.service.clone(), address };
        if !names.rows().contains_key(&key) {
            *noted = lost.number;
            self.stopwatches.names.note(lost.since.elapsed());
        }
    }

    pub(super) fn statistics(&self) -> Statistics {
        let counts = &self.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Statistics {
            connected: of(&counts.connected),
            sessions: of(&counts.sessions),
            refused: of(&counts.refused),
            checks: of(&counts.checks),
            applies: of(&counts.applies),
            edits: of(&counts.edits),
            resends: of(&counts.resends),
        }
    }

    pub(super) fn timings(&self) -> Timings {
        let Stopwatches { join, notice, record, repair, commit, answer, names } = &self.stopwatches;
        let [join, notice, record, repair, commit, answer, names] =
            [join, notice, record, repair, commit, answer, names].map(Times::sum_up);
        Timings { join, notice, record, repair, commit, answer, names }
    }

    pub(super) fn forgets_timings(&self) {
        let Stopwatches { join, notice, record, repair, commit, answer, names } = &self.stopwatches;
        [join, notice, record, repair, commit, answer, names].into_iter().for_each(Times::forget);
    }
}
