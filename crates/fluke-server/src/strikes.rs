//! Wrong tokens: who shows them, how often, and how long that makes them wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::http::crowd::neighbourhood;

/// The longest wait, in first waits.
const LONGEST: u32 = 100;

/// What a wrong token comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike {
    /// The how-manyth of this address.
    pub count: u32,
    /// How long to let it wait for its answer.
    pub wait: Duration,
}

impl Strike {
    /// Whether it is worth a line of history: the first, the second, the fourth and so on, so
    /// that a flood of them does not wash everything else away.
    pub fn is_notable(self) -> bool {
        self.count.is_power_of_two()
    }
}

/// Wrong tokens per address, as far back as it matters.
#[derive(Debug)]
pub struct Strikes {
    first: Duration,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_address: HashMap<IpAddr, (u32, Instant)>,
}

impl Default for Strikes {
    fn default() -> Self {
        Self::starting_at(Duration::from_millis(100))
    }
}

impl Strikes {
    /// The first wrong token waits for `first`, each one after it twice as long, up to a hundred
    /// times.
    pub fn starting_at(first: Duration) -> Self {
        Self { first, table: Mutex::default() }
    }

    /// Notes a wrong token. One whose address is not known waits for nothing.
    pub fn add(&self, from: Option<IpAddr>, now: Instant) -> Strike {
        let Some(from) = from else { return Strike { count: 1, wait: Duration::ZERO } };
        let from = neighbourhood(from);
        let count = self.table.lock().unwrap_or_else(PoisonError::into_inner).add(from, now);
        match count {
            Some(count) => Strike { count, wait: self.wait(count) },
            // Too many to tell apart: all wait, and none has a number of its own.
            None => Strike { count: 3, wait: self.first * LONGEST },
        }
    }

    fn wait(&self, count: u32) -> Duration {
        self.first * (1 << (count - 1).min(10)).min(LONGEST)
    }
}

impl Table {
    const REMEMBERED: usize = 10_000;
    const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

    /// The how-manyth it is; none if there is no room to count.
    fn add(&mut self, from: IpAddr, now: Instant) -> Option<u32> {
        if self.by_address.len() >= Self::REMEMBERED {
            self.by_address.retain(|_, (_, last)| now - *last < Self::FORGIVEN_AFTER);
        }
        if self.by_address.len() >= Self::REMEMBERED && !self.by_address.contains_key(&from) {
            return None;
        }
        let (count, last) = self.by_address.entry(from).or_insert((0, now));
        if now - *last >= Self::FORGIVEN_AFTER {
            *count = 0;
        }
        *count = count.saturating_add(1);
        *last = now;
        Some(*count)
    }
}

#[cfg(test)]
mod tests;
