//! What to say of a client that TLS was not to be spoken with.

use std::io;

use rustls::{AlertDescription, PeerIncompatible};

/// What is wrong with a client, in words that say what to do about it.
pub(super) fn explain(error: &io::Error) -> Option<&'static str> {
    use AlertDescription as Alert;
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())?;
    Some(match tls {
        rustls::Error::AlertReceived(alert) => match alert {
            // The second: it knows another CA of the same name.
            Alert::UnknownCA | Alert::DecryptError => {
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
            | PeerIncompatible::SupportedVersionsExtensionRequired
            // Came with TLS 1.2, and has been there since.
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
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
