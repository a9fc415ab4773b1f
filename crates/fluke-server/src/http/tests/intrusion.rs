//! Everybody who tries to get in without leave, at every route: nobody gets data or a change.

use fluke_model::secret::SecretDigest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::http::auth::Access;
use crate::http::session::{LIFE, Session};

/// Stands in the fleet, in the events and in the repository's address: whoever sees it got in.
const TREASURE: &str = "treasure";

/// How somebody tries to get in: further headers, and what is changed about the path.
struct Attempt {
    what: &'static str,
    headers: Vec<(&'static str, String)>,
    path: fn(&str) -> String,
}

fn attempt(what: &'static str, headers: &[(&'static str, &str)]) -> Attempt {
    let headers = headers.iter().map(|(name, value)| (*name, value.to_string())).collect();
    Attempt { what, headers, path: str::to_string }
}

fn by_path(what: &'static str, path: fn(&str) -> String) -> Attempt {
    Attempt { what, headers: vec![], path }
}

/// Cookies that look good and are not.
fn bad_cookies() -> Vec<(&'static str, String)> {
    let now = Timestamp::from(std::time::SystemTime::now());
    let cookie = |token: &str, begun: Timestamp| {
        let session = Session::begin("Mallory", [9; 16], begun);
        let cookie = session.cookie(&SecretDigest::of(token));
        cookie.split(';').next().unwrap_or_default().to_string()
    };
    let long_ago = Timestamp(now.0 - LIFE.as_millis() as u64 - 1000);
    let good = cookie("right", now);
    let (content, signature) = good.rsplit_once('.').expect("signed");
    let (expires, rest) = content.split_once('.').expect("parts");
    let expires = expires.trim_start_matches("__Host-fluke_session=");
    vec![
        ("expired", cookie("right", long_ago)),
        ("of a token that was taken out", cookie("rotated", now)),
        ("of the empty token", cookie("", now)),
        ("longer life", format!("__Host-fluke_session=9{expires}.{rest}.{signature}")),
        ("without a signature", content.to_string()),
        ("with an empty signature", format!("{content}.")),
        ("half a signature", format!("{content}.{}", &signature[..20])),
        ("twice", format!("{good}; {good}")),
        ("under another name", good.replace("fluke_session", "Fluke_Session")),
        ("that a host beside this one could set", good.replace("__Host-", "")),
        ("the token itself", "__Host-fluke_session=right".into()),
    ]
}

/// What proxies and frameworks are known to be fooled by.
fn attempts() -> Vec<Attempt> {
    let bearer = |token: &str| format!("Bearer {token}");
    let digest = fluke_model::id::Hash256::of(b"right").to_string();
    let mut attempts = vec![
        attempt("with nothing", &[]),
        attempt("with a wrong token", &[("authorization", &bearer("wrong"))]),
        attempt("with a token that was taken out", &[("authorization", &bearer("rotated"))]),
        attempt("with the digest of the token", &[("authorization", &bearer(&digest))]),
        attempt("with a password", &[("authorization", "Basic cmlnaHQ6cmlnaHQ=")]),
        attempt("with a token in the wrong header", &[("x-api-key", "right")]),
        attempt("as an own page", &[("sec-fetch-site", "same-origin")]),
        attempt("from elsewhere", &[("origin", "https://evil.example")]),
        attempt("from a page elsewhere", &[("sec-fetch-site", "cross-site")]),
        attempt("from no page", &[("origin", "null")]),
        attempt(
            "from this machine, they say",
            &[
                ("x-forwarded-for", "127.0.0.1"),
                ("x-real-ip", "127.0.0.1"),
                ("forwarded", "for=127.0.0.1"),
            ],
        ),
        attempt(
            "to another path, they say",
            &[("x-original-url", "/healthz"), ("x-rewrite-url", "/healthz")],
        ),
        attempt(
            "with another method, they say",
            &[("x-http-method-override", "GET"), ("x-method-override", "GET")],
        ),
        attempt(
            "as somebody, they say",
            &[("x-forwarded-user", "root"), ("remote-user", "root"), ("x-remote-user", "root")],
        ),
        attempt(
            "upgrading",
            &[
                ("connection", "upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
            ],
        ),
        by_path("with two slashes", |path| format!("/{path}")),
        by_path("with a slash behind", |path| format!("{path}/")),
        by_path("in upper case", |path| path.to_ascii_uppercase()),
        by_path("by way of an open path", |path| format!("/healthz/..{path}")),
        by_path("by way of an open path, hidden", |path| format!("/healthz/..;{path}")),
        by_path("by way of an open path, encoded", |path| format!("/healthz/%2e%2e{path}")),
        by_path("by way of the assets", |path| format!("/assets/x/..%2f..{path}")),
        by_path("with an encoded slash", |path| format!("/{}", path[1..].replace('/', "%2f"))),
        by_path("encoded", |path| path.replacen('a', "%61", 1)),
        by_path("with an end", |path| format!("{path}%00.css")),
        by_path("with a parameter", |path| format!("{path};x=/healthz")),
        by_path("with a token in the query", |path| {
            format!("{path}?token=right&access_token=right")
        }),
        by_path("with a method in the query", |path| format!("{path}?_method=GET")),
        by_path("by its full address", |path| format!("http://127.0.0.1{path}")),
        by_path("by somebody else's full address", |path| format!("http://healthz{path}")),
    ];
    attempts.extend(bad_cookies().iter().map(|(what, cookie)| {
        attempt(what, &[("cookie", cookie), ("sec-fetch-site", "same-origin")])
    }));
    attempts
}

async fn treasury(tokens: &'static [&'static str]) -> Server {
    let setup = Setup { tokens, first_wait: Duration::ZERO, ..Setup::default() };
    let server = Server::start(setup).await;
    server.app.api_tokens.replace(tokens.iter().filter(|token| **token != "rotated"));
    server.commit(TREASURE, &[TREASURE]);
    server.source.send_modify(|source| source.url = format!("https://{TREASURE}.example"));
    server.agent(TREASURE).drifts(1);
    server.record(TREASURE);
    server
}

