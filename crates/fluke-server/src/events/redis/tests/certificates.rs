//! Certificates for a Redis that speaks TLS.

use std::path::PathBuf;

use tempfile::TempDir;

/// A CA, and a certificate of it for 127.0.0.1.
pub(crate) struct Certificates {
    folder: TempDir,
}

impl Certificates {
    pub(crate) fn make() -> Self {
        let made = Self { folder: tempfile::tempdir().expect("a folder") };
        let ca_key = rcgen::KeyPair::generate().expect("a key");
        let mut ca = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        ca.distinguished_name
            .push(rcgen::DnType::CommonName, format!("CA {:?}", made.folder.path()));
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_certificate = ca.self_signed(&ca_key).expect("a certificate");
        let ca = rcgen::Issuer::from_params(&ca, &ca_key);
        let key = rcgen::KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_string()];
        let certificate = rcgen::CertificateParams::new(names).expect("a name");
        let certificate = certificate.signed_by(&key, &ca).expect("a certificate");
        std::fs::write(made.ca_file(), ca_certificate.pem()).expect("a file");
        std::fs::write(made.cert_file(), certificate.pem()).expect("a file");
        std::fs::write(made.key_file(), key.serialize_pem()).expect("a file");
        made
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub(crate) fn cert_file(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }
}
