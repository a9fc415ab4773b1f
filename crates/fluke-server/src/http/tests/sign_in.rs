//! People who come with a token and stay with a cookie.

use serde_json::json;

use super::*;
use crate::http::session::{LIFE, Session};
use fluke_model::secret::SecretDigest;

const TOKENS: Setup = Setup {
    tokens: &["other", "right"],
    secret: None,
    backlog: crate::changes::BACKLOG,
    first_wait: Duration::from_millis(1),
    alerts: false,
    names: &[],
    patience: Patience::USUAL,
};

fn with_cookie(server: &Server, path: &str, cookie: &str) -> reqwest::RequestBuilder {
    server.client.get(server.at(path)).header("cookie", cookie)
}

async fn session(server: &Server, cookie: &str) -> serde_json::Value {
    Answer::of(with_cookie(server, "/api/v1/session", cookie)).await.json()
}

#[tokio::test]
async fn who_signs_in_sees_everything_and_is_named_in_what_they_do() {
    let server = Server::start(TOKENS).await;
    server.commit("abc", &["certs"]);
    let _agent = server.agent("web-01");
    let cookie = server.sign_in("right", "Anna").await;
    for route in ROUTES.iter().filter(|route| route.access == Access::Page) {
        let path = route.path.replace("{*name}", "x");
        assert_eq!(Answer::of(with_cookie(&server, &path, &cookie)).await.status, 200, "{path}");
    }
    let shown = Answer::of(with_cookie(&server, "/api/v1/agents", &cookie)).await.json();
    assert_eq!(shown["agents"][0]["name"], "web-01");

    let asks = |origin: Option<&str>| {
        let request = server.client.post(server.at("/api/v1/reconcile")).header("cookie", &cookie);
        let request = request.json(&json!({"scope": "all", "by": "somebody else"}));
        match origin {
            Some(origin) => request.header("origin", origin),
            None => request,
        }
    };
    let accepted = Answer::of(asks(Some(&server.url))).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let progress = accepted.headers["location"].to_str().expect("text").to_string();
    let progress = Answer::of(with_cookie(&server, &progress, &cookie)).await.json();
    assert_eq!(progress["by"], "Anna via api token #2 (browser)");

    for origin in [None, Some("null"), Some("https://evil.example")] {
        assert_eq!(Answer::of(asks(origin)).await.problem().0, 403, "{origin:?}");
    }
}

