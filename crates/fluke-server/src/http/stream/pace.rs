//! When what has changed is told: the first change at once, then the latest state at most once in a
//! while. While more changes than those who listen can be told, things wait for their turn, and only
//! what they have become by then is told. Pure: the time is an argument.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::world::Topic;

/// The least time between two states of one thing.
const PAUSE: Duration = Duration::from_millis(100);
/// What is large is told less often: so many bytes of it in a second.
const BYTES_A_SECOND: usize = 512 << 10;
/// However much goes out, something more is told after this.
const LONGEST: Duration = Duration::from_secs(1);

/// Things that wait to be told of, and those that were told of a moment ago.
#[derive(Debug)]
pub struct Pace {
    /// How each of them stands.
    known: HashMap<Topic, Stand>,
    /// Those that wait, in the order of their turns: what there are few of, and all else behind it.
    few: VecDeque<Topic>,
    many: VecDeque<Topic>,
    /// When each that rests may be told again.
    ends: BinaryHeap<Reverse<(Instant, Topic)>>,
    /// How many bytes may go out in a second, to all who listen together.
    rate: f64,
    /// When what goes out already has had its time.
    free: Option<Instant>,
}

/// How a thing stands that has changed, or was told of a moment ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// It waits for its turn.
    Waits,
    /// It was told of a moment ago.
    Rests,
    /// It has changed since.
    RestsChanged,
}

impl Pace {
    /// With so many bytes a second for all who listen together.
    pub fn new(rate: f64) -> Self {
        let (known, few, many, ends) = Default::default();
        Self { known, few, many, ends, rate, free: None }
    }

    /// Notes a change.
    pub fn changed(&mut self, topic: Topic) {
        match self.known.get_mut(&topic) {
            None => self.waits(topic),
            Some(Stand::Waits) => {}
            Some(rests) => *rests = Stand::RestsChanged,
        }
    }

    /// Whose turn it is now; it waits no longer.
    pub fn turn(&mut self, now: Instant) -> Option<Topic> {
        self.wakes(now);
        if self.free.is_some_and(|free| now < free) {
            return None;
        }
        let topic = self.few.pop_front().or_else(|| self.many.pop_front())?;
        self.known.remove(&topic);
        Some(topic)
    }

    /// Notes that a thing was told, in so many bytes.
    pub fn told(&mut self, topic: Topic, bytes: usize, now: Instant) {
        let share = bytes as f64 / BYTES_A_SECOND as f64;
        let pause = PAUSE.max(Duration::from_secs_f64(share));
        self.known.insert(topic.clone(), Stand::Rests);
        self.ends.push(Reverse((now + pause, topic)));
    }

    /// Notes that so many bytes go out, to all who listen together.
    pub fn spent(&mut self, bytes: usize, now: Instant) {
        let began = self.free.map_or(now, |free| free.max(now));
        let end = began + Duration::from_secs_f64(bytes as f64 / self.rate);
        self.free = Some(end.min(now + LONGEST));
    }

    /// When to ask again whose turn it is.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        match self.few.is_empty() && self.many.is_empty() {
            true => self.ends.peek().map(|Reverse((end, _))| *end),
            false => self.free.or(Some(now)),
        }
    }

    /// Forgets everything, as nobody is told any more; gives what was not told.
    pub fn clear(&mut self) -> Vec<Topic> {
        self.few.clear();
        self.many.clear();
        self.ends.clear();
        self.free = None;
        let untold = self.known.drain().filter(|(_, stand)| *stand != Stand::Rests);
        untold.map(|(topic, _)| topic).collect()
    }

    fn waits(&mut self, topic: Topic) {
        self.known.insert(topic.clone(), Stand::Waits);
        let line = if topic.is_one_of_many() { &mut self.many } else { &mut self.few };
        line.push_back(topic);
    }

    /// What has rested may be told again, and waits if it has changed.
    fn wakes(&mut self, now: Instant) {
        while let Some(Reverse((end, _))) = self.ends.peek()
            && *end <= now
            && let Some(Reverse((_, topic))) = self.ends.pop()
        {
            if self.known.remove(&topic) == Some(Stand::RestsChanged) {
                self.waits(topic);
            }
        }
    }
}

#[cfg(test)]
mod tests;
