//! When what has changed is told again: the first change at once, then the latest state at most
//! once in a while. Pure: the time is an argument.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The least time between two states of one thing.
const PAUSE: Duration = Duration::from_millis(100);
/// What is large is told less often: so many bytes of it in a second.
const BYTES_A_SECOND: usize = 512 << 10;

/// Things that were told of a moment ago, and may have changed again since.
#[derive(Debug)]
pub struct Pace<Topic> {
    /// Whether each has changed since it was told.
    resting: HashMap<Topic, bool>,
    /// When each may be told again.
    ends: BinaryHeap<Reverse<(Instant, Topic)>>,
}

impl<Topic: Clone + Eq + Hash + Ord> Default for Pace<Topic> {
    fn default() -> Self {
        Self { resting: HashMap::new(), ends: BinaryHeap::new() }
    }
}

impl<Topic: Clone + Eq + Hash + Ord> Pace<Topic> {
    /// Notes a change; says whether it is to be told now, or kept for later.
    pub fn is_due(&mut self, topic: &Topic) -> bool {
        match self.resting.get_mut(topic) {
            Some(changed) => {
                *changed = true;
                false
            }
            None => true,
        }
    }

    /// Notes that a thing was told, in so many bytes.
    pub fn told(&mut self, topic: Topic, bytes: usize, now: Instant) {
        let share = bytes as f64 / BYTES_A_SECOND as f64;
        let pause = PAUSE.max(Duration::from_secs_f64(share));
        self.resting.insert(topic.clone(), false);
        self.ends.push(Reverse((now + pause, topic)));
    }

    /// What changed while it rested and may be told again.
    pub fn rested(&mut self, now: Instant) -> Vec<Topic> {
        let mut due = Vec::new();
        while let Some(Reverse((end, _))) = self.ends.peek()
            && *end <= now
            && let Some(Reverse((_, topic))) = self.ends.pop()
        {
            if self.resting.remove(&topic).unwrap_or_default() {
                due.push(topic);
            }
        }
        due
    }

    /// When to ask again what has rested.
    pub fn next(&self) -> Option<Instant> {
        self.ends.peek().map(|Reverse((end, _))| *end)
    }

    /// Forgets everything: nobody is told any more.
    pub fn clear(&mut self) {
        self.resting.clear();
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Changes at these times of one topic; when it is told.
    fn told_at(changes: &[u64], bytes: usize) -> Vec<u64> {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::default();
        let mut told = Vec::new();
        for millis in 0..2000 {
            let now = at(millis);
            let mut due: BTreeSet<_> = pace.rested(now).into_iter().collect();
            if changes.contains(&millis) && pace.is_due(&"web") {
                due.insert("web");
            }
            for topic in due {
                told.push(millis);
                pace.told(topic, bytes, now);
            }
        }
        assert!(pace.next().is_none(), "it comes to rest");
        told
    }

    #[test]
    fn the_first_change_is_told_at_once_and_the_last_one_always() {
        for (changes, told) in [
            (&[][..], &[][..]),
            (&[5][..], &[5][..]),
            (&[5, 6, 7, 50][..], &[5, 105][..]),
            (&[5, 105][..], &[5, 105][..]),
            (&[5, 106][..], &[5, 106][..]),
            (&[5, 6, 110, 120, 204][..], &[5, 105, 205][..]),
        ] {
            assert_eq!(told_at(changes, 100), told, "{changes:?}");
        }
        let busy: Vec<u64> = (0..500).collect();
        assert_eq!(told_at(&busy, 100), [0, 100, 200, 300, 400, 500]);
    }

    #[test]
    fn what_is_large_is_told_less_often() {
        assert_eq!(told_at(&[0, 10, 20], BYTES_A_SECOND / 2), [0, 500]);
    }
}
