use fluke_model::status::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::terminal::Size;

fn now() -> Timestamp {
    Timestamp::try_from("2026-01-02T03:10:00Z".to_string()).expect("a time")
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("as the API says")
}

fn agent(name: &str, status: &str) -> Agent {
    let (drifted, failed) = (u32::from(status == "drifted"), u32::from(status == "failed"));
    read(json!({
        "name": name, "labels": {"env": "prod", "role": name.split('-').next()}, "status": status,
        "connected": status != "offline", "version": "0.1.0", "node_type": "worker",
        "connected_since": "2026-01-02T03:00:00Z", "last_seen": "2026-01-02T03:09:57Z",
        "commit": "0123456789abcdef", "snapshot": null,
        "tasks": {"total": 3, "in_sync": 3 - drifted - failed, "drifted": drifted, "failed": failed}
    }))
}

fn drift(agent: &str, task: &str, status: &str, reason: &str) -> DriftEntry {
    read(json!({
        "agent": agent, "task": task, "step": "shell.it", "policy": "alert_only", "status": status,
        "reason": reason, "since": "2026-01-02T03:00:00Z"
    }))
}

fn event(id: u64, kind: &str, agent: &str) -> Event {
    read(json!({
        "id": id.to_string(), "time": "2026-01-02T03:08:00Z", "kind": kind, "agent": agent, "task": "certs",
        "step": "shell.it", "trigger": "poll", "commit": null, "outcome": "failure", "duration_ms": 1250,
        "output": "acme: rate limited\nmore", "by": null
    }))
}

fn source() -> Source {
    read(json!({
        "url": "u", "branch": "main", "commit": "0123456789abcdef", "commit_since": "2026-01-02T01:00:00Z",
        "last_seen": "0123456789abcdef", "rejected": false, "diagnostics": [],
        "last_poll": "2026-01-02T03:09:48Z", "next_poll": null, "error": null
    }))
}

fn fleet_of(count: usize) -> Top {
    let mut top = Top::new("unix:///run/fluke/fluke.sock".into());
    let mut agents: Vec<Agent> =
        (1..=count).map(|at| agent(&format!("web-{at:02}"), "in_sync")).collect();
    agents.extend([
        agent("db-1", "failed"),
        agent("cache-1", "offline"),
        agent("mail-1", "drifted"),
    ]);
    top.take(Update::Source(Box::new(source())));
    top.take(Update::Agents(agents));
    top.take(Update::Drift(vec![
        drift("mail-1", "certs", "drifted", "the certificate of mail.example.com ends in 3 days"),
        drift("db-1", "replica", "failed", "check exited 2: no connection\nsecond line"),
    ]));
    top.take(Update::Events(vec![
        event(9, "apply_finished", "db-1"),
        event(8, "drift_detected", "mail-1"),
    ]));
    top.take(Update::Connection(Connection::Live));
    top
}

