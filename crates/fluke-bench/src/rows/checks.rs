//! 100 satisfied shell checks, from the server's order to the server's knowing.

use std::process::Stdio;

use crate::figure::{Figure, Target, Unit};
use crate::floor;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::stage::{Cores, Stage, shell_task};

pub(super) const ROW: Row = Row {
    id: "checks",
    what: "100 satisfied shell checks, server → agent → server",
    reach: "≤ 1.3 × bare spawn loop, sequential; ≤ 0.8 × of it using both cores",
    how: "Server and agent as processes, over TLS. A reconcile is asked for over the API, and timed \
          until the stream tells that it is finished. Sequential: agent and bare loop each keep to \
          one core. Beside it: a process that spawns `sh -c` and waits for it, 100 times.",
    turn: Turn::Always,
    measure,
};

const CHECKS: usize = 100;
const ROUNDS: usize = 31;
const LINE: &str = "test -d /";

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let one = |id: &str, cores: Cores, target: f64| -> Result<Option<Figure>, Trouble> {
        let (floor, ours) = run(bench, cores)?;
        let what = "bare loop of posix_spawn sh -c";
        let figure = Figure::new(id, Unit::Seconds, &ours);
        Ok(figure.map(|figure| figure.beside(what, &floor).target(Target::Times(target))))
    };
    figures([one("sequential", Cores::One, 1.3)?, one("both-cores", Cores::All, 0.8)?])
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
