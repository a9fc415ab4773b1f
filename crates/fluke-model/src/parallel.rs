//! The same work on many things, on all cores.

use std::sync::{Mutex, PoisonError};

/// How many a thread takes at a time; fewer than that are not worth another thread.
const PORTION: usize = 64;

/// Does `work` with each of `items`, and gives the results in their order.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(items.len().div_ceil(PORTION));
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let portions = Mutex::new(items.chunks(PORTION).enumerate());
    let next = || portions.lock().unwrap_or_else(PoisonError::into_inner).next();
    let take_part = || {
        let mut done = Vec::new();
        while let Some((number, portion)) = next() {
            done.push((number, portion.iter().map(&work).collect::<Vec<_>>()));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take_part)).collect();
        let mut done = take_part();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().flat_map(|(_, results)| results).collect()
}
