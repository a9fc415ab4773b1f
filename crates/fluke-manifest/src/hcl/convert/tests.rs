use proptest::prelude::*;

use super::super::types::Type;
use super::super::value::Value;
use super::super::value::tests::any_json_value;
use super::{convert, unify};

fn value(json: &str) -> Value {
    Value::from_json_str(json).expect("JSON")
}

#[test]
fn values_become_what_is_wanted() {
    let cases = [
        ("1.5", Type::String, r#""1.5""#),
        ("true", Type::String, r#""true""#),
        (r#""12""#, Type::Number, "12"),
        (r#""0""#, Type::Bool, "false"),
        (r#"["a",1,true]"#, Type::Any.list(), r#"["a","1","true"]"#),
        (r#"["b","a","b"]"#, Type::Any.set(), r#"["a","b"]"#),
        (r#"{"a":1,"b":"x"}"#, Type::Any.map(), r#"{"a":"1","b":"x"}"#),
        (r#"[[1],["a"]]"#, Type::Any.list(), r#"[["1"],["a"]]"#),
        (r#"[{"a":1},{"b":"x"}]"#, Type::Any.list(), r#"[{"a":"1"},{"b":"x"}]"#),
        ("[null,1]", Type::Any.list(), "[null,1]"),
        ("[]", Type::String.list(), "[]"),
        ("[1,2]", Type::String.set(), r#"["1","2"]"#),
    ];
    for (json, wanted, expected) in cases {
        let converted = convert(&value(json), &wanted).expect(json);
        assert_eq!(converted.to_json_string(), expected, "{json} to {wanted}");
    }
}

#[test]
fn what_cannot_be_says_where_and_why() {
    let cases = [
        ("[]", Type::String, "string required, but have tuple"),
        ("1", Type::Bool, "bool required, but have number"),
        (r#""x""#, Type::Number, "a number is required"),
        (r#""True""#, Type::Bool, "a bool is required; write \"true\" in lower case"),
        (r#"[1,[2]]"#, Type::Any.list(), "all elements must have the same type"),
        (r#"["a",[]]"#, Type::String.list(), "element 1: string required, but have tuple"),
        (r#"["1","x"]"#, Type::Number.list(), "element 1: a number is required"),
        (r#"{"a":{}}"#, Type::Number.map(), "element \"a\": number required, but have object"),
        ("{}", Type::Any.list(), "list of any single type required, but have object"),
    ];
    for (json, wanted, message) in cases {
        let error = convert(&value(json), &wanted).expect_err(json);
        assert_eq!(error.to_string(), message, "{json} to {wanted}");
    }
}

#[test]
fn types_meet_in_the_most_general_of_them() {
    let object = |json: &str| value(json).kind();
    let cases = [
        (Type::Number, Type::String, Some(Type::String)),
        (Type::Number, Type::Bool, None),
        (Type::Any, Type::Number, Some(Type::Number)),
        (Type::Number.list(), Type::String.list(), Some(Type::String.list())),
        (object("[1]"), Type::String.list(), Some(Type::String.list())),
        (object("[1]"), object(r#"["a"]"#), Some(object(r#"["a"]"#))),
        (object("[1]"), object(r#"["a","b"]"#), Some(Type::String.list())),
        (object(r#"{"a":1}"#), object(r#"{"b":"x"}"#), Some(Type::String.map())),
        (object(r#"{"a":1}"#), object("[1]"), None),
        (Type::Number.set(), Type::Number.list(), Some(Type::Number.list())),
        (Type::Any, object("[1]"), Some(Type::Any)),
    ];
    for (left, right, expected) in cases {
        assert_eq!(unify([&left, &right], true), expected, "{left} and {right}");
    }
}

#[test]
fn many_elements_are_brought_together_quickly() {
    let items = (0..20_000).map(|index| if index % 2 == 0 { 1.into() } else { "x".into() });
    let tuple = Value::tuple(items.collect());
    assert!(convert(&tuple, &Type::Any.list()).is_ok());
}

proptest! {
    #[test]
    fn conversion_gives_the_wanted_type_or_an_error(value in any_json_value()) {
        for wanted in [Type::String, Type::Number, Type::Bool, Type::String.list(),
            Type::Number.set(), Type::String.map(), Type::String.list().map()] {
            if let Ok(converted) = convert(&value, &wanted) {
                prop_assert!(converted.is_of(&wanted), "{converted:?} is not {wanted}");
            }
        }
        for wanted in [Type::Any.list(), Type::Any.set(), Type::Any.map()] {
            // Whatever comes out can go in again.
            if let Ok(converted) = convert(&value, &wanted) {
                prop_assert_eq!(convert(&converted, &wanted).expect("again"), converted);
            }
        }
    }

    #[test]
    fn values_convert_to_the_type_they_have_in_common(a in any_json_value(), b in any_json_value()) {
        // With bare nulls inside, it cannot always be told beforehand.
        let common = unify([&a.kind(), &b.kind()], false);
        if let Some(common) = common.filter(|kind| !format!("{kind:?}").contains("Any")) {
            prop_assert!(convert(&a, &common).is_ok());
            prop_assert!(convert(&b, &common).is_ok());
        }
    }
}
