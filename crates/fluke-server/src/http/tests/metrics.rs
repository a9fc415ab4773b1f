//! The page for Prometheus, and what is made of it in `contrib/`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::*;
use crate::meter::Refused;

const RULES: &str = include_str!("../../../../../contrib/prometheus/fluke.rules.yml");
const RULES_TEST: &str = include_str!("../../../../../contrib/prometheus/fluke.rules.test.yml");
const DASHBOARD: &str = include_str!("../../../../../contrib/grafana/fluke.json");
const REFERENCE: &str = include_str!("../../../../../docs/src/reference/metrics.md");
const RUNBOOK: &str = include_str!("../../../../../docs/src/howto/monitor.md");

/// A page on which everything is that can be.
async fn page() -> String {
    let setup = Setup { alerts: true, secret: Some("s3cret"), ..Setup::default() };
    let server = Server::start(setup).await;
    server.commit("abc", &["certs", "runtimes"]);
    let (mut a, _b) = (server.agent("a"), server.agent("b"));
    a.drifts(2);
    server.record("something");
    server.app.polls.all.add(3);
    server.app.polls.failed.add_one();
    server.app.meter.refuse(Refused::NameTaken);
    server.app.meter.checks.record(Duration::from_millis(30));
    let mut applied = Event::new(EventKind::ApplyFinished, Timestamp(0));
    applied.step = StepAddress::new("systemd", "nginx").ok();
    applied.outcome = Some(fluke_model::verdict::Outcome::Failure);
    applied.duration_ms = Some(1500);
    server.app.meter.note(&applied);
    server.get("/nowhere").await;
    server.post("/webhooks/git", serde_json::json!({})).await;
    server.post("/api/v1/reconcile", serde_json::json!({"scope": "all"})).await;
    server.get("/metrics").await.text
}

