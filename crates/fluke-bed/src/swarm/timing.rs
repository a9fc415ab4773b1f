//! How long something took, of many times: counted in buckets, so that any number of them costs
//! the same.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Below this many microseconds every one has a bucket of its own.
const EXACT: u64 = 32;
/// Above, every power of two has this many buckets: a time is told within 3 %.
const FINE: u64 = 16;
/// Up to two to this power of microseconds, which is twelve days.
const POWERS: u64 = 40;
const BUCKETS: usize = (EXACT + (POWERS - EXACT.ilog2() as u64) * FINE) as usize;

/// Times as they come in, from any thread.
#[derive(Debug)]
pub(super) struct Times {
    buckets: Box<[AtomicU64]>,
    longest: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, longest: AtomicU64::new(0) }
    }
}

impl Times {
    pub(super) fn note(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(micros, Ordering::Relaxed);
    }

    pub(super) fn forget(&self) {
        self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
        self.longest.store(0, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn sum_up(&self) -> Timing {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let counts: Vec<u64> = counts.collect();
        let longest = self.longest.load(Ordering::Relaxed);
        let count: u64 = counts.iter().sum();
        let at = |percent: u64| {
            let rank = (count * percent).div_ceil(100).max(1);
            let mut before = 0;
            let found = counts.iter().position(|here| {
                before += here;
                before >= rank
            });
            Duration::from_micros(found.map_or(0, middle).min(longest))
        };
        let (p50, p90, p99) = (at(50), at(90), at(99));
        Timing { count, p50, p90, p99, max: Duration::from_micros(longest) }
    }
}

fn bucket(micros: u64) -> usize {
    if micros < EXACT {
        return micros as usize;
    }
    let power = u64::from(micros.ilog2());
    let within = (micros >> (power - u64::from(FINE.ilog2()))) - FINE;
    let index = EXACT + (power - u64::from(EXACT.ilog2())) * FINE + within;
    (index as usize).min(BUCKETS - 1)
}

/// The microseconds in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let (powers, within) = ((bucket - EXACT) / FINE, (bucket - EXACT) % FINE);
    let width = 1 << (powers + u64::from(EXACT.ilog2()) - u64::from(FINE.ilog2()));
    (FINE + within) * width + width / 2
}

/// How long something took, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// How many times it was measured.
    pub count: u64,
    /// Half of them took at most this long.
    pub p50: Duration,
    /// Nine of ten took at most this long.
    pub p90: Duration,
    /// 99 of 100 took at most this long.
    pub p99: Duration,
    /// None took longer.
    pub max: Duration,
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, p50, p90, p99, max } = *self;
        let [p50, p90, p99, max] = [p50, p90, p99, max].map(millis);
        write!(f, "{count:>9} {p50:>10} {p90:>10} {p99:>10} {max:>10}")
    }
}

fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    match millis {
        ..10.0 => format!("{millis:.2} ms"),
        ..10_000.0 => format!("{millis:.0} ms"),
        _ => format!("{:.1} s", millis / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_falls_into_a_bucket_that_is_near_it() {
        for power in 0..POWERS {
            for micros in [1u64 << power, (1 << power) + (1 << power) / 3, (2 << power) - 1] {
                let told = middle(bucket(micros));
                let off = told.abs_diff(micros) as f64 / micros as f64;
                assert!(off <= 1.0 / FINE as f64, "{micros} is told as {told}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_of_all_that_was_noted() {
        let times = Times::default();
        assert_eq!(times.sum_up(), Timing::default());
        (1..=100).for_each(|millis| times.note(Duration::from_millis(millis)));
        let Timing { count, p50, p90, p99, max } = times.sum_up();
        assert_eq!((count, max), (100, Duration::from_millis(100)));
        for (told, millis) in [(p50, 50.0), (p90, 90.0), (p99, 99.0)] {
            let off = (told.as_secs_f64() * 1000.0 / millis - 1.0).abs();
            assert!(off < 0.07, "{told:?} for {millis} ms");
        }
        times.forget();
        assert_eq!(times.count(), 0);
    }
}