/// As bytes: no client may put right what is wrong on purpose.
async fn raw(
    server: &Server,
    method: &str,
    target: &str,
    headers: &[(&str, String)],
    body: &str,
) -> (u16, String) {
    let address = server.url.trim_start_matches("http://");
    let mut request = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        request.push_str(&format!("host: {address}\r\n"));
    }
    let length = body.len();
    request.push_str(&format!("content-type: application/json\r\ncontent-length: {length}\r\n"));
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    if !headers.iter().any(|(name, _)| *name == "connection") {
        request.push_str("connection: close\r\n");
    }
    request.push_str(&format!("\r\n{body}"));
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.write_all(request.as_bytes()).await.expect("written");
    // A stream has no end, and an upgrade leaves the connection open: the first part says it all.
    let mut answer = vec![0; 64 << 10];
    let read = stream.read(&mut answer).await.expect("an answer");
    let text = String::from_utf8_lossy(&answer[..read]).into_owned();
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, text)
}

fn path_of(route: &Route) -> String {
    route
        .path
        .replace("{*name}", TREASURE)
        .replace("{id}", "x")
        .replace("{version}/{file}", "x/app.js")
}

fn is_guarded(route: &&Route) -> bool {
    !matches!(route.access, Access::Open | Access::OwnPage)
}

const EVERYTHING: &str = r#"{"scope":"all"}"#;

#[tokio::test]
async fn with_tokens_nobody_gets_in_without_one() {
    let server = treasury(&["right", "rotated"]).await;
    let attempts = attempts();
    for route in ROUTES.iter().filter(is_guarded) {
        for Attempt { what, headers, path } in &attempts {
            let target = path(&path_of(route));
            for method in ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "QUERY"] {
                let (status, text) = raw(&server, method, &target, headers, EVERYTHING).await;
                let case = format!("{method} {target} {what}: {text}");
                assert!([303, 400, 401, 403, 404, 405].contains(&status), "{case}");
                let names_what_was_asked_for = text.matches(TREASURE).count() <= 2;
                let tells = text.contains("certs") || !names_what_was_asked_for;
                assert!(!tells && !text.contains("\"agents\""), "{case}");
                assert!(!text.contains("access-control-allow"), "{case}");
            }
        }
    }
    assert_eq!(changes(&server).await, 0, "nothing was changed");
}

/// How many reconciles were ever asked for.
async fn changes(server: &Server) -> usize {
    let query = crate::events::EventQuery { limit: 1000, ..Default::default() };
    let events = server.app.events.recent(&query).await.events;
    events.iter().filter(|event| event.kind == EventKind::ReconcileRequested).count()
}

