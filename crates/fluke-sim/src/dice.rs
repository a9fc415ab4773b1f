//! Chance that can be had again: the same seed, the same throws.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A source of chance. Clones share it.
#[derive(Debug, Clone)]
pub struct Dice(Arc<Mutex<u64>>);

impl Dice {
    /// Thrown the same way for the same seed and purpose.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let dice = Self(Arc::new(Mutex::new(seed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03))));
        dice.throw();
        dice
    }

    /// Any number (SplitMix64).
    pub fn throw(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`; zero if that is zero.
    pub fn below(&self, bound: u64) -> u64 {
        self.throw().checked_rem(bound).unwrap_or(0)
    }

    /// One of them.
    pub fn one_of<T: Copy>(&self, things: &[T]) -> T {
        things[self.below(things.len() as u64) as usize]
    }

    /// Happens `percent` times in a hundred.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Somewhere between two numbers of milliseconds.
    pub fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to.saturating_sub(from) + 1))
    }
}
