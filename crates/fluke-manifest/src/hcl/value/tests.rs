use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::number::Number;
use super::super::types::Type;
use super::Value;

/// Values as JSON can hold them.
pub(in crate::hcl) fn any_json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::NULL),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(|it| Value::Number(Number::parse(&it.to_string()).expect("digits"))),
        "[ -~éß☃\n\t]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::tuple),
            prop::collection::btree_map("[a-z<>& ]{0,6}", inner, 0..5).prop_map(|entries| {
                Value::object(entries.into_iter().map(|(k, v)| (k.into(), v)).collect())
            }),
        ]
    })
}

#[test]
fn json_is_compact_sorted_and_safe_in_html() {
    let entries = [("b", Value::from("<é & \u{2028}>")), ("a", Value::tuple(vec![Value::NULL]))];
    let value = Value::object(entries.map(|(key, it)| (key.into(), it)).into());
    let expected = r#"{"a":[null],"b":"\u003cé \u0026 \u2028\u003e"}"#;
    assert_eq!(value.to_json_string(), expected);
}

#[test]
fn json_keeps_every_digit() {
    let text = "[12345678901234567890.123456789,1e-30]";
    let value = Value::from_json_str(text).expect("JSON");
    let expected = "[12345678901234567890.123456789,0.000000000000000000000000000001]";
    assert_eq!(value.to_json_string(), expected);
}

#[test]
fn broken_json_is_refused_with_its_place() {
    let cases = [
        ("", "not valid JSON at byte 0: a value is missing"),
        ("[1,]", "not valid JSON at byte 3: expected a value"),
        ("[1 2]", "not valid JSON at byte 3: expected `,` or `]`"),
        ("{a:1}", "not valid JSON at byte 1: expected a key in quotes"),
        ("{\"a\" 1}", "not valid JSON at byte 5: expected `:`"),
        ("01", "not valid JSON at byte 0: this is no number"),
        ("1 2", "not valid JSON at byte 2: there is something behind the value"),
        ("\"a", "not valid JSON at byte 1: the string has no end"),
        ("\"\\x\"", "not valid JSON at byte 3: there is no such escape"),
        ("\"\\u12\"", "not valid JSON at byte 3: four hexadecimal digits are needed"),
    ];
    for (text, message) in cases {
        let error = Value::from_json_str(text).expect_err(text);
        assert_eq!(error.to_string(), message);
    }
    assert!(Value::from_json_str(&"[".repeat(100_000)).is_err());
}

#[test]
fn strings_are_composed() {
    assert_eq!(Value::from("e\u{301}"), Value::from("é"));
}

#[test]
fn sets_are_sorted_and_distinct() {
    let numbers = [10, 2, 1, 2].map(Value::from).to_vec();
    let set = Value::set(Type::Number, numbers);
    assert_eq!(set.to_json_string(), "[1,2,10]");
    let mixed = vec![Value::Null(Type::String), "b".into(), "a".into(), "b".into()];
    assert_eq!(Value::set(Type::String, mixed).to_json_string(), r#"["a","b",null]"#);
}

#[test]
fn equality_looks_at_content_and_type() {
    let list = Value::list(Type::Number, vec![1.into()]);
    let tuple = Value::tuple(vec![1.into()]);
    assert!(!list.equals(&tuple));
    assert!(tuple.equals(&tuple.clone()));
    assert!(Value::NULL.equals(&Value::Null(Type::String)));
    assert!(!Value::from("1").equals(&Value::from(1)));
}

#[test]
fn shared_values_count_each_time_they_are_written_out() {
    let mut value = Value::from("x");
    for _ in 0..40 {
        value = Value::tuple(vec![value.clone(), value]);
    }
    assert!(value.extent().size > 1 << 40);
    assert_eq!(value.extent().depth, 40);
}

#[test]
fn names_of_types_are_what_people_say() {
    let map = Value::map(Type::Number, BTreeMap::new());
    assert_eq!(map.type_name(), "map of number");
    assert_eq!(Value::strings(["a"]).type_name(), "list of string");
    assert_eq!(Value::tuple(vec![]).type_name(), "tuple");
    assert_eq!(Value::Null(Type::String).type_name(), "null");
}

proptest! {
    #[test]
    fn what_is_written_as_json_is_read_back_the_same(value in any_json_value()) {
        let text = value.to_json_string();
        prop_assert_eq!(Value::from_json_str(&text).expect("our own JSON"), value.clone());
        let serde: serde_json::Value = serde_json::from_str(&text).expect("valid for others too");
        prop_assert_eq!(&serde, &value.to_json());
        prop_assert_eq!(Value::from_json(&serde), value);
    }

    #[test]
    fn a_value_is_of_its_own_kind(value in any_json_value()) {
        prop_assert!(value.is_of(&value.kind()));
    }

    #[test]
    fn no_text_makes_the_json_reader_panic(text in "[\\[\\]{}\",:0-9a-z\\\\ .+-]{0,60}") {
        let ours = Value::from_json_str(&text).is_ok();
        let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        // Keys that come twice with different types are refused here only.
        prop_assert!(ours == theirs || theirs);
    }
}
