//! Clients that ask over HTTP/2 and do not read what they are answered.

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::TcpStream;

use super::*;

/// Long enough for a request, and short enough to wait for.
const STALL: Duration = Duration::from_millis(500);

/// A connection on which every answer has room for `window` bytes.
pub(super) struct Sloth {
    client: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    url: String,
}

impl Drop for Sloth {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Sloth {
    pub async fn connect(server: &Server, window: u32) -> Self {
        let address = server.url.trim_start_matches("http://");
        let io = TcpStream::connect(address).await.expect("connects");
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window).initial_max_send_streams(256);
        let (client, connection) = builder.handshake(io).await.expect("speaks HTTP/2");
        let connection = tokio::spawn(connection);
        Self { client, connection, url: server.url.clone() }
    }

    /// Sends a request; one that says `wants_more` has a body that never comes.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        wants_more: bool,
    ) -> (ResponseFuture, h2::SendStream<Bytes>) {
        let mut client = self.client.clone().ready().await.expect("still open");
        let request = http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        let request = request.header("origin", &self.url);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.body(()).expect("a request");
        client.send_request(request, !wants_more).expect("sent")
    }

    /// Asks, and waits until the answer begins.
    pub async fn get(&mut self, path: &str) -> http::Response<h2::RecvStream> {
        self.ask(Method::GET, path, false).await.0.await.expect("an answer")
    }
}

fn impatient() -> Setup {
    Setup { patience: Patience { stall: STALL }, ..Setup::default() }
}

/// Waits until it is so; fails loudly if it never is.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in half a minute: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn requests_under_way(server: &Server) -> usize {
    MAX_REQUESTS - server.app.0.requests.available_permits()
}

fn streams_open(server: &Server) -> usize {
    MAX_STREAMS - server.app.0.streams.available_permits()
}

#[tokio::test]
async fn an_answer_that_is_not_read_holds_its_place_and_only_for_so_long() {
    let server = Server::start(impatient()).await;
    server.record(&"x".repeat(60_000));
    for window in [0, 1, 20_000] {
        let mut sloth = Sloth::connect(&server, window).await;
        let mut unread = Vec::new();
        for _ in 0..20 {
            unread.push(sloth.get("/api/v1/events").await);
        }
        assert!(requests_under_way(&server) > 0, "window {window}");
        until("places are free again", || requests_under_way(&server) == 0).await;
        assert_eq!(server.get("/api/v1/agents").await.status, 200);
        assert!(unread.iter().all(|response| response.status() == 200));
    }
}

#[tokio::test]
async fn a_stream_that_nobody_reads_is_dropped_and_its_seat_is_free() {
    let server = Server::start(impatient()).await;
    for window in [0, 1, 1000] {
        let mut sloth = Sloth::connect(&server, window).await;
        let mut unread = Vec::new();
        for _ in 0..10 {
            unread.push(sloth.get("/api/v1/stream").await);
        }
        assert!(streams_open(&server) > 0, "window {window}");
        until("seats are free again", || {
            server.record(&"x".repeat(2000));
            streams_open(&server) == 0
        })
        .await;
        assert!(unread.iter().all(|response| response.status() == 200));
    }
}

#[tokio::test]
async fn a_stream_that_is_read_stays_though_nothing_happens() {
    let server = Server::start(impatient()).await;
    let mut sloth = Sloth::connect(&server, 1 << 20).await;
    let mut body = sloth.get("/api/v1/stream").await.into_body();
    let begun = Instant::now();
    while begun.elapsed() < 3 * STALL {
        body.data().await.expect("it goes on").expect("a message or a sign of life");
    }
    assert_eq!((streams_open(&server), requests_under_way(&server)), (1, 0));
    server.record("news");
    let mut heard = String::new();
    while !heard.contains("news") {
        let data = body.data().await.expect("it goes on").expect("a message");
        heard.push_str(&String::from_utf8_lossy(&data));
    }
}
