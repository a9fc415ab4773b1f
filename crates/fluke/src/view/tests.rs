mod progress;

use fluke_model::api::*;
use fluke_model::policy::Policy;
use fluke_model::status::Status;
use fluke_model::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::screen::Style;

const PIPE: Style = Style { colours: false, width: None, height: None };

fn terminal(width: usize) -> Style {
    Style { colours: false, width: Some(width), height: Some(24) }
}

/// The same, after a look at whether it fits.
fn fitting(text: String, width: usize) -> String {
    for line in text.lines() {
        assert!(crate::fit::shown_width(line) <= width, "{line:?} is wider than {width}");
    }
    text
}

fn now() -> Timestamp {
    at("2026-01-02T03:10:00Z")
}

fn at(text: &str) -> Timestamp {
    Timestamp::try_from(text.to_string()).expect("a time")
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("as the API says")
}

fn agent(name: &str, status: &str, total: u32, drifted: u32, failed: u32) -> Value {
    json!({
        "name": name, "labels": {"role": "web"}, "connected": status != "offline", "status": status,
        "version": "0.1.0", "node_type": "worker", "connected_since": "2026-01-02T03:00:00Z",
        "last_seen": "2026-01-02T03:09:57Z", "commit": "0123456789abcdef", "snapshot": null,
        "tasks": {"total": total, "in_sync": total - drifted - failed, "drifted": drifted, "failed": failed}
    })
}

fn event(kind: &str, output: &str) -> Value {
    json!({
        "id": "7", "time": "2026-01-02T03:08:00Z", "kind": kind, "agent": "web-01", "task": "certs",
        "step": "shell.renew", "trigger": "manual", "commit": null, "outcome": "failure",
        "duration_ms": 1250, "output": output, "by": "ada@desk"
    })
}

fn drifted_agent() -> AgentDetail {
    let mut value = agent("web-01", "drifted", 2, 1, 0);
    value["executors"] = json!(["shell", "mise"]);
    value["task_details"] = json!([
        {"name": "certs", "policy": "alert_only", "status": "drifted", "failures": 0, "retry_at": null, "steps": [
            {"step": "shell.renew", "status": "drifted", "reason": "the check ended with exit code 1:\n\u{1b}[31mexpires\u{1b}[0m soon",
             "diff": "-old\n+new", "since": "2026-01-02T03:00:00Z", "last_checked": "2026-01-02T03:09:57Z", "last_applied": null},
            {"step": "shell.reload", "status": "in_sync", "reason": null, "diff": null, "since": null,
             "last_checked": "2026-01-02T03:09:57Z", "last_applied": null}]},
        {"name": "runtimes", "policy": "remediate", "status": "in_sync", "failures": 0, "retry_at": null, "steps": []}
    ]);
    value["events"] = json!([event("apply_finished", "acme: rate limited\ntry later\n")]);
    read(value)
}

#[test]
fn agents_are_a_line_each() {
    let mut app = agent("app-1", "in_sync", 0, 0, 0);
    app["services"] = json!({"total": 2, "in_sync": 2, "drifted": 0, "failed": 0});
    let web = agent("web-01", "in_sync", 3, 0, 0);
    let list: Agents = read(json!({ "agents": [app, web, agent("db-1", "failed", 4, 1, 2)] }));
    assert_eq!(
        fleet::agents(&list.agents, now()).render(PIPE, 0),
        "NAME    STATUS   TASKS  SERVICES  DRIFTED  FAILED  COMMIT     VERSION  LABELS    SEEN
db-1    failed   1/4    -         1        2       012345678  0.1.0    role=web  3s ago
app-1   in_sync  -      2/2       0        0       012345678  0.1.0    role=web  3s ago
web-01  in_sync  3/3    -         0        0       012345678  0.1.0    role=web  3s ago
"
    );
}

