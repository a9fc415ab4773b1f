use super::*;
use crate::figure::{Figure, Unit};
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
    Baseline([("language.cold".to_string(), Known { ratio, margin })].into())
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
    baseline.0.insert("other.gone".into(), Known { ratio: 1.0, margin: 0.5 });
    let worse = baseline.worse(&record(&[1.0], &[1.0]));
    assert_eq!(worse.len(), 1);
    assert!(worse[0].to_string().starts_with("other.gone: was 1.00 × the floor, and was not"));
}

#[test]
fn a_baseline_names_the_rows_to_measure_and_is_renewed_from_them() {
    let baseline = baseline(2.0, 0.5);
    assert_eq!(baseline.rows(), ["language"]);
    let renewed = baseline.renewed(&record(&[1.23456], &[1.0]));
    assert_eq!(renewed.0["language.cold"], Known { ratio: 1.235, margin: 0.5 });
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
