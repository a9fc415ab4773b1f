//! A hundred satisfied shell checks, against a bare loop of spawn and wait in the same run.
//!
//! Rounds of both alternate, so that what else the machine does hits both alike.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::process::{Command, Stdio};
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
use fluke_model::task::{ExecutorSpec, OnFailure, ShellSpec, Step};
use fluke_model::verdict::Verdict;

const CHECKS: usize = 100;
const ROUNDS: usize = 31;
const SHELL: &str = "/bin/sh";
const LINE: &str = "test -d /";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (_switch, stop) = Stop::new();
    let environment = Environment::of_this_process("");
    let host = Host { environment, home: "/".into(), stop };
    let settings = Settings {
        version: "bench".into(),
        default_shell: SHELL.into(),
        command_timeout: Duration::from_secs(300),
        allow: Allow::default(),
    };
    let executors = Arc::new(Executors::new(settings, host));
    for at_once in [1, 4] {
        let mut bare = Vec::new();
        let mut checked = Vec::new();
        for _ in 0..ROUNDS {
            bare.push(timed(|| spawn_and_wait(at_once)));
            checked.push(timed(|| runtime.block_on(check(&executors, at_once))));
        }
        let (bare, checked) = (Times::of(bare), Times::of(checked));
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        println!(
            "{CHECKS} checks, {at_once} at once: bare {bare}; checked {checked}; ratio {:.2} of \
             medians, {:.2} of fastest",
            ratio(checked.median, bare.median),
            ratio(checked.fastest, bare.fastest),
        );
    }
}

async fn check(executors: &Arc<Executors>, at_once: usize) {
    let step = |n: usize| Step {
        address: StepAddress::new("shell", &format!("bench-{n}")).expect("a name"),
        on_failure: OnFailure::Abort,
        timeout: None,
        spec: ExecutorSpec::Shell(ShellSpec {
            check: LINE.into(),
            command: LINE.into(),
            working_dir: None,
            run_as: None,
            env: Default::default(),
        }),
    };
    let task = SnapshotTask {
        name: TaskName::new("bench").expect("a name"),
        policy: Policy::Remediate,
        steps: (0..CHECKS).map(step).collect(),
    };
    let snapshot = Arc::new(Snapshot::new(vec![Arc::new(task)]));
    let steps: Vec<StepIndex> = snapshot.steps_of(0).collect();
    let verdicts = executors.check_all(&snapshot, &steps, at_once).await;
    assert!(verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Satisfied));
}

/// The least that a check can be: std uses posix_spawn for this.
fn spawn_and_wait(at_once: usize) {
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(move || {
                for _ in 0..CHECKS / at_once {
                    let mut command = Command::new(SHELL);
                    command.args(["-c", LINE]).stdin(Stdio::null());
                    assert!(command.status().expect("a shell").success());
                }
            });
        }
    });
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

struct Times {
    fastest: Duration,
    median: Duration,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self { fastest: times[0], median: times[times.len() / 2] }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "{:.1} ms (fastest {:.1})", millis(self.median), millis(self.fastest))
    }
}