#[test]
fn drift_tells_the_first_line_of_its_reason() {
    let list: DriftList = read(json!({ "drift": [{
        "agent": "web-01", "task": "certs", "step": "shell.renew", "policy": "alert_only", "status": "drifted",
        "reason": "\u{1b}]0;x\u{7}expires soon\nmore", "since": "2026-01-02T03:00:00Z"
    }]}));
    assert_eq!(
        fleet::drift(&list.drift, now()).render(PIPE, 0),
        "AGENT   OF     STEP         POLICY      STATUS   SINCE    REASON
web-01  certs  shell.renew  alert_only  drifted  10m ago  expires soon
"
    );
}

#[test]
fn what_drifted_of_services_is_told_beside_what_drifted_of_tasks() {
    let entry = |service: Option<&str>, step: &str, status: &str| {
        json!({ "agent": "app-1", "task": null, "service": service, "step": step,
            "policy": "remediate", "status": status, "reason": "so", "since": null })
    };
    let list: DriftList = read(json!({ "drift": [
        entry(Some("web"), "container.web-0", "drifted"), entry(None, "mesh.peers", "failed"),
    ]}));
    assert_eq!(
        fleet::drift(&list.drift, now()).render(PIPE, 0),
        "AGENT  OF   STEP             POLICY     STATUS   SINCE  REASON
app-1  -    mesh.peers       remediate  failed   -      so
app-1  web  container.web-0  remediate  drifted  -      so
"
    );
}

#[test]
fn no_drift_is_told_with_what_it_is_based_on() {
    let agents = |list: Vec<Value>| read::<Agents>(json!({ "agents": list }));
    for (list, told) in [
        (vec![], "nothing is drifted, but no agent is known yet\n"),
        (vec![agent("a", "in_sync", 1, 0, 0)], "nothing is drifted: 1 agent, 1 in sync\n"),
        (
            vec![agent("a", "in_sync", 1, 0, 0), agent("b", "offline", 1, 0, 0)],
            "nothing is drifted: 2 agents, 1 in sync, 1 offline\n",
        ),
    ] {
        assert_eq!(fleet::no_drift(&agents(list)), told);
    }
}

#[test]
fn every_list_fits_every_terminal() {
    let agents: Agents = read(json!({ "agents": [
        agent("web-eu-west-production-0001", "in_sync", 3, 0, 0), agent("db-1", "failed", 4, 1, 2)
    ]}));
    let drift: DriftList = read(json!({ "drift": [{
        "agent": "web-eu-west-production-0001", "task": "certificates", "step": "shell.renew-all", "policy": "alert_only",
        "status": "applied_but_drifted", "since": "2026-01-02T03:00:00Z",
        "reason": "check exited 1: the certificate of 例え.example.com ends in 3 days, and nobody has renewed it yet"
    }]}));
    let events: Events = read(
        json!({ "events": [event("apply_finished", "acme: rate limited\n"), event("agent_connected", "")], "next": null }),
    );
    for width in [40, 60, 80, 120] {
        let style = terminal(width);
        let lists = [
            fleet::agents(&agents.agents, now()).render(style, 0),
            fleet::drift(&drift.drift, now()).render(style, 0),
            fleet::events(&events.events, now()).render(style, 0),
        ];
        insta::assert_snapshot!(format!("lists_{width}"), fitting(lists.join("\n"), width));
    }
}

#[test]
fn a_reader_of_lines_is_told_only_what_is_new() {
    let list = |values: Vec<Value>| read::<Agents>(json!({ "agents": values })).agents;
    let old = list(vec![
        agent("a", "in_sync", 1, 0, 0),
        agent("b", "in_sync", 1, 0, 0),
        agent("c", "in_sync", 1, 0, 0),
    ]);
    let mut heard = agent("a", "in_sync", 1, 0, 0);
    heard["last_seen"] = json!("2026-01-02T03:09:59Z");
    let new = list(vec![heard, agent("b", "drifted", 1, 1, 0)]);
    let told = fleet::changed_agents(&old, &new, now()).render(PIPE, 0);
    assert_eq!(told, "b  drifted  0/1  1  0  012345678  0.1.0  role=web  3s ago\nc  gone\n");
    let events = |ids: &[&str]| {
        let events = ids.iter().map(|id| {
            let mut event = event("drift_detected", id);
            event["id"] = json!(id);
            event
        });
        read::<Events>(json!({ "events": events.collect::<Vec<_>>(), "next": null })).events
    };
    let told =
        fleet::new_events(&events(&["7", "6"]), &events(&["9", "8", "7"]), now()).render(PIPE, 0);
    let ends: Vec<&str> = told.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(ends, ["8", "9"], "in the order in which they happened");
}

