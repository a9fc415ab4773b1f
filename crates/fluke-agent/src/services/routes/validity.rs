//! For how long a certificate is good. Pure.

use std::time::Duration;

use fluke_model::time::Timestamp;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// From when to when a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    from: Timestamp,
    until: Timestamp,
}

impl Validity {
    /// Of the first certificate in a PEM text, if that can be told.
    pub fn of_pem(text: &[u8]) -> Option<Self> {
        let first = CertificateDer::pem_slice_iter(text).next()?.ok()?;
        let parsed = ParsedCertificate::try_from(&first).ok()?;
        // Whoever verifies one looks first whether it is the time for it, and says when that is.
        let judged = |at: Duration| {
            let at = UnixTime::since_unix_epoch(at);
            let nobody = RootCertStore::empty();
            verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], at, &[])
        };
        let from = match judged(Duration::ZERO) {
            Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
                not_before,
                ..
            })) => stamp(not_before),
            _ => Timestamp::default(),
        };
        match judged(Duration::MAX) {
            Err(Error::InvalidCertificate(CertificateError::ExpiredContext {
                not_after, ..
            })) => Some(Self { from, until: stamp(not_after) }),
            _ => None,
        }
    }

    /// When it ends, in words, if it has or is about to: in less than `least`, or than a third of its
    /// time if that is shorter, as with those that are meant to last for a week.
    pub fn end(self, least: Duration, now: Timestamp) -> Option<String> {
        let least = least.min(self.until.since(self.from) / 3);
        let verb = if self.until < now { "ended" } else { "ends" };
        let words = || format!("{verb} on {:.10}", self.until.to_string());
        (self.until.since(now) < least).then(words)
    }
}

fn stamp(time: UnixTime) -> Timestamp {
    Timestamp(time.as_secs().saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    fn pem(from: (i32, u8, u8), until: (i32, u8, u8)) -> String {
        let mut params = CertificateParams::new(["a.example.com".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").pem()
    }

    fn day(text: &str) -> Timestamp {
        format!("{text}T00:00:00Z").try_into().expect("a day")
    }

    #[test]
    fn a_certificate_says_from_when_to_when_it_is_good() {
        let known = |from, until| Validity::of_pem(pem(from, until).as_bytes());
        let [from, until] = ["2026-11-01", "2027-01-30"].map(day);
        assert_eq!(known((2026, 11, 1), (2027, 1, 30)), Some(Validity { from, until }));
        let [from, until] = ["1970-01-01", "9999-12-31"].map(day);
        assert_eq!(known((1970, 1, 1), (9999, 12, 31)), Some(Validity { from, until }));
        assert_eq!(Validity::of_pem(b"hello"), None);
    }

    #[test]
    fn its_end_is_told_in_time_and_not_too_early_for_one_that_is_meant_to_be_short() {
        let least = Duration::from_secs(20 * DAY);
        let told = |until, now| {
            Validity { from: day("2026-11-01"), until: day(until) }.end(least, day(now))
        };
        let table = [
            ("2027-01-30", "2027-01-10", None),
            ("2027-01-30", "2027-01-11", Some("ends on 2027-01-30")),
            ("2027-01-30", "2027-01-31", Some("ended on 2027-01-30")),
            ("2026-11-07", "2026-11-04", None),
            ("2026-11-07", "2026-11-06", Some("ends on 2026-11-07")),
        ];
        for (until, now, words) in table {
            assert_eq!(told(until, now).as_deref(), words, "{until} on {now}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_in_a_file_is_no_reason_to_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
        ) {
            Validity::of_pem(&bytes);
            let mut text = pem((2026, 1, 1), (2027, 1, 1)).into_bytes();
            let at = at.index(text.len());
            text.splice(at..at, bytes);
            Validity::of_pem(&text);
        }
    }
}
