//! From a commit to a thousand answers.

use crate::figure::{Figure, Target, Unit};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::bare::{BareClients, BareServer};
use crate::scale::crowd::Crowd;

pub(super) const ROW: Row = Row {
    id: "commit",
    what: "commit → all of 1,000 agents checked",
    reach: "≤ 1 s",
    how: "A server as a process with 1,000 agents of a swarm over TLS, twenty steps each. A commit \
          that changes every step is announced by webhook, and timed until the last agent has \
          answered the check of it: fetch, parse, snapshots, checks. `for_few`: the same with a \
          commit that concerns two of them. Beside it: a process with 1,000 bare gRPC streams over \
          TLS sends 200 bytes on each, until all have acknowledged. `to_agent`, `to_server`: what \
          the commit for all sends over the wire to and from one of them, TLS included and what is \
          below it not. Beside the first: the text of its manifest.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 15;
const AGENTS: u32 = 1000;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let mut bare = BareServer::start(&bench.own)?;
    let (clients, _) = BareClients::join(&bare, AGENTS as usize)?;
    let mut crowd = Crowd::start(bench, AGENTS, "1h")?;
    let (mut floors, mut all, mut half, mut few) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut to_agent, mut to_server) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds(ROUNDS) {
        floors.push(bare.broadcast()?);
        let before = crowd.swarm.traffic();
        let timing = crowd.commits_for_all()?;
        let traffic = crowd.swarm.traffic().since(before);
        to_agent.push(traffic.received as f64 / f64::from(AGENTS));
        to_server.push(traffic.sent as f64 / f64::from(AGENTS));
        all.push(timing.max.as_secs_f64());
        half.push(timing.p50.as_secs_f64());
        few.push(crowd.commits_for_few()?.max.as_secs_f64());
    }
    clients.leave();
    let beside = "broadcast and ack of 1,000 bare streams";
    let all = Figure::new("all", Unit::Seconds, &all);
    let to_agent = Figure::new("to_agent", Unit::Bytes, &to_agent);
    let text = [crowd.manifest().len() as f64];
    figures([
        all.map(|figure| figure.beside(beside, &floors).target(Target::AtMost(1.0))),
        Figure::new("half", Unit::Seconds, &half),
        Figure::new("for_few", Unit::Seconds, &few),
        to_agent.map(|figure| figure.beside("the text of its manifest", &text)),
        Figure::new("to_server", Unit::Bytes, &to_server),
    ])
}
