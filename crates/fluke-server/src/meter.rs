//! What is measured on the way, for `/metrics`: constant in cost and size, whatever the fleet.

mod stopwatch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fluke_model::event::{Event, EventKind};
use fluke_model::verdict::Outcome;

pub use stopwatch::{Heard, Stopwatch};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn add_one(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many until now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often something took how long.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    /// The upper bounds of all buckets but the last, in seconds.
    pub bounds: [f64; N],
    counts: [Counter; N],
    /// Also of what was over every bound.
    count: Counter,
    micros: Counter,
}

impl<const N: usize> Histogram<N> {
    fn new(bounds: [f64; N]) -> Self {
        let counts = std::array::from_fn(|_| Counter::default());
        Self { bounds, counts, count: Counter::default(), micros: Counter::default() }
    }

    /// It took so long once more.
    pub fn record(&self, took: Duration) {
        let bucket = self.bounds.iter().position(|bound| took.as_secs_f64() <= *bound);
        bucket.into_iter().for_each(|at| self.counts[at].add_one());
        self.count.add_one();
        self.micros.add(took.as_micros().try_into().unwrap_or(u64::MAX));
    }

    /// How often it took at most as long as each bound, how often in all, and how long together.
    pub fn read(&self) -> (Vec<(f64, u64)>, u64, Duration) {
        let mut until_now = 0;
        let cumulated = self.bounds.iter().zip(&self.counts).map(|(bound, count)| {
            until_now += count.get();
            (*bound, until_now)
        });
        let buckets: Vec<_> = cumulated.collect();
        // Read last and never less, though others go on counting meanwhile.
        let count = self.count.get().max(until_now);
        (buckets, count, Duration::from_micros(self.micros.get()))
    }
}

/// From a fraction of a network's round trip to a command's usual timeout.
const CHECK_SECONDS: [f64; 8] = [0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0];
/// From a quick file to a long download.
const APPLY_SECONDS: [f64; 8] = [0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 900.0];

/// Durations in buckets.
pub type Durations = Histogram<8>;

/// The executors that are told apart; what is not listed is `other`.
pub const EXECUTORS: [&str; KINDS] =
    ["shell", "mise", "systemd", "container", "dns", "routes", "mesh", "other"];

const KINDS: usize = 8;

/// Why agents were not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A wrong token, or none.
    Token,
    /// A name or labels that the token is not good for.
    Forbidden,
    /// A name that another one has.
    NameTaken,
    /// Too many are known.
    TooMany,
}

impl Refused {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Token, Self::Forbidden, Self::NameTaken, Self::TooMany];

    /// For a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Forbidden => "forbidden",
            Self::NameTaken => "name_taken",
            Self::TooMany => "too_many",
        }
    }
}

/// Everything that sessions measure.
#[derive(Debug)]
pub struct Meter {
    /// From a check's instruction to its answer.
    pub checks: Durations,
    /// Steps that were looked at.
    pub steps_checked: Counter,
    /// From the first instruction to the last answer, of cycles in which nothing was due.
    pub quiet_cycles: Durations,
    /// The same of cycles in which something was applied.
    pub applying_cycles: Durations,
    /// By [`EXECUTORS`].
    pub applies: [Durations; KINDS],
    /// By [`EXECUTORS`].
    pub apply_failures: [Counter; KINDS],
    refused: [Counter; 4],
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            checks: Histogram::new(CHECK_SECONDS),
            steps_checked: Counter::default(),
            quiet_cycles: Histogram::new(CHECK_SECONDS),
            applying_cycles: Histogram::new(APPLY_SECONDS),
            applies: std::array::from_fn(|_| Histogram::new(APPLY_SECONDS)),
            apply_failures: Default::default(),
            refused: Default::default(),
        }
    }
}

impl Meter {
    /// Takes from an event what is counted.
    pub fn note(&self, event: &Event) {
        let (EventKind::ApplyFinished, Some(step)) = (event.kind, &event.step) else { return };
        let known = EXECUTORS.iter().position(|kind| *kind == step.kind());
        let executor = known.unwrap_or(EXECUTORS.len() - 1);
        // Nobody knows how long it would have taken.
        if event.outcome != Some(Outcome::Interrupted) {
            let took = Duration::from_millis(event.duration_ms.unwrap_or_default());
            self.applies[executor].record(took);
        }
        if event.outcome.is_some_and(|outcome| outcome.is_failure()) {
            self.apply_failures[executor].add_one();
        }
    }

    /// An agent was not let in.
    pub fn refuse(&self, why: Refused) {
        self.refused[why as usize].add_one();
    }

    /// How many agents were not let in for this reason.
    pub fn refusals(&self, why: Refused) -> u64 {
        self.refused[why as usize].get()
    }
}

#[cfg(test)]
mod tests;
