//! Things at the other end that are no fluke.

use std::net::SocketAddr;
use std::time::Duration;

use fluke_model::id::Hash256;
use fluke_model::message::{ToAgent, ToServer};
use fluke_model::snapshot::StepIndex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic::transport::Endpoint;

use super::hall::{Hall, hello, listen, target};
use crate::Secret;
use crate::client::{ConnectError, Target, connect, connect_over};
use crate::proto::AgentMessage;
use crate::proto::fleet_client::FleetClient;
use crate::server::Accepted;

/// Answers everybody with the same bytes, and hangs up.
async fn parrot(words: &'static [u8]) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut io, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = io.read(&mut [0; 1024]).await;
                let _ = io.write_all(words).await;
            });
        }
    });
    address
}

async fn failure(url: String) -> ConnectError {
    connect(&target(&url), hello("web-1")).await.expect_err("no fluke there")
}

#[tokio::test]
async fn a_server_of_another_kind_is_told_from_ours() {
    let http1 = parrot(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let error = failure(format!("grpc://{http1}")).await;
    assert!(matches!(error, ConnectError::Incompatible { .. }), "{error:?}");
    assert!(error.to_string().contains("HTTP/1"), "{error}");

    let ssh = parrot(b"SSH-2.0-OpenSSH_9.2p1\r\n").await;
    let error = failure(format!("grpc://{ssh}")).await;
    assert!(matches!(error, ConnectError::Incompatible { .. }), "{error:?}");

    for plain in [http1, ssh] {
        let error = failure(format!("grpcs://{plain}")).await;
        assert!(matches!(error, ConnectError::NotTls { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_is_lost() {
    let rude = parrot(b"").await;
    for scheme in ["grpc", "grpcs"] {
        let error = failure(format!("{scheme}://{rude}")).await;
        assert!(matches!(error, ConnectError::Lost { .. }), "{error:?}");
        assert!(error.is_retryable_soon());
    }
}

#[tokio::test]
async fn a_server_hears_garbage_and_serves_on() {
    let mut hall = Hall::open().await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"\x16\x03\x01\x02\x00\x01\0\0"]
    {
        let mut io = TcpStream::connect(hall.address).await.expect("open");
        io.write_all(garbage).await.expect("open");
        io.shutdown().await.expect("open");
        let _ = io.read_to_end(&mut Vec::new()).await;
    }
    let mut session = connect(&target(&hall.url()), hello("web-1")).await.expect("let in");
    let guest = hall.next_guest().await;
    guest.link.outgoing.send(ToAgent::Heartbeat).await.expect("open");
    assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)));
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, payload.len() as u8, kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

#[tokio::test]
async fn whoever_opens_and_resets_streams_in_a_row_is_cut_off() {
    let mut hall = Hall::open().await;
    let mut session = connect(&target(&hall.url()), hello("web-1")).await.expect("let in");
    let guest = hall.next_guest().await;

    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    flood.extend(frame(4, 0, 0, &[])); // SETTINGS
    for stream in (1..20_001).step_by(2) {
        flood.extend(frame(1, 0b100, stream, &[0x83, 0x86, 0x84])); // HEADERS: POST http /
        flood.extend(frame(3, 0, stream, &8u32.to_be_bytes())); // RST_STREAM: CANCEL
    }
    let (mut hear, mut say) = TcpStream::connect(hall.address).await.expect("open").into_split();
    let flooding = tokio::spawn(async move { say.write_all(&flood).await });
    let mut heard = Vec::new();
    let _ = hear.read_to_end(&mut heard).await; // until the server hangs up
    let _ = flooding.await;
    let enough = 11u32.to_be_bytes(); // ENHANCE_YOUR_CALM
    assert!(heard.windows(4).any(|bytes| bytes == enough), "{heard:02x?}");

    guest.link.outgoing.send(ToAgent::Heartbeat).await.expect("others are not concerned");
    assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)));
}

#[tokio::test]
async fn a_call_with_endless_headers_is_not_served() {
    let hall = Hall::open().await;
    let target = Target { token: Secret::new("x".repeat(20_000)), ..target(&hall.url()) };
    let error = connect(&target, hello("web-1")).await.expect_err("too large");
    assert!(!matches!(error, ConnectError::Unauthenticated { .. }), "not even looked at: {error}");
}

#[tokio::test]
async fn a_call_without_a_token_is_not_even_read() {
    let hall = Hall::open().await;
    let channel = Endpoint::from_shared(format!("http://{}", hall.address)).expect("an address");
    let channel = channel.connect().await.expect("a server");
    // No message is ever sent: the answer cannot depend on one.
    let silent = tokio_stream::pending::<AgentMessage>();
    let status = FleetClient::new(channel).connect(silent).await.expect_err("refused");
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn another_call_is_not_known() {
    let hall = Hall::open().await;
    let channel = Endpoint::from_shared(format!("http://{}", hall.address)).expect("an address");
    let mut grpc = tonic::client::Grpc::new(channel.connect().await.expect("a server"));
    grpc.ready().await.expect("open");
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let codec = tonic_prost::ProstCodec::<AgentMessage, AgentMessage>::default();
    let request = tonic::Request::new(AgentMessage::default());
    let answer = grpc.unary(request, path.parse().expect("a path"), codec).await;
    assert_eq!(answer.expect_err("no reflection").code(), Code::Unimplemented);
}

/// Waits until the other end of a pipe is gone, without saying anything.
async fn gone(end: &mut DuplexStream) {
    let gone = async {
        while end.write(&[]).await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(Duration::from_secs(60), gone).await.expect("the connection ends");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_given_up_leaves_no_connection_behind() {
    let (ours, mut silent) = duplex(64 * 1024);
    let to = target("grpc://localhost:1");
    let attempt = connect_over(ours, &to, hello("web-1"));
    timeout(Duration::from_secs(10), attempt).await.expect_err("nobody answers");
    gone(&mut silent).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_server_that_stopped_reading_leaves_no_connection_behind() {
    let (ours, mut near) = duplex(1024);
    let (mut far, theirs) = duplex(64 * 1024);
    let mut hall = Hall::open_over(Accepted::new(theirs, None));
    let to = target("grpc://localhost:1");
    let session = tokio::select! {
        session = connect_over(ours, &to, hello("web-1")) => session.expect("welcome"),
        _ = copy_bidirectional(&mut near, &mut far) => panic!("neither ends"),
    };
    let _guest = hall.next_guest().await;
    let long = ToServer::LookAgain {
        snapshot: Hash256::of(b"s"),
        steps: (0..1000).map(StepIndex).collect(),
    };
    while timeout(Duration::from_secs(1), session.outgoing.send(long.clone())).await.is_ok() {}
    drop(session);
    gone(&mut near).await;
}

#[tokio::test]
async fn a_browser_is_told_where_it_is() {
    let hall = Hall::open().await;
    let mut channel = Endpoint::from_shared(format!("http://{}", hall.address))
        .expect("an address")
        .connect()
        .await
        .expect("a server");
    use tonic::codegen::Service;
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.expect("open");
    let page = http::Request::get("/").body(tonic::body::Body::empty()).expect("a request");
    let answer = channel.call(page).await.expect("an answer");
    assert_eq!(answer.status(), 415);
    assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
}
