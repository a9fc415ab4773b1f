//! Lists: some of them, page by page.

use serde_json::{Value, json};

use super::*;

/// Three agents with two tasks each, of which `b` has drifted.
async fn three() -> (Server, Vec<Agent>) {
    let server = Server::start(Setup::default()).await;
    server.commit("abc", &["certs", "runtimes"]);
    let mut agents: Vec<Agent> = ["a", "b", "c"].map(|name| server.agent(name)).into();
    agents[1].drifts(2);
    agents[2].step(Input::Disconnected { why: "gone".into() });
    (server, agents)
}

/// The names under `key` in a list.
fn names(list: &Value, of: &str, key: &str) -> Vec<String> {
    let list = list[of].as_array().expect("a list");
    list.iter().map(|one| one[key].as_str().expect("a name").to_string()).collect()
}

#[tokio::test]
async fn agents_are_filtered_by_status_label_and_name() {
    let (server, _agents) = three().await;
    for (query, expected) in [
        ("", &["a", "b", "c"][..]),
        ("status=drifted", &["b"]),
        ("status=offline", &["c"]),
        ("label=role=web", &["a", "b", "c"]),
        ("label=role", &["a", "b", "c"]),
        ("label=role%3Dweb&label=env", &[]),
        ("label=role=db", &[]),
        ("name=b", &["b"]),
        ("name=B", &[]),
        ("status=unknown&name=a&label=role", &["a"]),
        ("after=a", &["b", "c"]),
        ("after=aa&status=offline", &["c"]),
    ] {
        let list = server.get(&format!("/api/v1/agents?{query}")).await.json();
        assert_eq!(names(&list, "agents", "name"), expected, "{query}");
        assert!(list.get("next").is_none(), "{query}");
    }
}

#[tokio::test]
async fn a_list_comes_in_pages_and_the_last_one_says_so() {
    let (server, _agents) = three().await;
    for (path, of, key, expected) in [
        ("/api/v1/agents?limit=1", "agents", "name", &["a", "b", "c"][..]),
        ("/api/v1/agents?limit=2", "agents", "name", &["a", "b", "c"]),
        ("/api/v1/agents?limit=3", "agents", "name", &["a", "b", "c"]),
        ("/api/v1/tasks?limit=1", "tasks", "name", &["certs", "runtimes"]),
        ("/api/v1/tasks?limit=1&status=drifted", "tasks", "name", &["certs", "runtimes"]),
        ("/api/v1/drift?limit=1", "drift", "task", &["certs", "runtimes"]),
        ("/api/v1/drift?limit=1&agent=b", "drift", "task", &["certs", "runtimes"]),
        ("/api/v1/drift?limit=1&task=runtimes", "drift", "task", &["runtimes"]),
        ("/api/v1/drift?limit=1&agent=a", "drift", "task", &[]),
        ("/api/v1/drift?limit=5&policy=remediate", "drift", "task", &[]),
    ] {
        let (mut found, mut next) = (Vec::new(), None::<String>);
        loop {
            let after = next.map(|next| format!("&after={next}")).unwrap_or_default();
            let page = server.get(&format!("{path}{after}")).await.json();
            found.extend(names(&page, of, key));
            next = page["next"].as_str().map(str::to_string);
            if next.is_none() {
                break;
            }
            assert!(found.len() < 10, "{path} has no end");
        }
        assert_eq!(found, expected, "{path}");
    }
}

#[tokio::test]
async fn a_page_of_drift_goes_on_where_the_last_one_ended_even_if_that_is_gone() {
    let (server, _agents) = three().await;
    for (after, expected) in [
        ("a:zzz:shell.x", &["certs", "runtimes"][..]),
        ("b:a:shell.x", &["certs", "runtimes"]),
        ("b:certs:shell.only", &["runtimes"]),
        ("b:certs:shell.gone", &["runtimes"]),
        ("b:d:shell.only", &["runtimes"]),
        ("b:runtimes:shell.only", &[]),
        ("c:a:shell.x", &[]),
    ] {
        let list = server.get(&format!("/api/v1/drift?after={after}")).await.json();
        assert_eq!(names(&list, "drift", "task"), expected, "{after}");
    }
}

#[tokio::test]
async fn a_large_list_is_compressed_for_those_who_ask() {
    let server = Server::start(Setup::default()).await;
    let _agents: Vec<Agent> = (0..100).map(|number| server.agent(&format!("a{number}"))).collect();
    let plain = server.get("/api/v1/agents").await;
    assert!(!plain.headers.contains_key("content-encoding"));
    let ask = server.client.get(server.at("/api/v1/agents")).header("accept-encoding", "gzip");
    let answer = ask.send().await.expect("an answer");
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let squeezed = answer.bytes().await.expect("a body");
    assert!(squeezed.len() * 5 < plain.text.len(), "{} bytes", squeezed.len());
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&squeezed[..]);
    std::io::Read::read_to_string(&mut decoder, &mut text).expect("gzip");
    assert_eq!(text, plain.text);
    let ask = server.client.get(server.at("/api/v1/source")).header("accept-encoding", "gzip");
    let small = ask.send().await.expect("an answer");
    assert!(!small.headers().contains_key("content-encoding"), "what is small stays as it is");
}

