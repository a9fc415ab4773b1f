//! Complaints about clients, in the log: once for each, and never a flood of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one address is not told of again for the same reason.
const QUIET: Duration = Duration::from_secs(60);
/// How many addresses are told apart.
const REMEMBERED: usize = 1024;

/// Which complaints were made of late.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<HashMap<(IpAddr, String), Instant>>);

impl Complaints {
    /// Says why a client could not be served.
    pub(crate) fn make(&self, from: IpAddr, why: &str) {
        match self.is_due(from, why, Instant::now()) {
            true => tracing::warn!(%from, why, "a client could not be served"),
            false => tracing::debug!(%from, why, "a client could not be served"),
        }
    }

    /// Whether it is time to say this of that address (again).
    pub(crate) fn is_due(&self, from: IpAddr, what: &str, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= REMEMBERED {
            told.retain(|_, at| now.duration_since(*at) < QUIET);
        }
        let key = (from, what.to_string());
        let is_known = told.get(&key).is_some_and(|at| now.duration_since(*at) < QUIET);
        let has_room = told.len() < REMEMBERED || told.contains_key(&key);
        if !is_known && has_room {
            told.insert(key, now);
        }
        !is_known && has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_told_of_once_a_minute_for_each_reason() {
        let complaints = Complaints::default();
        let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let start = Instant::now();
        assert!(complaints.is_due(a, "old", start));
        assert!(!complaints.is_due(a, "old", start + QUIET / 2));
        assert!(complaints.is_due(a, "new", start));
        assert!(complaints.is_due(b, "old", start));
        assert!(complaints.is_due(a, "old", start + QUIET));
    }

    #[test]
    fn a_flood_of_addresses_fills_neither_memory_nor_log() {
        let complaints = Complaints::default();
        let now = Instant::now();
        let due = (0..10_000u32).filter(|n| complaints.is_due(IpAddr::V4((*n).into()), "x", now));
        assert_eq!(due.count(), REMEMBERED);
        assert!(complaints.is_due([1, 1, 1, 1].into(), "x", now + QUIET), "room again");
    }
}
