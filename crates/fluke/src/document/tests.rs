use proptest::prelude::*;
use saphyr::{LoadableYamlNode, Scalar, Yaml};

use super::*;

fn document(json: &str) -> Document {
    Document::parse(json).expect("JSON")
}

#[test]
fn json_keeps_keys_in_the_order_of_the_server() {
    let document = document(r#"{"b":[1,{"z":null,"a":true}],"a":{},"c":[],"d":"x\u001b[31m"}"#);
    assert_eq!(
        document.to_json(),
        r#"{
  "b": [
    1,
    {
      "z": null,
      "a": true
    }
  ],
  "a": {},
  "c": [],
  "d": "x\u001b[31m"
}
"#
    );
    assert_eq!(
        document.to_json_line(),
        "{\"b\":[1,{\"z\":null,\"a\":true}],\"a\":{},\"c\":[],\"d\":\"x\\u001b[31m\"}\n"
    );
}

#[test]
fn numbers_keep_every_digit() {
    let number = "123456789012345678901234567890.10";
    assert_eq!(document(number).to_json_line(), format!("{number}\n"));
}

#[test]
fn what_is_nested_too_deeply_is_refused() {
    let json = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Document::parse(&json).is_err());
}

#[test]
fn yaml_reads_as_a_person_would_write_it() {
    let document = document(
        r#"{"agents":[{"name":"web-01","labels":{"role":"web"},"steps":[],"seen":"2026-01-02T03:04:05Z"},
            {"name":"no","labels":{},"output":"one\n  two\n","nested":[["a"],[]]}],"next":null,"count":1.5}"#,
    );
    assert_eq!(
        yaml::render(&document),
        r#"agents:
  - name: web-01
    labels:
      role: web
    steps: []
    seen: "2026-01-02T03:04:05Z"
  - name: "no"
    labels: {}
    output: |
      one
        two
    nested:
      - - a
      - []
next: null
count: 1.5
"#
    );
}

#[test]
fn a_lone_value_is_a_document_too() {
    for (json, text) in
        [("null", "null\n"), ("[]", "[]\n"), ("\"\"", "\"\"\n"), ("\"a b\"", "a b\n")]
    {
        assert_eq!(yaml::render(&document(json)), text);
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        "[a-z \\n\\t:#'\"|>&*!%@`,\\[\\]{}?-]{0,12}",
        "[0-9a-fxo.e_+-]{0,6}",
        "[\u{0}-\u{ff}]{0,8}",
        Just("~".to_string()),
        Just("Yes".to_string()),
        Just("---".to_string()),
        Just("a\n\nb\n".to_string()),
        Just("a\n  b\n c".to_string()),
    ]
}

fn any_document() -> impl Strategy<Value = Document> {
    let leaf = prop_oneof![
        Just(Document::Null),
        any::<bool>().prop_map(Document::Bool),
        any::<i32>().prop_map(|n| Document::Number(n.to_string())),
        any_text().prop_map(Document::Text),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Document::List),
            prop::collection::btree_map(any_text(), inner, 0..5)
                .prop_map(|map| Document::Map(map.into_iter().collect())),
        ]
    })
}

fn from_yaml(yaml: &Yaml<'_>) -> Document {
    match yaml {
        Yaml::Value(Scalar::Null) => Document::Null,
        Yaml::Value(Scalar::Boolean(value)) => Document::Bool(*value),
        Yaml::Value(Scalar::Integer(number)) => Document::Number(number.to_string()),
        Yaml::Value(Scalar::String(text)) => Document::Text(text.to_string()),
        Yaml::Sequence(items) => Document::List(items.iter().map(from_yaml).collect()),
        Yaml::Mapping(entries) => {
            let entry = |(key, value): (&Yaml<'_>, &Yaml<'_>)| match from_yaml(key) {
                Document::Text(key) => (key, from_yaml(value)),
                other => panic!("a key was read as {other:?}"),
            };
            Document::Map(entries.iter().map(entry).collect())
        }
        other => panic!("read as {other:?}"),
    }
}

proptest! {
    #[test]
    fn yaml_reads_back_as_what_was_written(document in any_document()) {
        let text = yaml::render(&document);
        let read = Yaml::load_from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        prop_assert_eq!(read.len(), 1, "{}", text);
        prop_assert_eq!(from_yaml(&read[0]), document, "{}", text);
    }

    #[test]
    fn json_reads_back_as_what_was_written(document in any_document()) {
        prop_assert_eq!(&Document::parse(&document.to_json()).expect("JSON"), &document);
        prop_assert_eq!(&Document::parse(&document.to_json_line()).expect("JSON"), &document);
        prop_assert!(!document.to_json().chars().any(|c| c != '\n' && crate::sanitise::is_harmful(c)));
    }
}
