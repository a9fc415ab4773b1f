//! Every host drifts at the same moment.

use std::time::Duration;

use crate::figure::{Figure, Unit};
use crate::process::{most_resident, resident};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::bare::{BareClients, BareServer};
use crate::scale::crowd::Crowd;
use crate::scale::spread::Spread;

pub(super) const ROW: Row = Row {
    id: "drift",
    what: "all of 10,000 TLS agents drift one step at once, and are repaired",
    reach: "nothing is promised; one host's slowness is to hold up no other",
    how: "A server as a process with 10,000 agents of a swarm over TLS, twenty steps each, which the \
          server has put right by itself. One step drifts on every host at the same moment: it is \
          noticed, checked, applied and recorded. repaired: from the drift of a host to its server's \
          having the record, half, nine of ten, 99 of 100 and all of them. Beside the last: two \
          times 200 bytes on as many bare gRPC streams over TLS, until all have acknowledged. \
          among-slow: the same hosts, while one in twenty others takes two seconds for every check. \
          memory-peak: the most that the server ever took. Beside it: what it had before.",
    turn: Turn::Always,
    measure,
};

const AGENTS: u32 = 10_000;
/// Of a thousand, and how long they take.
const SLOW: u32 = 50;
const SLOW_TAKE: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
/// It is asked and answered, told and answered.
const EXCHANGES: usize = 2;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let floors = exchanges(bench)?;
    let crowd = Crowd::start_with_slow(bench, AGENTS, SLOW)?;
    let pid = crowd.pid()?;
    let before = resident(pid)?;
    let calm = drifts(bench, &crowd)?;
    crowd.swarm.slow_ones_take(SLOW_TAKE);
    let among_slow = drifts(bench, &crowd)?;
    let peak = Figure::new("memory-peak", Unit::Bytes, &[most_resident(pid)?]);
    let mut all = calm.figures("repaired", None);
    if let Some(Some(last)) = all.pop() {
        all.push(Some(last.beside("two broadcasts and acks of bare streams", &floors)));
    }
    all.extend(among_slow.figures("among-slow", Some(("without slow ones", &calm))));
    all.push(peak.map(|figure| figure.beside("before", &[before])));
    figures(all)
}

/// How long it took, a round for each time.
fn drifts(bench: &Bench, crowd: &Crowd) -> Result<Spread, Trouble> {
    let mut spread = Spread::default();
    for _ in 0..bench.rounds(ROUNDS) {
        spread.note(crowd.drifts()?);
    }
    Ok(spread)
}

/// The seconds that as many messages take on bare streams.
fn exchanges(bench: &Bench) -> Result<Vec<f64>, Trouble> {
    let mut server = BareServer::start(&bench.own)?;
    let (clients, _) = BareClients::join(&server, AGENTS as usize)?;
    let mut round = || (0..EXCHANGES).map(|_| server.broadcast()).sum::<Result<f64, Trouble>>();
    let rounds = (0..bench.rounds(ROUNDS)).map(|_| round()).collect();
    clients.leave();
    rounds
}
