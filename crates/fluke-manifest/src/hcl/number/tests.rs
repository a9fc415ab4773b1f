use std::cmp::Ordering;

use num_bigint::BigInt;
use proptest::prelude::*;

use super::{Number, NumberError};

fn number(text: &str) -> Number {
    Number::parse(text).expect("a number")
}

#[test]
fn literals_are_shown_with_the_fewest_digits_that_mean_the_same() {
    let cases = [
        ("0", "0"),
        ("007", "7"),
        ("1.50", "1.5"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-0.1", "-0.1"),
        ("+12", "12"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
        ("1e30", "1000000000000000000000000000000"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "9223372036854775808"),
    ];
    for (literal, shown) in cases {
        assert_eq!(number(literal).to_string(), shown, "{literal}");
    }
}

#[test]
fn what_is_no_number_is_refused() {
    for text in ["", ".", "-", "1e", "e1", "1e+", "0x10", "1_000", " 1", "1 ", "a", "1.2.3", "inf"]
    {
        assert_eq!(Number::parse(text), Err(NumberError::NotANumber), "{text:?}");
    }
}

#[test]
fn sizes_out_of_reach_are_refused_at_once() {
    let long = "9".repeat(100_000);
    for text in ["1e999999999", "1e-999999999", "1e99999999999999999999", "1e1300", &long] {
        assert_eq!(Number::parse(text), Err(NumberError::OutOfRange));
    }
    assert_eq!(number("0e999999999").to_string(), "0");
    let large = number("1e1200");
    assert_eq!(large.multiply(&large), Err(NumberError::OutOfRange));
    assert_eq!(Number::from_f64(f64::INFINITY), Err(NumberError::OutOfRange));
    assert_eq!(Number::from_f64(f64::NAN), Err(NumberError::OutOfRange));
}

#[test]
fn arithmetic_is_exact_where_it_can_be() {
    let cases = [
        (number("0.1").add(&number("0.2")), "0.3"),
        (number("99999999999").multiply(&number("99999999999")), "9999999999800000000001"),
        (number("9223372036854775807").add(&number("1")), "9223372036854775808"),
        (number("1").subtract(&number("1.5")), "-0.5"),
        (number("10").divide(&number("4")), "2.5"),
        (number("-11").modulo(&number("5")), "-1"),
        (number("11").modulo(&number("-5")), "1"),
        (number("5.5").modulo(&number("2")), "1.5"),
        (number("-4.1").floor(), "-5"),
        (number("4.9").floor(), "4"),
        (number("-0.5").ceil(), "0"),
        (number("5.1").ceil(), "6"),
    ];
    for (result, shown) in cases {
        assert_eq!(result.expect("a result").to_string(), shown);
    }
}

#[test]
fn quotients_have_512_bits_and_those_of_counts_have_64() {
    let third = number("1").divide(&number("3")).expect("a third").to_string();
    assert_eq!(third, format!("0.{}5", "3".repeat(154)));
    let third = Number::count(1).divide(&Number::count(3)).expect("a third").to_string();
    assert_eq!(third, "0.33333333333333333334");
}

#[test]
fn nothing_is_divided_by_zero() {
    let zero = number("0");
    assert_eq!(number("1").divide(&zero), Err(NumberError::DivisionByZero));
    assert_eq!(number("1").modulo(&zero), Err(NumberError::DivisionByZero));
    assert_eq!(zero.divide(&zero), Err(NumberError::DivisionByZero));
}

#[test]
fn order_is_by_size_whatever_the_form() {
    let cases = [
        ("1", "2", Ordering::Less),
        ("1.0", "1", Ordering::Equal),
        ("1e30", "1", Ordering::Greater),
        ("-1e30", "1", Ordering::Less),
        ("0.1", "0.10000000000000000000001", Ordering::Less),
    ];
    for (left, right, order) in cases {
        assert_eq!(number(left).cmp(&number(right)), order, "{left} {right}");
    }
}

#[test]
fn machine_numbers_keep_their_own_precision() {
    let power = Number::from_f64(343_701_322_934_796_672.0).expect("finite");
    assert_eq!(power.to_string(), "343701322934796700");
    assert_eq!(Number::from_f64(0.1).expect("finite").to_string(), "0.1");
    assert_eq!(Number::from_f64(-2.5).expect("finite").to_string(), "-2.5");
    assert_eq!(Number::from_f64(5e-324).expect("finite").to_f64(), 5e-324);
}

#[test]
fn fixed_scientific_and_general_forms_round_to_even() {
    assert_eq!(number("2.5").to_fixed(0), "2");
    assert_eq!(number("3.5").to_fixed(0), "4");
    assert_eq!(number("0.0001").to_fixed(3), "0.000");
    assert_eq!(number("99.99").to_fixed(1), "100.0");
    assert_eq!(number("12345.678").to_scientific(Some(2)), "1.23e+04");
    assert_eq!(number("0").to_scientific(Some(1)), "0.0e+00");
    assert_eq!(number("1000000").to_general(None), "1e+06");
    assert_eq!(number("100000").to_general(None), "100000");
    assert_eq!(number("0.00001").to_general(None), "1e-05");
    assert_eq!(number("12345.678").to_general(Some(3)), "1.23e+04");
    assert_eq!(number("-0.5").to_general(Some(3)), "-0.5");
}

proptest! {
    #[test]
    fn whole_numbers_compute_as_integers_do(left: i64, right: i64) {
        let (a, b) = (number(&left.to_string()), number(&right.to_string()));
        let (x, y) = (BigInt::from(left), BigInt::from(right));
        prop_assert_eq!(a.add(&b).expect("sum").to_big_integer(), Some(&x + &y));
        prop_assert_eq!(a.subtract(&b).expect("difference").to_big_integer(), Some(&x - &y));
        prop_assert_eq!(a.multiply(&b).expect("product").to_big_integer(), Some(&x * &y));
        prop_assert_eq!(a.cmp(&b), left.cmp(&right));
        if right != 0 {
            prop_assert_eq!(a.modulo(&b).expect("rest").to_big_integer(), Some(&x % &y));
        }
    }

    #[test]
    fn any_text_is_read_without_panic_and_reads_back(text in "[-+]?[0-9]{0,40}[.]?[0-9]{0,40}(e-?[0-9]{1,3})?") {
        if let Ok(number) = Number::parse(&text) {
            let again = Number::parse(&number.to_string()).expect("what is shown can be read");
            prop_assert_eq!(number, again);
        }
    }

    #[test]
    fn machine_numbers_survive(value: f64) {
        if let Ok(number) = Number::from_f64(value) {
            prop_assert_eq!(number.to_f64(), value);
        }
    }
}
