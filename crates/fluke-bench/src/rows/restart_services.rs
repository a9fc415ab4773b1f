//! From a server's start to everybody's being back, and to what all know of each other being right.

use crate::figure::{Figure, Target, Unit};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::bare::{BareClients, BareServer};
use crate::scale::crowd::Crowd;

pub(super) const ROW: Row = Row {
    id: "restart-services",
    what: "server restart → 2,000 agents with two services each registered",
    reach: "≤ 8 s",
    how: "As `restart`, with two containers on every host. One of them ends while the server is \
          away; `agreed`: until no host's names lead there any more. A server that has just started \
          knows less than its agents do, and tells them nothing of each other until all are back, \
          30 s at most: that is part of it.",
    turn: Turn::OnRequest,
    measure,
};

const AGENTS: u32 = 2_000;
const ROUNDS: usize = 2;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let crowd = Crowd::start_serving(bench, AGENTS, "1h")?;
    let (mut floors, mut inside, mut agreed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.rounds(ROUNDS) {
        let server = BareServer::start(&bench.own)?;
        let (clients, took) = BareClients::join(&server, AGENTS as usize)?;
        clients.leave();
        floors.push(took);
        let (registered, right) = crowd.restarts_serving()?;
        inside.push(registered);
        agreed.push(right);
    }
    let beside = "bare streams over TLS";
    let inside = Figure::new("registered", Unit::Seconds, &inside);
    figures([
        inside.map(|figure| figure.beside(beside, &floors).target(Target::AtMost(8.0))),
        Figure::new("agreed", Unit::Seconds, &agreed),
    ])
}
