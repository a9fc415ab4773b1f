//! How the store does, told once when it changes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::StoreError;

/// How the store does, as far as the last call knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoreHealth {
    /// Whether the last call succeeded.
    pub is_up: bool,
    /// How many batches it took.
    pub appends: u64,
    /// How long that took in all.
    pub append_time: Duration,
}

/// A store that is full can still be read, so that both are told apart.
#[derive(Default)]
pub(super) struct Health {
    reading: Streak,
    writing: Streak,
    appends: AtomicU64,
    append_micros: AtomicU64,
}

/// Calls of one kind that fail, one after the other.
#[derive(Default)]
struct Streak {
    is_down: AtomicBool,
    /// What was logged last, so that a streak is logged once.
    told: Mutex<Option<String>>,
}

impl Health {
    /// Takes note of how a query ended.
    pub fn read(&self, error: Option<&StoreError>) {
        match self.reading.note(error) {
            Some(Turn::Failed(error)) => tracing::warn!("history cannot be read: {error}"),
            Some(Turn::Recovered) => tracing::info!("history can be read again"),
            None => {}
        }
    }

    /// Takes note of how an append ended.
    pub fn wrote(&self, error: Option<&StoreError>) {
        match self.writing.note(error) {
            Some(Turn::Failed(error)) => tracing::warn!("events wait in memory: {error}"),
            Some(Turn::Recovered) => tracing::info!("the event store takes events again"),
            None => {}
        }
        if error.is_none() {
            // It is there; whether it can be read, the next query tells.
            self.reading.is_down.store(false, Ordering::Relaxed);
        }
    }

    /// Takes note of a batch that was taken.
    pub fn appended(&self, took: Duration) {
        self.appends.fetch_add(1, Ordering::Relaxed);
        let micros = took.as_micros().try_into().unwrap_or(u64::MAX);
        self.append_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub fn report(&self) -> StoreHealth {
        let is_down = |streak: &Streak| streak.is_down.load(Ordering::Relaxed);
        StoreHealth {
            is_up: !is_down(&self.reading) && !is_down(&self.writing),
            appends: self.appends.load(Ordering::Relaxed),
            append_time: Duration::from_micros(self.append_micros.load(Ordering::Relaxed)),
        }
    }
}

/// What is worth a line in the log.
#[derive(Debug, PartialEq)]
enum Turn {
    Failed(String),
    Recovered,
}

impl Streak {
    fn note(&self, error: Option<&StoreError>) -> Option<Turn> {
        self.is_down.store(error.is_some(), Ordering::Relaxed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match error.map(ToString::to_string) {
            None => told.take().map(|_| Turn::Recovered),
            Some(error) if told.as_ref() == Some(&error) => None,
            Some(error) => {
                *told = Some(error.clone());
                Some(Turn::Failed(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_of_failures_is_told_once_and_so_is_its_end() {
        let streak = Streak::default();
        let (full, away) =
            (StoreError::TimedOut { seconds: 1 }, StoreError::TimedOut { seconds: 2 });
        let failed = |error: &StoreError| Some(Turn::Failed(error.to_string()));
        assert_eq!(streak.note(None), None);
        assert_eq!(streak.note(Some(&full)), failed(&full));
        assert_eq!(streak.note(Some(&full)), None);
        assert_eq!(streak.note(Some(&away)), failed(&away), "another reason is news");
        assert_eq!(streak.note(None), Some(Turn::Recovered));
        assert_eq!(streak.note(None), None);
    }

    #[test]
    fn a_store_that_can_be_read_and_not_written_is_not_up() {
        let health = Health::default();
        assert!(health.report().is_up);
        health.wrote(Some(&StoreError::TimedOut { seconds: 1 }));
        health.read(None);
        assert!(!health.report().is_up);
        health.wrote(None);
        assert!(health.report().is_up);
    }
}
