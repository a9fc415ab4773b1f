//! How far a manual reconcile has come, and how it ended.

use super::*;

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
            (
                "applying",
                json!([{"task": null, "service": "shop", "step": "container.shop", "outcome": null, "output": null}]),
            ),
        ],
        "all",
        false,
    );
    assert_eq!(
        super::reconcile::progress(&progress, PIPE, now()),
        "AGENT   STATE     DOING
web-01  applying  certs/shell.renew
web-03  applying  shop/container.shop
web-00  done      1 step applied
web-02  offline   checked when it returns
2 of 4 agents done, 1m
"
    );
    let lines: Vec<String> =
        progress.agents.iter().filter_map(super::reconcile::finished_line).collect();
    assert_eq!(
        lines,
        ["web-00: done, 1 step applied\n", "web-02: offline, checked when it returns\n"]
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
    assert!(super::reconcile::has_failed(&progress, &[]));
    assert_eq!(
        super::reconcile::outcome(&progress, &[], PIPE),
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
        assert_eq!(super::reconcile::has_failed(&progress, &[]), failed, "{scope}");
    }
}

#[test]
fn what_waits_for_a_host_is_a_failure_also_where_nobody_was_asked() {
    let waiting = ["replicas 0, 1 wait for a host that matches".to_string()];
    let told = |states| {
        let progress = reconcile(states, "service", false);
        assert!(!super::reconcile::has_failed(&progress, &[]));
        assert!(super::reconcile::has_failed(&progress, &waiting));
        super::reconcile::outcome(&progress, &waiting, PIPE)
    };
    assert_eq!(
        told(&[]),
        "  why   replicas 0, 1 wait for a host that matches
  do    fluke get agents   shows the labels of each, and who is connected
failed: no connected agent was concerned
"
    );
    let some = told(&[("done", json!([]))]);
    assert!(some.ends_with("failed: 1 agent in sync, 0 steps applied\n"), "{some}");
}
