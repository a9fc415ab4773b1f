use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::http::crowd::Shows;
use crate::http::overview::PLACES;

async fn raw(server: &Server, request: &str) -> String {
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    // A server that refuses to read on may reset the connection after its answer.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_body_over_the_bound_is_not_read() {
    let server = Server::start(Setup::default()).await;
    let body = format!(r#"{{"scope":"all","by":"{}"}}"#, "x".repeat(300_000));
    let request = server.local.post("http://x/api/v1/reconcile");
    let request = request.header("content-type", "application/json").body(body);
    assert_eq!(Answer::of(request).await.problem().0, 413);
}

#[tokio::test]
async fn headers_over_the_bound_are_refused() {
    let server = Server::start(Setup::default()).await;
    let long = "x".repeat(100_000);
    let request = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n");
    let answer = raw(&server, &request).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_eq!(server.get("/healthz").await.status, 200, "and the server lives on");
}

#[tokio::test]
async fn what_is_a_little_over_the_bound_is_refused_with_the_reason() {
    let server = Server::start(Setup::default()).await;
    let (status, why) =
        server.get(&format!("/api/v1/agents?name={}", "x".repeat(9000))).await.problem();
    assert_eq!((status, &*why), (414, "path and query may have at most 8192 bytes together"));
    let request = server.client.get(server.at("/healthz")).header("x-long", "x".repeat(20_000));
    let (status, why) = Answer::of(request).await.problem();
    assert_eq!((status, &*why), (431, "all headers together may have at most 16384 bytes"));
}

#[tokio::test]
async fn nonsense_is_answered_and_ends_there() {
    let server = Server::start(Setup::default()).await;
    for request in ["\0\0\0\0\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET  /  x  y HTTP/1.1\r\n\r\n"] {
        let answer = raw(&server, request).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{request:?}: {answer}");
    }
    let path = format!(
        "GET /api/v1/agents/%ff%00{} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        "a".repeat(5000)
    );
    let answer = raw(&server, &path).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
}

#[tokio::test]
async fn more_requests_than_there_are_places_are_told_to_come_back() {
    let server = Server::start(Setup::default()).await;
    let all = server.app.0.network.requests.clone().acquire_many_owned(MAX_REQUESTS as u32);
    let held = all.await.expect("places");
    let answer = server.get("/api/v1/agents").await;
    assert_eq!(answer.problem().0, 503);
    assert_eq!(answer.headers["retry-after"], "1");
    drop(held);
    assert_eq!(server.get("/api/v1/agents").await.status, 200);
}

#[tokio::test]
async fn one_address_cannot_have_all_places() {
    let server = Server::start(Setup::default()).await;
    let (crowd, from, what) = (&server.app.0.crowd, [127, 0, 0, 1].into(), Holding::Request);
    let hold = |_| crowd.hold(from, what, Instant::now());
    let held: Vec<_> = (0..what.most()).map(hold).collect();
    let (status, why) = server.get("/api/v1/agents").await.problem();
    assert_eq!((status, why.contains("of your address")), (503, true), "{why}");
    drop(held);
    assert_eq!(server.get("/api/v1/agents").await.status, 200);
}

#[tokio::test]
async fn a_request_that_is_under_way_ends_before_the_server_does() {
    let server = Server::start(Setup::default()).await;
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n").await.expect("written");
    // Served from here on: the connection was accepted before the next one.
    server.get("/healthz").await;
    server.stop.send_replace(true);
    stream.write_all(b"\r\n").await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for serving in server.serving {
        serving.await.expect("ended");
    }
}

#[tokio::test]
async fn who_asks_for_more_than_their_share_is_told_to_wait_and_the_socket_never_is() {
    let server = Server::start(Setup::default()).await;
    let (loopback, now) = ([127, 0, 0, 1].into(), Instant::now() + Duration::from_secs(3600));
    // As if all of it had been asked for in an hour from now: nothing is earned until then.
    while server.app.0.crowd.admits(loopback, Shows::Nothing, now) {}
    let answer = server.get("/api/v1/agents").await;
    assert_eq!(answer.problem().0, 429);
    assert_eq!(answer.headers["retry-after"], "1");
    let local = Answer::of(server.local.get("http://localhost/api/v1/agents")).await;
    assert_eq!(local.status, 200);
}

#[tokio::test]
async fn who_is_known_is_served_beside_strangers_who_ask_for_too_much() {
    let server = Server::start(Setup { tokens: &["right"], ..Setup::default() }).await;
    let cookie = server.sign_in("right", "Anna").await;
    let (loopback, now) = ([127, 0, 0, 1].into(), Instant::now() + Duration::from_secs(3600));
    let spend = |shows| while server.app.0.crowd.admits(loopback, shows, now) {};
    let status = |name: &'static str, value: String| {
        let request = server.client.get(server.at("/api/v1/agents")).header(name, value);
        async { Answer::of(request).await.status }
    };
    spend(Shows::Nothing);
    assert_eq!(server.get("/api/v1/agents").await.status, 429);
    assert_eq!(status("cookie", "__Host-fluke_session=".into()).await, 401);
    assert_eq!(status("authorization", "Bearer wrong".into()).await, 401);
    assert_eq!(status("authorization", "Bearer right".into()).await, 200);
    assert_eq!(status("cookie", cookie.clone()).await, 200);
    // Whoever guesses without end is told nothing more, right or wrong; people who are in stay in.
    spend(Shows::Wrong);
    assert_eq!(status("authorization", "Bearer wrong".into()).await, 429);
    assert_eq!(status("authorization", "Bearer right".into()).await, 429);
    assert_eq!(status("cookie", cookie).await, 200);
}

