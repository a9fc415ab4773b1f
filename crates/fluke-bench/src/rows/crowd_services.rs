//! What ten thousand agents with services cost a server, and how soon all of them hear of one
//! container that ended.

use std::time::Duration;

use super::crowd::{SETTLES, time_of};
use crate::figure::{Figure, Target, Unit};
use crate::process::resident;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::bare::{BareClients, BareServer};
use crate::scale::crowd::Crowd;

pub(super) const ROW: Row = Row {
    id: "crowd-services",
    what: "server, 10,000 TLS agents, 20 steps and two services each",
    reach: "≤ 600 MiB RSS in all, ≤ 5 % of a core when nothing changes",
    how: "As `crowd`, and every host runs two containers: that of its role, which a fifth of all do, \
          and that of its rack; all are in one mesh, one in a thousand is a proxy. `gone`: a \
          container of a role ends, and each host is timed until its names lead there no more: \
          half, nine of ten, 99 of 100, all of them. Beside that: as many bare gRPC streams over \
          TLS, and 200 bytes to each of them until all have acknowledged. Quick mode: a tenth of \
          everything.",
    turn: Turn::OnRequest,
    measure,
};

/// How many containers end, one after the other.
const LOSSES: usize = 5;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let (agents, watched) = match bench.quick {
        true => (1_000, Duration::from_secs(20)),
        false => (10_000, Duration::from_secs(60)),
    };
    let (bare, broadcasts) = bare_streams(bench, agents as usize)?;
    let crowd = Crowd::start_serving(bench, agents, "60s")?;
    crowd.rests(SETTLES);
    let pid = crowd.pid()?;
    let memory = resident(pid)?;
    let time = time_of(pid, watched)?;
    let losses = (0..bench.rounds(LOSSES)).map(|_| crowd.loses_one());
    let losses = losses.collect::<Result<Vec<_>, Trouble>>()?;
    let share = f64::from(agents) / 10_000.0;
    let most = Target::AtMost(600.0 * 1048576.0 * share.max(0.15));
    let memory = Figure::new("memory", Unit::Bytes, &[memory]);
    let time = Figure::new("processor", Unit::PercentOfCore, &[time]);
    let gone = |id: &str, of: fn(&fluke_bed::swarm::Timing) -> Duration| {
        let rounds: Vec<f64> = losses.iter().map(|loss| of(loss).as_secs_f64()).collect();
        let figure = Figure::new(id, Unit::Seconds, &rounds);
        figure.map(|figure| figure.beside("broadcast and ack of bare streams", &broadcasts))
    };
    figures([
        memory.map(|figure| figure.beside("bare streams", &[bare]).target(most)),
        time.map(|figure| figure.target(Target::AtMost(5.0 * share))),
        gone("gone_p50", |loss| loss.p50),
        gone("gone_p90", |loss| loss.p90),
        gone("gone_p99", |loss| loss.p99),
        gone("gone_all", |loss| loss.max),
    ])
}

/// Memory of a process that has bare streams, and how long it takes to tell all of them something.
fn bare_streams(bench: &Bench, count: usize) -> Result<(f64, Vec<f64>), Trouble> {
    let mut server = BareServer::start(&bench.own)?;
    let (clients, _) = BareClients::join(&server, count)?;
    let broadcasts = (0..bench.rounds(LOSSES)).map(|_| server.broadcast());
    let broadcasts = broadcasts.collect::<Result<Vec<_>, Trouble>>()?;
    let memory = resident(server.pid())?;
    clients.leave();
    Ok((memory, broadcasts))
}
