//! How much happens at once on one machine, over all stories of a process.

use std::sync::{Condvar, Mutex, PoisonError};

/// Beds at once; whoever wants one more waits.
pub(crate) static BEDS: Turns = Turns::new(6);
/// Hosts that boot or shut down at once: that is what costs.
pub(crate) static BOOTS: Turns = Turns::new(2);

/// A number of places.
pub(crate) struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Turns {
    const fn new(places: usize) -> Self {
        Self { free: Mutex::new(places), freed: Condvar::new() }
    }

    /// Waits for a place; it is free again when the turn is dropped.
    pub(crate) fn take(&'static self) -> Turn {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free =
            self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Turn(self)
    }
}

/// A place that is taken.
pub(crate) struct Turn(&'static Turns);

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
