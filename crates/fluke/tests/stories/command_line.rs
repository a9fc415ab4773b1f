//! What `fluke` prints and how it exits, against a server that answers as the API says.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server on a socket, with one agent, one task, and one drift.
struct Server {
    socket: PathBuf,
    wishes: Arc<Mutex<Vec<Value>>>,
    _folder: TempDir,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Clone, Default)]
struct Shared {
    wishes: Arc<Mutex<Vec<Value>>>,
    looks: Arc<AtomicUsize>,
    refusals: Arc<AtomicUsize>,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("fluke.sock");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let shared = Shared::default();
        let wishes = shared.wishes.clone();
        let listener = {
            let _context = runtime.enter();
            tokio::net::UnixListener::bind(&socket).expect("a socket")
        };
        runtime.spawn(async move { axum::serve(listener, api(shared)).await });
        Self { socket, wishes, _folder: folder, _runtime: runtime }
    }

    fn fluke(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("fluke runs")
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = fluke(arguments);
        command.env("FLUKE_SERVER", format!("unix://{}", self.socket.display()));
        command
    }
}

fn fluke(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fluke"));
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    for name in ["FLUKE_SERVER", "FLUKE_API_TOKEN", "FLUKE_CA_FILE", "FLUKE_TOKEN"] {
        command.env_remove(name);
    }
    command
}

fn api(shared: Shared) -> Router {
    let v1 = Router::new()
        .route("/agents", get(async || Json(json!({ "agents": [agent()] }))))
        .route("/agents/{name}", get(one_agent))
        .route("/tasks", get(async || Json(json!({ "tasks": [] }))))
        .route("/services", get(async || Json(json!({ "services": [service("shop")] }))))
        .route("/services/{name}", get(one_service))
        .route("/drift", get(async || Json(json!({ "drift": [drift()] }))))
        .route("/events", get(async || Json(json!({ "events": events(), "next": null }))))
        .route("/source", get(async || Json(source())))
        .route("/reconcile", post(ask))
        .route("/reconcile/{id}", get(progress))
        .route("/stream", get(async || ([("content-type", "text/event-stream")], ": hello\n\n")))
        .with_state(shared);
    Router::new().nest("/api/v1", v1)
}

async fn one_agent(Path(name): Path<String>) -> Response {
    if name != "web-01" {
        let problem = json!({ "title": "Not Found", "detail": format!("no agent `{name}`") });
        return (StatusCode::NOT_FOUND, Json(problem)).into_response();
    }
    let mut detail = agent();
    detail["executors"] = json!([]);
    detail["task_details"] = json!([]);
    detail["events"] = json!([]);
    Json(detail).into_response()
}

