use fluke_model::id::ServiceName;
use fluke_model::service::Service;
use serde_json::json;

use super::*;
use crate::services::fixture::service;

#[tokio::test]
async fn before_the_first_commit_it_lives_and_is_not_ready_and_says_why() {
    let server = Server::start(Setup::default()).await;
    assert_eq!(server.get("/healthz").await.status, 200);
    let (status, why) = server.get("/readyz").await.problem();
    assert_eq!((status, &*why), (503, "no commit is in force yet: the repository is being read"));

    server.source.send_modify(|source| source.error = Some("connection refused".into()));
    let (status, why) = server.get("/api/v1/tasks").await.problem();
    assert_eq!(status, 503);
    assert!(why.ends_with("infra.git could not be read: connection refused"), "{why}");

    server.commit("abc", &["certs"]);
    assert_eq!(server.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn agents_are_shown_with_what_they_do_and_did() {
    let server = Server::start(Setup::default()).await;
    server.commit("abc", &["certs", "runtimes"]);
    let mut agent = server.agent("web-01");
    agent.drifts(2);
    let mut event = Event::new(EventKind::DriftDetected, Timestamp(5));
    event.agent = Some(AgentName::new("web-01").expect("name"));
    server.app.events.record(event);
    server.record("of nobody");

    let list = server.get("/api/v1/agents").await.json();
    let shown = &list["agents"][0];
    assert_eq!(shown["name"], "web-01");
    assert_eq!(shown["status"], "drifted");
    assert_eq!(shown["labels"], json!({"role": "web"}));
    assert_eq!(shown["tasks"], json!({"total": 2, "in_sync": 0, "drifted": 2, "failed": 0}));

    let detail = server.get("/api/v1/agents/web-01").await.json();
    assert_eq!(detail["commit"], "abc");
    assert_eq!(detail["task_details"][0]["name"], "certs");
    assert_eq!(detail["task_details"][0]["steps"][0]["reason"], "not so");
    assert_eq!(detail["events"].as_array().map(Vec::len), Some(1), "its own and no others");

    let drift = server.get("/api/v1/drift").await.json();
    assert_eq!(drift["drift"].as_array().map(Vec::len), Some(2));
    assert_eq!(drift["drift"][0]["policy"], "alert_only");

    let (status, why) = server.get("/api/v1/agents/web-1").await.problem();
    assert_eq!((status, &*why), (404, "no agent `web-1` is known; did you mean `web-01`?"));
}

#[tokio::test]
async fn names_with_slashes_are_found_either_way() {
    let server = Server::start(Setup::default()).await;
    let _agent = server.agent("dc1/web-01");
    for path in ["/api/v1/agents/dc1/web-01", "/api/v1/agents/dc1%2Fweb-01"] {
        assert_eq!(server.get(path).await.json()["name"], "dc1/web-01");
    }
}

#[tokio::test]
async fn tasks_are_shown_with_where_they_stand() {
    let server = Server::start(Setup::default()).await;
    server.commit("abc", &["certs", "runtimes"]);
    let (mut a, _b) = (server.agent("a"), server.agent("b"));
    a.drifts(2);

    let list = server.get("/api/v1/tasks").await.json();
    assert_eq!(list["tasks"].as_array().map(Vec::len), Some(2));
    let task = server.get("/api/v1/tasks/certs").await.json();
    assert_eq!(task, list["tasks"][0]);
    assert_eq!(task["defined"], "web.fluke.hcl:12");
    assert_eq!(task["policy"], "alert_only", "the server's default");
    assert_eq!(task["status"], "drifted");
    assert_eq!(
        task["agents"],
        json!([{"name": "a", "status": "drifted"}, {"name": "b", "status": "unknown"}])
    );

    let (status, why) = server.get("/api/v1/tasks/cert").await.problem();
    assert_eq!((status, &*why), (404, "no task `cert` is known; did you mean `certs`?"));
}

#[tokio::test]
async fn events_come_in_pages_newest_first() {
    let server = Server::start(Setup::default()).await;
    for number in 0..5 {
        server.record(&number.to_string());
    }
    let (mut path, mut seen) = ("/api/v1/events?limit=2".to_string(), Vec::new());
    loop {
        let page = server.get(&path).await.json();
        let events = page["events"].as_array().expect("events").clone();
        seen.extend(events.iter().map(|event| event["output"].as_str().map(str::to_string)));
        match page["next"].as_str() {
            Some(next) => path = format!("/api/v1/events?limit=2&before={next}"),
            None => break,
        }
    }
    let seen: Vec<String> = seen.into_iter().flatten().collect();
    assert_eq!(seen, ["4", "3", "2", "1", "0"]);

    let (status, why) = server.get("/api/v1/events?limit=many").await.problem();
    assert_eq!((status, &*why), (400, "`limit`: give a number from 1 to 1000"));
}

#[tokio::test]
async fn a_reconcile_is_asked_for_and_followed_and_names_who_asked() {
    let server = Server::start(Setup { tokens: &["other", "right"], ..Setup::default() }).await;
    server.commit("abc", &["certs"]);
    let mut agent = server.agent("web-01");

    let ask = json!({"scope": "agent", "name": "web-01", "by": "ana"});
    let request =
        server.client.post(server.at("/api/v1/reconcile")).bearer_auth("right").json(&ask);
    let answer = Answer::of(request).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let id = answer.json()["id"].as_str().expect("an id").to_string();
    assert_eq!(answer.headers["location"], format!("/api/v1/reconcile/{id}").as_str());
    agent.nudged.recv().await.expect("it is woken");

    let path = format!("http://x/api/v1/reconcile/{id}");
    let progress = Answer::of(server.local.get(path)).await.json();
    assert_eq!(
        (&progress["by"], &progress["done"]),
        (&json!("ana via api token #2"), &json!(false))
    );

    let local = server.local.post("http://x/api/v1/reconcile").json(&json!({"scope": "all"}));
    let answer = Answer::of(local).await;
    assert_eq!(answer.status, 202);
    agent.nudged.recv().await.expect("it is woken");
    let id = answer.json()["id"].as_str().expect("an id").to_string();
    let path = format!("http://x/api/v1/reconcile/{id}");
    let progress = Answer::of(server.local.get(path)).await.json();
    let uid = nix::unistd::getuid();
    assert_eq!(progress["by"], format!("somebody via socket (uid {uid})"));

    let unknown = server.local.get("http://x/api/v1/reconcile/nothing");
    assert_eq!(Answer::of(unknown).await.problem().0, 404);
}

#[tokio::test]
async fn a_reconcile_that_cannot_be_is_refused_with_the_reason() {
    let server = Server::start(Setup::default()).await;
    server.commit("abc", &["certs"]);
    let mut away = server.agent("away");
    away.step(Input::Disconnected { why: "gone".into() });
    let url = "http://x/api/v1/reconcile";
    let ask = |body: serde_json::Value| Answer::of(server.local.post(url).json(&body));

    for (body, status, said) in [
        (
            json!({"scope": "agent", "name": "awya"}),
            404,
            "no agent `awya` is known; did you mean `away`?",
        ),
        (
            json!({"scope": "task", "name": "cetrs"}),
            404,
            "no task `cetrs` is known; did you mean `certs`?",
        ),
        (
            json!({"scope": "agent", "name": "away"}),
            409,
            "the agent `away` is not connected; it is checked when it returns, and put right as its policies say",
        ),
        (json!({"scope": "task"}), 400, "the scope `task` needs a name"),
        (json!({"scope": "some"}), 400, "the body is not right: unknown variant `some`"),
        (
            json!({"scope": "all", "force": true}),
            400,
            "the body is not right: unknown field `force`",
        ),
        (json!({}), 400, "the body is not right: missing field `scope`"),
    ] {
        let (got, why) = ask(body.clone()).await.problem();
        assert_eq!(got, status, "{body}: {why}");
        assert!(why.starts_with(said), "{body}: {why}");
    }
    let plain = server.local.post(url).body(r#"{"scope":"all"}"#);
    assert_eq!(Answer::of(plain).await.problem().0, 415);
    let broken = server.local.post(url).header("content-type", "application/json").body("{");
    assert_eq!(Answer::of(broken).await.problem().0, 400);
}

#[tokio::test]
async fn a_reconcile_of_a_service_concerns_the_hosts_that_should_run_it() {
    let server = Server::start(Setup::default()).await;
    let named = |name: &str, role: &str| {
        let label = Labels::parse_pair(&format!("role={role}")).expect("a label");
        let selector = Selector { match_labels: [label].into(), ..Selector::default() };
        let name = ServiceName::new(name).expect("a name");
        (name.clone(), Arc::new(Service { name, selector, ..service(None) }))
    };
    let services = [named("shop", "web"), named("ledger", "db")].into();
    server.put_in_force("abc", Model { services, ..Model::default() });
    let mut agent = server.agent("web-01");
    let mut away = server.agent("web-02");
    away.step(Input::Disconnected { why: "gone".into() });
    let url = "http://x/api/v1/reconcile";
    let ask = |body: serde_json::Value| Answer::of(server.local.post(url).json(&body));

    for body in [
        json!({"scope": "service", "name": "shop", "by": "ana"}),
        json!({"scope": "service", "name": "shop", "agent": "web-01"}),
    ] {
        let accepted = ask(body.clone()).await;
        assert_eq!(accepted.status, 202, "{body}: {}", accepted.text);
        agent.nudged.recv().await.expect("it is woken");
        let id = accepted.json()["id"].as_str().expect("an id").to_string();
        let progress = Answer::of(server.local.get(format!("{url}/{id}"))).await.json();
        let states: Vec<_> = progress["agents"]
            .as_array()
            .expect("agents")
            .iter()
            .map(|agent| (agent["name"].as_str(), agent["state"].as_str()))
            .collect();
        let of_all = [(Some("web-01"), Some("waiting")), (Some("web-02"), Some("offline"))];
        let expected = if body["agent"].is_null() { &of_all[..] } else { &of_all[..1] };
        assert_eq!(states, expected, "{body}");
    }
    let events = server.get("/api/v1/events?service=shop&kind=reconcile_requested").await.json();
    let by = events["events"][1]["by"].as_str().expect("a name");
    assert!(by.starts_with("ana via socket"), "{events}");

    for (body, status, said) in [
        (
            json!({"scope": "service", "name": "shpo"}),
            404,
            "no service `shpo` is known; did you mean `shop`?",
        ),
        (
            json!({"scope": "service", "name": "shop", "agent": "web-02"}),
            409,
            "the agent `web-02` is not connected",
        ),
        (
            json!({"scope": "service", "name": "ledger", "agent": "web-01"}),
            409,
            "nothing of the service `ledger` should run on `web-01`",
        ),
        (json!({"scope": "service"}), 400, "the scope `service` needs a name"),
        (
            json!({"scope": "service", "name": "shop", "agent": "web-01", "seen": []}),
            400,
            "the scope `service` takes no `seen`",
        ),
    ] {
        let (got, why) = ask(body.clone()).await.problem();
        assert_eq!(got, status, "{body}: {why}");
        assert!(why.starts_with(said), "{body}: {why}");
    }
}

#[tokio::test]
async fn a_service_is_shown_with_what_its_containers_are_made_from_but_no_value_of_a_variable() {
    let server = Server::start(Setup::default()).await;
    let mut shop = service(Some(2));
    shop.container.env = [("PASSWORD".to_string(), "hunter2".to_string())].into();
    shop.container.resources.cpu_millis = Some(500);
    let services = [(shop.name.clone(), Arc::new(shop))].into();
    server.put_in_force("abc", Model { services, ..Model::default() });

    let one = server.get("/api/v1/services/web").await;
    assert!(!one.text.contains("hunter2"), "{}", one.text);
    let one = one.json();
    assert_eq!((&one["env"], &one["cpu_millis"]), (&json!(["PASSWORD"]), &json!(500)));
    assert!(one.get("command").is_none() && one.get("memory").is_none(), "{one}");
    assert_eq!(one["reschedule_after_ms"], 300_000);
    let list = server.get("/api/v1/services").await.json();
    assert!(list["services"][0].get("env").is_none(), "a list would be large");
}

#[tokio::test]
async fn a_wrong_path_or_method_says_what_is_right() {
    let server = Server::start(Setup::default()).await;
    let (status, why) = server.get("/api/v1/agent").await.problem();
    assert_eq!(status, 404);
    assert!(why.contains("/api/v1/agents"), "{why}");
    let answer = server.post("/api/v1/agents", json!({})).await;
    assert_eq!(answer.problem().0, 405);
    assert_eq!(answer.headers["allow"], "GET,HEAD");
}

#[tokio::test]
async fn a_push_to_the_tracked_branch_has_the_repository_read() {
    let server = Server::start(Setup { secret: Some("s3cret"), ..Setup::default() }).await;
    let push = |token: &'static str, body: String| {
        let request = server.client.post(server.at("/webhooks/git")).body(body);
        let request = request.header("content-type", "application/json");
        let request = request.header("x-gitlab-event", "Push Hook").header("x-gitlab-token", token);
        Answer::of(request)
    };
    let body = |branch: &str| {
        json!({"object_kind": "push", "ref": format!("refs/heads/{branch}"), "after": "a".repeat(40)})
            .to_string()
    };

    assert_eq!(push("s3cret", body("main")).await.status, 202);
    assert_eq!(server.polls.load(Ordering::SeqCst), 1);

    let other = push("s3cret", body("feature")).await;
    assert_eq!((other.status, &other.json()["polling"]), (200, &json!(false)));
    assert_eq!(push("wrong", body("main")).await.problem().0, 401);
    assert_eq!(push("s3cret", "{".into()).await.problem().0, 400);
    assert_eq!(push("s3cret", " ".repeat(2 << 20)).await.problem().0, 413);
    assert_eq!(server.polls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn without_a_secret_pushes_are_not_taken() {
    let server = Server::start(Setup::default()).await;
    let (status, why) = server.post("/webhooks/git", json!({})).await.problem();
    assert_eq!(status, 404);
    assert!(why.contains("webhook_secret"), "{why}");
}

#[tokio::test]
async fn an_agent_that_is_gone_is_forgotten_when_somebody_says_so_and_one_that_is_here_is_not() {
    let server = Server::start(Setup { tokens: &["right"], ..Setup::default() }).await;
    let mut agent = server.agent("db-01");
    let forget = |name: &str| {
        let request = server.client.delete(server.at(&format!("/api/v1/agents/{name}")));
        Answer::of(request.bearer_auth("right"))
    };
    let (status, why) = forget("db-01").await.problem();
    assert_eq!(status, 409);
    assert!(why.contains("is connected") && why.contains("fluke uninstall agent"), "{why}");
    agent.step(Input::Disconnected { why: "gone".into() });
    let answer = forget("db-01").await;
    assert_eq!((answer.status, answer.json()), (200, json!({"name": "db-01", "volumes": []})));
    assert_eq!(forget("db-01").await.problem().0, 404, "nobody knows it");
    assert_eq!(forget("no%20name").await.problem().0, 404);
    let query = crate::events::EventQuery { limit: 10, ..Default::default() };
    let events = server.app.events.recent(&query).await.events;
    let told = events.iter().find(|event| event.kind == EventKind::AgentForgotten).expect("told");
    assert_eq!(told.by.as_deref(), Some("somebody via api token #1"));
}
