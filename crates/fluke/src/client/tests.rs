use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use axum::extract::{Path as Segment, Query};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use fluke_model::api::{Agents, ReconcileScope};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::failure::Failure;

/// A server as the command line sees one, on both of its ways in.
struct Host {
    socket: PathBuf,
    address: std::net::SocketAddr,
    _folder: TempDir,
}

impl Host {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("fluke.sock");
        let unix = tokio::net::UnixListener::bind(&socket).expect("a socket");
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(unix, api()).await });
        tokio::spawn(async move { axum::serve(tcp, api()).await });
        Self { socket, address, _folder: folder }
    }

    fn client(&self, token: Option<&str>) -> Client {
        client(&format!("http://{}", self.address), token)
    }

    fn local(&self) -> Client {
        client(&format!("unix://{}", self.socket.display()), Some("right"))
    }
}

fn client(server: &str, token: Option<&str>) -> Client {
    let access = Access { token: token.map(Secret::new), ca_file: None };
    Client::new(Server::parse(server).expect("an address"), access).expect("a client")
}

fn problem(status: u16, title: &str, detail: &str) -> axum::response::Response {
    let status = axum::http::StatusCode::from_u16(status).expect("a status");
    (status, Json(json!({ "status": status.as_u16(), "title": title, "detail": detail })))
        .into_response()
}

fn api() -> Router {
    async fn agents(headers: HeaderMap) -> axum::response::Response {
        match headers.get("authorization").and_then(|value| value.to_str().ok()) {
            Some("Bearer right") => Json(json!({ "agents": [] })).into_response(),
            Some(_) => problem(401, "Unauthorized", "the token is not known"),
            None => problem(401, "Unauthorized", "a token is needed"),
        }
    }
    async fn agent(Segment(name): Segment<String>) -> axum::response::Response {
        problem(404, "Not Found", &format!("there is no agent `{name}`"))
    }
    async fn events(Query(query): Query<Value>) -> Json<Value> {
        Json(query)
    }
    async fn reconcile(Json(wish): Json<Value>) -> axum::response::Response {
        match wish["scope"].as_str() {
            Some("all") => Json(json!({ "id": wish["by"] })).into_response(),
            _ => problem(403, "Forbidden", "changes need the local socket"),
        }
    }
    async fn stream() -> impl IntoResponse {
        ([("content-type", "text/event-stream")], ": ping\n\nevent: drift\ndata: {}\n\n")
    }
    let v1 = Router::new()
        .route("/agents", get(agents))
        .route("/agents/{name}", get(agent))
        .route("/events", get(events))
        .route("/reconcile", post(reconcile))
        .route("/stream", get(stream))
        .route("/tasks", get(async || "<html>hello</html>"))
        .route("/drift", get(async || problem(503, "Unavailable", "no commit is loaded yet")));
    Router::new().nest("/api/v1", v1)
}

fn told(error: ClientError) -> String {
    Failure::from(error).text()
}

