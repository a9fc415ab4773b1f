//! When a certificate is valid: the one thing in it that nobody else here tells.
//!
//! A reader of just as much DER as it takes to get there. Pure.

use std::time::Duration;

use fluke_model::time::Timestamp;

/// The first and the last moment at which a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

impl Validity {
    /// Reads a certificate in DER; none if it is not one.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let mut certificate = Der(Der(certificate).expect(SEQUENCE)?);
        let mut fields = Der(certificate.expect(SEQUENCE)?);
        if fields.0.first() == Some(&VERSION) {
            fields.next()?;
        }
        // Serial number, signature algorithm, issuer.
        for _ in 0..3 {
            fields.next()?;
        }
        let mut validity = Der(fields.expect(SEQUENCE)?);
        Some(Self { from: time(validity.next()?)?, until: time(validity.next()?)? })
    }

    /// How long it is still good.
    pub(super) fn left(&self, now: Timestamp) -> Duration {
        self.until.since(now)
    }
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// What is left to read.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value's tag and content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, mut rest) = rest.split_first()?;
        let mut length = usize::from(*first);
        if *first >= 0x80 {
            let bytes = usize::from(first & 0x7f);
            if bytes == 0 || bytes > 4 {
                return None;
            }
            let (digits, behind) = rest.split_at_checked(bytes)?;
            length = digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            rest = behind;
        }
        let (content, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some((*tag, content))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time((tag, text): (u8, &[u8])) -> Option<Timestamp> {
    let digits = text.strip_suffix(b"Z")?;
    let number = |part: &[u8]| {
        part.iter().try_fold(0u64, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2])?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4])?, &digits[4..]),
        _ => return None,
    };
    let mut parts = rest.chunks_exact(2).map(number);
    let mut part = || parts.next().flatten();
    let (month, day, hour, minute, second) = (part()?, part()?, part()?, part()?, part()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = ((days_since_1970(year, month, day)? * 24 + hour) * 60 + minute) * 60 + second;
    Some(Timestamp(seconds * 1000))
}

/// Counts years from March, so that the leap day comes last.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month > 2 { year } else { year.checked_sub(1)? };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    Some(days.saturating_sub(719_468))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_as_openssl_prints_them() {
        // date -u -d '…' +%s
        for (tag, text, seconds) in [
            (UTC_TIME, "700101000000Z", 0),
            (UTC_TIME, "261115120000Z", 1_794_744_000),
            (UTC_TIME, "491231235959Z", 2_524_607_999),
            (GENERALIZED_TIME, "20500101000000Z", 2_524_608_000),
            (GENERALIZED_TIME, "20240229123456Z", 1_709_210_096),
            (GENERALIZED_TIME, "21000301000000Z", 4_107_542_400),
            (GENERALIZED_TIME, "99991231235959Z", 253_402_300_799),
        ] {
            assert_eq!(time((tag, text.as_bytes())), Some(Timestamp(seconds * 1000)), "{text}");
        }
        for bad in ["", "Z", "700101000000", "701301000000Z", "7001010000x0Z", "70010100000000Z"] {
            assert_eq!(time((UTC_TIME, bad.as_bytes())), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = Validity::of(&bytes);
        }
    }
}