#[tokio::test]
async fn the_form_leads_back_to_where_one_wanted_to_go() {
    let server = Server::start(TOKENS).await;
    let own = [("origin", server.url.as_str())];
    for (next, location) in [("/agents/web-01", "/agents/web-01"), ("//evil.example", "/")] {
        let form = [("token", "right"), ("next", next)];
        let answer = server.send_form("/sign-in", &form, &own).await;
        assert_eq!(
            (answer.status, &answer.headers["location"]),
            (303, &location.parse().expect("header"))
        );
        // Whoever is in already needs no form.
        let door = format!("/sign-in?next={next}");
        let cookie = answer.cookie().expect("a cookie");
        let answer = Answer::of(with_cookie(&server, &door, &cookie)).await;
        assert_eq!(
            (answer.status, &answer.headers["location"]),
            (303, &location.parse().expect("header"))
        );
    }
    let page = server.get("/sign-in?next=/drift%22%3E%3Cscript%3E").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains(r#"action="/sign-in""#) && page.text.contains(r#"method="post""#));
    assert!(
        page.text.contains(r#"name="next" value="/drift&quot;&gt;&lt;script&gt;""#),
        "{}",
        page.text
    );
    assert!(
        !page.text.contains("<script>") && !page.text.contains("role=\"alert\""),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn a_wrong_token_is_told_on_the_same_page_after_a_while() {
    let first_wait = Duration::from_millis(20);
    let server = Server::start(Setup { first_wait, ..TOKENS }).await;
    let own = [("origin", server.url.as_str())];
    for doublings in 0..3 {
        let began = std::time::Instant::now();
        let form = [("token", "wrong"), ("name", "<b>Anna"), ("next", "/drift")];
        let answer = server.send_form("/sign-in", &form, &own).await;
        assert!(began.elapsed() >= first_wait * (1 << doublings));
        assert_eq!((answer.status, answer.cookie()), (401, None));
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
        assert!(answer.text.contains("not one of the API tokens"), "{}", answer.text);
        assert!(answer.text.contains(r#"value="&lt;b&gt;Anna""#), "{}", answer.text);
        assert!(answer.text.contains(r#"name="next" value="/drift""#), "{}", answer.text);
        assert!(!answer.text.contains("wrong\""), "the token is not repeated");
    }
    for form in [vec![], vec![("token", "")], vec![("token", "oth")]] {
        assert_eq!(server.send_form("/sign-in", &form, &own).await.status, 401, "{form:?}");
    }
}

#[tokio::test]
async fn no_place_to_ask_is_a_place_to_guess() {
    let first_wait = Duration::from_millis(20);
    let server = Server::start(Setup { first_wait, ..TOKENS }).await;
    for doublings in 0..3 {
        let began = std::time::Instant::now();
        let asks = server.client.get(server.at("/api/v1/session")).bearer_auth("wrong");
        assert_eq!(Answer::of(asks).await.problem().0, 401);
        assert!(began.elapsed() >= first_wait * (1 << doublings));
    }
}

#[tokio::test]
async fn the_door_is_for_its_own_page_only() {
    let server = Server::start(TOKENS).await;
    let cookie = server.sign_in("right", "Anna").await;
    for headers in [
        vec![],
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site"), ("origin", server.url.as_str())],
    ] {
        let form = [("token", "right"), ("next", "/")];
        let answer = server.send_form("/sign-in", &form, &headers).await;
        assert_eq!((answer.problem().0, answer.cookie()), (403, None), "{headers:?}");
        let mut headers = headers.clone();
        headers.push(("cookie", &cookie));
        assert_eq!(server.send_form("/sign-out", &[], &headers).await.problem().0, 403);
    }
    assert_eq!(session(&server, &cookie).await["signed_in"], true, "nobody signed Anna out");
    let own = [("origin", server.url.as_str()), ("content-type", "text/plain")];
    let request = server.client.post(server.at("/sign-in")).header(own[0].0, own[0].1);
    assert_eq!(Answer::of(request.body("token=right")).await.problem().0, 415);
    let long = "x".repeat(20_000);
    let answer = server.send_form("/sign-in", &[("token", &long)], &own[..1]).await;
    assert_eq!(answer.problem().0, 413);
}

#[tokio::test]
async fn who_signs_out_is_out_whatever_cookie_they_kept() {
    let server = Server::start(TOKENS).await;
    let cookie = server.sign_in("right", "Anna").await;
    let other = server.sign_in("right", "Anna").await;
    assert_ne!(cookie, other, "every session is one of its own");
    let headers = [("origin", server.url.as_str()), ("cookie", cookie.as_str())];
    let answer = server.send_form("/sign-out", &[], &headers).await;
    assert_eq!(
        (answer.status, &answer.headers["location"]),
        (303, &"/sign-in".parse().expect("header"))
    );
    let forgotten = answer.headers["set-cookie"].to_str().expect("text");
    assert!(forgotten.starts_with("__Host-fluke_session=; Max-Age=0;"), "{forgotten}");
    assert_eq!(session(&server, &cookie).await["signed_in"], false);
    let kept = Answer::of(with_cookie(&server, "/api/v1/agents", &cookie)).await;
    assert_eq!(kept.problem().0, 401);
    assert_eq!(session(&server, &other).await["signed_in"], true, "only this one");
}

#[tokio::test]
async fn sessions_end_with_their_token_and_survive_a_restart() {
    let server = Server::start(TOKENS).await;
    let cookie = server.sign_in("right", "Anna").await;
    server.app.api_tokens.replace(["new", "right"]);
    assert_eq!(session(&server, &cookie).await["name"], "Anna");
    let restarted = Server::start(Setup { tokens: &["right"], ..TOKENS }).await;
    assert_eq!(session(&restarted, &cookie).await["name"], "Anna");
    server.app.api_tokens.replace(["new"]);
    let out = Answer::of(with_cookie(&server, "/api/v1/agents", &cookie)).await;
    assert_eq!(out.problem().0, 401);
    assert_eq!(session(&server, &cookie).await["signed_in"], false);
}

#[tokio::test]
async fn a_stream_ends_with_what_it_was_let_in_by() {
    let server = Server::start(TOKENS).await;
    let anna = server.sign_in("right", "Anna").await;
    let ben = server.sign_in("other", "Ben").await;
    let mut streams = Vec::new();
    for cookie in [&anna, &ben] {
        let stream = with_cookie(&server, "/api/v1/stream", cookie).send().await.expect("answer");
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    let headers = [("origin", server.url.as_str()), ("cookie", anna.as_str())];
    server.send_form("/sign-out", &[], &headers).await;
    server.record("after Anna has left");
    let [of_anna, mut of_ben] = <[_; 2]>::try_from(streams).expect("two");
    let told = of_anna.text().await.expect("it ends");
    assert!(!told.contains("after Anna has left"), "{told}");
    let mut heard = String::new();
    while !heard.contains("after Anna has left") {
        let more = of_ben.chunk().await.expect("a stream").expect("it goes on");
        heard.push_str(&String::from_utf8_lossy(&more));
    }
    server.app.api_tokens.replace(["right"]);
    server.record("after Ben's token was taken out");
    let told = of_ben.text().await.expect("it ends");
    assert!(!told.contains("taken out"), "{told}");
}

#[tokio::test]
async fn a_session_that_is_used_is_renewed() {
    let server = Server::start(TOKENS).await;
    let (now, token) = (Timestamp::from(std::time::SystemTime::now()), SecretDigest::of("right"));
    let ago = |time: Duration| Timestamp(now.0 - time.as_millis() as u64);
    let cookie =
        |session: Session| session.cookie(&token).split(';').next().unwrap_or_default().to_string();
    let fresh = cookie(Session::begin("Anna", [1; 16], now));
    let used = cookie(Session::begin("Anna", [1; 16], ago(LIFE / 2)));
    for path in ["/", "/api/v1/agents", "/api/v1/session"] {
        assert_eq!(Answer::of(with_cookie(&server, path, &fresh)).await.cookie(), None, "{path}");
        let renewed = Answer::of(with_cookie(&server, path, &used)).await.cookie();
        let renewed = renewed.unwrap_or_else(|| panic!("{path}: not renewed"));
        assert_eq!(session(&server, &renewed).await["name"], "Anna");
    }
    // What others may keep carries nobody's cookie.
    assert_eq!(Answer::of(with_cookie(&server, "/favicon.ico", &used)).await.cookie(), None);
    let expired = cookie(Session::begin("Anna", [1; 16], ago(LIFE)));
    let answer = Answer::of(with_cookie(&server, "/", &expired)).await;
    assert_eq!((answer.status, answer.cookie()), (303, None), "but not raised from the dead");
}

#[tokio::test]
async fn without_tokens_the_door_explains_and_lets_nobody_in() {
    let server = Server::start(Setup::default()).await;
    let page = server.get("/sign-in").await;
    assert_eq!(page.status, 200);
    for said in ["read-only over the network", "api_tokens", "/run/fluke/fluke.sock"] {
        assert!(page.text.contains(said), "{said}: {}", page.text);
    }
    assert!(!page.text.contains("<form"), "{}", page.text);
    let own = [("origin", server.url.as_str())];
    for token in ["", "right"] {
        let answer = server.send_form("/sign-in", &[("token", token)], &own).await;
        assert_eq!((answer.status, answer.cookie()), (403, None));
    }
}

#[tokio::test]
async fn over_plain_http_from_elsewhere_it_is_said_that_nobody_stays_signed_in() {
    let server = Server::start(TOKENS).await;
    let said = "came over plain http";
    let there = ("host", "fluke.lan:7071");
    let page = server.client.get(server.at("/sign-in")).header(there.0, there.1);
    assert!(Answer::of(page).await.text.contains(said));
    let safe = server.client.get(server.at("/sign-in")).header(there.0, there.1);
    let safe = Answer::of(safe.header("sec-fetch-site", "none")).await;
    assert!(!safe.text.contains(said), "browsers say where from only when the way is safe");
    assert!(!server.get("/sign-in").await.text.contains(said), "loopback");

    let form = [("token", "right")];
    let headers = [there, ("origin", "http://fluke.lan:7071")];
    let answer = server.send_form("/sign-in", &form, &headers).await;
    assert_eq!((answer.status, answer.cookie()), (400, None));
    assert!(answer.text.contains(said), "{}", answer.text);
    let headers = [there, ("origin", "https://fluke.lan:7071")];
    assert_eq!(server.send_form("/sign-in", &form, &headers).await.status, 303, "behind a proxy");
}

#[tokio::test]
async fn a_link_from_elsewhere_comes_again_with_its_cookie() {
    let server = Server::start(TOKENS).await;
    let door = "/sign-in?next=%2Fagents%2Fweb-01%3Fa%3D1%26b%3D2";
    let from_elsewhere = server.client.get(server.at(door)).header("sec-fetch-site", "cross-site");
    let page = Answer::of(from_elsewhere).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains(&format!("content=\"0; url={door}\"")), "{}", page.text);
    assert!(!page.text.contains("<form"));
}

#[tokio::test]
async fn everybody_can_ask_what_they_may_do_here() {
    let server = Server::start(TOKENS).await;
    server.commit("abc", &["certs"]);
    let _agent = server.agent("web-01");
    let version = env!("CARGO_PKG_VERSION");
    let socket = "/run/fluke/fluke.sock";
    assert_eq!(
        server.get("/api/v1/session").await.json(),
        json!({"signed_in": false, "name": null, "may_change": false, "tokens_configured": true,
               "version": null, "socket": null, "page_url": null}),
        "strangers learn nothing"
    );
    let cookie = server.sign_in("right", "Anna").await;
    assert_eq!(
        session(&server, &cookie).await,
        json!({"signed_in": true, "name": "Anna", "may_change": true, "tokens_configured": true,
               "version": version, "socket": socket, "page_url": null})
    );
    let token = server.client.get(server.at("/api/v1/session")).bearer_auth("right");
    let token = Answer::of(token).await.json();
    assert_eq!((&token["signed_in"], &token["may_change"]), (&json!(true), &json!(true)));
    let local = Answer::of(server.local.get("http://localhost/api/v1/session")).await.json();
    assert_eq!((&local["signed_in"], &local["may_change"]), (&json!(false), &json!(true)));

    let open = Server::start(Setup::default()).await;
    let anybody = open.get("/api/v1/session").await.json();
    assert_eq!(
        (&anybody["may_change"], &anybody["tokens_configured"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(anybody["version"], version);
}

#[tokio::test]
async fn what_one_may_do_here_is_what_the_guards_say() {
    let open = Server::start(Setup::default()).await;
    let tokens = Server::start(TOKENS).await;
    let cookie = tokens.sign_in("right", "Anna").await;
    let by_name = ("host", "evil.com:7071");
    let by_name_from_its_page = [by_name, ("origin", "http://evil.com:7071")];
    let elsewhere = ("sec-fetch-site", "cross-site");
    for (case, server, headers) in [
        ("a name that leads here", &open, vec![by_name]),
        ("a page that made it so", &open, by_name_from_its_page.to_vec()),
        ("a page elsewhere", &open, vec![elsewhere]),
        ("a page elsewhere, with a cookie", &tokens, vec![elsewhere, ("cookie", &cookie)]),
    ] {
        let asks = server.client.get(server.at("/api/v1/session"));
        let asks = headers.iter().fold(asks, |asks, (name, value)| asks.header(*name, *value));
        let told = Answer::of(asks).await.json();
        for field in ["name", "version", "socket", "page_url"] {
            assert_eq!(told[field], json!(null), "{case}: {told}");
        }
        assert_eq!((&told["signed_in"], &told["may_change"]), (&json!(false), &json!(false)));
    }
    // Through the socket nobody is signed in, whatever they show: changes do not name them either.
    let local = tokens.local.get("http://localhost/api/v1/session").header("cookie", &cookie);
    let local = Answer::of(local).await.json();
    assert_eq!((&local["name"], &local["may_change"]), (&json!(null), &json!(true)));
    let rebound = Answer::of(tokens.local.get("http://evil.com/api/v1/session")).await.json();
    assert_eq!((&rebound["socket"], &rebound["may_change"]), (&json!(null), &json!(false)));
}
