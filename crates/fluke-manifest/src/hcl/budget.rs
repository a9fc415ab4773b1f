//! How much evaluating may cost, so that no commit can exhaust the machine that reads it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::value::Value;

/// No single value may be larger than this when written out in full.
pub const MAX_VALUE: u64 = 16 * 1024 * 1024;
/// No value may be nested more deeply.
pub const MAX_VALUE_DEPTH: u32 = 128;
/// Nor may evaluation, through expressions, locals and templates together.
const MAX_DEPTH: u64 = 200;

/// What may be spent; shared by all evaluations that count together.
#[derive(Debug)]
pub struct Budget {
    steps: AtomicU64,
    bytes: AtomicU64,
    depth: AtomicU64,
}

/// An amount of what a budget is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    steps: u64,
    bytes: u64,
}

impl std::ops::Sub for Cost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let steps = self.steps.saturating_sub(other.steps);
        Self { steps, bytes: self.bytes.saturating_sub(other.bytes) }
    }
}

/// What the budget does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Too much work.
    #[error("evaluating takes too many steps")]
    Steps,
    /// Too much made in total.
    #[error("too much data is produced")]
    Bytes,
    /// One value is too large.
    #[error("the value would be larger than {} MiB", MAX_VALUE >> 20)]
    Value,
    /// One value is too deep.
    #[error("the value is nested more than 128 levels deep")]
    ValueDepth,
    /// Evaluation is nested too deeply.
    #[error("evaluation is nested too deeply")]
    Depth,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(20_000_000, 256 * 1024 * 1024)
    }
}

impl Budget {
    /// So many steps of work, and so many bytes of strings and collections.
    pub fn new(steps: u64, bytes: u64) -> Self {
        Self { steps: steps.into(), bytes: bytes.into(), depth: 0.into() }
    }

    /// As much as is left of another one.
    pub fn of(left: Cost) -> Self {
        Self::new(left.steps, left.bytes)
    }

    /// What has not been spent.
    pub fn left(&self) -> Cost {
        let (steps, bytes) = (&self.steps, &self.bytes);
        Cost { steps: steps.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }

    /// Spends what something is known to cost; false, and nothing is spent, if there is less.
    pub fn charge(&self, cost: Cost) -> bool {
        let left = self.left();
        let enough = cost.steps <= left.steps && cost.bytes <= left.bytes;
        enough && self.work(cost.steps).is_ok() && self.bytes(cost.bytes).is_ok()
    }

    /// Spends work.
    pub fn work(&self, steps: u64) -> Result<(), Exceeded> {
        spend(&self.steps, steps).ok_or(Exceeded::Steps)
    }

    /// Spends memory and checks one new value against the limits for values.
    pub fn admit(&self, value: &Value) -> Result<(), Exceeded> {
        let extent = value.extent();
        if extent.size > MAX_VALUE {
            return Err(Exceeded::Value);
        }
        if extent.depth > MAX_VALUE_DEPTH {
            return Err(Exceeded::ValueDepth);
        }
        let own = match value {
            Value::String(text) => text.len(),
            _ => {
                value.as_items().map_or(0, <[Value]>::len) * 32
                    + value.as_entries().map_or(0, |entries| entries.len()) * 64
            }
        };
        self.bytes(own as u64)
    }

    /// Spends memory.
    pub fn bytes(&self, bytes: u64) -> Result<(), Exceeded> {
        spend(&self.bytes, bytes).ok_or(Exceeded::Bytes)
    }

    /// One level deeper, until the guard is dropped.
    pub(super) fn enter(&self) -> Result<Level<'_>, Exceeded> {
        let depth = self.depth.load(Ordering::Relaxed);
        if depth >= MAX_DEPTH {
            return Err(Exceeded::Depth);
        }
        self.depth.store(depth + 1, Ordering::Relaxed);
        Ok(Level(self))
    }
}

/// A level of nested evaluation.
pub(super) struct Level<'b>(&'b Budget);

impl Drop for Level<'_> {
    fn drop(&mut self) {
        let depth = self.0.depth.load(Ordering::Relaxed);
        self.0.depth.store(depth.saturating_sub(1), Ordering::Relaxed);
    }
}

/// What is spent stays spent: an empty budget refuses everything.
fn spend(purse: &AtomicU64, amount: u64) -> Option<()> {
    let left = purse.load(Ordering::Relaxed);
    let rest = left.checked_sub(amount);
    purse.store(rest.unwrap_or(0), Ordering::Relaxed);
    rest.map(|_| ())
}
