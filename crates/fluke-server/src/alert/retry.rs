//! Whether and when an alert is tried again: functions over values.

use std::time::{Duration, SystemTime};

use http::StatusCode;

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// The receiver answered.
    Answered {
        /// With this.
        status: StatusCode,
        /// And this `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// There was no answer, and why.
    NoAnswer(String),
}

/// What follows from a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done.
    Delivered,
    /// Try again, not before this.
    Retry {
        /// As the receiver asked.
        not_before: Option<Duration>,
        /// For people.
        reason: String,
    },
    /// No further try will go better.
    GiveUp {
        /// For people.
        reason: String,
    },
}

/// How long to wait between tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// After the first failure; doubles with each further one.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// The longest pause that a receiver may ask for.
    pub longest_asked: Duration,
    /// An alert that is older is not tried again.
    pub give_up_after: Duration,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
            longest_asked: Duration::from_secs(600),
            give_up_after: Duration::from_secs(24 * 3600),
        }
    }
}

/// Tells what a try means.
pub fn judge(attempt: Attempt) -> Verdict {
    match attempt {
        Attempt::NoAnswer(reason) => Verdict::Retry { not_before: None, reason },
        Attempt::Answered { status, .. } if status.is_success() => Verdict::Delivered,
        Attempt::Answered { status, retry_after } if may_pass(status) => Verdict::Retry {
            not_before: retry_after,
            reason: format!("the receiver answered {status}"),
        },
        Attempt::Answered { status, .. } if status.is_redirection() => Verdict::GiveUp {
            reason: format!(
                "the receiver answered {status}; redirects are not followed, so set \
                 alert_webhook to the final address"
            ),
        },
        Attempt::Answered { status, .. } => Verdict::GiveUp {
            reason: format!("the receiver answered {status}; check alert_webhook and the receiver"),
        },
    }
}

fn may_pass(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}

impl Schedule {
    /// How long to wait after the `failures`th failure in a row; `jitter` is within 0 and 1.
    pub fn pause(&self, failures: u32, not_before: Option<Duration>, jitter: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let full = self.first.saturating_mul(1 << doublings).min(self.longest);
        let pause = full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0);
        pause.max(not_before.unwrap_or_default().min(self.longest_asked))
    }
}

/// Reads `Retry-After`: seconds, or a date.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn every_answer_means_one_thing() {
        for (status, retried, given_up) in [
            (200, false, false),
            (204, false, false),
            (302, false, true),
            (400, false, true),
            (401, false, true),
            (404, false, true),
            (408, true, false),
            (410, false, true),
            (429, true, false),
            (500, true, false),
            (503, true, false),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            let verdict = judge(Attempt::Answered { status, retry_after: None });
            assert_eq!(matches!(verdict, Verdict::Retry { .. }), retried, "{status}");
            assert_eq!(matches!(verdict, Verdict::GiveUp { .. }), given_up, "{status}");
        }
        let silence = judge(Attempt::NoAnswer("connection refused".into()));
        assert!(matches!(silence, Verdict::Retry { .. }));
    }

    #[test]
    fn pauses_double_from_a_second_to_a_minute_and_half_of_each_is_chance() {
        let schedule = Schedule::default();
        let seconds = |jitter| -> Vec<f64> {
            (1..9).map(|n| schedule.pause(n, None, jitter).as_secs_f64()).collect()
        };
        assert_eq!(seconds(1.0), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(seconds(0.0), [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(schedule.pause(u32::MAX, None, 1.0), schedule.longest);
    }

    #[test]
    fn a_receiver_may_ask_for_a_pause_but_not_for_any() {
        let schedule = Schedule::default();
        let asked = |seconds| schedule.pause(1, Some(Duration::from_secs(seconds)), 1.0).as_secs();
        assert_eq!([asked(0), asked(30), asked(600), asked(100_000)], [1, 30, 600, 600]);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 20);
        for (value, seconds) in [
            ("120", Some(120)),
            (" 3 ", Some(3)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(20)),
            ("Sun, 06 Nov 1993 08:49:37 GMT", None),
            ("soon", None),
            ("-1", None),
            ("99999999999999999999999", None),
        ] {
            let read = retry_after(value, now).map(|pause| pause.as_secs());
            assert_eq!(read.filter(|&s| s > 0), seconds, "{value}");
        }
    }
}