fn picture(top: &mut Top, width: usize, height: usize) -> String {
    let lines = top.draw(Size { width, height }, false, now());
    assert_eq!(lines.len(), height, "a screen full of lines");
    for line in &lines {
        assert!(crate::fit::shown_width(line) <= width, "{line:?} is wider than {width}");
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn press(top: &mut Top, keys: &str) -> Option<Effect> {
    keys.chars().map(|c| top.press(Key::Char(c))).last().flatten()
}

#[test]
fn the_dashboard_fits_every_terminal() {
    for (width, height) in [(40, 12), (80, 24), (132, 40)] {
        insta::assert_snapshot!(
            format!("top_{width}x{height}"),
            picture(&mut fleet_of(30), width, height)
        );
    }
}

#[test]
fn nothing_is_too_small_to_draw_on() {
    for (width, height) in [(1, 1), (5, 2), (20, 5), (40, 6)] {
        picture(&mut fleet_of(3), width, height);
        picture(&mut Top::new(String::new()), width, height);
    }
}

#[test]
fn what_is_wrong_comes_first_and_the_chosen_agent_stays_chosen() {
    let mut top = fleet_of(3);
    let order: Vec<&str> = top.order.iter().map(|name| name.as_str()).collect();
    assert_eq!(order, ["db-1", "mail-1", "cache-1", "web-01", "web-02", "web-03"]);
    press(&mut top, "jjj");
    assert_eq!(top.chosen.as_ref().map(|name| name.as_str()), Some("web-01"));
    top.take(Update::Agent(Box::new(agent("web-01", "failed"))));
    assert_eq!(top.position(), Some(1), "it went up, and is still chosen");
    let name = top.chosen.clone().expect("one is chosen");
    top.take(Update::Gone(name));
    assert_eq!(top.position(), Some(1), "its neighbour takes its place");
    press(&mut top, "G");
    assert_eq!(top.position(), Some(4));
    press(&mut top, "g");
    assert_eq!(top.position(), Some(0));
}

#[test]
fn a_filter_takes_names_statuses_and_labels() {
    for (filter, left) in [
        ("web", 30),
        ("WEB-0", 9),
        ("failed", 1),
        ("role=db", 1),
        ("env=prod offline", 1),
        ("env=prod", 33),
        ("nothing like it", 0),
    ] {
        let mut top = fleet_of(30);
        press(&mut top, "/");
        press(&mut top, filter);
        assert_eq!(top.order.len(), left, "{filter}");
        top.press(Key::Escape);
        assert_eq!(top.order.len(), 33, "gone with Esc");
    }
    let mut top = fleet_of(30);
    press(&mut top, "/nothing");
    assert!(picture(&mut top, 80, 24).contains("no agent is like `nothing`"));
    top.press(Key::Enter);
    assert_eq!(press(&mut top, "q"), Some(Effect::Quit), "keys are commands again");
}

#[test]
fn a_reconcile_is_asked_for_only_after_a_yes_and_its_progress_is_shown() {
    let mut top = fleet_of(3);
    assert_eq!(press(&mut top, "r"), None);
    assert!(picture(&mut top, 80, 24).contains("put right all that is drifted on db-1"));
    assert_eq!(press(&mut top, "n"), None);
    let name = AgentName::new("db-1").expect("a name");
    assert_eq!(press(&mut top, "ry"), Some(Effect::Reconcile(name)));
    let progress = |state: &str, done: bool| {
        Box::new(read::<ReconcileProgress>(json!({
            "id": "r-1", "scope": "agent", "name": "db-1", "by": "x", "done": done, "failed": false,
            "started": "2026-01-02T03:09:50Z",
            "agents": [{"name": "db-1", "state": state, "steps": [], "error": null}]
        })))
    };
    top.take(Update::Progress(progress("checking", false)));
    assert!(
        !picture(&mut top, 80, 24).contains("checking"),
        "of another reconcile, as far as is known"
    );
    top.take(Update::Accepted("r-1".into()));
    top.take(Update::Progress(progress("checking", false)));
    insta::assert_snapshot!("top_reconcile", picture(&mut top, 80, 24));
    top.take(Update::Progress(progress("done", true)));
    top.take(Update::Progress(progress("checking", false)));
    let drawn = picture(&mut top, 80, 24);
    assert!(drawn.contains("done: 1 agent in sync"), "{drawn}");
    top.press(Key::Escape);
    assert!(picture(&mut top, 80, 24).contains("EVENTS"));
}

#[test]
fn what_cannot_be_done_is_said_instead_of_asked() {
    let mut top = fleet_of(3);
    press(&mut top, "jj");
    assert_eq!(press(&mut top, "r"), None);
    assert!(picture(&mut top, 80, 24).contains("cache-1 is offline"));
    press(&mut top, "g");
    top.take(Update::MayChange(false));
    press(&mut top, "r");
    assert!(picture(&mut top, 80, 24).contains("takes no changes from here"));
    assert_eq!(press(&mut top, "y"), None, "nothing was asked");
}

#[test]
fn the_details_of_an_agent_can_be_read_to_their_end() {
    let mut top = fleet_of(3);
    let name = AgentName::new("db-1").expect("a name");
    assert_eq!(top.press(Key::Enter), Some(Effect::Look(name)));
    let mut detail = serde_json::to_value(agent("db-1", "failed")).expect("JSON");
    detail["executors"] = json!(["shell"]);
    detail["task_details"] = json!([{
        "name": "replica", "policy": "remediate", "status": "failed", "failures": 3,
        "retry_at": "2026-01-02T03:10:40Z", "steps": [{
            "step": "shell.it", "status": "failed", "reason": "check exited 2: no connection", "diff": null,
            "since": "2026-01-02T03:00:00Z", "last_checked": "2026-01-02T03:09:57Z", "last_applied": null}]
    }]);
    detail["events"] = json!([event(9, "apply_finished", "db-1")]);
    top.take(Update::Detail(Box::new(read(detail))));
    insta::assert_snapshot!("top_detail", picture(&mut top, 60, 16));
    top.press(Key::End);
    assert!(picture(&mut top, 60, 16).contains("apply_finished"), "the end is there");
    top.press(Key::Up);
    top.press(Key::Escape);
    assert!(top.looked_at().is_none());
}

#[test]
fn a_lost_connection_and_a_rejected_commit_are_said() {
    let mut top = fleet_of(3);
    let since = Timestamp(now().0 - 5_000);
    top.take(Update::Connection(Connection::Lost { since, why: "lost the connection".into() }));
    top.take(Update::Source(Box::new(Source { rejected: true, ..source() })));
    let drawn = picture(&mut top, 80, 24);
    assert!(drawn.contains("lost 5s ago, trying again"), "{drawn}");
    assert!(drawn.contains("out of date: lost the connection"), "{drawn}");
    assert!(drawn.contains("was rejected"), "{drawn}");
}

#[test]
fn events_are_kept_once_and_not_for_ever() {
    let mut top = fleet_of(0);
    top.take(Update::Event(Box::new(event(9, "apply_finished", "db-1"))));
    assert_eq!(top.events.len(), 2, "it was known");
    for id in 10..10 + 2 * EVENTS as u64 {
        top.take(Update::Event(Box::new(event(id, "apply_finished", "db-1"))));
    }
    assert_eq!(top.events.len(), EVENTS);
}

#[test]
fn ten_thousand_agents_are_one_list() {
    let mut top = fleet_of(10_000);
    for at in 1..=200 {
        top.take(Update::Agent(Box::new(agent(&format!("web-{at:02}"), "drifted"))));
    }
    press(&mut top, "G");
    let drawn = picture(&mut top, 80, 24);
    assert!(drawn.contains("10003 of 10003"), "{drawn}");
    assert_eq!(top.with_status(Status::Drifted), 201);
}

#[test]
fn help_tells_every_key() {
    let mut top = fleet_of(0);
    press(&mut top, "?");
    insta::assert_snapshot!("top_help", picture(&mut top, 80, 14));
    press(&mut top, "x");
    assert!(picture(&mut top, 80, 24).contains("DRIFT"));
}