#[tokio::test]
async fn a_filter_with_a_mistake_returns_nothing_but_the_reason() {
    let (server, _agents) = three().await;
    let answer = server.get("/api/v1/agents?stats=drifted").await;
    let (status, why) = answer.problem();
    assert_eq!(status, 400);
    assert!(why.ends_with("did you mean `status`?"), "{why}");
    assert_eq!(answer.json()["suggestions"], json!(["status"]));
    for path in ["/api/v1/source?x=1", "/api/v1/agents/a?limit=1", "/api/v1/stream?after=1"] {
        assert_eq!(server.get(path).await.problem().0, 400, "{path}");
    }
}

/// Asks for a task to be put right through the socket.
async fn ask(server: &Server, body: Value) -> Answer {
    Answer::of(server.local.post("http://x/api/v1/reconcile").json(&body)).await
}

#[tokio::test]
async fn a_task_is_put_right_on_one_agent_alone() {
    let (server, mut agents) = three().await;
    let answer = ask(&server, json!({"scope": "task", "name": "certs", "agent": "b"})).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let id = answer.json()["id"].as_str().expect("an id").to_string();
    let progress = server.get(&format!("/api/v1/reconcile/{id}")).await.json();
    assert_eq!(progress["agent"], "b");
    assert_eq!(names(&progress, "agents", "name"), ["b"]);
    agents[1].nudged.recv().await.expect("it is woken");
    assert!(agents[0].nudged.try_recv().is_err(), "and nobody else is");

    for (body, status, said) in [
        (json!({"scope": "task", "name": "certs", "agent": "x"}), 404, "no agent `x` is known"),
        (
            json!({"scope": "task", "name": "certs", "agent": "c"}),
            409,
            "the agent `c` is not connected; it is checked when it returns, and put right as its policies say",
        ),
        (
            json!({"scope": "agent", "name": "b", "agent": "b"}),
            400,
            "the scope `agent` takes no `agent`",
        ),
    ] {
        assert_eq!(ask(&server, body).await.problem(), (status, said.to_string()));
    }
}

#[tokio::test]
async fn an_approval_is_of_what_was_seen() {
    let (server, _agents) = three().await;
    let approve = |agent: &str, seen: Value| {
        ask(&server, json!({"scope": "task", "name": "certs", "agent": agent, "seen": seen}))
    };
    let so = json!([{"step": "shell.only", "reason": "not so"}]);
    assert_eq!(approve("b", so.clone()).await.status, 202);
    for (agent, seen, now) in [
        ("b", json!([{"step": "shell.only", "reason": "another"}]), "shell.only (not so)"),
        ("b", json!([{"step": "shell.other", "reason": "not so"}]), "shell.only (not so)"),
        ("b", json!([]), "shell.only (not so)"),
        ("a", so, "nothing"),
    ] {
        let answer = approve(agent, seen.clone()).await;
        let (status, why) = answer.problem();
        assert_eq!(status, 409, "{seen}");
        assert_eq!(answer.json()["type"], "urn:fluke:problem:seen-otherwise");
        assert!(why.ends_with(&format!("now: {now}")), "{why}");
    }
}

#[tokio::test]
async fn an_approval_may_name_the_task_as_it_was_seen() {
    let (server, _agents) = three().await;
    let approve = |hash: &Value| {
        let seen = json!([{"step": "shell.only", "reason": "not so", "task_hash": hash}]);
        ask(&server, json!({"scope": "task", "name": "certs", "agent": "b", "seen": seen}))
    };
    let drift = server.get("/api/v1/drift?agent=b&task=certs").await.json();
    let hash = &drift["drift"][0]["task_hash"];
    let detail = server.get("/api/v1/agents/b").await.json();
    let tasks = detail["task_details"].as_array().expect("a list");
    let task = tasks.iter().find(|task| task["name"] == "certs").expect("it is for b");
    assert_eq!(&task["task_hash"], hash);
    assert_eq!(approve(hash).await.status, 202);

    let before = json!("0".repeat(64));
    let answer = approve(&before).await;
    let (status, why) = answer.problem();
    assert_eq!(status, 409);
    assert_eq!(answer.json()["type"], "urn:fluke:problem:seen-otherwise");
    assert!(why.contains("was changed in Git since it was seen"), "{why}");
}
