//! Whom an agent trusts, and what it says when it does not.

use std::net::SocketAddr;
use std::sync::Arc;

use fluke_model::id::Hash256;
use fluke_model::message::ToServer;
use tokio_rustls::TlsAcceptor;

use super::certificates::Ca;
use super::hall::{Hall, hello, listen, target};
use crate::client::{ClientTls, ConnectError, Session, Target, TlsProblem, connect};

async fn join(hall: &Hall, host: &str, tls: ClientTls) -> Result<Session, ConnectError> {
    let url = format!("grpcs://{host}:{}", hall.address.port());
    connect(&Target { tls, ..target(&url) }, hello("web-1")).await
}

fn trusting(ca: &Ca) -> ClientTls {
    ClientTls { ca_pem: Some(ca.pem()), ..ClientTls::default() }
}

fn pinning(fingerprint: Hash256) -> ClientTls {
    ClientTls { ca_fingerprint: Some(fingerprint), ..ClientTls::default() }
}

fn problem(joined: Result<Session, ConnectError>) -> TlsProblem {
    match joined {
        Err(ConnectError::Tls { source, .. }) => source,
        other => panic!("not a question of trust: {other:?}"),
    }
}

#[tokio::test]
async fn a_server_with_a_certificate_of_the_given_ca_is_trusted() {
    let ca = Ca::new("ours");
    let mut hall = Hall::open_tls(ca.server_for(&["localhost", "127.0.0.1"])).await;
    for host in ["localhost", "127.0.0.1"] {
        let session = join(&hall, host, trusting(&ca)).await.expect("trusted");
        let mut guest = hall.next_guest().await;
        session.outgoing.send(ToServer::Heartbeat).await.expect("open");
        assert_eq!(guest.link.incoming.next().await, Ok(Some(ToServer::Heartbeat)));
    }
}

#[tokio::test]
async fn a_server_of_another_ca_is_not_trusted() {
    let ours = Ca::new("ours");
    // Also one that calls itself the same.
    for theirs in [Ca::new("theirs"), Ca::new("ours")] {
        let hall = Hall::open_tls(theirs.server_for(&["localhost"])).await;
        let untrusted = problem(join(&hall, "localhost", trusting(&ours)).await);
        assert_eq!(untrusted, TlsProblem::UnknownIssuer);
    }
}

