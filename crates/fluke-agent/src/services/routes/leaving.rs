//! Processes that others took over from, and the time they have for the connections that they
//! have. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::compile::Generation;
use super::unit::Running;

/// How long a connection may last after its process was told to end.
pub const GRACE: Duration = Duration::from_secs(600);
/// Longer than any takes that does as it is told.
const LONGEST: Duration = Duration::from_secs(660);
/// No more of them have time, as each takes memory.
const MOST: usize = 4;

/// Those that were told, the last one last.
#[derive(Debug, Default)]
pub struct Leaving(Vec<Told>);

#[derive(Debug)]
struct Told {
    generation: Generation,
    process: Option<u32>,
    since: Instant,
}

impl Leaving {
    /// One was told.
    pub fn told(&mut self, generation: Generation, process: Option<u32>, since: Instant) {
        self.0.push(Told { generation, process, since });
    }

    /// Whether one was told.
    pub fn has(&self, generation: &Generation) -> bool {
        self.all().any(|told| told == generation)
    }

    /// Whether one was told, and has time left.
    pub fn has_time(&self, generation: &Generation, now: Instant) -> bool {
        let last = self.0.iter().rev().take(MOST);
        let mut in_time = last.filter(|told| now.duration_since(told.since) < LONGEST);
        in_time.any(|told| told.generation == *generation)
    }

    /// Forgets all that are gone.
    pub fn see(&mut self, running: &[Running]) {
        self.0.retain(|told| running.iter().any(|one| one.generation == told.generation));
    }

    /// Forgets one that is another process by now: it was started again, and told nothing.
    pub fn meet(&mut self, generation: &Generation, process: Option<u32>) {
        self.0.retain(|told| told.generation != *generation || told.process == process);
    }

    /// Forgets one; whether it was told.
    pub fn forget(&mut self, generation: &Generation) -> bool {
        let before = self.0.len();
        self.0.retain(|told| told.generation != *generation);
        self.0.len() != before
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Generation> {
        self.0.iter().map(|told| &told.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(number: u32) -> Generation {
        Generation::of(&number.to_string())
    }

    #[test]
    fn the_last_few_have_time_and_none_has_it_forever() {
        let (mut leaving, now) = (Leaving::default(), Instant::now());
        for number in 0..6 {
            leaving.told(named(number), Some(7), now + Duration::from_secs(number.into()));
        }
        let have_time = |leaving: &Leaving, seconds| -> Vec<u32> {
            let then = now + Duration::from_secs(seconds);
            (0..7).filter(|number| leaving.has_time(&named(*number), then)).collect()
        };
        assert_eq!(have_time(&leaving, 6), [2, 3, 4, 5]);
        assert_eq!(have_time(&leaving, 664), [5]);
        let there = Running { generation: named(3), is_up: true };
        leaving.see(&[there]);
        assert_eq!(have_time(&leaving, 6), [3]);
        leaving.meet(&named(3), Some(7));
        assert!(leaving.has(&named(3)), "it is the same one");
        assert!(leaving.forget(&named(3)) && !leaving.has(&named(3)));
        leaving.told(named(3), Some(7), now);
        leaving.meet(&named(3), Some(8));
        assert!(!leaving.has(&named(3)), "it is another");
    }
}
