use super::*;
use crate::figure::{Target, Unit};
use crate::machine::{Machine, Taken};
use crate::profile::{Line, Measure};
use crate::statistics::Summary;

fn taken() -> Taken {
    let machine = Machine { cores: 2, processor: "Abacus".into(), ..Machine::default() };
    Taken { date: "today".into(), commit: "abc".into(), load: 0.5, machine }
}

fn record() -> Record {
    let figure = Figure::new("sequential", Unit::Seconds, &[0.1]).expect("a round");
    let figure = figure.beside("bare loop", &[0.1]).target(Target::Times(1.3));
    let row = |id: &str, outcome| RowRecord {
        id: id.into(),
        what: "100 checks".into(),
        reach: "≤ 1.3 ×".into(),
        how: "by looking".into(),
        taken: taken(),
        outcome,
    };
    let peer = |peer: &str, seconds: Option<f64>| PeerFigure {
        peer: peer.into(),
        work: "100 checks".into(),
        measured: seconds.and_then(|seconds| Summary::of(&[seconds])),
        note: "not here".into(),
        taken: crate::machine::Taken::default(),
    };
    Record {
        rows: vec![
            row("checks", Outcome::Figures(vec![figure])),
            row("containers", Outcome::NotRun("not built yet".into())),
        ],
        peers: vec![peer("fluke", Some(0.1)), peer("salt 3008.3", Some(4.0)), peer("puppet", None)],
    }
}

#[test]
fn a_report_says_all_of_it() {
    let top = vec![Line { percent: 12.34, function: "core::fmt::write".into() }];
    let profile = |what: &str, unit, total| Profile {
        what: what.into(),
        unit,
        taken: taken(),
        total,
        top: top.clone(),
    };
    let compiling = profile("compiling", Measure::Instructions, 2e9);
    let server = profile("a server", Measure::Bytes, 2097152.0);
    let page = render(&record(), "## What is missed\n\nNothing.\n", &[compiling, server]);
    for part in [
        "**Machine:** 2 cores of Abacus",
        "| `checks.sequential` | 100 checks | 100 ms | bare loop: 100 ms | 1.00 × | ≤ 1.3 × | reached (77 % of it) |\n",
        "| `containers` | 100 checks | | | | ≤ 1.3 × | not built yet |\n",
        "## What is missed\n\nNothing.\n",
        "| fluke | 100 ms |\n| salt 3008.3 | 4.00 s (40 ×) |\n| puppet | not here |\n",
        "## Where the instructions go: compiling",
        "2.00 G instructions, by callgrind",
        "## Where the memory goes: a server",
        "2.00 MiB when the heap was largest, by dhat",
        "Taken of abc at today, load 0.5, on 2 cores of Abacus",
        " 12.3 %  core::fmt::write\n",
        "- **checks**: by looking Taken of abc at today, load 0.5.\n",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
}