#[test]
fn events_tell_who_asked_and_how_it_ended() {
    let list: Events = read(
        json!({ "events": [event("apply_finished", "\nacme: rate limited\n")], "next": null }),
    );
    assert_eq!(
        fleet::events(&list.events, now()).render(PIPE, 0),
        "TIME    KIND            AGENT   TASK/STEP          TRIGGER            OUTCOME  TOOK  OUTPUT
2m ago  apply_finished  web-01  certs/shell.renew  manual (ada@desk)  failure  1.2s  acme: rate limited
"
    );
}

#[test]
fn an_agent_tells_what_is_wrong_and_why_before_anything_else() {
    insta::assert_snapshot!("agent_in_a_pipe", agent::describe(&drifted_agent(), PIPE, now()));
    for width in [40, 60, 100] {
        let text = agent::describe(&drifted_agent(), terminal(width), now());
        insta::assert_snapshot!(format!("agent_{width}"), fitting(text, width));
    }
}

#[test]
fn an_agent_that_is_well_or_away_is_told_in_a_line_or_two() {
    let mut well = drifted_agent();
    well.agent.status = Status::InSync;
    well.task_details.truncate(0);
    let text = agent::describe(&well, PIPE, now());
    assert!(text.starts_with("web-01 is in sync - 2 tasks, nothing to do\n\nAgent\n"), "{text}");
    let mut away = well.clone();
    (away.agent.status, away.agent.connected) = (Status::Offline, false);
    let text = agent::describe(&away, PIPE, now());
    assert!(
        text.starts_with("web-01 is offline since 2026-01-02T03:09:57Z (3s ago)\n  next  "),
        "{text}"
    );
    assert!(text.contains("it is checked, and put right as its policies say\n"), "{text}");
    assert!(text.contains("\n  do    on that host: systemctl status fluke-agent"), "{text}");
}

/// An agent that has services alone.
fn serving(name: &str, status: &str, failed: u32) -> Value {
    let mut agent = agent(name, status, 0, 0, 0);
    agent["services"] = json!({"total": 2, "in_sync": 2 - failed, "drifted": 0, "failed": failed});
    agent
}

#[test]
fn an_agent_that_has_services_alone_tells_how_they_are() {
    let deployment = |status: &str, phase: &str, note: Value| {
        json!([{
            "replica": null, "status": status, "phase": phase, "health": "none",
            "image": "registry.example/game/lobby:3", "container": null, "note": note,
            "address": if phase == "running" { json!("10.200.7.2") } else { Value::Null },
        }])
    };
    let detail = |agent: Value, game: Value, status: &str, network: Value| {
        let mut detail = agent;
        detail["executors"] = json!(["container", "shell"]);
        detail["task_details"] = json!([]);
        detail["events"] = json!([]);
        detail["network"] = network;
        detail["service_details"] = json!([
            {"name": "game", "policy": "alert_only", "status": status, "deployments": game},
            {"name": "web", "policy": "remediate", "status": "in_sync",
             "deployments": deployment("in_sync", "running", Value::Null)},
        ]);
        read::<AgentDetail>(detail)
    };
    let well = deployment("in_sync", "running", Value::Null);
    let well = detail(serving("app-01", "in_sync", 0), well, "in_sync", json!([]));
    let text = agent::describe(&well, PIPE, now());
    assert!(text.starts_with("app-01 is in sync - 2 services, nothing to do\n\nAgent"), "{text}");

    let note = json!("its container does not run; its policy is alert_only");
    let game = deployment("drifted", "stopped", note);
    let network = json!([
        {"part": "names", "problem": null},
        {"part": "mesh", "problem": "wg0: the kernel has no WireGuard"},
    ]);
    let wrong = detail(serving("app-01", "failed", 1), game, "drifted", network);
    insta::assert_snapshot!("agent_with_services", agent::describe(&wrong, PIPE, now()));
}

