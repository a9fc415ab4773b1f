//! A unit that is killed, until it runs again.

use fluke_bed::{Bed, Host};

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
/// It notes when it starts.
pub(crate) const UNIT: &str = "[Service]\n\
                    ExecStart=/bin/sh -c 'date +%%s.%%N >>/run/started; exec sleep infinity'\n";
/// What keeps it running.
pub(crate) const KEEP: &str = r#"task "keep" {
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
    let (floor, ours) = bench.alternate(
        ROUNDS,
        || {
            host.run(CALM);
            let took = timed(&host, "systemctl start own.service");
            host.run("systemctl stop own.service");
            took
        },
        || killed(&bed, &host),
    )?;
    let figure = Figure::new("running", Unit::Seconds, &ours);
    let beside = "its own start";
    figures([figure.map(|figure| figure.beside(beside, &floor).target(Target::Over(0.3)))])
}

/// Kills the unit, and says how many seconds passed until it ran again.
pub(crate) fn killed(bed: &Bed, host: &Host) -> Result<f64, Trouble> {
    let took = timed(host, "systemctl kill --signal=KILL kept.service");
    bed.settles();
    took
}

/// The seconds between an act and the next time that a unit notes.
fn timed(host: &Host, act: &str) -> Result<f64, Trouble> {
    let said = host.run(&format!(
        "n=$(wc -l </run/started); t=$(date +%s.%N); {act}; \
         until [ $(wc -l </run/started) -gt $n ]; do sleep 0.01; done; \
         awk -v t=$t 'END {{ printf \"%.6f\", $1 - t }}' /run/started"
    ));
    said.trim().parse().map_err(|_| Trouble::failed("time a unit", format!("it said {said:?}")))
}
