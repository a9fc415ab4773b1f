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

#[derive(Default)]
pub(super) struct Health {
    is_down: AtomicBool,
    /// What was logged last, so that a streak of failures is logged once.
    told: Mutex<Option<String>>,
    appends: AtomicU64,
    append_micros: AtomicU64,
}

impl Health {
    /// Takes note of how a call ended.
    pub fn note(&self, error: Option<&StoreError>) {
        let was_down = self.is_down.swap(error.is_some(), Ordering::Relaxed);
        if !was_down && error.is_none() {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match error.map(ToString::to_string) {
            None if told.take().is_some() => {
                tracing::info!("the event store answers again");
            }
            Some(error) if told.as_ref() != Some(&error) => {
                tracing::warn!("history is not to be had, and events wait in memory: {error}");
                *told = Some(error);
            }
            _ => {}
        }
    }

    /// Takes note of a batch that was taken.
    pub fn appended(&self, took: Duration) {
        self.appends.fetch_add(1, Ordering::Relaxed);
        let micros = took.as_micros().try_into().unwrap_or(u64::MAX);
        self.append_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub fn read(&self) -> StoreHealth {
        StoreHealth {
            is_up: !self.is_down.load(Ordering::Relaxed),
            appends: self.appends.load(Ordering::Relaxed),
            append_time: Duration::from_micros(self.append_micros.load(Ordering::Relaxed)),
        }
    }
}
