use std::sync::Arc;
use std::sync::atomic::Ordering;

use fluke_model::service::Traffic;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::super::Certificate;
use super::stage::*;

type Made = rcgen::CertifiedKey<rcgen::KeyPair>;

fn made(domain: &str) -> Made {
    rcgen::generate_simple_self_signed([domain.to_owned()]).expect("a certificate")
}

/// Trusts one certificate, and nothing else.
pub(super) fn trusting(certificate: &CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    config.expect("versions").with_root_certificates(roots).with_no_client_auth()
}

/// A connection to `domain` at a port of the proxy, if the certificate is one that is trusted.
pub(super) async fn connect(
    stage: &Stage,
    port: u16,
    domain: &str,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let config = trusting(trusted);
    let name = ServerName::try_from(domain.to_owned()).expect("a name");
    let stream = TcpStream::connect(stage.at(port)).await?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

#[tokio::test]
async fn a_certificate_that_is_given_is_served_and_so_is_the_next_one() {
    let (first, second) = (made("a.example.com"), made("a.example.com"));
    let write = |folder: &std::path::Path, made: &Made| {
        let [cert_file, key_file] = ["a.crt", "a.key"].map(|name| folder.join(name));
        std::fs::write(&cert_file, made.cert.pem()).expect("room");
        std::fs::write(&key_file, made.signing_key.serialize_pem()).expect("room");
        Certificate { cert_file, key_file }
    };
    let stage = Stage::with(|settings, folder| {
        settings.certificates = vec![write(folder, &first)];
    });
    let Some(mut stage) = stage else { return };
    let web = Container::http(LOCAL, "web").await;
    let routes = table([("web", http("a.example.com"), &[&web])]);
    stage.routes(&routes).await;

    let mut stream =
        connect(&stage, SECURE, "a.example.com", first.cert.der()).await.expect("trusted");
    let request = b"GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.expect("sent");
    let mut answer = String::new();
    // Some close the connection without a farewell.
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("web"), "{answer}");

    let client = client();
    let plain = client.get(format!("http://{}/x?y=z", stage.at(WEB)));
    let answer = plain.header("Host", "a.example.com").send().await.expect("an answer");
    let location = answer.headers()["Location"].to_str().expect("text");
    assert_eq!(location, format!("https://a.example.com:{SECURE}/x?y=z"));

    write(stage.folder.path(), &second);
    assert_eq!(stage.drift(&routes).await, "the files of Traefik are not as they should be");
    stage.routes(&routes).await;
    connect(&stage, SECURE, "a.example.com", second.cert.der()).await.expect("the next one");
    assert!(connect(&stage, SECURE, "a.example.com", first.cert.der()).await.is_err());
    assert_eq!(stage.proxy.supervisor.started, 1, "all without a restart");
}

#[tokio::test]
async fn tls_is_passed_through_by_its_name_to_whoever_has_the_key() {
    let Some(mut stage) = Stage::new() else { return };
    let (mail, chat) = (made("mail.example.com"), made("chat.example.com"));
    let container = async |made: &Made, name: &'static str| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let key = made.signing_key.serialize_der().try_into().expect("a key");
        let config = config.expect("versions").with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).expect("a pair");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Container::serving(LOCAL, move |stream, served| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                served.fetch_add(1, Ordering::Relaxed);
                let _ = stream.write_all(name.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    };
    let (mails, chats) = (container(&mail, "mail").await, container(&chat, "chat").await);
    let named = |domain: &str| Traffic::Tcp { external: Some(18993), domain: Some(domain.into()) };
    let routes = table([
        ("mail", named("mail.example.com"), &[&mails]),
        ("chat", named("chat.example.com"), &[&chats]),
    ]);
    stage.routes(&routes).await;
    for (made, domain, name) in
        [(&mail, "mail.example.com", "mail"), (&chat, "chat.example.com", "chat")]
    {
        let mut stream = connect(&stage, 18993, domain, made.cert.der()).await.expect("trusted");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an end");
        assert_eq!(text, name);
    }
    let stranger = connect(&stage, 18993, "other.example.com", mail.cert.der()).await;
    assert!(stranger.is_err(), "nobody has that name");
    assert_eq!((mails.served(), chats.served()), (1, 1));
}
