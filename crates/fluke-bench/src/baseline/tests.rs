use super::*;
use crate::figure::{Figure, Target, Unit};
use crate::record::{Outcome, RowRecord};
use proptest::prelude::*;

fn record(ours: &[f64], floor: &[f64]) -> Record {
    let figure = Figure::new("cold", Unit::Seconds, ours).expect("rounds").beside("floor", floor);
    let row = RowRecord {
        id: "language".into(),
        what: String::new(),
        reach: String::new(),
        how: String::new(),
        taken: crate::machine::Taken::default(),
        outcome: Outcome::Figures(vec![figure]),
    };
    Record { rows: vec![row], peers: Vec::new() }
}

fn baseline(ratio: f64, margin: f64) -> Baseline {
    let ratios = [("language.cold".to_string(), Known { ratio, margin })].into();
    Baseline { ratios, counts: BTreeSet::new() }
}

#[test]
fn a_ratio_may_get_worse_by_its_margin_and_no_more() {
    let baseline = baseline(2.0, 0.5);
    assert_eq!(baseline.worse(&record(&[2.9], &[1.0])), []);
    assert_eq!(baseline.worse(&record(&[3.0], &[1.0])), []);
    let worse = baseline.worse(&record(&[3.1], &[1.0]));
    assert_eq!(
        worse[0].to_string(),
        "language.cold: 3.10 × the floor, was 2.00 ×; at most 3.00 × (50 % more)"
    );
}

#[test]
fn the_best_rounds_count_and_not_those_that_were_disturbed() {
    assert_eq!(baseline(2.0, 0.1).worse(&record(&[50.0, 2.0, 99.0], &[1.0, 7.0])), []);
}

#[test]
fn a_figure_that_is_not_measured_any_more_is_missed() {
    let mut baseline = baseline(2.0, 0.5);
    baseline.ratios.insert("other.gone".into(), Known { ratio: 1.0, margin: 0.5 });
    baseline.counts.insert("language.lost".into());
    let worse = baseline.worse(&record(&[1.0], &[1.0]));
    let told: Vec<_> = worse.iter().map(ToString::to_string).collect();
    let missed =
        |figure: &str| format!("{figure}: the baseline has it, and it was not measured now");
    assert_eq!(told, [missed("other.gone"), missed("language.lost")]);
}

#[test]
fn a_count_has_to_be_what_is_promised_of_it() {
    let mut baseline = baseline(1.0, 0.5);
    baseline.counts.insert("language.cold".into());
    let record = |bytes: f64| {
        let mut record = record(&[1.0], &[1.0]);
        let figure = Figure::new("cold", Unit::Bytes, &[bytes]).expect("a round");
        let figure = figure.beside("floor", &[bytes]).target(Target::AtMost(20e6));
        record.rows[0].outcome = Outcome::Figures(vec![figure]);
        record
    };
    assert_eq!(baseline.worse(&record(20_000_000.0)), []);
    let worse = baseline.worse(&record(20_000_001.0));
    assert_eq!(
        worse.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["language.cold: 20000001; at most 20000000 is promised"]
    );
}

#[test]
fn only_rows_that_the_baseline_knows_can_be_compared_with_it() {
    let mut whole = baseline(2.0, 0.5);
    whole.counts.insert("size.binary".into());
    let of = |rows: &[&str]| {
        let rows: Vec<_> = rows.iter().map(ToString::to_string).collect();
        whole.clone().of(&rows)
    };
    assert_eq!(of(&[]), Ok(whole.clone()), "who names none means all");
    let named = of(&["size"]).expect("it is known");
    assert_eq!(named.rows(), ["size"].into());
    // Not every row there is: who asks for one wants no other.
    let why = of(&["size", "restart"]).expect_err("it is not known");
    assert_eq!(why, "the baseline knows nothing of `restart`, but of language, size");
}

#[test]
fn a_baseline_names_the_rows_to_measure_and_is_renewed_from_them() {
    let baseline = baseline(2.0, 0.5);
    assert_eq!(baseline.rows(), ["language"].into());
    let renewed = baseline.renewed(&record(&[1.23456], &[1.0]));
    assert_eq!(renewed.ratios["language.cold"], Known { ratio: 1.235, margin: 0.5 });
}

proptest! {
    #[test]
    fn what_a_baseline_was_made_from_is_never_worse(ours in 0.01..1e3_f64, floor in 0.01..1e3_f64) {
        let record = record(&[ours], &[floor]);
        let renewed = baseline(1.0, 0.1).renewed(&record);
        // A ratio is kept to three places, which is far less than a margin where ratios count.
        prop_assume!(ours / floor > 0.01);
        prop_assert_eq!(renewed.worse(&record), []);
    }
}

#[test]
fn the_committed_one_knows_rows_that_there_are_and_the_size_of_the_program() {
    let committed = include_str!("../../baseline.json");
    let committed: Baseline = serde_json::from_str(committed).expect("a baseline");
    let rows: Vec<_> = committed.rows().into_iter().map(str::to_string).collect();
    assert!(crate::rows::chosen(&rows).is_ok_and(|chosen| chosen.len() == rows.len()));
    assert!(committed.counts.contains("size.binary"));
}
