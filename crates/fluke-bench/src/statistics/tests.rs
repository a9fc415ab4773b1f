use proptest::prelude::*;

use super::*;

#[test]
fn rounds_are_summed_up() {
    let table: &[(&[f64], [f64; 4])] = &[
        (&[3.0], [3.0, 3.0, 3.0, 3.0]),
        (&[4.0, 2.0], [3.0, 2.0, 4.0, 2.0]),
        (&[9.0, 1.0, 2.0], [2.0, 1.0, 9.0, 1.0]),
        (&[5.0, 1.0, 4.0, 2.0, 3.0], [3.0, 1.0, 5.0, 1.0]),
    ];
    for (rounds, [median, low, high, best]) in table {
        let expected =
            Summary { rounds: rounds.len(), median: *median, low: *low, high: *high, best: *best };
        assert_eq!(Summary::of(rounds), Some(expected));
    }
}

#[test]
fn of_many_rounds_the_ends_are_left_out() {
    let rounds: Vec<f64> = (0..=100).map(f64::from).collect();
    let summary = Summary::of(&rounds).expect("rounds");
    assert_eq!((summary.low, summary.median, summary.high, summary.best), (10.0, 50.0, 90.0, 0.0));
}

#[test]
fn without_rounds_or_with_no_numbers_there_is_nothing_to_say() {
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    assert_eq!(Summary::of(&[f64::INFINITY]), None);
}

#[test]
fn a_ratio_needs_something_to_compare_with() {
    assert_eq!(ratio(3.0, 2.0), Some(1.5));
    assert_eq!(ratio(0.0, 2.0), Some(0.0));
    assert_eq!(ratio(1.0, 0.0), None);
    assert_eq!(ratio(0.0, 0.0), None);
    assert_eq!(ratio(1.0, -1.0), None);
}

proptest! {
    #[test]
    fn a_summary_lies_within_its_rounds_and_does_not_care_for_their_order(
        mut rounds in prop::collection::vec(0.0..1e12_f64, 1..200)
    ) {
        let summary = Summary::of(&rounds).expect("numbers");
        prop_assert!(summary.best <= summary.low && summary.low <= summary.median);
        prop_assert!(summary.median <= summary.high);
        prop_assert!(rounds.contains(&summary.high));
        rounds.reverse();
        prop_assert_eq!(Summary::of(&rounds), Some(summary));
    }
}
