use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use super::super::own_names;
use super::super::tests::directory;
use super::*;

struct Port {
    address: SocketAddr,
    certificates: Arc<Certificates>,
    _directory: TempDir,
}

async fn listen(speaks: Speaks) -> (Listener, Port) {
    let directory = directory();
    let certificates = Certificates::own(directory.path(), own_names(&[])).expect("a CA");
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let listener = Listener::tls(tcp, certificates.clone(), speaks).expect("a listener");
    let address = listener.local_addr().expect("an address");
    (listener, Port { address, certificates, _directory: directory })
}

impl Port {
    /// As a client that trusts the server's CA and nothing else.
    async fn connect(&self, name: &str, alpn: &[&str]) -> io::Result<client::TlsStream<TcpStream>> {
        let (file, _) = self.certificates.own_ca().expect("an own CA");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file).expect("a certificate")).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from(name.to_string()).expect("a name");
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn plaintext(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("connected");
        stream.write_all(request).await.expect("written");
        let mut answer = Vec::new();
        // A reset is an answer too.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Accepts in the background and answers each connection with one word.
fn answer_all(mut listener: Listener) {
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await;
            tokio::spawn(async move {
                let _ = connection.write_all(b"hello").await;
                let _ = connection.shutdown().await;
            });
        }
    });
}

async fn read_all(mut stream: impl AsyncRead + Unpin) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer");
    text
}

#[tokio::test]
async fn whoever_trusts_the_ca_gets_through_by_every_name() {
    let (listener, port) = listen(Speaks::Http).await;
    answer_all(listener);
    for name in ["localhost", "127.0.0.1", "::1"] {
        assert_eq!(read_all(port.connect(name, &[]).await.expect(name)).await, "hello");
    }
    assert!(port.connect("elsewhere.example", &[]).await.is_err(), "a name that it has not");
}

#[tokio::test]
async fn each_port_offers_its_protocols() {
    for (speaks, offered, agreed) in [
        (Speaks::Grpc, vec!["h2"], Some("h2")),
        (Speaks::Http, vec!["h2", "http/1.1"], Some("h2")),
        (Speaks::Http, vec!["http/1.1"], Some("http/1.1")),
        (Speaks::Grpc, vec!["http/1.1"], None),
    ] {
        let (listener, port) = listen(speaks).await;
        answer_all(listener);
        let stream = port.connect("localhost", &offered).await.ok();
        let got = stream.as_ref().and_then(|stream| stream.get_ref().1.alpn_protocol());
        assert_eq!(got, agreed.map(str::as_bytes), "{speaks:?} {offered:?}");
    }
}

#[tokio::test]
async fn plain_http_is_told_about_tls() {
    let (listener, port) = listen(Speaks::Http).await;
    answer_all(listener);
    let answer = port.plaintext(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("speaks TLS"), "{answer}");
    for silent in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"\x00\x01", b"hello\n"] {
        assert_eq!(port.plaintext(silent).await, "");
    }
    assert_eq!(read_all(port.connect("localhost", &[]).await.expect("TLS works")).await, "hello");
}

#[tokio::test]
async fn clients_that_say_nothing_hold_nobody_up() {
    let (mut listener, port) = listen(Speaks::Grpc).await;
    listener.max_handshakes = 10;
    answer_all(listener);
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(port.address).await.expect("connected"));
    }
    let stream = port.connect("localhost", &["h2"]).await.expect("gets through");
    assert_eq!(read_all(stream).await, "hello");
    // The first ones were given up for the later ones.
    for stream in &mut silent[..30] {
        let ended = stream.read(&mut [0]).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn accepting_rests_when_the_system_runs_out_and_goes_on() {
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut listener = Listener::plain(tcp);
    let address = listener.local_addr().expect("an address");
    let began = Instant::now();
    listener.rest(&io::Error::from_raw_os_error(nix::libc::EMFILE));
    let client = TcpStream::connect(address).await.expect("connected");
    listener.accept().await;
    assert!(began.elapsed() >= REST);
    let resumed = listener.resume;
    listener.rest(&io::ErrorKind::ConnectionAborted.into());
    assert_eq!(listener.resume, resumed, "a client that left is no reason to rest");
    drop(client);
}

#[tokio::test]
async fn axum_serves_over_it() {
    let (listener, port) = listen(Speaks::Http).await;
    let router = axum::Router::new().route("/", axum::routing::get(|| async { "served" }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut stream = port.connect("localhost", &["http/1.1"]).await.expect("connected");
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.expect("written");
    let answer = read_all(stream).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("served"), "{answer}");
}