#[test]
fn what_happens_next_is_told_for_each_situation() {
    for (case, change, says) in [
        ("offline", json!({"connected": false}), "before the agent is back"),
        ("applying", json!({"step": "applying"}), "it is being put right now"),
        (
            "non-convergent",
            json!({"step": "applied_but_drifted"}),
            "its command ended well and its check still says no",
        ),
        (
            "failing",
            json!({"step": "failed", "retry": "2026-01-02T03:10:40Z"}),
            "it failed 3 times in a row, and is tried again in 40s",
        ),
        (
            "relapsing",
            json!({"failures": 0, "retry": "2026-01-02T03:10:40Z"}),
            "it drifts again whenever it was put right: it is left alone, and tried again in 40s",
        ),
        ("a human's", json!({}), "it waits for you: its policy is `alert_only`"),
        ("waiting", json!({"policy": "remediate"}), "when its turn comes"),
        ("cannot tell", json!({"step": "failed"}), "with the next cycle"),
        (
            "blocked",
            json!({"second": "drifted", "step": "failed"}),
            "it waits for shell.renew, whose check cannot tell",
        ),
    ] {
        let mut value = serde_json::to_value(drifted_agent()).expect("JSON");
        let set = |target: &mut Value, with: &Value| {
            if !with.is_null() {
                *target = with.clone();
            }
        };
        set(&mut value["connected"], &change["connected"]);
        let task = &mut value["task_details"][0];
        task["failures"] = json!(3);
        set(&mut task["failures"], &change["failures"]);
        set(&mut task["steps"][1]["status"], &change["second"]);
        set(&mut task["policy"], &change["policy"]);
        set(&mut task["retry_at"], &change["retry"]);
        set(&mut task["steps"][0]["status"], &change["step"]);
        let text = agent::describe(&read(value), PIPE, now());
        assert!(text.contains(says), "{case}: {text}");
    }
}

#[test]
fn a_task_tells_where_it_stands_and_what_it_is() {
    let view: TaskView = read(json!({
        "name": "certs", "description": null, "policy": "alert_only", "defined": "web/certs.fluke.hcl:4",
        "selector": {"match_labels": {"role": "web"}, "match_expressions": [{"key": "zone", "operator": "exists"}]},
        "steps": [{"address": "shell.renew", "on_failure": "continue", "timeout": 90000,
            "spec": {"shell": {"check": "test -f x", "command": "set -e\ntouch x\n"}}}],
        "status": "drifted", "agents": [{"name": "db-1", "status": "in_sync"}, {"name": "web-01", "status": "drifted"}]
    }));
    let drift: DriftList = read(json!({ "drift": [{
        "agent": "web-01", "task": "certs", "step": "shell.renew", "policy": "alert_only", "status": "drifted",
        "reason": "expires soon", "since": "2026-01-02T03:00:00Z"
    }]}));
    let told = |width| task::describe(&view, &drift.drift, width, now());
    insta::assert_snapshot!("task_in_a_pipe", told(PIPE));
    insta::assert_snapshot!("task_40", fitting(told(terminal(40)), 40));
    let calm =
        TaskView { agents: vec![view.agents[0].clone()], status: Status::InSync, ..view.clone() };
    let text = task::describe(&calm, &[], PIPE, now());
    assert!(text.starts_with("certs is in sync on its one agent\n"), "{text}");
    let away = TaskAgent { status: Status::Offline, ..view.agents[0].clone() };
    for (policy, next) in [
        (Policy::Remediate, "checked and put right on return\n"),
        (Policy::AlertOnly, "checked on return; its policy is `alert_only`\n"),
    ] {
        let away = TaskView { agents: vec![away.clone()], policy, ..calm.clone() };
        let text = task::describe(&away, &[], PIPE, now());
        assert!(text.contains(&format!("offline: db-1\n  next  {next}")), "{text}");
    }
    let nobody = TaskView { agents: vec![], ..view.clone() };
    let text = task::describe(&nobody, &[], PIPE, now());
    assert!(
        text.starts_with("certs matches no known agent\n  why   its selector is: role=web"),
        "{text}"
    );
    let table = fleet::tasks(&[view]).render(PIPE, 0);
    assert_eq!(
        table,
        "NAME   POLICY      STATUS   AGENTS  STEPS  DEFINED
certs  alert_only  drifted  1/2     1      web/certs.fluke.hcl:4
"
    );
}

