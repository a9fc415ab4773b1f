//! What did not work out is left alone for a while, and for longer each time. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluke_model::gather::Gather;

use super::plan::Setback;

/// After the first failure.
const FIRST: Duration = Duration::from_secs(1);
/// However often it failed.
const LONGEST: Duration = Duration::from_secs(600);
/// What nobody answered for so often in a row did not work out.
const OFTEN: u32 = 3;
/// What went well for so long did go well.
const STEADY: Duration = Duration::from_secs(10);

/// What did not work out, by what it was about.
#[derive(Debug)]
pub struct Setbacks<K: Ord> {
    marks: BTreeMap<K, Setback>,
    streaks: BTreeMap<K, Streak>,
}

#[derive(Debug, Clone, Copy)]
struct Streak {
    length: u32,
    /// When the pause after the last one ends.
    until: Instant,
    /// Since when it is known to be well.
    well: Option<Instant>,
}

impl Streak {
    fn new(now: Instant) -> Self {
        Self { length: 0, until: now, well: None }
    }
}

impl<K: Ord> Default for Setbacks<K> {
    fn default() -> Self {
        Self { marks: BTreeMap::new(), streaks: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Setbacks<K> {
    /// All of them; those whose time is over as well.
    pub fn marks(&self) -> &BTreeMap<K, Setback> {
        &self.marks
    }

    /// Whether it may be tried.
    pub fn is_due(&self, of: &K, now: Instant) -> bool {
        self.marks.get(of).is_none_or(|setback| setback.until <= now)
    }

    /// It failed: it is left alone from now on. What is for somebody to say still is.
    pub fn failed(&mut self, of: K, why: String, now: Instant) {
        let length = self.lengthen(&of, now);
        let is_final = self.marks.get(&of).is_some_and(|setback| setback.is_final);
        self.pause(of, Setback { is_final, ..Setback::new(why, now) }, length);
    }

    /// It was tried for as long as it may be, which was no steady time, and did not work out.
    pub fn gave_up(&mut self, of: K, why: String, now: Instant) {
        self.did_not_last(&of, now);
        self.failed(of, why, now);
    }

    /// The same, and to try it again is for somebody to say.
    pub fn gave_up_for_good(&mut self, of: K, why: String, now: Instant) {
        self.gave_up(of.clone(), why, now);
        if let Some(setback) = self.marks.get_mut(&of) {
            setback.is_final = true;
        }
    }

    /// Nobody answered whether it was done, which is no word on what it was about; unless it happens
    /// often in a row. However long that took was no steady time.
    pub fn was_unheard(&mut self, of: K, why: String, now: Instant) {
        self.gave_up(of.clone(), why, now);
        let is_often = self.streaks.get(&of).is_some_and(|streak| streak.length >= OFTEN);
        if let Some(setback) = self.marks.get_mut(&of) {
            setback.is_unheard = !is_often;
        }
    }

    /// What was given up for good, and why.
    pub fn given_up(&self) -> BTreeMap<K, String> {
        let is_final = self.marks.iter().filter(|(_, setback)| setback.is_final);
        is_final.map(|(of, setback)| (of.clone(), setback.why.clone())).gather()
    }

    /// It is well now. After a while, what was before does not count any more.
    pub fn is_well(&mut self, of: &K, now: Instant) {
        let Some(streak) = self.streaks.get_mut(of) else { return };
        let since = *streak.well.get_or_insert(now);
        if now.saturating_duration_since(since) > STEADY {
            self.marks.remove(of);
            self.streaks.remove(of);
        }
    }

    /// It has to be done again. However long ago it was done, that was no steady time.
    pub fn did_not_last(&mut self, of: &K, now: Instant) {
        if let Some(streak) = self.streaks.get_mut(of) {
            streak.until = now;
        }
    }

    /// It was done. Whatever has to be done again and again gets pauses in between, but for the
    /// first time.
    pub fn done(&mut self, of: K, now: Instant) {
        match self.lengthen(&of, now) {
            1 => drop(self.marks.remove(&of)),
            length => {
                let why = format!("it does not stay up: it was started {length} times in a row");
                let setback = Setback { is_restless: true, ..Setback::new(why, now) };
                self.pause(of, setback, length - 1);
            }
        }
    }

    /// Tries this one at once.
    pub fn forget(&mut self, of: &K) {
        self.marks.remove(of);
        self.streaks.remove(of);
    }

    /// Tries everything at once, but for what it is for somebody to say.
    pub fn forgive(&mut self) {
        self.marks.retain(|_, setback| setback.is_final);
        self.streaks.retain(|of, _| self.marks.contains_key(of));
    }

    /// Tries everything at once.
    pub fn forget_all(&mut self) {
        self.marks.clear();
        self.streaks.clear();
    }

    /// Forgets all but those.
    pub fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.marks.retain(|of, _| keep(of));
        self.streaks.retain(|of, _| keep(of));
    }

    /// Forgets those that make no difference any more: the next failure is the first again.
    pub fn forget_past(&mut self, now: Instant) {
        self.streaks.retain(|_, it| now.saturating_duration_since(it.until) <= STEADY);
        self.marks.retain(|of, _| self.streaks.contains_key(of));
    }

    fn lengthen(&mut self, of: &K, now: Instant) -> u32 {
        let streak = self.streaks.entry(of.clone()).or_insert(Streak::new(now));
        if now.saturating_duration_since(streak.until) > STEADY {
            streak.length = 0;
        }
        streak.length = streak.length.saturating_add(1);
        (streak.until, streak.well) = (now, None);
        streak.length
    }

    /// Lengthens a setback of this moment by the pause that is due.
    fn pause(&mut self, of: K, mut setback: Setback, length: u32) {
        let doubled = FIRST.saturating_mul(2_u32.saturating_pow(length.saturating_sub(1)));
        setback.until += doubled.min(LONGEST);
        if let Some(streak) = self.streaks.get_mut(&of) {
            streak.until = setback.until;
        }
        self.marks.insert(of, setback);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(mut each: impl FnMut(&mut Setbacks<u8>, Instant), times: usize) -> Vec<u64> {
        let (mut setbacks, mut now) = (Setbacks::default(), Instant::now());
        let mut found = Vec::new();
        for _ in 0..times {
            each(&mut setbacks, now);
            let until = setbacks.marks().get(&1).map_or(now, |setback| setback.until);
            assert!(setbacks.is_due(&1, until));
            found.push((until - now).as_secs());
            now = until;
        }
        found
    }

    #[test]
    fn pauses_grow_with_every_failure_up_to_a_bound() {
        let failed = pauses(|it, now| it.failed(1, "so".into(), now), 12);
        assert_eq!(failed, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
    }

    #[test]
    fn what_does_not_stay_up_is_started_at_once_the_first_time() {
        assert_eq!(pauses(|it, now| it.done(1, now), 5), [0, 1, 2, 4, 8]);
    }

    #[test]
    fn what_is_given_up_each_time_after_long_gets_longer_pauses_all_the_same() {
        let (mut setbacks, mut now) = (Setbacks::default(), Instant::now());
        let mut found = Vec::new();
        for _ in 0..4 {
            setbacks.done(1, now);
            now += Duration::from_secs(60);
            setbacks.gave_up(1, "so".into(), now);
            let until = setbacks.marks()[&1].until;
            found.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(found, [2, 8, 32, 128]);
    }

    #[test]
    fn what_has_to_be_started_again_and_again_gets_pauses_however_long_it_ran() {
        let (mut setbacks, mut now) = (Setbacks::default(), Instant::now());
        let mut found = Vec::new();
        for _ in 0..5 {
            setbacks.did_not_last(&1, now);
            setbacks.done(1, now);
            let until = setbacks.marks().get(&1).map_or(now, |setback| setback.until);
            found.push((until - now).as_secs());
            now += Duration::from_secs(60);
        }
        assert_eq!(found, [0, 1, 2, 4, 8]);
    }

    #[test]
    fn what_nobody_answers_counts_as_a_failure_when_it_happens_often_in_a_row() {
        let (mut setbacks, mut now) = (Setbacks::default(), Instant::now());
        let mut unheard = |setbacks: &mut Setbacks<u8>| {
            // As long as Podman has for it.
            now += Duration::from_secs(60);
            setbacks.was_unheard(1, "so".into(), now);
            setbacks.marks()[&1].is_unheard
        };
        assert_eq!([(); 4].map(|()| unheard(&mut setbacks)), [true, true, false, false]);
        setbacks.forget(&1);
        assert!(unheard(&mut setbacks));
        setbacks.failed(1, "no".into(), Instant::now());
        assert!(!setbacks.marks()[&1].is_unheard, "that is an answer");
    }

    #[test]
    fn what_was_given_up_for_good_is_not_forgiven_before_somebody_says_so() {
        let (mut setbacks, now) = (Setbacks::default(), Instant::now());
        setbacks.failed(1, "so".into(), now);
        setbacks.gave_up_for_good(2, "so".into(), now);
        setbacks.was_unheard(2, "Podman does not answer".into(), now);
        setbacks.failed(2, "no".into(), now);
        setbacks.forgive();
        assert_eq!(setbacks.marks().keys().collect::<Vec<_>>(), [&2]);
        setbacks.forget(&2);
        assert!(setbacks.marks().is_empty());
    }

    #[test]
    fn what_was_well_for_a_while_begins_anew() {
        let (mut setbacks, now) = (Setbacks::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        for seconds in [0, 1, 2] {
            setbacks.done(1, at(seconds));
        }
        assert!(!setbacks.is_due(&1, at(3)));
        setbacks.is_well(&1, at(3));
        setbacks.is_well(&1, at(14));
        setbacks.did_not_last(&1, at(15));
        setbacks.done(1, at(15));
        assert!(setbacks.is_due(&1, at(15)));
    }

    #[test]
    fn what_stayed_up_for_a_while_begins_anew() {
        let (mut setbacks, now) = (Setbacks::default(), Instant::now());
        for seconds in [0, 1, 3] {
            setbacks.done(1, now + Duration::from_secs(seconds));
        }
        assert!(!setbacks.is_due(&1, now + Duration::from_secs(4)));
        setbacks.done(1, now + Duration::from_secs(30));
        assert!(setbacks.is_due(&1, now + Duration::from_secs(30)));
    }
}
