//! What ten thousand agents cost a server while nothing changes.

use std::time::Duration;

use crate::figure::{Figure, Target, Unit};
use crate::process::{processor_seconds, resident};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::bare::{BareClients, BareServer};
use crate::scale::crowd::Crowd;

pub(super) const ROW: Row = Row {
    id: "crowd",
    what: "server, 10,000 TLS agents, 20 steps each",
    reach: "≤ 600 MiB RSS in all, ≤ 5 % of a core when nothing changes",
    how: "A server as a process with 10,000 agents of a swarm over TLS, twenty steps each, all of \
          them checked every minute, heartbeats every 30 s; memory as the kernel counts it after a \
          commit for all, processor time over a minute. Beside it: a process with as many bare gRPC \
          streams over TLS that have carried one message each way, and nothing since. Quick mode: \
          the memory of a tenth of them.",
    turn: Turn::Always,
    measure,
};

/// Until what came of the join and the commit is over and memory was given back.
pub(super) const SETTLES: Duration = Duration::from_secs(25);

/// How long it is watched.
const WATCHED: Duration = Duration::from_secs(60);

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let agents = if bench.quick { 1_000 } else { 10_000 };
    let (bare, bare_time) = bare_streams(bench, agents as usize)?;
    let crowd = Crowd::start(bench, agents, "60s")?;
    crowd.rests(SETTLES);
    let pid = crowd.pid()?;
    let memory = Figure::new("memory", Unit::Bytes, &[resident(pid)?]);
    let memory = memory.map(|figure| figure.beside("bare streams", &[bare]));
    // What is promised is of ten thousand, and time is another on a busy machine.
    if bench.quick {
        return figures([memory]);
    }
    let time = Figure::new("processor", Unit::PercentOfCore, &[time_of(pid, WATCHED)?]);
    let time = time.map(|figure| figure.beside("bare streams", &bare_time));
    figures([
        memory.map(|figure| figure.target(Target::AtMost(600.0 * 1048576.0))),
        time.map(|figure| figure.target(Target::AtMost(5.0))),
    ])
}

/// Memory of a process that has bare streams, and its processor time where there is time for that.
fn bare_streams(bench: &Bench, count: usize) -> Result<(f64, Vec<f64>), Trouble> {
    let mut server = BareServer::start(&bench.own)?;
    let (clients, _) = BareClients::join(&server, count)?;
    server.broadcast()?;
    let memory = resident(server.pid())?;
    let time = if bench.quick { Vec::new() } else { vec![time_of(server.pid(), WATCHED)?] };
    clients.leave();
    Ok((memory, time))
}

/// Hundredths of a core that a process takes.
pub(super) fn time_of(pid: u32, watched: Duration) -> Result<f64, Trouble> {
    let before = processor_seconds(pid)?;
    std::thread::sleep(watched);
    Ok((processor_seconds(pid)? - before) / watched.as_secs_f64() * 100.0)
}
