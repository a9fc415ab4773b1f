use proptest::prelude::*;

use super::*;

fn figure(ours: f64, beside: Option<f64>, target: Target) -> Figure {
    let figure = Figure::new("it", Unit::Seconds, &[ours]).expect("a round").target(target);
    match beside {
        Some(beside) => figure.beside("a floor", &[beside]),
        None => figure,
    }
}

#[test]
fn values_are_shown_as_people_read_them() {
    let table = [
        (Unit::Seconds, 0.0, "0 µs"),
        (Unit::Seconds, 0.000_012_34, "12.3 µs"),
        (Unit::Seconds, 0.004_2, "4.20 ms"),
        (Unit::Seconds, 0.150, "150 ms"),
        (Unit::Seconds, 12.0, "12.0 s"),
        (Unit::Seconds, -0.002, "-2.00 ms"),
        (Unit::Bytes, 512.0, "512 B"),
        (Unit::Bytes, 10.0 * 1048576.0, "10.0 MiB"),
        (Unit::Bytes, 3.0 * 1073741824.0, "3.00 GiB"),
        (Unit::PercentOfCore, 0.05, "0.050 %"),
        (Unit::Count, 3.0, "3.00"),
        (Unit::Count, 2_500_000.0, "2.50 M"),
        (Unit::Times, 1.25, "1.25 ×"),
    ];
    for (unit, value, shown) in table {
        assert_eq!(unit.show(value), shown);
    }
}

#[test]
fn a_figure_is_held_against_its_target() {
    use Target::*;
    use Verdict::*;
    let table = [
        (figure(1.0, Some(1.0), Times(2.0)), Reached(0.5)),
        (figure(3.0, Some(1.0), Times(1.5)), Missed(1.0)),
        (figure(3.0, None, Times(1.5)), Open),
        (figure(1.25, Some(1.0), Over(0.5)), Reached(0.5)),
        (figure(0.5, Some(1.0), Over(0.5)), Reached(0.0)),
        (figure(2.0, Some(1.0), Over(0.5)), Missed(1.0)),
        (figure(2.0, None, AtMost(4.0)), Reached(0.5)),
        (figure(5.0, Some(100.0), AtMost(4.0)), Missed(0.25)),
        (figure(0.0, None, AtMost(0.0)), Reached(0.0)),
        (figure(2.0, None, AtMost(0.0)), Missed(2.0)),
        (figure(5.0, Some(1.0), Record), Open),
    ];
    for (figure, verdict) in table {
        assert_eq!(figure.verdict(), verdict, "{figure:?}");
    }
}

#[test]
fn a_miss_is_said_even_if_it_is_small() {
    assert_eq!(Verdict::Missed(0.001).to_string(), "MISSED by 1 %");
    assert_eq!(Verdict::Reached(0.42).to_string(), "reached (42 % of it)");
}

#[test]
fn targets_are_said_in_words() {
    assert_eq!(figure(1.0, None, Target::Times(1.3)).reach(), "≤ 1.3 ×");
    assert_eq!(figure(1.0, None, Target::Over(0.05)).reach(), "≤ 50.0 ms more");
    assert_eq!(figure(1.0, None, Target::AtMost(0.01)).reach(), "≤ 10.0 ms");
}

proptest! {
    #[test]
    fn what_is_twice_as_slow_never_stands_better(
        ours in 0.001..1e3_f64, beside in 0.001..1e3_f64, most in 0.001..1e3_f64, kind in 0..3
    ) {
        let target = [Target::Times(most), Target::Over(most), Target::AtMost(most)][kind as usize];
        let missed = |verdict| matches!(verdict, Verdict::Missed(_));
        let fast = figure(ours, Some(beside), target).verdict();
        let slow = figure(ours * 2.0, Some(beside), target).verdict();
        prop_assert!(missed(slow) || !missed(fast));
    }
}