#[tokio::test]
async fn without_tokens_nobody_changes_anything_over_the_network() {
    let server = treasury(&[]).await;
    let attempts = attempts();
    let (mut headers, own) = (vec![], ("origin", server.url.clone()));
    for route in ROUTES.iter().filter(|route| route.access == Access::Change) {
        for attempt in &attempts {
            headers.clone_from(&attempt.headers);
            headers.push(own.clone());
            let target = (attempt.path)(&path_of(route));
            let (status, text) = raw(&server, "POST", &target, &headers, EVERYTHING).await;
            assert!([400, 403, 404, 405].contains(&status), "{target} {}: {text}", attempt.what);
        }
    }
    assert_eq!(changes(&server).await, 0);
}

#[tokio::test]
async fn a_name_that_was_made_to_lead_here_shows_nothing() {
    let open = treasury(&[]).await;
    let rebound = |host: &str| {
        vec![
            ("host", host.to_string()),
            ("origin", format!("http://{host}")),
            ("sec-fetch-site", "same-origin".to_string()),
        ]
    };
    for route in ROUTES.iter().filter(is_guarded) {
        let method = if route.method == POST { "POST" } else { "GET" };
        for host in ["evil.com:7071", "127.0.0.1.evil.com", "", "localhost.evil.com"] {
            let (status, text) =
                raw(&open, method, &path_of(route), &rebound(host), EVERYTHING).await;
            assert!([400, 403, 421].contains(&status), "{host} {}: {text}", route.path);
            assert!(!text.contains("\"labels\""), "{host} {}: {text}", route.path);
        }
    }
    let (status, _) = raw(&open, "GET", "/api/v1/agents", &rebound("localhost:7071"), "").await;
    assert_eq!(status, 200, "a name that nobody else can have");

    // The same through the socket, which somebody has forwarded to their machine.
    let tokens = treasury(&["right"]).await;
    for path in ["/api/v1/agents", "/", "/metrics"] {
        let request = tokens.local.get(format!("http://evil.com:7071{path}"));
        assert_eq!(Answer::of(request).await.problem().0, 421, "{path}");
    }
    let change = tokens.local.post("http://evil.com:7071/api/v1/reconcile");
    let change = change.header("origin", "http://evil.com:7071").body(EVERYTHING);
    let answer = Answer::of(change.header("content-type", "application/json")).await;
    assert_eq!(answer.problem().0, 421);
    assert_eq!(changes(&tokens).await, 0);
}

#[tokio::test]
async fn a_name_that_is_said_to_lead_here_is_served_and_the_others_learn_how() {
    let server = Server::start(Setup { names: &["vm.example.org"], ..Setup::default() }).await;
    for path in ["/", "/metrics", "/api/v1/agents"] {
        let by = |host: &str| server.client.get(server.at(path)).header("host", host);
        assert_eq!(Answer::of(by("vm.example.org:7071")).await.status, 200, "{path}");
        let (status, why) = Answer::of(by("other.example.org:7071")).await.problem();
        assert_eq!((status, why.contains("http_names")), (421, true), "{path}: {why}");
    }
}

#[tokio::test]
async fn two_requests_in_one_are_two_requests() {
    let server = treasury(&["right"]).await;
    // Both lengths at once: what one side takes for a body is a request to the other.
    let smuggled = "0\r\n\r\nGET /api/v1/agents HTTP/1.1\r\nhost: x\r\n\r\n";
    for headers in [
        vec![("transfer-encoding", "chunked".to_string())],
        vec![("transfer-encoding", "identity, chunked".to_string())],
        vec![("content-length", "0".to_string())],
    ] {
        let (status, text) = raw(&server, "POST", "/webhooks/git", &headers, smuggled).await;
        assert!((400..500).contains(&status), "{headers:?}: {text}");
        assert!(!text.contains(TREASURE), "{headers:?}: {text}");
    }
}

#[tokio::test]
async fn other_origins_are_never_told_that_they_may_read() {
    let server = treasury(&["right"]).await;
    for route in ROUTES {
        let (method, origin) = (Method::OPTIONS, "https://evil.example");
        let asks = server.client.request(method, server.at(&path_of(route)));
        let asks = asks.header("origin", origin).header("access-control-request-method", "POST");
        let reads = server.client.get(server.at(&path_of(route))).header("origin", origin);
        for request in [asks, reads.bearer_auth("right")] {
            let answer = request.send().await.expect("an answer");
            let cors =
                answer.headers().keys().find(|name| name.as_str().starts_with("access-control"));
            assert_eq!(cors, None, "{}", route.path);
        }
    }
}
