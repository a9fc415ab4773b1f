//! TLS as an agent speaks it: whom it trusts, and what went wrong if it did not.

use std::fmt;
use std::io;
use std::sync::Arc;

use fluke_model::id::Hash256;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, OtherError,
    RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier as SystemVerifier;

/// Whom an agent trusts to be its server. The default: whom the system trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// Certificates of CAs, as PEM, to trust instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// Trusts anybody. For trying things out.
    pub insecure_skip_verify: bool,
    /// SHA-256 of the one CA certificate to trust, as the server prints it on its first start.
    pub ca_fingerprint: Option<Hash256>,
}

/// What is wrong with TLS, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// The CA file cannot be used.
    #[error("the CA file cannot be used: {0}; it must hold at least one PEM certificate")]
    CaFile(String),
    /// The system's certificates cannot be used.
    #[error(
        "the certificates that this system trusts cannot be used: {0}; give the server's CA with \
         `ca_file`"
    )]
    SystemRoots(String),
    /// No trusted CA signed the server's certificate.
    #[error(
        "its certificate is not signed by a CA that this agent trusts; give the server's CA with \
         `ca_file` or its fingerprint, as the server prints them when it starts"
    )]
    UnknownIssuer,
    /// The pinned CA is not in the chain that the server sent.
    #[error(
        "its certificate chain has no CA with the fingerprint {expected}; if the server's CA was \
         renewed, take the new fingerprint from the server's log, else somebody is in between"
    )]
    NotPinned {
        /// The fingerprint that was given.
        expected: Hash256,
    },
    /// The certificate is for other names.
    #[error(
        "its certificate is not for `{expected}` but for {presented}; use one of those names in \
         `server_url`, or give the server a certificate for this one"
    )]
    WrongName {
        /// The name in the server's address.
        expected: String,
        /// The names in the certificate.
        presented: String,
    },
    /// The certificate's time is over, or has not come, by this host's clock.
    #[error(
        "its certificate is {0} by the clock of this host; set the clock, here or at the server, \
         or renew the certificate"
    )]
    WrongTime(&'static str),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// How a TLS handshake failed.
#[derive(Debug)]
pub(super) enum HandshakeFailure {
    /// The other side does not speak TLS.
    NotTls,
    /// The other side speaks TLS, but no HTTP/2 inside.
    NotHttp2,
    /// The connection broke.
    Broken(io::Error),
    /// Both speak TLS and do not agree.
    Tls(TlsProblem),
}

impl HandshakeFailure {
    pub(super) fn of(error: io::Error) -> Self {
        let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
        else {
            return Self::Broken(error);
        };
        match tls {
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
            | rustls::Error::NoApplicationProtocol => Self::NotHttp2,
            rustls::Error::InvalidCertificate(problem) => Self::Tls(TlsProblem::of(problem)),
            other => Self::Tls(TlsProblem::Other(other.to_string())),
        }
    }
}

impl TlsProblem {
    fn of(problem: &CertificateError) -> Self {
        use CertificateError as Cert;
        match problem {
            // A CA of the same name with another key: that of a server which was set up anew.
            Cert::UnknownIssuer | Cert::BadSignature => Self::UnknownIssuer,
            Cert::NotValidForNameContext { expected, presented } => Self::WrongName {
                expected: expected.to_str().into_owned(),
                presented: if presented.is_empty() {
                    "no name at all".to_owned()
                } else {
                    presented.join(", ")
                },
            },
            Cert::Expired | Cert::ExpiredContext { .. } => Self::WrongTime("expired"),
            Cert::NotValidYet | Cert::NotValidYetContext { .. } => Self::WrongTime("not valid yet"),
            Cert::Other(OtherError(other)) => match other.downcast_ref::<NotPinned>() {
                Some(NotPinned(expected)) => Self::NotPinned { expected: *expected },
                None => Self::Other(format!("its certificate is not valid: {problem}")),
            },
            _ => Self::Other(format!("its certificate is not valid: {problem}")),
        }
    }
}

impl ClientTls {
    /// TLS 1.2 and 1.3, HTTP/2 inside, trust as told.
    pub(super) fn config(&self) -> Result<ClientConfig, TlsProblem> {
        let provider = Arc::new(ring::default_provider());
        let verifier = self.verifier(&provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsProblem::Other(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        // An agent has one connection for as long as it lives, and servers give out no tickets.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsProblem> {
        if self.insecure_skip_verify {
            return Ok(Arc::new(TrustAnybody(provider.clone())));
        }
        match (&self.ca_pem, self.ca_fingerprint) {
            (Some(pem), pin) => {
                let mut certificates = certificates(pem)?;
                if let Some(expected) = pin {
                    certificates.retain(|certificate| fingerprint(certificate) == expected);
                    if certificates.is_empty() {
                        let problem =
                            format!("no certificate in it has the fingerprint {expected}");
                        return Err(TlsProblem::CaFile(problem));
                    }
                }
                let verifier = trusting(&certificates, provider);
                Ok(verifier.map_err(|error| TlsProblem::CaFile(error.to_string()))?)
            }
            (None, Some(pin)) => Ok(Arc::new(TrustPinned { pin, provider: provider.clone() })),
            (None, None) => {
                let verifier = SystemVerifier::new(provider.clone());
                Ok(Arc::new(verifier.map_err(|e| TlsProblem::SystemRoots(e.to_string()))?))
            }
        }
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsProblem::CaFile(error.to_string()))?;
    if certificates.is_empty() {
        return Err(TlsProblem::CaFile("it holds no certificate".to_owned()));
    }
    Ok(certificates)
}

/// The fingerprint of a certificate: SHA-256 over its DER.
fn fingerprint(certificate: &CertificateDer<'_>) -> Hash256 {
    Hash256::of(certificate)
}

/// The usual rules of the web, with these CAs and no others.
fn trusting(
    cas: &[CertificateDer<'_>],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for ca in cas {
        roots.add(ca.clone().into_owned())?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))
}

/// Why a chain was refused: the pinned CA is not in it.
#[derive(Debug)]
struct NotPinned(Hash256);

impl fmt::Display for NotPinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no CA with the fingerprint {}", self.0)
    }
}

impl std::error::Error for NotPinned {}

/// Trusts one CA, which the server itself sends along and whose fingerprint is known.
#[derive(Debug)]
struct TrustPinned {
    pin: Hash256,
    provider: Arc<CryptoProvider>,
}

/// Trusts whoever answers. The handshake's signatures are still checked.
#[derive(Debug)]
struct TrustAnybody(Arc<CryptoProvider>);

macro_rules! check_signatures_with {
    ($provider:tt) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.$provider.signature_verification_algorithms;
            verify_tls12_signature(message, cert, dss, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.$provider.signature_verification_algorithms;
            verify_tls13_signature(message, cert, dss, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.$provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for TrustPinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let ca = intermediates.iter().find(|certificate| fingerprint(certificate) == self.pin);
        let Some(ca) = ca else {
            let other = OtherError(Arc::new(NotPinned(self.pin)));
            return Err(CertificateError::Other(other).into());
        };
        trusting(std::slice::from_ref(ca), &self.provider)?.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )
    }

    check_signatures_with!(provider);
}

impl ServerCertVerifier for TrustAnybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    check_signatures_with!(0);
}
