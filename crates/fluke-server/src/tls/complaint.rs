//! What to say of a client that TLS was not to be spoken with: plainly, and not too often.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::{AlertDescription, PeerIncompatible};

/// How long one address is not told of again for the same reason.
const QUIET: Duration = Duration::from_secs(60);
/// How many addresses are told apart.
const REMEMBERED: usize = 1024;

/// What is wrong with a client, in words that say what to do about it.
pub(super) fn explain(error: &io::Error) -> Option<&'static str> {
    use AlertDescription as Alert;
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())?;
    Some(match tls {
        rustls::Error::AlertReceived(alert) => match alert {
            Alert::UnknownCA => {
                "the client does not trust the CA of this server's certificate; give an agent \
                 `ca_file` or `--ca-fingerprint`, the command line FLUKE_CA_FILE"
            }
            Alert::CertificateUnknown => {
                "the client does not accept this server's certificate; an agent may have the \
                 fingerprint of another CA"
            }
            Alert::BadCertificate => {
                "the client calls this server by a name that is not in its certificate, or the \
                 certificate is no good to it"
            }
            Alert::CertificateExpired => {
                "this server's certificate is expired or not valid yet by the client's clock"
            }
            _ => return None,
        },
        rustls::Error::PeerIncompatible(
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::SupportedVersionsExtensionRequired,
        ) => "the client speaks neither TLS 1.2 nor TLS 1.3; nothing older is spoken here",
        rustls::Error::NoApplicationProtocol => {
            "the client does not speak HTTP/2; is it a browser or a web client at the port for \
             agents? Web clients use `listen_http`"
        }
        _ => return None,
    })
}

/// Whether the client only came and went, as those do that look whether a port is open.
pub(super) fn is_of_no_interest(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Which complaints were made of late.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<HashMap<(IpAddr, String), Instant>>);

impl Complaints {
    /// Whether it is time to say this of that address (again).
    pub(super) fn is_due(&self, from: IpAddr, what: &str, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= REMEMBERED {
            told.retain(|_, at| now.duration_since(*at) < QUIET);
        }
        let key = (from, what.to_string());
        let is_known = told.get(&key).is_some_and(|at| now.duration_since(*at) < QUIET);
        let has_room = told.len() < REMEMBERED || told.contains_key(&key);
        if !is_known && has_room {
            told.insert(key, now);
        }
        !is_known && has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_told_of_once_a_minute_for_each_reason() {
        let complaints = Complaints::default();
        let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let start = Instant::now();
        assert!(complaints.is_due(a, "old", start));
        assert!(!complaints.is_due(a, "old", start + QUIET / 2));
        assert!(complaints.is_due(a, "new", start));
        assert!(complaints.is_due(b, "old", start));
        assert!(complaints.is_due(a, "old", start + QUIET));
    }

    #[test]
    fn a_flood_of_addresses_fills_neither_memory_nor_log() {
        let complaints = Complaints::default();
        let now = Instant::now();
        let due = (0..10_000u32).filter(|n| complaints.is_due(IpAddr::V4((*n).into()), "x", now));
        assert_eq!(due.count(), REMEMBERED);
        assert!(complaints.is_due([1, 1, 1, 1].into(), "x", now + QUIET), "room again");
    }
}
