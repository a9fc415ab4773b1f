//! What agents with services cost a server, and how soon all of them hear of one container that
//! ended.

use std::time::Duration;

use super::crowd::{PROCESSOR, Rest, SETTLES};
use crate::figure::{Figure, Unit};
use crate::process::resident;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::bare::{BareClients, BareServer};
use crate::scale::crowd::Crowd;

pub(super) const ROW: Row = Row {
    id: "crowd-services",
    what: "server, 2,000 TLS agents, 20 steps and two services each",
    reach: "no more than without services when nothing changes: ≤ 5 % of a core",
    how: "As `crowd`, and every host runs two containers: that of its role, which a fifth of all do, \
          and that of its rack; all are in one mesh, one in a thousand is a proxy. `gone`: a \
          container of a role ends, and each host is timed until its names lead there no more: \
          half, nine of ten, 99 of 100, all of them. Beside that: as many bare gRPC streams over \
          TLS, and 200 bytes to each of them until all have acknowledged.",
    turn: Turn::OnRequest,
    measure,
};

/// Each has a row for every other, and on one machine all of them are read by one program: five times
/// as many would take twenty-five times as long to come.
const AGENTS: u32 = 2_000;
/// How many containers end, one after the other.
const LOSSES: usize = 5;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let (bare, broadcasts) = bare_streams(bench)?;
    let crowd = Crowd::start_serving(bench, AGENTS, "60s")?;
    crowd.rests(SETTLES);
    let rest = Rest::of(crowd.pid()?, || crowd.swarm.traffic())?;
    let losses = (0..bench.rounds(LOSSES)).map(|_| crowd.loses_one());
    let losses = losses.collect::<Result<Vec<_>, Trouble>>()?;
    let memory = Figure::new("memory", Unit::Bytes, &rest.memory);
    let time = Figure::new("processor", Unit::PercentOfCore, &rest.processor);
    let gone = |id: &str, of: fn(&fluke_bed::swarm::Timing) -> Duration| {
        let rounds: Vec<f64> = losses.iter().map(|loss| of(loss).as_secs_f64()).collect();
        let figure = Figure::new(id, Unit::Seconds, &rounds);
        figure.map(|figure| figure.beside("broadcast and ack of bare streams", &broadcasts))
    };
    figures([
        memory.map(|figure| figure.beside("bare streams", &[bare])),
        time.map(|figure| figure.target(PROCESSOR)),
        gone("gone_p50", |loss| loss.p50),
        gone("gone_p90", |loss| loss.p90),
        gone("gone_p99", |loss| loss.p99),
        gone("gone_all", |loss| loss.max),
    ])
}

/// Memory of a process that has bare streams, and how long it takes to tell all of them something.
fn bare_streams(bench: &Bench) -> Result<(f64, Vec<f64>), Trouble> {
    let mut server = BareServer::start(&bench.own)?;
    let (clients, _) = BareClients::join(&server, AGENTS as usize)?;
    let broadcasts = (0..bench.rounds(LOSSES)).map(|_| server.broadcast());
    let broadcasts = broadcasts.collect::<Result<Vec<_>, Trouble>>()?;
    let memory = resident(server.pid())?;
    clients.leave();
    Ok((memory, broadcasts))
}
