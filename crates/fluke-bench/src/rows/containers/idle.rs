//! Containers that nobody touches.

use std::time::Duration;

use fluke_bed::Host;

use super::{host_with_image, runs};
use crate::figure::{Figure, Target, Unit};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::rows::units::bed;

pub(in crate::rows) const ROW: Row = Row {
    id: "containers-idle",
    what: "idle cost of 20 containers on an agent",
    reach: "≤ 0.5 % of a core, no process",
    how: "On a host of the bed: 20 services with a container each, in sync, without health checks; \
          nothing is due. For a minute: the time that the threads of the agent ran and those of \
          Podman's service, which does the work that the agent asks for; their sum is what is \
          promised. Processes: whether a child of either has ended or is there, or Podman's service \
          was started. Beside it: an agent that asks by `podman ps` every ten seconds.",
    turn: Turn::Always,
    measure,
};

const CONTAINERS: usize = 20;
const WINDOWS: usize = 6;
const WINDOW: Duration = Duration::from_secs(10);
const POLLS: usize = 5;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let bed = bed(bench)?;
    let host = host_with_image(&bed);
    runs(&bed, CONTAINERS);
    std::thread::sleep(WINDOW);
    let (mut sum, mut agents) = (Vec::new(), Vec::new());
    let first = Seen::now(&host)?;
    let mut before = first.clone();
    for _ in 0..bench.rounds(WINDOWS) {
        std::thread::sleep(WINDOW);
        let now = Seen::now(&host)?;
        agents.push(percent(now.agent - before.agent));
        sum.push(percent(now.agent - before.agent + now.podman - before.podman));
        before = now;
    }
    let spawned = f64::from(u8::from(before.processes != first.processes));
    let polls: Result<Vec<_>, _> = (0..POLLS).map(|_| poll(&host)).collect();
    let beside = "`podman ps` every 10 s";
    let core = Figure::new("core", Unit::PercentOfCore, &sum);
    figures([
        core.map(|it| it.beside(beside, &polls.unwrap_or_default()).target(Target::AtMost(0.5))),
        Figure::new("agent", Unit::PercentOfCore, &agents),
        Figure::new("processes", Unit::Count, &[spawned]).map(|it| it.target(Target::AtMost(0.0))),
    ])
}

fn percent(seconds: f64) -> f64 {
    100.0 * seconds / WINDOW.as_secs_f64()
}

/// What a host's agent and Podman's service have taken so far.
#[derive(Debug, Clone)]
struct Seen {
    /// Seconds that threads ran.
    agent: f64,
    podman: f64,
    /// Differs once a process came or went: who they are, the page faults of children that ended,
    /// and the children there are.
    processes: String,
}

impl Seen {
    fn now(host: &Host) -> Result<Self, Trouble> {
        let said = host.run(
            "for unit in fluke-agent podman; do \
             p=$(systemctl show --property=MainPID --value $unit.service); \
             cat /proc/$p/task/*/schedstat | awk '{ n += $1 } END { printf \"%.9f\\n\", n / 1e9 }'; \
             echo $p $(awk '{ print $11 }' /proc/$p/stat) $(cat /proc/$p/task/*/children); done",
        );
        let lines: Vec<&str> = said.lines().collect();
        let seen = match lines.as_slice() {
            [agent, of_agent, podman, of_podman] => {
                agent.parse().ok().zip(podman.parse().ok()).map(|(agent, podman)| Self {
                    agent,
                    podman,
                    processes: format!("{of_agent}; {of_podman}"),
                })
            }
            _ => None,
        };
        seen.ok_or_else(|| Trouble::failed("look at processes", format!("it said {said:?}")))
    }
}

/// What it takes of a core to ask by a process every ten seconds.
fn poll(host: &Host) -> Result<f64, Trouble> {
    let said =
        host.run("TIMEFORMAT='%U %S'; { time podman ps --all >/dev/null; } 2>&1 | tail -n 1");
    let times: Option<Vec<f64>> = said.split_whitespace().map(|it| it.parse().ok()).collect();
    let total = times.map(|times| times.iter().sum());
    total.map(percent).ok_or_else(|| Trouble::failed("poll", format!("it said {said:?}")))
}
