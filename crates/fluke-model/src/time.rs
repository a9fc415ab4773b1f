//! Points in time, as values. Nothing here reads a clock.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970, shown as RFC 3339 in UTC.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("format" = "date-time"))]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The same point on the system's time line.
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }

    /// How much later `self` is than `earlier`; zero if it is not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The point that lies `pause` later.
    pub fn after(self, pause: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(pause.as_millis().try_into().unwrap_or(u64::MAX)))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(since.as_millis().try_into().unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The largest instant RFC 3339 can spell; a peer may send anything.
        const LAST: u64 = 253_402_300_799_999;
        let shown = Timestamp(self.0.min(LAST)).to_system_time();
        f.pad(&humantime::format_rfc3339_millis(shown).to_string())
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> String {
        time.to_string()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = humantime::TimestampError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        humantime::parse_rfc3339(&text).map(Timestamp::from)
    }
}

/// A setting as manifests write it, with all its digits: `1500ms`, `10s`, `1h30m`.
pub fn as_written(milliseconds: u64) -> String {
    if milliseconds == 0 || !milliseconds.is_multiple_of(1_000) {
        return format!("{milliseconds}ms");
    }
    let seconds = milliseconds / 1_000;
    let parts = [(seconds / 3_600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    parts.map(|(number, unit)| format!("{number}{unit}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_read_back_what_they_print() {
        let time = Timestamp(1_767_323_045_006);
        assert_eq!(time.to_string(), "2026-01-02T03:04:05.006Z");
        assert_eq!(Timestamp::try_from(time.to_string()).expect("parses"), time);
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn settings_keep_all_their_digits() {
        for (milliseconds, told) in [
            (0, "0ms"),
            (1_500, "1500ms"),
            (10_000, "10s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (5_405_000, "1h30m5s"),
        ] {
            assert_eq!(as_written(milliseconds), told);
        }
    }
}
