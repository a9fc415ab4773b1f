//! A CA and the certificates it gives out.

use std::sync::Arc;

use fluke_model::id::Hash256;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

pub(super) struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a CA"))
    }

    pub(super) fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    pub(super) fn fingerprint(&self) -> Hash256 {
        Hash256::of(self.0.der())
    }

    /// A server's configuration with a certificate for `names`, and the CA sent along.
    pub(super) fn server_for(&self, names: &[&str]) -> ServerConfig {
        self.serve(params(names))
    }

    pub(super) fn expired_server_for(&self, names: &[&str]) -> ServerConfig {
        let mut params = params(names);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.serve(params)
    }

    pub(super) fn early_server_for(&self, names: &[&str]) -> ServerConfig {
        let mut params = params(names);
        params.not_before = date_time_ymd(4000, 1, 1);
        self.serve(params)
    }

    fn serve(&self, params: CertificateParams) -> ServerConfig {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("signed");
        server(vec![certificate.der().clone(), self.0.der().clone()], &key)
    }

    /// A certificate of somebody else, with this CA's certificate put beside it.
    pub(super) fn impostor_for(&self, names: &[&str]) -> ServerConfig {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(names).self_signed(&key).expect("signed");
        server(vec![certificate.der().clone(), self.0.der().clone()], &key)
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("names")
}

fn server(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> ServerConfig {
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate and its key");
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}
