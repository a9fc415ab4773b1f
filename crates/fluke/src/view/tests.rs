use fluke_model::api::*;
use fluke_model::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::screen::Style;

const PIPE: Style = Style { colours: false, width: None, height: None };

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
    let list: Agents = read(
        json!({ "agents": [agent("web-01", "in_sync", 3, 0, 0), agent("db-1", "failed", 4, 1, 2)] }),
    );
    assert_eq!(
        fleet::agents(&list, now()).render(PIPE, 0),
        "NAME    STATUS   TASKS  DRIFTED  FAILED  COMMIT     VERSION  LABELS    SEEN
web-01  in_sync  3/3    0        0       012345678  0.1.0    role=web  3s ago
db-1    failed   1/4    1        2       012345678  0.1.0    role=web  3s ago
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
        fleet::drift(&list, now()).render(PIPE, 0),
        "AGENT   TASK   STEP         POLICY      STATUS   SINCE    REASON
web-01  certs  shell.renew  alert_only  drifted  10m ago  expires soon
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
    let text = agent::describe(&drifted_agent(), PIPE, now());
    let expected = "web-01 is drifted - of 2 tasks, 1 drifted and 0 failed

certs / shell.renew
  drifted since 2026-01-02T03:00:00Z (10m ago)
  the check ended with exit code 1:
  expires soon
    -old
    +new
  last output, 2026-01-02T03:08:00Z (2m ago) (apply_finished):
    acme: rate limited
    try later
  → `alert_only` leaves it to you: `fluke reconcile task certs`

Agent
  labels      role=web
  version     0.1.0 (worker)
  executors   shell, mise
  connected   since 2026-01-02T03:00:00Z (10m ago)
  last heard  2026-01-02T03:09:57Z (3s ago)
  commit      0123456789abcdef
  snapshot    none

Tasks
  TASK   STEP          STATUS   POLICY      SINCE    CHECKED  APPLIED
  certs  shell.renew   drifted  alert_only  10m ago  3s ago   -
         shell.reload  in_sync              -        3s ago   -

Recent events
";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn what_happens_next_is_told_for_each_situation() {
    for (case, change, says) in [
        ("offline", json!({"connected": false}), "before the agent is back"),
        ("applying", json!({"step": "applying"}), "is being put right now"),
        (
            "non-convergent",
            json!({"step": "applied_but_drifted"}),
            "the check or the command is wrong",
        ),
        (
            "failing",
            json!({"step": "failed", "retry": "2026-01-02T03:10:40Z"}),
            "failed 3 times in a row, is tried again in 40s",
        ),
        ("waiting", json!({"policy": "remediate"}), "when its turn comes"),
        ("cannot tell", json!({"step": "failed"}), "with the next cycle"),
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
    assert_eq!(
        task::describe(&view, &drift.drift, PIPE, now()),
        "certs is drifted - in sync on 1 of 2 agents

Agents
  AGENT   STATUS   STEP         SINCE    REASON
  db-1    in_sync
  web-01  drifted  shell.renew  10m ago  expires soon

Definition
  description  none
  defined      web/certs.fluke.hcl:4
  policy       alert_only
  selector     role=web, zone exists

shell.renew
  check       test -f x
  command
    set -e
    touch x
  timeout     1m 30s
  on_failure  continue
"
    );
    let table = fleet::tasks(&Tasks { tasks: vec![view], next: None }).render(PIPE, 0);
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

fn reconcile(states: &[(&str, Value)], scope: &str, failed: bool) -> ReconcileProgress {
    let agents: Vec<Value> = states
        .iter()
        .enumerate()
        .map(|(at, (state, steps))| json!({"name": format!("web-0{at}"), "state": state, "steps": steps, "error": null}))
        .collect();
    read(
        json!({"id": "r1", "scope": scope, "name": null, "by": "ada@desk", "done": true, "failed": failed,
        "started": "2026-01-02T03:09:00Z", "agents": agents}),
    )
}

fn step(outcome: Value, output: Value) -> Value {
    json!({"task": "certs", "step": "shell.renew", "outcome": outcome, "output": output})
}

#[test]
fn progress_shows_what_each_agent_is_doing_and_the_unfinished_first() {
    let progress = reconcile(
        &[
            ("done", json!([step(json!("success"), json!("ok"))])),
            ("applying", json!([step(Value::Null, Value::Null)])),
            ("offline", json!([])),
        ],
        "all",
        false,
    );
    assert_eq!(
        super::reconcile::progress(&progress, PIPE, now()),
        "AGENT   STATE     DOING
web-01  applying  certs/shell.renew
web-00  done      1 step applied
web-02  offline   brought up to date when it returns
2 of 3 agents done, 1m
"
    );
    let lines: Vec<String> =
        progress.agents.iter().filter_map(super::reconcile::finished_line).collect();
    assert_eq!(
        lines,
        ["web-00: done, 1 step applied\n", "web-02: offline, brought up to date when it returns\n"]
    );
}

#[test]
fn the_end_tells_what_failed_with_its_output() {
    let progress = reconcile(
        &[
            ("done", json!([])),
            (
                "failed",
                json!([step(json!("failure"), json!("acme: \u{1b}[1mrate limited\u{1b}[0m\n"))]),
            ),
        ],
        "all",
        true,
    );
    assert!(super::reconcile::has_failed(&progress));
    assert_eq!(
        super::reconcile::outcome(&progress, PIPE),
        "web-01: certs / shell.renew failure
  acme: rate limited
failed: 1 agent in sync, 0 steps applied, 1 agent failed
"
    );
}

#[test]
fn an_agent_that_is_away_is_a_failure_only_for_who_named_it() {
    for (scope, failed) in [("all", false), ("task", false), ("agent", true)] {
        let progress = reconcile(&[("offline", json!([]))], scope, false);
        assert_eq!(super::reconcile::has_failed(&progress), failed, "{scope}");
    }
}
