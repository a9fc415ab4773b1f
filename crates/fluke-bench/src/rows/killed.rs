//! A unit that is killed, until it runs again.

use crate::figure::{Figure, Target, Unit};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::rows::units::bed;

pub(super) const ROW: Row = Row {
    id: "killed",
    what: "killed unit → running again",
    reach: "≤ 300 ms + its own start",
    how: "On a host of the bed: a unit without `Restart=` that an agent keeps running. Its process \
          is killed; timed until the unit's new process notes the time. Beside it: the same unit, \
          stopped, from `systemctl start` to the same note.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 11;
/// What comes and goes is looked at less and less often: each round is a drift of its own.
const CALM: &str = "sleep 2";
const UNIT: &str = "[Service]\n\
                    ExecStart=/bin/sh -c 'date +%%s.%%N >>/run/started; exec sleep infinity'\n";
const KEEP: &str = r#"task "keep" {
  selector {
    match_labels = {}
  }
  systemd "kept" {
    unit  = "kept.service"
    state = "running"
  }
}
"#;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let bed = bed(bench)?;
    let host = bed.host("web-1");
    host.unit("kept.service", UNIT);
    host.unit("own.service", UNIT);
    let host = host.joins("");
    bed.commit("keep.fluke.hcl", KEEP);
    bed.settles();
    // Both print the seconds between an act and the next time that a unit notes.
    let noted = "until [ $(wc -l </run/started) -gt $n ]; do sleep 0.01; done; \
                 awk -v t=$t 'END { printf \"%.6f\", $1 - t }' /run/started";
    let count = "n=$(wc -l </run/started); t=$(date +%s.%N)";
    let started =
        format!("{count}; systemctl start own.service; {noted}; systemctl stop own.service");
    let killed = format!("{count}; systemctl kill --signal=KILL kept.service; {noted}");
    let timed = |line: &str| {
        let said = host.run(line);
        said.trim().parse().map_err(|_| Trouble::failed("time a unit", format!("it said {said:?}")))
    };
    let (floor, ours) = bench.alternate(
        ROUNDS,
        || {
            host.run(CALM);
            timed(&started)
        },
        || {
            let took = timed(&killed);
            bed.settles();
            took
        },
    )?;
    let figure = Figure::new("running", Unit::Seconds, &ours);
    let beside = "its own start";
    figures([figure.map(|figure| figure.beside(beside, &floor).target(Target::Over(0.3)))])
}