/// `shop` is seen at the second look; `lost` never.
async fn one_service(State(shared): State<Shared>, Path(name): Path<String>) -> Response {
    let status = match &*name {
        "shop" if shared.refusals.fetch_add(1, Ordering::SeqCst) > 0 => StatusCode::OK,
        "shop" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    match status {
        StatusCode::OK => Json(service(&name)).into_response(),
        refused => (refused, Json(json!({ "title": "not now" }))).into_response(),
    }
}

async fn ask(State(shared): State<Shared>, Json(wish): Json<Value>) -> Response {
    shared.wishes.lock().expect("not poisoned").push(wish);
    (StatusCode::ACCEPTED, Json(json!({ "id": "r-17" }))).into_response()
}

/// Done at the third look; and failed.
async fn progress(State(shared): State<Shared>) -> Json<Value> {
    let done = shared.looks.fetch_add(1, Ordering::SeqCst) >= 2;
    let outcome = if done { json!("failure") } else { Value::Null };
    Json(json!({
        "id": "r-17", "scope": "all", "name": null, "by": "x", "done": done, "failed": done,
        "started": "2026-01-02T03:04:05Z", "agents": [{
            "name": "web-01", "state": if done { "failed" } else { "applying" }, "error": null,
            "steps": [{"task": "certs", "step": "shell.renew", "outcome": outcome, "output": "no \u{1b}[31mspace\u{1b}[0m left"}],
        }],
    }))
}

fn agent() -> Value {
    json!({
        "name": "web-01", "labels": {"role": "web"}, "connected": true, "status": "drifted", "version": "0.1.0",
        "node_type": "worker", "connected_since": null, "last_seen": "2026-01-02T03:04:05Z", "commit": null,
        "snapshot": null, "tasks": {"total": 1, "in_sync": 0, "drifted": 1, "failed": 0}, "new_key": "from a newer server"
    })
}

/// One of which one replica has no host.
fn service(name: &str) -> Value {
    json!({
        "name": name, "description": null, "policy": "remediate", "selector": {"match_labels": {}, "match_expressions": []},
        "defined": "shop.fluke.hcl:1", "image": "shop:1", "replicas": 2, "status": "drifted",
        "counts": {"wanted": 2, "running": 1, "serving": 1, "failed": 0}, "ports": [], "hostname": "shop.fluke",
        "addresses": ["10.0.0.2"], "routes": [], "deployments": [], "waiting": ["replica 1 waits for a host"]
    })
}

fn drift() -> Value {
    json!({
        "agent": "web-01", "task": "certs", "step": "shell.renew", "policy": "alert_only", "status": "drifted",
        "reason": "expires\u{1b}]0;owned\u{7} soon", "since": null
    })
}

fn events() -> Vec<Value> {
    let event = json!({
        "id": "1", "time": "2026-01-02T03:04:05Z", "kind": "drift_detected", "agent": "web-01", "task": "certs",
        "step": "shell.renew", "trigger": "poll", "commit": null, "outcome": null, "duration_ms": null,
        "output": "x".repeat(1000), "by": null
    });
    vec![event; 2000]
}

fn source() -> Value {
    json!({
        "url": "u", "branch": "main", "commit": "aaaaaaaaaaaa", "commit_since": null, "last_seen": "bbbbbbbbbbbb",
        "rejected": true, "diagnostics": [], "last_poll": null, "next_poll": null, "error": null
    })
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_list_is_a_plain_table_in_a_pipe_and_warns_of_a_rejected_commit() {
    let server = Server::start();
    let output = server.fluke("get drift");
    assert_eq!(
        out(&output),
        "AGENT   OF     STEP         POLICY      STATUS   SINCE  REASON
web-01  certs  shell.renew  alert_only  drifted  -      expires soon
"
    );
    assert!(err(&output).contains("bbbbbbbbb was rejected"), "{}", err(&output));
    assert!(output.status.success());
}

#[test]
fn json_and_yaml_are_what_the_api_returned() {
    let server = Server::start();
    let json: Value =
        serde_json::from_str(&out(&server.fluke("get agents -o json"))).expect("JSON");
    assert_eq!(json, json!({ "agents": [agent()] }));
    let yaml = out(&server.fluke("-o yaml get agents"));
    assert!(yaml.contains("    new_key: from a newer server\n"), "{yaml}");
}

#[test]
fn colours_come_when_they_are_asked_for() {
    let server = Server::start();
    assert!(
        out(&server.fluke("get agents --colour always")).contains("\u{1b}[33mdrifted\u{1b}[0m")
    );
    let mut command = server.command("get agents");
    assert!(!out(&command.env("NO_COLOR", "1").output().expect("runs")).contains('\u{1b}'));
}

#[test]
fn a_name_that_is_not_known_suggests_one_that_is() {
    let server = Server::start();
    let output = server.fluke("describe agent web-1");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(err(&output), "error: there is no agent `web-1`\nhelp: did you mean `web-01`?\n");
    assert!(out(&server.fluke("describe agent web-01")).starts_with("web-01 is drifted"));
}

#[test]
fn a_reconcile_waits_tells_what_failed_and_exits_1() {
    let server = Server::start();
    let output = server.fluke("reconcile all");
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert_eq!(
        out(&output),
        "web-01: failed, certs/shell.renew
web-01: certs / shell.renew failure
  no space left
  why   shop: replica 1 waits for a host
  do    fluke get agents   shows the labels of each, and who is connected
failed: 0 agents in sync, 0 steps applied, 1 agent failed
"
    );
    let wishes = server.wishes.lock().expect("not poisoned");
    assert_eq!(wishes[0]["scope"], "all");
    assert!(wishes[0]["by"].as_str().is_some_and(|by| by.contains('@')), "{wishes:?}");
}

#[test]
fn what_came_of_a_reconcile_is_told_though_the_server_cannot_say_what_is_waited_for() {
    let server = Server::start();
    let output = server.fluke("reconcile service shop");
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("why   replica 1 waits for a host"), "{}", out(&output));
    assert_eq!(err(&output), "", "that it was refused once is no failure");

    let output = server.fluke("reconcile service lost");
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("failed: 0 agents in sync"), "{}", out(&output));
    let what = "error: could not see whether replicas wait for a host that is not there\n";
    assert!(err(&output).starts_with(what), "{}", err(&output));
}

#[test]
fn services_are_listed_with_how_many_of_them_serve() {
    let server = Server::start();
    let table = out(&server.fluke("get services"));
    let mut lines = table.lines();
    assert!(lines.next().is_some_and(|it| it.starts_with("NAME  STATUS")), "{table}");
    let row: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    assert_eq!(row[..3], ["shop", "drifted", "1/2"], "{table}");
    let json: Value =
        serde_json::from_str(&out(&server.fluke("get services -o json"))).expect("JSON");
    assert_eq!(json, json!({ "services": [service("shop")] }));
    assert_eq!(out(&server.fluke("get services -q")), "shop\n");
}

#[test]
fn a_reconcile_that_is_not_waited_for_prints_its_id() {
    let server = Server::start();
    let output = server.fluke("reconcile task certs --no-wait");
    assert_eq!((out(&output).as_str(), output.status.code()), ("r-17\n", Some(0)));
    assert_eq!(server.wishes.lock().expect("not poisoned")[0]["name"], "certs");
}

#[test]
fn a_reader_that_leaves_early_is_no_trouble() {
    let server = Server::start();
    let mut child = server
        .command("get events --limit 1000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("fluke runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(!err(&output).contains("error:"), "{}", err(&output));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn nobody_to_talk_to_is_told_with_what_to_do() {
    let output =
        fluke("get agents --server unix:///nonexistent/fluke.sock").output().expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let text = err(&output);
    assert!(
        text.starts_with("error: could not connect to unix:///nonexistent/fluke.sock\n"),
        "{text}"
    );
    assert!(text.contains("\nhelp: "), "{text}");
}

#[test]
fn wrong_usage_exits_2_and_suggests() {
    for (arguments, says) in [("get agent", "agents"), ("fmt -o json", "--output"), ("", "Usage")] {
        let output = fluke(arguments).output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(err(&output).contains(says), "{arguments}: {}", err(&output));
    }
}

#[test]
fn a_version_and_completions_are_printed() {
    let output = fluke("version").output().expect("runs");
    assert_eq!(out(&output), concat!("fluke ", env!("CARGO_PKG_VERSION"), "\n"));
    let output = fluke("completions bash").output().expect("runs");
    assert!(out(&output).contains("reconcile"));
}
