use super::*;
use crate::figure::{Target, Unit};

fn row(outcome: Outcome) -> RowRecord {
    RowRecord {
        id: "checks".into(),
        what: "100 checks".into(),
        reach: "≤ 1.3 × the floor".into(),
        how: "by looking".into(),
        taken: crate::machine::Taken::default(),
        outcome,
    }
}

#[test]
fn a_row_shows_ours_the_floor_the_ratio_and_the_verdict() {
    let one = Figure::new("sequential", Unit::Seconds, &[0.1, 0.12, 0.2]).expect("rounds");
    let one = one.beside("bare loop", &[0.1]).target(Target::Times(1.3));
    let other = Figure::new("rss", Unit::Bytes, &[5242880.0]).expect("rounds");
    let shown = render_row(&row(Outcome::Figures(vec![one, other])));
    assert_eq!(
        shown,
        "\nchecks · 100 checks · ≤ 1.3 × the floor\n\
         \x20 sequential  120 ms (100 ms – 200 ms)        bare loop: 100 ms (100 ms – 100 ms)  \
         1.20 ×  ≤ 1.3 ×: reached (92 % of it)\n\
         \x20 rss         5.00 MiB (5.00 MiB – 5.00 MiB)                                       \
         \x20       –: –\n"
    );
}

#[test]
fn a_row_that_could_not_run_says_so_loudly() {
    let shown = render_row(&row(Outcome::NotRun("there is no systemd".into())));
    assert!(shown.ends_with("\n  NOT RUN: there is no systemd\n"));
    let shown = render_row(&row(Outcome::Failed("could not start".into())));
    assert!(shown.ends_with("\n  FAILED: could not start\n"));
}

#[test]
fn others_stand_below_each_other() {
    let peer = |peer: &str, seconds: f64| crate::peers::PeerFigure {
        peer: peer.into(),
        work: "100 checks".into(),
        measured: crate::statistics::Summary::of(&[seconds]),
        note: String::new(),
        taken: crate::machine::Taken::default(),
    };
    let peers = vec![peer("fluke", 0.1), peer("salt 3008.3", 4.0)];
    let shown = render(&Record { rows: Vec::new(), peers });
    let lines = "\nothers, at the same work\n\
                 \x20              100 checks\n\
                 \x20 fluke        100 ms\n\
                 \x20 salt 3008.3  4.00 s (40 ×)\n";
    assert!(shown.contains(lines), "{shown}");
}
