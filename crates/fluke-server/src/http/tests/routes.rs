//! Every route, with every credential.

use super::*;
use crate::http::auth::Access;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credential {
    None,
    Wrong,
    Empty,
    Basic,
    Right,
}

impl Credential {
    const ALL: [Self; 5] = [Self::None, Self::Wrong, Self::Empty, Self::Basic, Self::Right];

    fn on(self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match self {
            Self::None => request,
            Self::Wrong => request.bearer_auth("wrong"),
            Self::Empty => request.header("authorization", "Bearer "),
            Self::Basic => request.basic_auth("fluke", Some("right")),
            Self::Right => request.bearer_auth("right"),
        }
    }
}

/// A request for a route that does not care what else is in it.
fn request(client: &reqwest::Client, server: &str, route: &Route) -> reqwest::RequestBuilder {
    let path = route.path.replace("{*name}", "x").replace("{id}", "x");
    let known = [(POST, Method::POST), (DELETE, Method::DELETE)];
    let method = known.into_iter().find(|(of, _)| *of == route.method);
    let method = method.map_or(Method::GET, |(_, method)| method);
    client.request(method, format!("{server}{path}"))
}

async fn status(request: reqwest::RequestBuilder) -> u16 {
    // Not the body: a stream has no end.
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn with_tokens_nothing_but_the_open_routes_is_served_without_one() {
    let server = Server::start(Setup { tokens: &["other", "right"], ..Setup::default() }).await;
    for route in ROUTES {
        for credential in Credential::ALL {
            let status = status(credential.on(request(&server.client, &server.url, route))).await;
            // A page sends those who showed nothing to the form.
            let asked = credential != Credential::Wrong;
            let refusal = match route.access {
                Access::Page if asked => 303,
                _ => 401,
            };
            // Where anybody may ask who they are, a wrong token is still a wrong token.
            let expected = match route.access {
                Access::Open if route.path == "/api/v1/session" => credential == Credential::Wrong,
                Access::Open | Access::OwnPage => false,
                _ => credential != Credential::Right,
            };
            assert_eq!(status == refusal, expected, "{} {credential:?}: {status}", route.path);
            let strange = route.access == Access::OwnPage;
            assert_eq!(status == 403, strange, "{} {credential:?}", route.path);
        }
    }
}

#[tokio::test]
async fn a_wrong_token_waits_longer_each_time_and_a_right_one_never() {
    let first_wait = Duration::from_millis(20);
    let server = Server::start(Setup { tokens: &["right"], first_wait, ..Setup::default() }).await;
    let call = |token: &'static str| {
        let request = server.client.get(server.at("/api/v1/agents")).bearer_auth(token);
        async move {
            let began = std::time::Instant::now();
            (status(request).await, began.elapsed())
        }
    };
    for doublings in 0..5 {
        let (code, waited) = call("wrong").await;
        assert_eq!(code, 401);
        // Only the lower bound is ours to promise.
        assert!(waited >= first_wait * (1 << doublings), "{doublings}: {waited:?}");
        assert_eq!(call("right").await.0, 200, "a right token is not made to wait");
    }
    // No token is no guess.
    assert_eq!(server.get("/api/v1/agents").await.status, 401);
    let query = crate::events::EventQuery { limit: 100, ..Default::default() };
    let events = server.app.events.recent(&query).await.events;
    let told: Vec<_> = events
        .iter()
        .filter(|event| event.kind == EventKind::CallerRefused)
        .map(|event| event.output.clone().unwrap_or_default())
        .collect();
    assert_eq!(told.len(), 3, "the first, the second and the fourth: {told:?}");
    assert!(told[0].contains("127.0.0.1") && told[0].contains("(4 from"), "{told:?}");
    assert!(told.iter().all(|text| !text.contains("wrong\"")), "{told:?}");
}

#[tokio::test]
async fn guesses_that_wait_do_not_keep_others_out() {
    let first_wait = Duration::from_secs(3600);
    let server = Server::start(Setup { tokens: &["right"], first_wait, ..Setup::default() }).await;
    let held = server.app.0.waiting.try_acquire_many(MAX_WAITING as u32).expect("places");
    let wrong = server.client.get(server.at("/api/v1/agents")).bearer_auth("wrong");
    assert_eq!(status(wrong).await, 503, "no more guesses for now");
    let right = server.client.get(server.at("/api/v1/agents")).bearer_auth("right");
    assert_eq!(status(right).await, 200);
    drop(held);
}

#[tokio::test]
async fn without_tokens_the_network_may_look_and_not_touch() {
    let server = Server::start(Setup::default()).await;
    for route in ROUTES {
        for credential in Credential::ALL {
            let status = status(credential.on(request(&server.client, &server.url, route))).await;
            let refused = status == 403;
            let expected = matches!(route.access, Access::Change | Access::OwnPage);
            assert_eq!(refused, expected, "{} {credential:?}", route.path);
            assert_ne!(status, 401, "{} {credential:?}", route.path);
        }
    }
}

#[tokio::test]
async fn the_local_socket_may_do_everything() {
    let server = Server::start(Setup { tokens: &["right"], ..Setup::default() }).await;
    for route in ROUTES {
        for credential in Credential::ALL {
            let status = status(credential.on(request(&server.local, "http://x", route))).await;
            let expected = route.access == Access::OwnPage;
            let refused = [401, 403].contains(&status);
            assert_eq!(refused, expected, "{} {credential:?}: {status}", route.path);
        }
    }
}

#[tokio::test]
async fn a_strange_page_can_change_nothing_whatever_it_holds() {
    let server = Server::start(Setup { tokens: &["right"], ..Setup::default() }).await;
    let changes = ROUTES.iter().filter(|route| route.access == Access::Change);
    for route in changes {
        for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")]
        {
            let there = [(&server.client, server.url.as_str()), (&server.local, "http://x")];
            for (client, url) in there {
                let request = request(client, url, route).bearer_auth("right");
                assert_eq!(status(request.header(name, value)).await, 403, "{}", route.path);
            }
        }
        let own = request(&server.client, &server.url, route).bearer_auth("right");
        let status = status(own.header("origin", &server.url)).await;
        assert!(![401, 403].contains(&status), "{}: {status}", route.path);
    }
}

#[tokio::test]
async fn what_changes_something_is_marked_so() {
    for route in ROUTES {
        let marked = matches!(route.access, Access::Change | Access::OwnPage);
        let webhook = route.path == "/webhooks/git";
        assert_eq!(route.method != GET, marked || webhook, "{}", route.path);
    }
}

#[tokio::test]
async fn every_answer_carries_the_strict_headers() {
    let server = Server::start(Setup::default()).await;
    for path in ["/healthz", "/readyz", "/metrics", "/api/v1/agents", "/nowhere"] {
        let answer = server.get(path).await;
        for (name, value) in SECURITY_HEADERS {
            assert_eq!(answer.headers[&name], value, "{path}");
        }
    }
    assert_eq!(server.post("/healthz", serde_json::json!({})).await.headers["allow"], "GET,HEAD");
}