#[tokio::test]
async fn metrics_say_how_the_fleet_stands() {
    let page = page().await;
    for line in [
        r#"fluke_agents{status="drifted"} 1"#,
        r#"fluke_agents{status="unknown"} 1"#,
        r#"fluke_agents{status="offline"} 0"#,
        "fluke_agents_connected 2",
        "fluke_steps 4",
        r#"fluke_drifted_steps{policy="alert_only"} 2"#,
        r#"fluke_drifted_steps{policy="remediate"} 0"#,
        r#"fluke_agents_refused_total{reason="name_taken"} 1"#,
        r#"fluke_check_duration_seconds_bucket{le="0.02"} 0"#,
        r#"fluke_check_duration_seconds_bucket{le="0.1"} 1"#,
        r#"fluke_check_duration_seconds_bucket{le="+Inf"} 1"#,
        "fluke_check_duration_seconds_sum 0.03",
        "fluke_check_duration_seconds_count 1",
        r#"fluke_cycle_duration_seconds_count{applied="yes"} 0"#,
        r#"fluke_apply_duration_seconds_bucket{executor="systemd",le="2"} 1"#,
        r#"fluke_apply_duration_seconds_count{executor="shell"} 0"#,
        r#"fluke_apply_failures_total{executor="systemd"} 1"#,
        r#"fluke_commit_info{commit="abc",branch="main"} 1"#,
        "fluke_commit_rejected 0",
        "fluke_source_polls_total 3",
        "fluke_source_poll_failures_total 1",
        r#"fluke_webhooks_total{result="refused"} 1"#,
        r#"fluke_events_recorded_total{kind="commit_accepted"} 1"#,
        "fluke_events_lost_total 0",
        r#"fluke_http_requests_total{code="4xx"} 3"#,
        r#"fluke_http_refused_total{reason="unauthorized"} 1"#,
        r#"fluke_http_refused_total{reason="forbidden"} 1"#,
        "fluke_http_connections 1",
        "fluke_http_streams 0",
        "fluke_reconciles_open 0",
        "fluke_alerts_waiting 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
    assert!(page.contains("\nfluke_source_last_poll_age_seconds "), "{page}");
}

#[tokio::test]
async fn what_is_not_there_yet_is_not_taken_for_load() {
    let server = Server::start(Setup::default()).await;
    let busy = async || {
        let page = server.get("/metrics").await.text;
        let line = page.lines().find(|line| line.contains(r#"refused_total{reason="busy"}"#));
        line.and_then(|line| line.split(' ').nth(1)).expect("a number").to_string()
    };
    assert_eq!(server.get("/readyz").await.problem().0, 503);
    assert_eq!(server.get("/api/v1/tasks").await.problem().0, 503);
    assert_eq!(busy().await, "0");
    let streams = server.app.0.network.streams.clone();
    let _all = streams.acquire_many_owned(MAX_STREAMS as u32).await.expect("places");
    assert_eq!(server.get("/api/v1/stream").await.problem().0, 503);
    assert_eq!(busy().await, "1");
}

/// The names of all families on a page.
fn families(page: &str) -> BTreeSet<&str> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split(' ').next()).collect()
}

/// Every name of a metric that a text speaks of, in whatever language.
fn mentioned(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
    words.filter(|word| word.starts_with("fluke_") || word.starts_with("process_")).collect()
}

fn is_exported(name: &str, families: &BTreeSet<&str>) -> bool {
    let parts = ["", "_bucket", "_sum", "_count"];
    parts.iter().any(|part| name.strip_suffix(part).is_some_and(|name| families.contains(name)))
}

#[tokio::test]
async fn dashboard_and_alerts_speak_of_what_is_exported() {
    let page = page().await;
    let families = families(&page);
    for (what, text) in [("rules", RULES), ("tests of rules", RULES_TEST), ("dashboard", DASHBOARD)]
    {
        let names = mentioned(text);
        assert!(names.len() > 10, "{what}: {names:?}");
        for name in names {
            assert!(is_exported(name, &families), "{what}: there is no {name}");
        }
    }
}

#[tokio::test]
async fn the_reference_lists_what_is_exported_and_nothing_else() {
    let page = page().await;
    let families = families(&page);
    let rows = REFERENCE.lines().filter_map(|line| line.strip_prefix("| `"));
    let name = |row: &'static str| row.split(['`', '{']).next();
    let listed: BTreeSet<&str> = rows.filter_map(name).collect();
    assert_eq!(listed, families);
}

#[test]
fn every_alert_has_a_section_that_says_what_to_do() {
    let alerts: Vec<_> =
        RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10);
    for alert in alerts {
        let link = format!("runbook: docs/src/howto/monitor.md#{}\n", alert.to_lowercase());
        assert!(RULES.contains(&link), "{link}");
        assert!(RUNBOOK.contains(&format!("\n### {alert}\n")), "{alert} has no section");
        for how in ["fires", "stays quiet"] {
            assert!(RULES_TEST.contains(&format!("- name: {alert} {how}\n")), "{alert} {how}");
        }
    }
}

#[test]
fn the_dashboard_is_whole() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("JSON");
    assert_eq!(dashboard["uid"], "fluke");
    let panels = dashboard["panels"].as_array().expect("panels");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().expect("a title");
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let expression = target["expr"].as_str().expect("an expression");
            // One dashboard for any number of servers.
            assert!(expression.contains(r#"job=~"$job",instance=~"$instance""#), "{title}");
        }
    }
    // No two overlap.
    let place = |panel: &serde_json::Value| {
        let number = |key: &str| panel["gridPos"][key].as_u64().expect("a number");
        (number("x"), number("y"), number("w"), number("h"))
    };
    let mut taken = BTreeSet::new();
    for (x, y, w, h) in panels.iter().map(place) {
        assert!(x + w <= 24);
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "two panels are at {cell:?}");
        }
    }
}

/// Prometheus' own checker; says so if there is none, and fails where everything must run.
fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin/promtool");
    let program = if tools.exists() { tools } else { PathBuf::from("promtool") };
    let child = Command::new(program)
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        assert!(std::env::var_os("CI").is_none(), "no promtool: run scripts/test-tools");
        #[expect(clippy::print_stdout, reason = "scripts/test counts what was skipped")]
        {
            println!("SKIP: there is no promtool; run scripts/test-tools");
        }
        return None;
    };
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    Some(child.wait_with_output().expect("it ends"))
}

fn passes(arguments: &[&str], input: &str) {
    let Some(output) = promtool(arguments, input) else { return };
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[tokio::test]
async fn prometheus_reads_the_page() {
    passes(&["check", "metrics"], &page().await);
}

#[test]
fn prometheus_reads_the_rules() {
    passes(&["check", "rules", "fluke.rules.yml"], "");
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    passes(&["test", "rules", "fluke.rules.test.yml"], "");
}
