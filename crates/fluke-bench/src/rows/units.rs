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
          Beside it: one D-Bus call on the host that lists the same units, over a connection that \
          is open.",
    turn: Turn::Always,
    measure,
};

const UNITS: usize = 100;
const ROUNDS: usize = 31;
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
    let (floor, ours) =
        bench.alternate(ROUNDS, || ask(&host), || reconcile(bed.server(), &mut feed))?;
    let figure = Figure::new("checked", Unit::Seconds, &ours);
    let beside = "one D-Bus call for all";
    figures([figure.map(|figure| figure.beside(beside, &floor).target(Target::AtMost(0.01)))])
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