#[tokio::test]
async fn a_server_that_the_system_does_not_know_is_not_trusted_by_default() {
    let hall = Hall::open_tls(Ca::new("ours").server_for(&["localhost"])).await;
    let problem = problem(join(&hall, "localhost", ClientTls::default()).await);
    // A system without any certificates says so instead.
    assert!(
        matches!(problem, TlsProblem::UnknownIssuer | TlsProblem::SystemRoots(_)),
        "{problem:?}"
    );
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_and_both_names_are_told() {
    let ca = Ca::new("ours");
    let hall = Hall::open_tls(ca.server_for(&["fluke.example"])).await;
    let problem = problem(join(&hall, "localhost", trusting(&ca)).await).to_string();
    assert!(problem.contains("`localhost`") && problem.contains("fluke.example"), "{problem}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let ca = Ca::new("ours");
    let hall = Hall::open_tls(ca.expired_server_for(&["localhost"])).await;
    let expired = problem(join(&hall, "localhost", trusting(&ca)).await);
    assert_eq!(expired, TlsProblem::WrongTime("expired"));
    assert!(expired.to_string().contains("set the clock"), "{expired}");
}

#[tokio::test]
async fn a_certificate_whose_time_has_not_come_is_refused() {
    let ca = Ca::new("ours");
    let hall = Hall::open_tls(ca.early_server_for(&["localhost"])).await;
    for tls in [trusting(&ca), pinning(ca.fingerprint())] {
        let early = problem(join(&hall, "localhost", tls).await);
        assert_eq!(early, TlsProblem::WrongTime("not valid yet"));
        assert!(early.to_string().contains("set the clock"), "{early}");
    }
}

#[tokio::test]
async fn skipping_verification_trusts_anybody() {
    let ca = Ca::new("theirs");
    for config in [ca.server_for(&["other.example"]), ca.expired_server_for(&["localhost"])] {
        let hall = Hall::open_tls(config).await;
        let tls = ClientTls { insecure_skip_verify: true, ..ClientTls::default() };
        join(&hall, "localhost", tls).await.expect("trusted");
    }
}

#[tokio::test]
async fn a_pinned_ca_is_trusted_without_its_file() {
    let ca = Ca::new("ours");
    let hall = Hall::open_tls(ca.server_for(&["localhost"])).await;
    join(&hall, "localhost", pinning(ca.fingerprint())).await.expect("trusted");
    let both = ClientTls { ca_fingerprint: Some(ca.fingerprint()), ..trusting(&ca) };
    join(&hall, "localhost", both).await.expect("trusted");
}

#[tokio::test]
async fn a_pin_does_not_make_up_for_a_wrong_certificate() {
    let ca = Ca::new("ours");
    let other = Ca::new("theirs").fingerprint();
    let hall = Hall::open_tls(ca.server_for(&["localhost"])).await;
    let not_pinned = problem(join(&hall, "localhost", pinning(other)).await);
    assert_eq!(not_pinned, TlsProblem::NotPinned { expected: other });
    let both = ClientTls { ca_fingerprint: Some(other), ..trusting(&ca) };
    assert!(matches!(problem(join(&hall, "localhost", both).await), TlsProblem::CaFile(_)));

    let elsewhere = Hall::open_tls(ca.server_for(&["fluke.example"])).await;
    let wrong_name = problem(join(&elsewhere, "localhost", pinning(ca.fingerprint())).await);
    assert!(matches!(wrong_name, TlsProblem::WrongName { .. }), "{wrong_name:?}");

    // The CA's certificate is public; standing beside it proves nothing.
    let impostor = Hall::open_tls(ca.impostor_for(&["localhost"])).await;
    let forged = problem(join(&impostor, "localhost", pinning(ca.fingerprint())).await);
    assert_eq!(forged, TlsProblem::UnknownIssuer);
}

#[tokio::test]
async fn a_ca_file_that_holds_no_certificate_is_named() {
    let hall = Hall::open_tls(Ca::new("ours").server_for(&["localhost"])).await;
    for pem in
        [&b""[..], b"not PEM", b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"]
    {
        let tls = ClientTls { ca_pem: Some(pem.to_vec()), ..ClientTls::default() };
        assert!(matches!(problem(join(&hall, "localhost", tls).await), TlsProblem::CaFile(_)));
    }
}

#[tokio::test]
async fn plaintext_to_a_tls_port_says_to_use_grpcs() {
    let hall = Hall::open_tls(Ca::new("ours").server_for(&["localhost"])).await;
    for _ in 0..20 {
        let error = connect(&target(&hall.url()), hello("web-1")).await.expect_err("TLS there");
        assert!(matches!(error, ConnectError::NeedsTls { .. }), "{error:?}");
        assert!(error.to_string().contains("use grpcs://"), "{error}");
    }
}

/// Like some proxies: hangs up on plaintext without a word.
async fn curt_tls_server() -> SocketAddr {
    let (listener, address) = listen().await;
    let acceptor = TlsAcceptor::from(Arc::new(Ca::new("ours").server_for(&["localhost"])));
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            let mut first = [0];
            let _ = io.peek(&mut first).await;
            if first == [0x16] {
                let _ = acceptor.accept(io).await;
            }
        }
    });
    address
}

#[tokio::test]
async fn plaintext_to_a_tls_port_that_just_hangs_up_is_found_out() {
    let url = format!("grpc://{}", curt_tls_server().await);
    let error = connect(&target(&url), hello("web-1")).await.expect_err("TLS there");
    assert!(matches!(error, ConnectError::NeedsTls { .. }), "{error:?}");
}

#[tokio::test]
async fn tls_to_a_plaintext_port_says_to_use_grpc() {
    let hall = Hall::open().await;
    for _ in 0..20 {
        let error = join(&hall, "127.0.0.1", ClientTls::default()).await.expect_err("no TLS there");
        assert!(matches!(error, ConnectError::NotTls { .. }), "{error:?}");
        assert!(error.to_string().contains("use grpc://"), "{error}");
    }
}

#[tokio::test]
async fn a_tls_server_without_http2_is_no_fluke() {
    let ca = Ca::new("ours");
    let mut config = ca.server_for(&["localhost"]);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let hall = Hall::open_tls(config).await;
    let error = join(&hall, "localhost", trusting(&ca)).await.expect_err("a web server");
    assert!(matches!(error, ConnectError::Incompatible { .. }), "{error:?}");
}
