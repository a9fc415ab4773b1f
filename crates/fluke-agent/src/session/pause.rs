//! How long to wait before the next attempt: longer each time, and never all agents at once.

use std::time::Duration;

/// While the server is away. The longest is what a fleet takes to be back after an outage: short
/// enough for people who wait for it, long enough to spread thousands.
const AWAY: Bounds = Bounds { first: Duration::from_millis(250), longest: Duration::from_secs(4) };
/// While it says no.
const REFUSED: Bounds = Bounds { first: Duration::from_secs(2), longest: Duration::from_secs(60) };

struct Bounds {
    first: Duration,
    longest: Duration,
}

impl Bounds {
    /// Anything between nothing and `first`, doubled for each attempt, up to `longest`.
    fn pause(&self, attempt: u32, random: u64) -> Duration {
        let ceiling = self.first.saturating_mul(1 << attempt.min(16)).min(self.longest);
        ceiling.mul_f64(random as f64 / u64::MAX as f64)
    }
}

/// The pauses of one streak of failures.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    attempts: u32,
    at_once: bool,
}

impl Pauses {
    /// All is well again.
    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }

    /// The next pause is none, if all was well before.
    pub(super) fn at_once(&mut self) {
        self.at_once = self.attempts == 0;
    }

    /// How long to wait now, by chance.
    pub(super) fn next(&mut self, refused: bool, random: u64) -> Duration {
        let attempt = self.attempts;
        self.attempts = attempt.saturating_add(1);
        if std::mem::take(&mut self.at_once) {
            return Duration::ZERO;
        }
        let bounds = if refused { REFUSED } else { AWAY };
        bounds.pause(attempt, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let longest = |bounds: &Bounds| -> Vec<u128> {
            (0..9).map(|attempt| bounds.pause(attempt, u64::MAX).as_millis()).collect()
        };
        let away = [250, 500, 1_000, 2_000, 4_000, 4_000, 4_000, 4_000, 4_000];
        assert_eq!(longest(&AWAY), away);
        let refused = [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000];
        assert_eq!(longest(&REFUSED), refused);
        assert_eq!(AWAY.pause(u32::MAX, u64::MAX), AWAY.longest);
    }

    #[test]
    fn any_part_of_a_pause_is_as_likely_as_any_other() {
        assert_eq!(AWAY.pause(2, 0), Duration::ZERO);
        assert_eq!(AWAY.pause(2, u64::MAX / 2).as_millis(), 500);
    }

    #[test]
    fn after_a_restart_the_first_attempt_is_at_once_and_only_that() {
        let mut pauses = Pauses::default();
        pauses.at_once();
        assert_eq!(pauses.next(false, u64::MAX), Duration::ZERO);
        pauses.at_once();
        assert!(!pauses.at_once, "a server that restarts all the time is not well");
        pauses.reset();
        pauses.at_once();
        assert_eq!(pauses.next(false, u64::MAX), Duration::ZERO);
    }
}
