//! HTTP to programs of this host: no TLS, no proxy on the way.

use std::sync::Arc;

use reqwest::ClientBuilder;

/// A client to be, for whoever listens on this host.
pub fn client() -> ClientBuilder {
    reqwest::Client::builder().no_proxy().tls_backend_preconfigured(no_tls())
}

/// Nobody speaks TLS to one's own host; a client wants to know how all the same.
fn no_tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows them")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}
