//! What one more costs: instructions for twice as much, beside those for once as much.

use crate::callgrind::instructions;
use crate::figure::{Figure, Target, Unit};
use crate::floor::work::Kind;
use crate::process::own_processor_seconds;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::crowd::Crowd;

pub(super) const ROW: Row = Row {
    id: "growth",
    what: "cost of one more agent, task, step, event, replica",
    reach: "constant: nothing grows faster than linearly",
    how: "Instructions counted by callgrind, which are the same on a busy machine: text to compiled \
          model for twice as many tasks and for twice as many steps of each, snapshots for twice as \
          many hosts, the recording of twice as many events; replica: the placing of twice as many \
          replicas on twice as many hosts, half of which come later. connected: the processor time \
          of a server as a process with 2,000 agents of a swarm over TLS for a commit that concerns \
          one of them, from its announcement to that one's answer. Beside each: the same once. Twice \
          is linear; a tenth is left for hash tables that grow by leaps, and for sorting.",
    turn: Turn::Always,
    measure,
};

/// How many agents are connected once.
const CONNECTED: u32 = 1000;
/// The kernel tells of time in hundredths of a second: so many commits make a round.
const COMMITS: usize = 20;
const ROUNDS: usize = 7;

const BESIDE: &str = "half as many";
const LINEAR: Target = Target::Times(2.2);

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let counted = |kind: Kind| -> Result<Option<Figure>, Trouble> {
        let nothing = instructions(bench, kind, 0)?;
        let once = instructions(bench, kind, kind.usual())? - nothing;
        let twice = instructions(bench, kind, kind.usual() * 2)? - nothing;
        let figure = Figure::new(kind.name(), Unit::Count, &[twice]);
        Ok(figure.map(|it| it.beside(BESIDE, &[once]).target(LINEAR)))
    };
    let mut all = Kind::GROWING.iter().map(|it| counted(*it)).collect::<Result<Vec<_>, _>>()?;
    all.push(connected(bench)?);
    figures(all)
}

/// A server with agents of which a commit concerns one.
fn connected(bench: &Bench) -> Result<Option<Figure>, Trouble> {
    let mut once = Crowd::start(bench, CONNECTED, "1h")?;
    let mut twice = Crowd::start(bench, CONNECTED * 2, "1h")?;
    let (once, twice) = bench.alternate(ROUNDS, || commit(&mut once), || commit(&mut twice))?;
    let figure = Figure::new("connected", Unit::Seconds, &twice);
    Ok(figure.map(|figure| figure.beside(BESIDE, &once).target(LINEAR)))
}

/// What a server takes of the processor for one commit.
fn commit(crowd: &mut Crowd) -> Result<f64, Trouble> {
    let pid = crowd.pid()?;
    let before = own_processor_seconds(pid)?;
    for _ in 0..COMMITS {
        crowd.commits_for_one()?;
    }
    Ok((own_processor_seconds(pid)? - before) / COMMITS as f64)
}
