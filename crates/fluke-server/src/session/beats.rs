//! When the server says that it is here. Pure: the time is an argument.
//!
//! Whatever is said says so. An agent's heartbeat is answered at once, so that the two of them are
//! one wake-up and not two; the server's own goes out where an agent's is late.

use std::time::Duration;

use tokio::time::Instant;

/// This part of a heartbeat is what an agent's may be late.
const LATE: u32 = 4;

/// What was said when, and when something is due.
#[derive(Debug)]
pub(super) struct Beats {
    every: Duration,
    said: Instant,
    due: Instant,
}

impl Beats {
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        let mut beats = Self { every, said: now, due: now };
        beats.said(now);
        beats
    }

    /// When to say that the server is here.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// The agent was told something.
    pub(super) fn said(&mut self, now: Instant) {
        (self.said, self.due) = (now, now + self.every + self.every / LATE);
    }

    /// The agent said that it is here.
    pub(super) fn heard(&mut self, now: Instant) {
        if now - self.said > self.every / 2 {
            self.due = now;
        }
    }

    /// Somebody wants to know whether the agent is still there.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.due = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(16);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_agent_s_heartbeat_is_answered_at_once_unless_it_was_told_something_just_now() {
        let start = Instant::now();
        for (heard, due) in [(1, 20), (8, 20), (9, 9), (16, 16), (19, 19)] {
            let mut beats = Beats::new(EVERY, start);
            beats.heard(start + seconds(heard));
            assert_eq!(beats.due(), start + seconds(due), "heard after {heard} s");
        }
    }

    #[test]
    fn a_silent_agent_is_told_well_before_three_heartbeats_are_missed() {
        let start = Instant::now();
        let mut beats = Beats::new(EVERY, start);
        assert_eq!(beats.due(), start + seconds(20));
        beats.said(start + seconds(5));
        assert_eq!(beats.due(), start + seconds(25), "whatever is said says that it is here");
        beats.hurry(start + seconds(6));
        assert_eq!(beats.due(), start + seconds(6));
    }
}
