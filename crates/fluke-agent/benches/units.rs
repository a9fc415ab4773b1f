//! A hundred satisfied units, against one bare D-Bus call for a hundred units in the same run.
//!
//! Needs a host with systemd, as root; makes, starts and removes a hundred units of its own. Run it
//! on a host of the bed, never on a machine that matters.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_agent::Allow;
use fluke_agent::executor::{Executors, Settings};
use fluke_agent::host::Host;
use fluke_agent::host::environment::Environment;
use fluke_agent::host::process::Stop;
use fluke_agent::world::Steps;
use fluke_model::id::{StepAddress, TaskName};
use fluke_model::policy::Policy;
use fluke_model::snapshot::{Snapshot, SnapshotTask, StepIndex};
use fluke_model::task::{ExecutorSpec, OnFailure, Step, SystemdSpec, UnitState};
use fluke_model::verdict::Verdict;

const UNITS: usize = 100;
const ROUNDS: usize = 31;
const TEMPLATE: &str = "/etc/systemd/system/fluke-bench@.service";
const UNIT: &str = "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

fn main() {
    if !std::path::Path::new("/run/systemd/system").is_dir() {
        println!("SKIP: this host does not run systemd");
        return;
    }
    std::fs::write(TEMPLATE, UNIT).expect("root");
    let names: Vec<String> =
        (0..UNITS).map(|number| format!("fluke-bench@{number}.service")).collect();
    systemctl("enable", &names);
    // What has just changed is not relied upon for a second.
    std::thread::sleep(Duration::from_secs(2));
    measure(&names);
    systemctl("disable", &names);
    let _ = std::fs::remove_file(TEMPLATE);
}

fn systemctl(verb: &str, names: &[String]) {
    let done = Command::new("systemctl").args([verb, "--quiet", "--now"]).args(names).status();
    assert!(done.expect("systemctl").success(), "systemctl {verb}");
}

fn measure(names: &[String]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (_switch, stop) = Stop::new();
    let environment = Environment::of_this_process("");
    let host = Host { environment, home: "/".into(), stop };
    let settings = Settings {
        version: "bench".into(),
        default_shell: "/bin/sh".into(),
        command_timeout: Duration::from_secs(300),
        allow: Allow::default(),
    };
    let executors = runtime.block_on(async { Arc::new(Executors::new(settings, host)) });
    let bus = runtime.block_on(zbus::connection::Builder::system().build()).expect("a bus");
    let first = timed(|| runtime.block_on(check(&executors, names)));
    let (mut bare, mut checked) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(timed(|| runtime.block_on(list(&bus, names))));
        checked.push(timed(|| runtime.block_on(check(&executors, names))));
    }
    bare.sort();
    checked.sort();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let (bare, checked) = (bare[ROUNDS / 2], checked[ROUNDS / 2]);
    println!(
        "{UNITS} units: first {:.1} ms; then {:.2} ms; one bare call {:.2} ms; ratio {:.2}",
        millis(first),
        millis(checked),
        millis(bare),
        checked.as_secs_f64() / bare.as_secs_f64()
    );
}

async fn list(bus: &zbus::Connection, names: &[String]) {
    let systemd = "org.freedesktop.systemd1";
    let answer = bus.call_method(
        Some(systemd),
        "/org/freedesktop/systemd1",
        Some("org.freedesktop.systemd1.Manager"),
        "ListUnitsByNames",
        &names,
    );
    assert!(!answer.await.expect("an answer").body().is_empty());
}

async fn check(executors: &Arc<Executors>, names: &[String]) {
    let step = |(number, unit): (usize, &String)| Step {
        address: StepAddress::new("systemd", &format!("bench-{number}")).expect("a name"),
        on_failure: OnFailure::Abort,
        timeout: None,
        spec: ExecutorSpec::Systemd(SystemdSpec {
            unit: unit.clone(),
            state: UnitState::Running,
            enabled: true,
        }),
    };
    let task = SnapshotTask {
        name: TaskName::new("bench").expect("a name"),
        policy: Policy::Remediate,
        steps: names.iter().enumerate().map(step).collect(),
    };
    let snapshot = Arc::new(Snapshot::new(vec![Arc::new(task)]));
    let steps: Vec<StepIndex> = snapshot.steps_of(0).collect();
    let verdicts = executors.check_all(&snapshot, &steps, 4).await;
    let wrong: Vec<_> =
        verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Satisfied).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
