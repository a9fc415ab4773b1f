//! From a server's start to everybody's being back.

use crate::figure::{Figure, Target, Unit};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::bare::{BareClients, BareServer};
use crate::scale::crowd::Crowd;

pub(super) const ROW: Row = Row {
    id: "restart",
    what: "server restart → 5,000 agents registered",
    reach: "≤ 8 s",
    how: "A server as a process with 5,000 agents of a swarm over TLS is stopped and started again, \
          and timed from its start until the last of them is welcomed. Agents try again after half \
          a second to a second; 64 are on their way in at the same time. Beside it: as many bare \
          gRPC streams over TLS to a process that was just started. Quick mode: 2,000 of them, of \
          which handshakes still take longer than agents wait.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 5;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let agents = if bench.quick { 2_000 } else { 5_000 };
    let crowd = Crowd::start(bench, agents, "1h")?;
    let floor = || {
        let server = BareServer::start(&bench.own)?;
        let (clients, took) = BareClients::join(&server, agents as usize)?;
        clients.leave();
        Ok(took)
    };
    let (floors, ours) = bench.alternate(ROUNDS, floor, || crowd.restarts())?;
    let figure = Figure::new("registered", Unit::Seconds, &ours);
    let beside = "bare streams over TLS";
    // What is promised is of five thousand.
    let target = if bench.quick { Target::Record } else { Target::AtMost(8.0) };
    figures([figure.map(|figure| figure.beside(beside, &floors).target(target))])
}
