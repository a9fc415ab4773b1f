//! What one more costs: instructions for twice as much, beside those for once as much.

use std::process::{Command, Stdio};

use crate::figure::{Figure, Target, Unit};
use crate::floor::work::Kind;
use crate::row::{Bench, Row, Trouble, Turn, figures};

pub(super) const ROW: Row = Row {
    id: "growth",
    what: "cost of one more agent, task, step, event",
    reach: "constant: nothing grows faster than linearly",
    how: "Instructions counted by callgrind, which are the same on a busy machine: text to compiled \
          model for twice as many tasks and for twice as many steps of each, snapshots for twice as \
          many hosts, the recording of twice as many events. Beside each: the same once. Twice is \
          linear; a tenth is left for hash tables that grow by leaps.",
    turn: Turn::Always,
    measure,
};

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let installed = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        return Err(Trouble::NotRun("valgrind is not installed (apt-get install valgrind)".into()));
    }
    let one = |kind: Kind| -> Result<Option<Figure>, Trouble> {
        let nothing = instructions(bench, kind, 0)?;
        let once = instructions(bench, kind, kind.usual())? - nothing;
        let twice = instructions(bench, kind, kind.usual() * 2)? - nothing;
        let figure = Figure::new(kind.name(), Unit::Count, &[twice]);
        Ok(figure.map(|it| it.beside("half as many", &[once]).target(Target::Times(2.2))))
    };
    let all: Result<Vec<_>, _> = Kind::GROWING.iter().map(|kind| one(*kind)).collect();
    figures(all?)
}

/// How many instructions it takes to do so much of that work, starting the process included.
fn instructions(bench: &Bench, kind: Kind, count: usize) -> Result<f64, Trouble> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&bench.own);
    command.args(["floor", "work", kind.name(), &count.to_string()]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Trouble::failed("run valgrind", error))?;
    let said = String::from_utf8_lossy(&output.stderr);
    collected(&said).filter(|_| output.status.success()).ok_or_else(|| {
        Trouble::failed("count instructions", said.lines().last().unwrap_or_default())
    })
}

/// The total that callgrind prints at the end.
fn collected(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.split_once("Collected : "))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found_in_what_callgrind_says() {
        let said = "==1== \n==1== Events    : Ir\n==1== Collected : 123456\n==1== \n";
        assert_eq!(collected(said), Some(123456.0));
        assert_eq!(collected("==1== command not found"), None);
    }
}
