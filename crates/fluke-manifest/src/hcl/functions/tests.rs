mod files;

use proptest::prelude::*;

use super::super::budget::Budget;
use super::super::eval::tests::check_table;
use super::super::scope::Scope;
use super::super::value::Value;
use super::super::value::tests::any_json_value;
use super::{find, names};
use crate::hcl::{eval, parse_expression};

#[test]
fn strings() {
    check_table(include_str!("tests/strings.txt"));
}

#[test]
fn patterns() {
    check_table(include_str!("tests/patterns.txt"));
}

#[test]
fn formats() {
    check_table(include_str!("tests/format.txt"));
}

#[test]
fn numbers() {
    check_table(include_str!("tests/numbers.txt"));
}

#[test]
fn collections() {
    check_table(include_str!("tests/collections.txt"));
}

#[test]
fn sets() {
    check_table(include_str!("tests/sets.txt"));
}

#[test]
fn encodings_and_hashes() {
    check_table(include_str!("tests/encoding.txt"));
}

#[test]
fn conversions() {
    check_table(include_str!("tests/conversion.txt"));
}

#[test]
fn every_function_that_is_promised_is_there() {
    let promised = "upper lower trimspace trim trimprefix trimsuffix replace regex regexall split \
        join format formatlist indent chomp substr startswith endswith abs ceil floor max min pow \
        parseint length concat contains distinct element flatten keys values lookup merge range \
        reverse slice sort sum zipmap setunion setintersection setsubtract coalesce compact one \
        alltrue anytrue jsonencode jsondecode yamlencode yamldecode base64encode base64decode \
        urlencode md5 sha1 sha256 sha512 tostring tonumber tobool tolist toset tomap try can file \
        templatefile fileset";
    let names = names();
    for name in promised.split_whitespace() {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn wrong_counts_of_arguments_show_how_a_call_is_written() {
    let function = find("join").expect("join");
    assert_eq!(function.signature(), "join(separator, lists...)");
    let expr = parse_expression(b"substr(\"x\", 1)").expect("an expression");
    let budget = Budget::default();
    let found = eval(&expr, &Scope::new(&(), &budget)).expect_err("an argument is missing");
    assert_eq!(
        found[0].message,
        "`substr` expects 3 arguments; the value for \"length\" is missing"
    );
    assert_eq!(found[0].help.as_deref(), Some("write `substr(str, offset, length)`"));
}

fn call(name: &str, args: &[Value]) -> Value {
    let budget = Budget::default();
    let result = (find(name).expect(name).body)(args, &Scope::new(&(), &budget));
    result.unwrap_or_else(|failure| panic!("{name}: {}", failure.message))
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_to_the_same(value in any_json_value()) {
        let json = call("jsonencode", std::slice::from_ref(&value));
        prop_assert_eq!(call("jsondecode", &[json]), value.clone());
        let yaml = call("yamlencode", std::slice::from_ref(&value));
        prop_assert_eq!(call("yamldecode", &[yaml]), value);
    }

    #[test]
    fn text_survives_base64_and_splitting(text in "[a-zé,☃ ]{0,30}") {
        let text = Value::from(text);
        let encoded = call("base64encode", std::slice::from_ref(&text));
        prop_assert_eq!(call("base64decode", &[encoded]), text.clone());
        let parts = call("split", &[",".into(), text.clone()]);
        prop_assert_eq!(call("join", &[",".into(), parts]), text.clone());
        let twice = call("strrev", &[call("strrev", std::slice::from_ref(&text))]);
        prop_assert_eq!(twice, text);
    }

    #[test]
    fn reversing_twice_and_sorting_twice_change_nothing(items in prop::collection::vec("[a-z]{0,4}", 0..8)) {
        let list = Value::strings(items);
        let twice = call("reverse", &[call("reverse", std::slice::from_ref(&list))]);
        prop_assert_eq!(&twice, &list);
        let sorted = call("sort", std::slice::from_ref(&list));
        prop_assert_eq!(call("sort", std::slice::from_ref(&sorted)), sorted);
    }

    #[test]
    fn no_yaml_makes_the_reader_panic(text in "[a-c0-9:,\\[\\]{}&*!|>'\"#% \n-]{0,60}") {
        let budget = Budget::new(1_000_000, 1 << 20);
        let _ = (find("yamldecode").expect("yamldecode").body)(
            &[Value::from(text)],
            &Scope::new(&(), &budget),
        );
    }
}
