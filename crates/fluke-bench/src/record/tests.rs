use super::*;
use crate::figure::{Target, Unit};

fn row(id: &str, outcome: Outcome) -> RowRecord {
    let words = || String::from("words");
    RowRecord {
        id: id.into(),
        what: words(),
        reach: words(),
        how: words(),
        taken: crate::machine::Taken::default(),
        outcome,
    }
}

fn figure(id: &str, ours: f64) -> Figure {
    let figure = Figure::new(id, Unit::Seconds, &[ours]).expect("a round");
    figure.beside("a floor", &[1.0]).target(Target::Times(2.0))
}

fn record(rows: Vec<RowRecord>) -> Record {
    Record { rows, peers: Vec::new() }
}

#[test]
fn figures_are_found_by_name_and_misses_are_listed() {
    let record = record(vec![
        row("a", Outcome::Figures(vec![figure("fast", 1.0), figure("slow", 3.0)])),
        row("b", Outcome::NotRun("no systemd".into())),
        row("c", Outcome::Failed("it broke".into())),
    ]);
    assert_eq!(record.figure("a.slow").map(|figure| figure.ours.median), Some(3.0));
    assert_eq!(record.figure("a.none"), None);
    assert_eq!(record.figure("b.fast"), None);
    assert_eq!(record.figure("nonsense"), None);
    assert_eq!(record.failed(), ["c"]);
    assert_eq!(record.missed(), [("a.slow".to_string(), Verdict::Missed(0.5))]);
}

#[test]
fn what_was_not_measured_again_stays_as_it_was_and_rows_keep_their_order() {
    let earlier = record(vec![
        row("gone", Outcome::NotRun("old".into())),
        row("b", Outcome::Figures(vec![figure("x", 1.0)])),
        row("c", Outcome::Figures(vec![figure("x", 1.0)])),
    ]);
    let now = record(vec![
        row("c", Outcome::Figures(vec![figure("x", 2.0)])),
        row("a", Outcome::Figures(vec![figure("x", 2.0)])),
    ]);
    let all = now.completed(earlier, &["a", "b", "c"]);
    let found: Vec<_> =
        all.rows.iter().map(|row| (row.id.as_str(), row.figures()[0].ours.median)).collect();
    assert_eq!(found, [("a", 2.0), ("b", 1.0), ("c", 2.0)]);
}

#[test]
fn a_record_is_the_same_after_it_was_kept() {
    let folder = crate::folder::folder().expect("a folder");
    let path = folder.path().join("record.json");
    let record = record(vec![row("a", Outcome::Figures(vec![figure("fast", 1.0)]))]);
    record.write(&path).expect("it is written");
    assert_eq!(Record::read(&path).expect("it is read"), record);
}

#[test]
fn what_is_measured_again_counts_with_its_best_rounds() {
    let of = |ours| record(vec![row("a", Outcome::Figures(vec![figure("x", ours)]))]);
    let best = |record: Record| record.figure("a.x").and_then(Figure::best_ratio);
    assert_eq!(best(of(3.0).again(of(2.0))), Some(2.0));
    assert_eq!(best(of(2.0).again(of(3.0))), Some(2.0));
    let failed = record(vec![row("a", Outcome::Failed("once".into()))]);
    assert_eq!(best(failed.clone().again(of(3.0))), Some(3.0));
    assert_eq!(best(of(3.0).again(failed)), Some(3.0));
}

#[test]
fn rows_of_several_machines_are_told_apart() {
    let on = |id: &str, cores| {
        let mut row = row(id, Outcome::NotRun("no".into()));
        row.taken.machine.cores = cores;
        row
    };
    let record = record(vec![on("a", 2), on("b", 8), on("c", 2)]);
    let told: Vec<_> = record.machines().into_iter().map(|(it, rows)| (it.cores, rows)).collect();
    assert_eq!(told, [(2, vec!["a", "c"]), (8, vec!["b"])]);
}