fn source(rejected: bool, error: Option<&str>) -> Source {
    let diagnostics = json!([{"severity": "error", "message": "unknown attribute `comand`", "file": "a.fluke.hcl",
        "line": 3, "column": 5, "end_line": 3, "end_column": 11, "source": ["    comand = \"x\""]}]);
    read(json!({
        "url": "git@host:infra.git", "branch": "main", "commit": "aaaaaaaaaaaa", "commit_since": "2026-01-02T03:00:00Z",
        "last_seen": if rejected { "bbbbbbbbbbbb" } else { "aaaaaaaaaaaa" }, "rejected": rejected,
        "diagnostics": if rejected { diagnostics } else { json!([]) },
        "last_poll": "2026-01-02T03:09:00Z", "next_poll": "2026-01-02T03:10:30Z", "error": error
    }))
}

#[test]
fn a_source_that_needs_a_look_is_warned_of() {
    assert_eq!(source::warning(&source(false, None)), None);
    assert_eq!(
        source::warning(&source(true, None)).expect("a warning"),
        "commit bbbbbbbbb was rejected (1 error), aaaaaaaaa stays in force; see `fluke get source`"
    );
    assert_eq!(
        source::warning(&source(false, Some("ssh: no route\nto host"))).expect("a warning"),
        "the repository cannot be read: ssh: no route; see `fluke get source`"
    );
}

#[test]
fn a_rejected_commit_is_shown_with_its_diagnostics() {
    let text = source::describe(&source(true, None), PIPE, now());
    assert!(
        text.starts_with(
            "rejected: commit bbbbbbbbb was rejected (1 error), aaaaaaaaa stays in force\n"
        ),
        "{text}"
    );
    assert!(text.contains("next poll    2026-01-02T03:10:30Z (in 30s)"), "{text}");
    assert!(
        text.contains("unknown attribute `comand`") && text.contains("a.fluke.hcl:3:5"),
        "{text}"
    );
}

fn web() -> ServiceView {
    let replica = |number: u32, agent: &str, status: &str, phase: &str, note: Value| {
        json!({
            "agent": agent, "connected": status != "offline", "replica": number,
            "deployment": "9a1b0c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b",
            "status": status, "phase": phase, "health": "none", "image": "registry.example/shop/web:1.4.2",
            "digest": null, "serves": status == "in_sync", "note": note,
            "container": (phase == "running").then(|| format!("web-{number}-9a1b0c2d3e4f")),
            "address": if phase == "running" { json!(format!("10.200.{}.2", 7 + number)) } else { Value::Null },
        })
    };
    read(json!({
        "name": "web", "description": "Storefront", "policy": "remediate",
        "selector": {"match_labels": {"role": "app"}}, "defined": "shop/web.fluke.hcl:1",
        "image": "registry.example/shop/web:1.4.2", "replicas": 4, "status": "failed",
        "command": ["serve", "--motto", "it's \u{1b}[31mours"],
        "env": ["DATABASE_URL", "LOG"],
        "volumes": {"cache": "/var/cache", "data": "/data"},
        "health": {
            "command": "wget -qO- localhost:3000/health", "interval_ms": 10_000,
            "timeout_ms": 5_000, "retries": 3, "start_period_ms": 90_000
        },
        "cpu_millis": 500, "memory": 268_435_456,
        "counts": {"wanted": 4, "running": 1, "serving": 1, "failed": 1},
        "ports": [
            {"name": "admin", "container": 9000, "protocol": "tcp"},
            {"name": "game", "container": 7777, "protocol": "udp", "external": 11001},
            {"name": "http", "container": 3000, "protocol": "http", "domain": "shop.example.com"},
            {"name": "mail", "container": 465, "protocol": "tcp", "external": 10465, "domain": "mail.example.com"}
        ],
        "hostname": "web.internal", "addresses": ["10.200.7.2"],
        "routes": [{
            "port": "http", "protocol": "http", "domain": "shop.example.com",
            "upstreams": ["10.200.7.2:3000"], "loaded": 1, "proxies": 2,
            "behind": ["edge-2 has not come on with its routes for 30 seconds, and is not waited for: Traefik is gone"]
        }],
        "deployments": [
            replica(0, "app-01", "in_sync", "running", Value::Null),
            replica(1, "app-02", "failed", "failed", json!("the image cannot be pulled: \u{1b}[31munauthorized\u{1b}[0m")),
            replica(2, "app-03", "offline", "running", json!("its host does not answer")),
        ],
        "waiting": ["replica 3 waits for a host: none that runs services and matches the selector is connected"],
    }))
}