#[tokio::test]
async fn one_address_cannot_have_all_streams_nor_all_connections() {
    let server = Server::start(Setup::default()).await;
    let (crowd, from, now) = (&server.app.0.crowd, [127, 0, 0, 1].into(), Instant::now());
    let hold =
        |what: Holding| (0..what.most()).map(|_| crowd.hold(from, what, now)).collect::<Vec<_>>();
    let streams = hold(Holding::Stream);
    let (status, why) = server.get("/api/v1/stream").await.problem();
    assert_eq!((status, why.contains("from your address")), (503, true), "{why}");
    drop(streams);
    let stream = server.client.get(server.at("/api/v1/stream")).send().await.expect("an answer");
    assert_eq!(stream.status(), 200);

    let connections = hold(Holding::Connection);
    let answer =
        raw(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert_eq!(answer, "", "one too many");
    drop(connections);
    let answer =
        raw(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn answers_about_the_whole_fleet_wait_for_each_other_and_nobody_else_does() {
    let server = Server::start(Setup::default()).await;
    server.commit("abc", &["certs"]);
    let places = server.app.0.overviews.places.clone();
    let all = places.acquire_many_owned(PLACES as u32).await.expect("places");
    let paths = ["/api/v1/agents", "/api/v1/tasks", "/api/v1/tasks/certs", "/api/v1/drift"];
    let mut waiting = tokio::task::JoinSet::new();
    for path in paths.into_iter().chain(["/metrics"]) {
        let request = server.client.get(server.at(path));
        waiting.spawn(async { Answer::of(request).await.status });
    }
    let under_way = || MAX_REQUESTS - server.app.0.network.requests.available_permits();
    super::unread::until("all of them wait", || under_way() == 5).await;
    assert_eq!(server.get("/api/v1/source").await.status, 200);
    assert!(waiting.try_join_next().is_none());
    drop(all);
    assert_eq!(waiting.join_all().await, [200; 5]);
}

#[tokio::test]
async fn a_crowd_that_asks_for_the_same_is_answered_at_once_and_alike() {
    let server = Server::start(Setup::default()).await;
    let _agents: Vec<Agent> = (0..100).map(|number| server.agent(&format!("a{number}"))).collect();
    let places = server.app.0.overviews.places.clone();
    let all = places.acquire_many_owned(PLACES as u32).await.expect("places");
    let mut waiting = tokio::task::JoinSet::new();
    for coding in ["gzip", "identity"].repeat(50) {
        let request = server.client.get(server.at("/api/v1/agents"));
        let request = request.header("accept-encoding", coding);
        waiting.spawn(async { request.send().await.expect("an answer").bytes().await.ok() });
    }
    let crowds = || server.app.0.overviews.crowds();
    super::unread::until("there are two answers to wait for", || crowds() == [50, 50]).await;
    let _late = server.agent("late");
    drop(all);
    let mut answers = waiting.join_all().await;
    answers.sort();
    answers.dedup();
    assert_eq!(answers.len(), 2, "one that is compressed, and one that is not");
    let answers = answers.into_iter().flatten().map(|it| String::from_utf8_lossy(&it).into_owned());
    let plain = answers.filter(|answer| answer.starts_with('{')).collect::<String>();
    assert!(plain.contains("\"late\""), "what happened before it was made is in it: {plain}");
    assert_eq!(crowds(), [0; 0]);
}

#[tokio::test]
async fn only_so_many_labels_are_looked_for() {
    let server = Server::start(Setup::default()).await;
    let of = |labels: usize| format!("/api/v1/agents?{}", "label=role=web&".repeat(labels));
    assert_eq!(server.get(&of(64)).await.status, 200);
    let (status, why) = server.get(&of(65)).await.problem();
    assert_eq!((status, &*why), (400, "`label` is given more than 64 times"));
}
