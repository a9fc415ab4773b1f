//! Clients that ask over HTTP/2 and do not read what they are answered.

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::TcpStream;

use super::*;

/// Long enough for a request, and short enough to wait for.
const STALL: Duration = Duration::from_millis(500);

const DEADLINE: Duration = Duration::from_secs(30);

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
        let answer = async { self.ask(Method::GET, path, false).await.0.await };
        let answer = tokio::time::timeout(DEADLINE, answer).await.expect("an answer in time");
        answer.expect("an answer")
    }
}

fn impatient() -> Setup {
    Setup { patience: Patience { stall: STALL, ..Patience::USUAL }, ..Setup::default() }
}

/// Waits until it is so; fails loudly if it never is.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn requests_under_way(server: &Server) -> usize {
    MAX_REQUESTS - server.app.0.network.requests.available_permits()
}

fn streams_open(server: &Server) -> usize {
    server.app.0.network.open_streams()
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

/// The `sign-in` calls of a stranger who begins a form and never ends it.
async fn begin_forms(server: &Server, connections: usize) -> Vec<impl Sized> {
    let mut held = Vec::new();
    for _ in 0..connections {
        let mut sloth = Sloth::connect(server, 1 << 16).await;
        for path in ["/sign-in", "/webhooks/git"].repeat(100) {
            held.push((None, Some(sloth.ask(Method::POST, path, true).await)));
        }
        // Answered behind all of them.
        assert_eq!(sloth.get("/healthz").await.status(), 200);
        held.push((Some(sloth), None));
    }
    held
}

#[tokio::test]
async fn a_stranger_who_begins_a_thousand_forms_keeps_nobody_out() {
    let setup = Setup { tokens: &["right"], secret: Some("s3cret"), ..Setup::default() };
    let server = Server::start(setup).await;
    let held = begin_forms(&server, 5).await;
    let reads = requests_under_way(&server);
    assert!((1..=Holding::Body.most() as usize).contains(&reads), "{reads} bodies are awaited");
    assert_eq!(server.get("/healthz").await.status, 200);
    let agents = server.client.get(server.at("/api/v1/agents")).bearer_auth("right");
    assert_eq!(Answer::of(agents).await.status, 200);
    let form = [("token", "right")];
    let (status, why) =
        server.send_form("/sign-in", &form, &[("origin", &server.url)]).await.problem();
    assert_eq!((status, why.contains("too many sign in")), (503, true), "{why}");
    drop(held);
    until("the bodies are given up", || requests_under_way(&server) == 0).await;
    server.sign_in("right", "Ada").await;
}

#[tokio::test]
async fn a_network_that_is_full_keeps_nobody_out_at_the_socket() {
    let server = Server::start(Setup::default()).await;
    let Room { requests, streams, memory, .. } = &server.app.0.network;
    for places in [requests, streams, memory] {
        places.forget_permits(usize::MAX >> 3);
    }
    assert_eq!(server.get("/api/v1/agents").await.problem().0, 503);
    assert_eq!(server.get("/healthz").await.status, 200);
    let local = |path: &str| server.local.get(format!("http://localhost{path}")).send();
    for path in ["/api/v1/agents", "/api/v1/stream", "/healthz"] {
        assert_eq!(local(path).await.expect("an answer").status(), 200, "{path}");
    }
}

#[tokio::test]
async fn a_connection_over_which_nothing_is_asked_ends() {
    let patience = Patience { idle: Duration::from_millis(200), ..Patience::USUAL };
    let server = Server::start(Setup { patience, ..Setup::default() }).await;
    let mut quiet = Sloth::connect(&server, 1 << 16).await;
    assert_eq!(quiet.get("/healthz").await.status(), 200);
    let mut listens = Sloth::connect(&server, 1 << 16).await;
    let mut stream = listens.get("/api/v1/stream").await.into_body();
    until("the idle one is gone", || server.app.connections() == 1).await;
    server.record("still there");
    let mut heard = String::new();
    while !heard.contains("still there") {
        let data = stream.data().await.expect("it goes on").expect("a message");
        heard.push_str(&String::from_utf8_lossy(&data));
    }
}

#[tokio::test]
async fn when_all_connections_are_taken_the_idle_ones_make_room() {
    let patience = Patience { connections: 3, ..Patience::USUAL };
    let server = Server::start(Setup { patience, ..Setup::default() }).await;
    let mut listens = Sloth::connect(&server, 1 << 16).await;
    let _stream = listens.get("/api/v1/stream").await.into_body();
    let mut idle = Vec::new();
    for _ in 0..4 {
        let mut sloth = Sloth::connect(&server, 1 << 16).await;
        assert_eq!(sloth.get("/healthz").await.status(), 200);
        idle.push(sloth);
    }
    assert_eq!(server.get("/healthz").await.status, 200);
    assert_eq!(listens.get("/healthz").await.status(), 200, "who is busy stays");
}
