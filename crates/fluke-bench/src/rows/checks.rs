//! 100 satisfied shell checks, from the server's order to the server's knowing.

use std::process::Stdio;

use crate::figure::{Figure, Target, Unit};
use crate::floor;
use crate::process::{children_seconds, processor_seconds};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::stage::{Cores, Stage, shell_task};

pub(super) const ROW: Row = Row {
    id: "checks",
    what: "100 satisfied shell checks, server → agent → server",
    reach: "≤ 1.3 × bare spawn loop, sequential; ≤ 0.8 × of it using both cores",
    how: "Server and agent as processes, over TLS. A reconcile is asked for over the API, and timed \
          until the stream tells that it is finished. Sequential: agent and bare loop each keep to \
          one core. Beside it: a process that spawns `sh -c` and waits for it, 100 times. work: what \
          both take of the processor, in 5 cycles, for one.",
    turn: Turn::Always,
    measure,
};

const CHECKS: usize = 100;
const ROUNDS: usize = 31;
/// The kernel tells of time in hundredths of a second: several cycles make a round.
const BUNDLE: usize = 5;
const WORK_ROUNDS: usize = 9;
const LINE: &str = "test -d /";

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let one = |id: &str, cores: Cores, target: f64| -> Result<Option<Figure>, Trouble> {
        let (floor, ours) = run(bench, cores)?;
        let what = "bare loop of posix_spawn sh -c";
        let figure = Figure::new(id, Unit::Seconds, &ours);
        Ok(figure.map(|figure| figure.beside(what, &floor).target(Target::Times(target))))
    };
    let worked = worked(bench)?;
    // A busy machine takes its time, and little more of the processor.
    if bench.quick {
        return figures([worked]);
    }
    figures([one("sequential", Cores::One, 1.3)?, one("both-cores", Cores::All, 0.8)?, worked])
}

/// What it takes of the processor: server, agent and every shell, beside the loop and its shells.
fn worked(bench: &Bench) -> Result<Option<Figure>, Trouble> {
    let mut stage = Stage::start(bench)?;
    let agent = stage.agent("web-1", Cores::All)?;
    let server = stage.server().pid().ok_or_else(|| Trouble::failed("find the server", "gone"))?;
    stage.settle(&shell_task(LINE, "false", CHECKS))?;
    let mut feed = stage.feed()?;
    let mut bare = Cores::All.command(&bench.own);
    bare.args(["floor", "spawn", &(CHECKS * BUNDLE).to_string(), LINE]).stdin(Stdio::null());
    let used = || Ok(processor_seconds(agent)? + processor_seconds(server)?);
    let floor = || {
        let before = children_seconds(std::process::id())?;
        floor::seconds_of(&mut bare)?;
        Ok(children_seconds(std::process::id())? - before)
    };
    let ours = || {
        let before: f64 = used()?;
        (0..BUNDLE).try_for_each(|_| stage.reconcile(&mut feed).map(drop))?;
        Ok(used()? - before)
    };
    let (floor, ours) = bench.alternate(WORK_ROUNDS, floor, ours)?;
    let each = |rounds: Vec<f64>| rounds.iter().map(|it| it / BUNDLE as f64).collect::<Vec<_>>();
    let figure = Figure::new("work", Unit::Seconds, &each(ours));
    let beside = "processor time of the bare loop";
    Ok(figure.map(|figure| figure.beside(beside, &each(floor))))
}

fn run(bench: &Bench, cores: Cores) -> Result<(Vec<f64>, Vec<f64>), Trouble> {
    let mut stage = Stage::start(bench)?;
    stage.agent("web-1", cores)?;
    stage.settle(&shell_task(LINE, "false", CHECKS))?;
    let mut feed = stage.feed()?;
    let mut bare = cores.command(&bench.own);
    bare.args(["floor", "spawn", &CHECKS.to_string(), LINE]).stdin(Stdio::null());
    bench.alternate(ROUNDS, || floor::seconds_of(&mut bare), || stage.reconcile(&mut feed))
}
