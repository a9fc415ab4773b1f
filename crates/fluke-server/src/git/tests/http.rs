//! Over HTTP, with git's own CGI program behind a real server.

use std::process::Stdio;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response, StatusCode, header};
use base64::Engine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Serves the repositories under `root` to `bot` with password `right`; returns its address.
async fn serve(root: std::path::PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().fallback(move |request| answer(root.clone(), request));
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn answer(root: std::path::PathBuf, request: Request<Body>) -> Response<Body> {
    let expected = base64::engine::general_purpose::STANDARD.encode("bot:right");
    let given = request.headers().get(header::AUTHORIZATION).cloned();
    if request.uri().path().starts_with("/moved") {
        return plain(StatusCode::FOUND, header::LOCATION, "http://127.0.0.1:1/elsewhere");
    }
    if given.is_none_or(|given| given != format!("Basic {expected}")) {
        return plain(StatusCode::UNAUTHORIZED, header::WWW_AUTHENTICATE, "Basic realm=\"git\"");
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
    let text = |name: header::HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_string()
    };
    let mut backend = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or(""))
        .env("CONTENT_TYPE", text(header::CONTENT_TYPE))
        .env("HTTP_CONTENT_ENCODING", text(header::CONTENT_ENCODING))
        .env("GIT_PROTOCOL", text(header::HeaderName::from_static("git-protocol")))
        .env("CONTENT_LENGTH", body.len().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git http-backend");
    let mut stdin = backend.stdin.take().expect("a pipe");
    stdin.write_all(&body).await.expect("written");
    drop(stdin);
    let output = backend.wait_with_output().await.expect("an answer");
    let end = output.stdout.windows(4).position(|four| four == b"\r\n\r\n").expect("headers");
    let head = String::from_utf8_lossy(&output.stdout[..end]).into_owned();
    let mut response = Response::builder();
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        response = match name {
            "Status" => response.status(value[..3].parse::<u16>().expect("a status")),
            _ => response.header(name, value),
        };
    }
    response.body(Bytes::copy_from_slice(&output.stdout[end + 4..]).into()).expect("a response")
}

fn plain(status: StatusCode, name: header::HeaderName, value: &str) -> Response<Body> {
    Response::builder().status(status).header(name, value).body(Body::empty()).expect("plain")
}

fn with_password(mut config: GitConfig, password: &str) -> GitConfig {
    config.credentials = Some(Credentials { user: "bot".into(), password: password.into() });
    config
}

#[tokio::test]
async fn the_right_password_opens_and_a_wrong_one_is_told() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let server = serve(repository.beside("")).await;
    let config = repository.config_for(&format!("{server}/work/.git"));
    let mut mirror = Mirror::new(with_password(config.clone(), "right"));
    assert_eq!(mirror.tip().await.expect("a tip"), repository.head());
    assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), "one");

    for config in [with_password(config.clone(), "wr0ng"), config.clone()] {
        let mut mirror = Mirror::new(config);
        for error in [mirror.tip().await.expect_err("refused"), refused(&mut mirror).await] {
            assert!(matches!(error, GitError::Authentication { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error}");
        }
    }
}

#[tokio::test]
async fn credentials_in_the_url_work_and_never_reach_an_argument() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let server = serve(repository.beside("")).await.replace("http://", "http://bot:right@");
    let mut mirror = Mirror::new(repository.config_for(&format!("{server}/work/.git")));
    assert_eq!(mirror.tip().await.expect("a tip"), repository.head());
    assert!(!mirror.url().as_str().contains("right"));
}

#[tokio::test]
async fn a_path_without_a_repository_is_not_found() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let server = serve(repository.beside("")).await;
    let config = repository.config_for(&format!("{server}/nothing.git"));
    let error = refused(&mut Mirror::new(with_password(config, "right"))).await;
    assert!(matches!(error, GitError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let server = serve(repository.beside("")).await;
    let config = repository.config_for(&format!("{server}/moved/infra.git"));
    let error = refused(&mut Mirror::new(with_password(config, "right"))).await;
    assert!(matches!(error, GitError::Moved { .. }), "{error}");
}

#[tokio::test]
async fn a_closed_port_is_a_matter_of_the_network() {
    let repository = Repository::empty();
    let error = refused(&mut Mirror::new(repository.config_for("http://127.0.0.1:1/x"))).await;
    assert!(matches!(error, GitError::Network { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_and_nothing_is_left_running() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let repository = Repository::empty();
    let mut config = repository.config_for(&format!("http://{address}/x"));
    config.timeout = Duration::from_millis(300);
    let mut mirror = Mirror::new(config);
    let (error, ()) = tokio::join!(mirror.tip(), async {
        let (mut connection, _) = listener.accept().await.expect("git connects");
        // Ends when the last process that holds the connection is gone.
        let mut request = Vec::new();
        let _ = connection.read_to_end(&mut request).await;
    });
    let error = error.expect_err("no answer");
    assert!(matches!(error, GitError::Timeout { .. }), "{error}");
}
