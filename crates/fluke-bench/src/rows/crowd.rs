//! What ten thousand agents cost a server while nothing changes.

use std::time::Duration;

use fluke_bed::swarm::Traffic;

use crate::figure::{Figure, Target, Unit};
use crate::process::{most_resident, processor_seconds, resident};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::bare::{BareClients, BareServer};
use crate::scale::crowd::Crowd;

pub(super) const ROW: Row = Row {
    id: "crowd",
    what: "server, 10,000 TLS agents, 20 steps each",
    reach: "≤ 600 MiB RSS in all, ≤ 5 % of a core when nothing changes",
    how: "A server as a process with 10,000 agents of a swarm over TLS, twenty steps each, all of \
          them checked every minute, heartbeats every 30 s; memory as the kernel counts it after a \
          commit for all, processor time, three times in twenty seconds. memory-peak: the most that \
          it ever took. hourly: what goes over the wire to and from one agent, TLS included and \
          what is below it not, as if the twenty seconds were an hour. Beside all of them: a process \
          with as many bare gRPC streams over TLS that have carried one message each way, and from \
          then on as many messages of the same sizes, as many at the same moment. Quick mode: the \
          memory of a tenth of them.",
    turn: Turn::Always,
    measure,
};

/// What ten thousand agents may take of memory, and of a core.
pub(super) const MEMORY: Target = Target::AtMost(600.0 * 1048576.0);
pub(super) const PROCESSOR: Target = Target::AtMost(5.0);

/// Until what came of the join and the commit is over and memory was given back.
pub(super) const SETTLES: Duration = Duration::from_secs(25);

/// How often it is watched, and for how long.
const WINDOWS: usize = 3;
const WINDOW: Duration = Duration::from_secs(20);

const BARE: &str = "bare streams";

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let agents = if bench.quick { 1_000 } else { 10_000 };
    let bare = bare_streams(bench, agents)?;
    let crowd = Crowd::start(bench, agents, "60s")?;
    crowd.rests(SETTLES);
    let pid = crowd.pid()?;
    // What is promised is of ten thousand, and time is another on a busy machine.
    if bench.quick {
        let memory = Figure::new("memory", Unit::Bytes, &[resident(pid)?]);
        return figures([memory.map(|figure| figure.beside(BARE, &bare.memory))]);
    }
    let rest = Rest::of(pid, || crowd.swarm.traffic())?;
    let figure = |id: &str, unit: Unit, ours: &[f64], beside: &[f64]| {
        Figure::new(id, unit, ours).map(|figure| figure.beside(BARE, beside))
    };
    let memory = figure("memory", Unit::Bytes, &rest.memory, &bare.memory);
    let time = figure("processor", Unit::PercentOfCore, &rest.processor, &bare.processor);
    let hourly = |id: &str, ours: &[f64], beside: &[f64]| {
        let each = |all: &[f64]| all.iter().map(|it| it / f64::from(agents)).collect::<Vec<_>>();
        figure(id, Unit::Bytes, &each(ours), &each(beside))
    };
    figures([
        memory.map(|figure| figure.target(MEMORY)),
        figure("memory-peak", Unit::Bytes, &rest.peak, &bare.peak),
        time.map(|figure| figure.target(PROCESSOR)),
        hourly("hourly-to-agent", &rest.to_agents, &bare.to_agents),
        hourly("hourly-to-server", &rest.to_server, &bare.to_server),
    ])
}

/// What bare streams take.
fn bare_streams(bench: &Bench, count: u32) -> Result<Rest, Trouble> {
    let mut server = BareServer::start(&bench.own)?;
    let (clients, _) = BareClients::join(&server, count as usize)?;
    server.broadcast()?;
    let rest = match bench.quick {
        true => Rest { memory: vec![resident(server.pid())?], ..Rest::default() },
        false => Rest::of(server.pid(), || clients.traffic())?,
    };
    clients.leave();
    Ok(rest)
}

/// What a server takes while nothing changes: a round for each window.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Bytes.
    pub memory: Vec<f64>,
    /// The most bytes ever.
    pub peak: Vec<f64>,
    /// Hundredths of a core.
    pub processor: Vec<f64>,
    /// Bytes in an hour.
    pub to_agents: Vec<f64>,
    pub to_server: Vec<f64>,
}

impl Rest {
    /// Watches a process, and what those who are connected to it say and hear.
    pub(super) fn of(pid: u32, traffic: impl Fn() -> Traffic) -> Result<Self, Trouble> {
        let mut rest = Self::default();
        for _ in 0..WINDOWS {
            rest.watch(pid, &traffic)?;
        }
        rest.peak.push(most_resident(pid)?);
        Ok(rest)
    }

    fn watch(&mut self, pid: u32, traffic: impl Fn() -> Traffic) -> Result<(), Trouble> {
        let (time, before) = (processor_seconds(pid)?, traffic());
        std::thread::sleep(WINDOW);
        let seconds = WINDOW.as_secs_f64();
        self.processor.push((processor_seconds(pid)? - time) / seconds * 100.0);
        self.memory.push(resident(pid)?);
        let since = traffic().since(before);
        let hourly = |bytes: u64| bytes as f64 / seconds * 3600.0;
        self.to_agents.push(hourly(since.received));
        self.to_server.push(hourly(since.sent));
        Ok(())
    }
}