#[test]
fn a_service_tells_what_is_wrong_first() {
    let told = |style| service::describe(&web(), style);
    insta::assert_snapshot!("service_in_a_pipe", told(PIPE));
    insta::assert_snapshot!("service_40", fitting(told(terminal(40)), 40));
    for width in [40, 80, 120] {
        let list = service::list(&[web()]).render(terminal(width), 0);
        insta::assert_snapshot!(format!("services_{width}"), fitting(list, width));
    }
}

#[test]
fn what_a_service_does_not_set_is_not_told() {
    let mut it = web();
    it.ports.clear();
    it.command.clear();
    it.volumes.clear();
    (it.health, it.memory) = (None, None);
    it.reschedule_after_ms = Some(600_000);
    let text = service::describe(&it, PIPE);
    let (_, definition) = text.split_once("replicas     ").expect("it is told");
    assert_eq!(
        definition,
        "4 (they move from a host away for 10m)\n  env          DATABASE_URL, LOG\n  resources    cpu 0.5\n"
    );
}

#[test]
fn a_service_that_nobody_gets_in_to_says_so_though_all_of_it_runs() {
    let with = |loaded: u32, proxies: u32, behind: &[&str]| {
        let mut it = web();
        it.status = Status::InSync;
        (it.counts.serving, it.counts.failed) = (it.counts.wanted, 0);
        it.deployments.truncate(1);
        it.waiting.clear();
        let route = &mut it.routes[0];
        (route.loaded, route.proxies) = (loaded, proxies);
        route.behind = behind.iter().map(|why| why.to_string()).collect();
        it
    };
    for (it, listed, told) in [
        (with(1, 1, &[]), " shop.example.com", ""),
        (with(0, 1, &[]), " shop.example.com", ""),
        (
            with(0, 0, &[]),
            "no proxy: shop.example.com",
            "shop.example.com is without a proxy\n  why   no proxy is connected; one",
        ),
        (
            with(0, 1, &["edge-1 is ill"]),
            "not loaded: shop.example.com",
            "shop.example.com is loaded by 0 of 1 proxy\n  why   edge-1 is ill\n",
        ),
        (
            with(1, 2, &["edge-2 is ill"]),
            " shop.example.com",
            "shop.example.com is loaded by 1 of 2 proxies\n  why   edge-2 is ill\n",
        ),
    ] {
        let list = service::list(std::slice::from_ref(&it)).render(PIPE, 0);
        assert!(list.contains(listed), "{list}");
        let text = service::describe(&it, PIPE);
        let (before, _) = text.split_once("\nReplicas").expect("they follow");
        assert!(before.contains(told), "{text}");
        assert_eq!(told.is_empty(), !before.contains("why"), "{text}");
    }
}

#[test]
fn services_that_are_short_of_something_come_before_those_that_are_not() {
    let named = |name: &str, serving: u32, proxies: u32| {
        let mut it = web();
        it.name = name.parse().expect("a name");
        it.status = Status::InSync;
        it.counts.serving = serving;
        (it.routes[0].proxies, it.routes[0].loaded) = (proxies, proxies);
        it.routes[0].behind.clear();
        it
    };
    let mut failed = named("z", 4, 1);
    failed.status = Status::Failed;
    let mut all = [named("a", 4, 1), named("b", 3, 1), named("c", 4, 0), failed];
    service::worst_first(&mut all);
    let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["z", "b", "c", "a"]);
}
