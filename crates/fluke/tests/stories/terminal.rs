//! What moves: the dashboard, lists that are watched, events that are followed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::support::Fleet;
use super::support::terminal::TerminalProgram;

/// Longer than anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn certificates(root: &str) -> String {
    format!(
        r#"
task "certs" {{
  drift {{
    policy = "alert_only"
  }}
  selector {{
    match_labels = {{}}
  }}
  shell "renew" {{
    check   = "test -f {root}/cert || {{ echo expires soon; false; }}"
    command = "touch {root}/cert"
  }}
}}
"#
    )
}

async fn drifted() -> (Fleet, super::support::Host) {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "role=web").await;
    fleet.commit("certificates", &certificates(&fleet.root("web-1"))).await;
    fleet.settles().await;
    (fleet, host)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_shows_what_is_wrong_puts_it_right_and_gives_the_terminal_back() {
    let (fleet, host) = drifted().await;
    let mut top = TerminalProgram::start(&["top"], &fleet.socket(), 80, 24);
    top.shows(&["fluke top", "live"]);
    top.shows(&["1 agent: 0 failed, 1 drifted"]);
    top.shows(&["web-1", "certs/shell.renew", "expires soon"]);
    top.press("\r");
    top.shows(&["it waits for you"]);
    top.press("\u{1b}");
    top.shows(&["q quit"]);
    top.press("r");
    top.shows(&["put right all that is drifted on web-1"]);
    assert!(!host.has("cert"), "not before a yes");
    top.press("y");
    top.shows(&["done: 1 agent in sync, 1 step applied"]);
    top.shows(&["1 agent: 0 failed, 0 drifted"]);
    assert!(host.has("cert"));
    top.resize(50, 30);
    top.shows(&["1 agent: 1 in sync"]);
    top.press("/nothing");
    top.shows(&["no agent is like `nothing`"]);
    top.press("\u{1b}");
    top.shows(&["web-1", "in_sync"]);
    top.press("q");
    top.ends_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_the_dashboard_the_terminal_is_given_back() {
    let (fleet, _host) = drifted().await;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let top = TerminalProgram::start(&["top"], &fleet.socket(), 80, 24);
        top.shows(&["web-1", "drifted"]);
        top.signal(signal);
        top.ends_well();
    }
    let mut top = TerminalProgram::start(&["top"], &fleet.socket(), 80, 24);
    top.shows(&["web-1", "drifted"]);
    top.press("\u{3}");
    top.ends_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_watched_is_redrawn_and_comes_back_with_the_server() {
    let (mut fleet, _host) = drifted().await;
    let mut watch = TerminalProgram::start(&["get", "agents", "-w"], &fleet.socket(), 80, 24);
    watch.shows(&["web-1", "drifted"]);
    assert_eq!(fleet.fluke(&["reconcile", "all"]).await.code, 0);
    watch.shows(&["web-1", "in_sync"]);
    watch.resize(40, 10);
    watch.no_longer_shows("VERSION");
    fleet.stop_server().await;
    watch.shows(&["out of date:"]);
    fleet.start_server().await;
    watch.no_longer_shows("out of date");
    watch.shows(&["web-1", "in_sync"]);
    watch.press("q");
    let left = watch.ends_well();
    assert!(left.contains("web-1"), "what was seen last is left to be read: {left:?}");
}

/// A program whose output is read line by line.
struct Reading {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Reading {
    fn start(fleet: &Fleet, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fluke"))
            .args(arguments)
            .env("FLUKE_SERVER", format!("unix://{}", fleet.socket().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("fluke runs");
        let pipe = BufReader::new(child.stdout.take().expect("a pipe"));
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            pipe.lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        Self { child, lines }
    }

    /// Reads up to the first line that has all of these words.
    fn until(&mut self, words: &[&str]) -> Vec<String> {
        let mut read = Vec::new();
        while !read.last().is_some_and(|line: &String| words.iter().all(|word| line.contains(word)))
        {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => read.push(line),
                Err(error) => panic!("{error} before {words:?}:\n{}", read.join("\n")),
            }
        }
        read
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_pipe_only_what_is_new_is_appended() {
    let (fleet, _host) = drifted().await;
    let mut watch = Reading::start(&fleet, &["get", "agents", "-w"]);
    let read = watch.until(&["web-1", "drifted"]);
    assert!(read[0].starts_with("NAME"), "{read:?}");
    assert_eq!(fleet.fluke(&["reconcile", "all"]).await.code, 0);
    let read = watch.until(&["web-1", "in_sync"]);
    assert!(
        read.iter().all(|line| line.starts_with("web-1") && !line.contains('\u{1b}')),
        "{read:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_events_have_neither_gaps_nor_doubles_over_a_restart() {
    let (mut fleet, host) = drifted().await;
    let mut follow = Reading::start(&fleet, &["events", "-f", "-o", "json", "--limit", "1000"]);
    let mut read = follow.until(&["drift_detected"]);
    assert_eq!(fleet.fluke(&["reconcile", "all"]).await.code, 0);
    read.extend(follow.until(&["reconcile_finished"]));
    let so_far = fleet.events(&[]).await;
    fleet.stop_server().await;
    fleet.start_server().await;
    read.extend(follow.until(&["agent_connected"]));
    host.remove("cert");
    assert_eq!(fleet.fluke(&["reconcile", "all"]).await.code, 0);
    read.extend(follow.until(&["reconcile_finished"]));

    let parse = |line: &String| serde_json::from_str::<Value>(line).expect("an object a line");
    let ids: Vec<u64> = read
        .iter()
        .map(|line| parse(line)["id"].as_str().and_then(|id| id.parse().ok()).expect("an id"))
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "in order, once each: {ids:?}");
    let now = fleet.events(&[]).await;
    let finished = now.iter().rposition(|event| event.kind.as_str() == "reconcile_finished");
    let now = &now[..=finished.expect("one is finished")];
    for event in
        so_far.iter().take_while(|event| event.kind.as_str() != "agent_disconnected").chain(now)
    {
        assert!(
            ids.contains(&event.id.0),
            "{} was not told:\n{}",
            event.kind.as_str(),
            read.join("\n")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_events_are_those_that_were_asked_for() {
    let (fleet, _host) = drifted().await;
    let mut follow = Reading::start(&fleet, &["events", "-f", "--kind", "apply_finished"]);
    assert_eq!(fleet.fluke(&["reconcile", "all"]).await.code, 0);
    let read = follow.until(&["apply_finished", "web-1", "certs/shell.renew", "success"]);
    assert_eq!(read.len(), 1, "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_events_of_a_service_are_of_no_task() {
    let (fleet, _host) = drifted().await;
    fleet.commit_service("shop", &["web-1"]).await;
    let mut follow = Reading::start(&fleet, &["events", "-f", "--service", "shop"]);
    assert_eq!(fleet.fluke(&["reconcile", "task", "certs"]).await.code, 0);
    let asked = fleet.fluke(&["reconcile", "service", "shop"]).await;
    assert_eq!(asked.code, 1, "this host runs no containers: {asked:?}");
    let mut read = follow.until(&["reconcile_requested", "shop"]);
    read.extend(follow.until(&["reconcile_finished", "shop"]));
    assert_eq!(read.len(), 2, "{read:?}");
}