#[tokio::test]
async fn both_ways_in_give_the_same_answers() {
    let host = Host::start().await;
    for client in [host.client(Some("right")), host.local()] {
        let agents: Agents = client.get(&["agents"]).await.expect("agents");
        assert!(agents.agents.is_empty());
        let raw = client.text(&["agents"], &[]).await.expect("agents");
        assert_eq!(raw, r#"{"agents":[]}"#);
    }
}

#[tokio::test]
async fn names_and_filters_arrive_as_they_were_meant() {
    let host = Host::start().await;
    let client = host.client(None);
    let error = client.text(&["agents", "rack/1 ?#%"], &[]).await.expect_err("unknown");
    assert!(error.is_not_found());
    assert!(error.to_string().contains("there is no agent `rack/1 ?#%`"), "{error}");

    let query = [("agent", "rack/1&x=y".to_string()), ("limit", "5".to_string())];
    let text = client.text(&["events"], &query).await.expect("events");
    assert_eq!(text, r#"{"agent":"rack/1&x=y","limit":"5"}"#);
}

#[tokio::test]
async fn a_missing_or_wrong_token_is_told_apart_and_never_shown() {
    let host = Host::start().await;
    let error = host.client(None).text(&["agents"], &[]).await.expect_err("no token");
    assert!(told(error).contains("a token is needed"));
    let error = host.client(Some("wr0ng")).text(&["agents"], &[]).await.expect_err("wrong token");
    let text = told(error);
    assert!(text.contains("the token is not known") && text.contains("FLUKE_API_TOKEN"), "{text}");
    assert!(!text.contains("wr0ng"), "{text}");
    assert!(matches!(
        Client::new(
            Server::parse("http://h").expect("an address"),
            Access { token: Some(Secret::new("a\nb")), ca_file: None }
        ),
        Err(ClientError::UnusableToken)
    ));
}

#[tokio::test]
async fn refusals_are_told_in_the_servers_words() {
    let host = Host::start().await;
    let client = host.client(None);
    let wish = |scope| ReconcileRequest {
        scope,
        name: None,
        agent: None,
        seen: None,
        by: Some("me@here".into()),
    };
    assert_eq!(client.reconcile(&wish(ReconcileScope::All)).await.expect("accepted").id, "me@here");

    let text = told(client.reconcile(&wish(ReconcileScope::Task)).await.expect_err("forbidden"));
    assert!(text.contains("changes need the local socket"), "{text}");
    assert!(text.contains("api_tokens"), "{text}");

    let error = client.text(&["drift"], &[]).await.expect_err("unavailable");
    assert!(error.is_transient());
    assert!(error.to_string().contains("Unavailable: no commit is loaded yet"), "{error}");
}

#[tokio::test]
async fn something_that_is_no_fluke_server_is_recognised() {
    let host = Host::start().await;
    let error = host.client(None).get::<Agents>(&["tasks"]).await.expect_err("no JSON");
    assert!(told(error).contains("is it a fluke server"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none.sock");
    let error = client(&format!("unix://{}", missing.display()), None).text(&["agents"], &[]).await;
    let text = told(error.expect_err("no socket"));
    assert!(
        text.contains("could not connect to unix://") && text.contains("is the server running"),
        "{text}"
    );

    let stale = folder.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).expect("a socket"));
    let error = client(&format!("unix://{}", stale.display()), None).text(&["agents"], &[]).await;
    let text = told(error.expect_err("a dead socket"));
    assert!(text.contains("start it again"), "{text}");

    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("an address");
    drop(port);
    let error = client(&format!("http://{address}"), None).text(&["agents"], &[]).await;
    let text = told(error.expect_err("a closed port"));
    assert!(text.contains("efused") && text.contains("listen_http"), "{text}");
}

#[tokio::test]
async fn a_socket_that_is_not_ours_tells_whose_it_is() {
    if nix::unistd::Uid::effective().is_root() {
        return; // Nothing is forbidden to root.
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("fluke.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).expect("a mode");
    let error = client(&format!("unix://{}", socket.display()), None).text(&["agents"], &[]).await;
    let text = told(error.expect_err("forbidden"));
    assert!(text.contains("has mode 0000"), "{text}");
}

#[tokio::test]
async fn https_to_a_plain_port_says_so() {
    let host = Host::start().await;
    let error = client(&format!("https://{}", host.address), None).text(&["agents"], &[]).await;
    let text = told(error.expect_err("no TLS there"));
    assert!(text.contains(&format!("try http://{}", host.address)), "{text}");
}

#[tokio::test]
async fn a_ca_file_that_holds_nothing_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    for path in [file.path().to_path_buf(), "/nonexistent/ca.pem".into()] {
        let access = Access { token: None, ca_file: Some(path) };
        let server = Server::parse("https://localhost:1").expect("an address");
        let error = Client::new(server, access).err().expect("refused");
        assert!(told(error).contains("FLUKE_CA_FILE"));
    }
}

#[tokio::test]
async fn changes_are_told_again_after_the_stream_broke() {
    let host = Host::start().await;
    // Each stream ends after one message; the second wake-up comes from the second stream.
    let mut changes = changes::Changes::follow(host.client(None));
    changes.next().await;
    changes.next().await;
}
