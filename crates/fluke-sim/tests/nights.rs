//! Thousands of bad nights, and the ones that once were too bad.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fluke_sim::schedule::Schedule;
use fluke_sim::{shrink, spend};

/// How many nights are played.
const NIGHTS: u64 = 2_000;

#[test]
fn no_law_is_broken_in_any_night() {
    let next = AtomicU64::new(0);
    let bad: Mutex<Option<u64>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while bad.lock().expect("no panic").is_none() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= NIGHTS {
                        return;
                    }
                    if !spend(Schedule::of(seed)).breaches.is_empty() {
                        bad.lock().expect("no panic").get_or_insert(seed);
                    }
                }
            });
        }
    });
    if let Some(seed) = bad.into_inner().expect("no panic") {
        panic!("{}", shrink(spend(Schedule::of(seed))).tell(false));
    }
}

#[test]
fn a_night_is_the_same_whenever_it_is_played() {
    for seed in [1, 7, 42] {
        let told = || {
            let night = spend(Schedule::of(seed));
            night.record.entries.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let (first, second) = (told(), told());
        for (n, (first, second)) in first.iter().zip(&second).enumerate() {
            assert_eq!(first, second, "seed {seed}, line {n}");
        }
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}
