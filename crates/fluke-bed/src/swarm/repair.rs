//! Every host drifts at the same moment, and is put right.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::agent::Order;
use super::{Swarm, SwarmError, Timing, lock};

impl Swarm {
    /// One more step drifts on every host at once. Waits until the server has the records of all
    /// repairs, and says how long that took those hosts that are not slow.
    pub async fn drifts_everywhere(&self) -> Result<Timing, SwarmError> {
        let (of, times) = (self.orders.len() as u64, &self.shared.stopwatches.repair);
        let repaired = || self.shared.counts.repaired.load(Ordering::Relaxed);
        let before = repaired();
        times.forget();
        for member in self.orders.values() {
            // Who is gone is missed below.
            let _ = member.send(Order::Drift).await;
        }
        match self.gets_to(of, || repaired() - before).await {
            Ok(()) => Ok(times.sum_up()),
            Err(repaired) => Err(SwarmError::Unrepaired { repaired, of }),
        }
    }

    /// From now on a round of checks takes this long on those that are slow.
    pub fn slow_ones_take(&self, time: Duration) {
        *lock(&self.shared.slow_takes) = time;
    }
}
