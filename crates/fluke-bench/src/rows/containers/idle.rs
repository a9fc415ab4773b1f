//! Containers that nobody touches.

use std::time::Duration;

use fluke_bed::{Bed, Host};

use super::{host_with_image, runs, service};
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
          was started. Beside it: an agent that asks by `podman ps` every ten seconds. Asked: the \
          same with a health check in each, every ten seconds as by default; for a minute, all that \
          the host does: a question is a program in its container, started by Podman. Beside it: as \
          many questions by `podman exec`, as a timer of Podman's own would ask them.",
    turn: Turn::Always,
    measure,
};

const CONTAINERS: usize = 20;
const WINDOWS: usize = 6;
const WINDOW: Duration = Duration::from_secs(10);
const POLLS: usize = 5;
/// What is asked of each container, every ten seconds.
const HEALTH: &str = "health {\n    command = \"true\"\n  }";

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
    let asked = asked(bench, &bed, &host)?;
    figures([
        core.map(|it| it.beside(beside, &polls.unwrap_or_default()).target(Target::AtMost(0.5))),
        Figure::new("agent", Unit::PercentOfCore, &agents),
        Figure::new("processes", Unit::Count, &[spawned]).map(|it| it.target(Target::AtMost(0.0))),
        asked,
    ])
}

/// The same where each is asked how it feels.
fn asked(bench: &Bench, bed: &Bed, host: &Host) -> Result<Option<Figure>, Trouble> {
    let with_health = |number| service(number).replace("volume ", &format!("{HEALTH}\n  volume "));
    let services: String = (0..CONTAINERS).map(with_health).collect();
    bed.commit("services.fluke.hcl", &services);
    bed.settles();
    std::thread::sleep(WINDOW);
    let mut ours = Vec::new();
    for _ in 0..bench.rounds(WINDOWS) {
        let before = all(host)?;
        std::thread::sleep(WINDOW);
        ours.push(percent(all(host)? - before));
    }
    let by_podman = (0..POLLS).map(|_| {
        let before = all(host)?;
        host.run("for it in $(podman ps --quiet); do podman exec $it sh -c true; done");
        Ok(percent(all(host)? - before))
    });
    let by_podman: Result<Vec<_>, Trouble> = by_podman.collect();
    let figure = Figure::new("asked", Unit::PercentOfCore, &ours);
    Ok(figure.map(|it| it.beside("a `podman exec` for each", &by_podman.unwrap_or_default())))
}

/// Seconds that whatever is on the host has taken of the processor so far.
fn all(host: &Host) -> Result<f64, Trouble> {
    let said = host.run(
        "cat /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null || \
         awk '$1 == \"usage_usec\" { print $2 * 1000 }' /sys/fs/cgroup/cpu.stat",
    );
    let nanoseconds = said.trim().parse::<f64>();
    nanoseconds
        .map(|it| it / 1e9)
        .map_err(|_| Trouble::failed("look at the processor", format!("it said {said:?}")))
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
