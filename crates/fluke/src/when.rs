//! Points in time and durations, as people read them.

use std::time::{Duration, SystemTime};

use fluke_model::time::Timestamp;
pub use fluke_model::time::as_written;

/// The clock of this machine.
pub fn now() -> Timestamp {
    SystemTime::now().into()
}

/// The point that lies `passed` earlier.
pub fn before(now: Timestamp, passed: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(passed.as_millis().try_into().unwrap_or(u64::MAX)))
}

/// `3m ago`, or `in 40s` for what is still to come.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    if then > now {
        let left = then.since(now);
        return if left < Duration::from_secs(1) {
            "now".into()
        } else {
            format!("in {}", coarse(left))
        };
    }
    match now.since(then) {
        recent if recent < Duration::from_secs(1) => "just now".to_string(),
        passed => format!("{} ago", coarse(passed)),
    }
}

/// The whole truth, and what it means: `2026-01-02T03:04:05Z (3m ago)`.
pub fn exactly(then: Timestamp, now: Timestamp) -> String {
    format!("{} ({})", to_the_second(then), ago(then, now))
}

/// RFC 3339, without fractions.
pub fn to_the_second(then: Timestamp) -> String {
    let text = then.to_string();
    match text.split_once('.') {
        Some((whole, _)) => format!("{whole}Z"),
        None => text,
    }
}

/// In the one unit that says enough: `340ms` is `0s`, `90s` is `1m`.
pub fn coarse(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long something took: `340ms`, `1.2s`, `2m03s`.
pub fn took(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds}ms"),
        1_000..60_000 => format!("{}.{}s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => format!("{}m{:02}s", milliseconds / 60_000, milliseconds % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_tell_them() {
        let now = Timestamp(1_767_323_045_006);
        for (milliseconds, told) in [
            (0, "just now"),
            (999, "just now"),
            (1_000, "1s ago"),
            (59_999, "59s ago"),
            (60_000, "1m ago"),
            (3_599_999, "59m ago"),
            (3_600_000, "1h ago"),
            (86_400_000, "1d ago"),
            (40 * 86_400_000, "40d ago"),
        ] {
            assert_eq!(ago(Timestamp(now.0 - milliseconds), now), told);
        }
        assert_eq!(ago(Timestamp(now.0 + 40_000), now), "in 40s");
        assert_eq!(exactly(now, now), "2026-01-02T03:04:05Z (just now)");
    }

    #[test]
    fn durations_have_the_digits_that_matter() {
        for (milliseconds, told) in
            [(0, "0ms"), (340, "340ms"), (1_250, "1.2s"), (59_999, "59.9s"), (123_000, "2m03s")]
        {
            assert_eq!(took(milliseconds), told);
        }
    }
}
