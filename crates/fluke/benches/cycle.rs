//! The whole loop in one process over loopback: a push until its command has run, and a cycle of
//! 100 satisfied checks. Beside each its floor, measured in turn with it: the fetch of one commit
//! and the command itself; the same shells without anything around them.

#![allow(missing_docs, dead_code, unused_imports, clippy::print_stdout)]

#[path = "../tests/stories"]
mod stories {
    pub mod support;
}

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fluke_server::reconcile::Request;
use stories::support::Fleet;

const ROUNDS: usize = 15;
const STEPS: usize = 100;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        push_until_applied().await;
        satisfied_checks().await;
    });
}

async fn push_until_applied() {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "").await;
    let root = fleet.root("web-1");
    let floor = Floor::new(fleet.repository.path());
    let (mut loops, mut floors) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let manifest =
            task(&format!("test -f {root}/{round}"), &format!("touch {root}/{round}"), 1);
        let commit = fleet.repository.commit("round", &[("tasks.fluke.hcl", &manifest)]);
        floors.push(floor.fetch_and_run(&format!("{root}/floor-{round}")));
        let start = Instant::now();
        fleet.push(&commit).await;
        while !host.has(&round.to_string()) {
            tokio::task::yield_now().await;
        }
        loops.push(start.elapsed());
        fleet.settles().await;
    }
    report("push → command has run", loops, "git fetch of one commit + the command", floors);
}

async fn satisfied_checks() {
    let fleet = Fleet::start().await;
    let _host = fleet.join("web-1", "").await;
    fleet.commit("checks", &task("test -d /", "false", STEPS)).await;
    fleet.settles().await;
    let (mut loops, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..STEPS).for_each(|_| shell("test -d /"));
        floors.push(start.elapsed());
        let before = fleet.last_checked("web-1");
        let start = Instant::now();
        let request =
            Request { id: "bench".into(), by: "bench".into(), task: None, approved: None };
        fleet.server().registry.order("web-1", request).expect("the agent is connected");
        fleet.until("the cycle is over", |fleet| fleet.last_checked("web-1") > before).await;
        loops.push(start.elapsed());
    }
    report(
        "100 satisfied checks, server to server",
        loops,
        "100 × spawn of bash, one by one",
        floors,
    );
}

fn task(check: &str, command: &str, steps: usize) -> String {
    let steps: String = (0..steps)
        .map(|n| format!("  shell \"s{n}\" {{\n    check   = \"{check}\"\n    command = \"{command}\"\n  }}\n"))
        .collect();
    format!("task \"t\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n{steps}}}\n")
}

/// A bare mirror that does nothing but follow.
struct Floor {
    mirror: tempfile::TempDir,
    origin: String,
}

impl Floor {
    fn new(origin: &Path) -> Self {
        let mirror = tempfile::tempdir().expect("a folder");
        let floor = Self { mirror, origin: origin.display().to_string() };
        floor.git(&["init", "--quiet", "--bare"]);
        floor
    }

    fn fetch_and_run(&self, file: &str) -> Duration {
        let start = Instant::now();
        self.git(&["fetch", "--quiet", "--depth=1", "--no-tags", &self.origin, "+main:main"]);
        shell(&format!("test -f {file} || touch {file}"));
        start.elapsed()
    }

    fn git(&self, arguments: &[&str]) {
        let done = Command::new("git").arg("-C").arg(self.mirror.path()).args(arguments).status();
        assert!(done.expect("git runs").success());
    }
}

fn shell(line: &str) {
    let done = Command::new("/bin/bash").args(["-c", line]).stdin(Stdio::null()).status();
    assert!(done.expect("bash runs").success());
}

fn report(what: &str, loops: Vec<Duration>, floor: &str, floors: Vec<Duration>) {
    let (ours, theirs) = (median(loops), median(floors));
    println!("{what:<44} {:>8.1} ms", ours.as_secs_f64() * 1e3);
    println!("  floor: {floor:<35} {:>8.1} ms", theirs.as_secs_f64() * 1e3);
    println!(
        "  ratio {:.2}, {:+.1} ms",
        ours.as_secs_f64() / theirs.as_secs_f64(),
        (ours.as_secs_f64() - theirs.as_secs_f64()) * 1e3
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
