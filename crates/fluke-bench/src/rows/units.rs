//! 100 satisfied systemd checks, on a host with systemd.

use fluke_bed::{Bed, Host};

use crate::figure::{Figure, Target, Unit};
use crate::floor::bus::unit;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::stage::{Feed, reconcile};

pub(super) const ROW: Row = Row {
    id: "units",
    what: "100 satisfied systemd checks",
    reach: "≤ 10 ms",
    how: "On a host of the bed with systemd: 100 units that run and are enabled, an agent, and a \
          server outside, over TLS. A reconcile is timed from the order to the server's knowing. \
          just-enabled: the same less than a second after some unit was enabled or disabled; by \
          their times alone, files that young cannot be told from those that change once more, so \
          that systemd is asked of each unit's file anew. Beside both: one D-Bus call on the host \
          that lists the same units, over a connection that is open.",
    turn: Turn::Always,
    measure,
};

const UNITS: usize = 100;
const ROUNDS: usize = 31;
const YOUNG_ROUNDS: usize = 7;
/// Until the host's files are no longer young: see `files.rs` beside the agent's systemd executor.
const CALM: &str = "sleep 1.5";
/// The folder that tells which units are enabled is changed, and no unit is.
const CHANGE: &str = "touch /etc/systemd/system/multi-user.target.wants";
const TEMPLATE: &str =
    "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let bed = bed(bench)?;
    let host = bed.host("web-1");
    host.unit("fluke-bench@.service", TEMPLATE);
    let names: Vec<_> = (0..UNITS).map(unit).collect();
    host.run(&format!("systemctl enable --quiet --now {}", names.join(" ")));
    let host = host.joins("");
    bed.commit("units.fluke.hcl", &manifest(&names));
    bed.settles();
    let mut feed = Feed::open(&bed.server().socket())?;
    host.run(CALM);
    let (floor, ours) =
        bench.alternate(ROUNDS, || ask(&host), || reconcile(bed.server(), &mut feed))?;
    let (young_floor, young) = bench.alternate(
        YOUNG_ROUNDS,
        || ask(&host),
        || {
            host.run(CHANGE);
            reconcile(bed.server(), &mut feed)
        },
    )?;
    let figure = |id: &str, ours: &[f64], floor: &[f64]| {
        let figure = Figure::new(id, Unit::Seconds, ours);
        figure.map(|figure| figure.beside("one D-Bus call for all", floor))
    };
    let checked = figure("checked", &ours, &floor);
    figures([
        checked.map(|figure| figure.target(Target::AtMost(0.01))),
        figure("just-enabled", &young, &young_floor),
    ])
}

/// A bed with the program, and this one beside it for floors.
pub(crate) fn bed(bench: &Bench) -> Result<Bed, Trouble> {
    let none = "there can be no host with systemd here; run as root, see CONTRIBUTING.md, The bed";
    let bed = Bed::up(&bench.program).ok_or_else(|| Trouble::NotRun(none.into()))?;
    let placed = bed.folder().join("bin/xtask");
    let copied = std::fs::copy(&bench.own, placed);
    copied.map_err(|error| Trouble::failed("place the floors on the host", error))?;
    Ok(bed)
}

fn ask(host: &Host) -> Result<f64, Trouble> {
    let said = host.run(&format!("/opt/fluke/xtask floor bus {UNITS}"));
    said.trim().parse().map_err(|_| Trouble::failed("ask systemd", format!("it said {said:?}")))
}

fn manifest(units: &[String]) -> String {
    let step = |(number, unit): (usize, &String)| {
        format!(
            "  systemd \"u{number}\" {{\n    unit    = \"{unit}\"\n    state   = \"running\"\n    \
             enabled = true\n  }}\n"
        )
    };
    let steps: String = units.iter().enumerate().map(step).collect();
    format!("task \"units\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n{steps}}}\n")
}
