//! `selector { … }`

use std::collections::{BTreeMap, BTreeSet};

use fluke_model::id::{InvalidName, LabelKey, LabelValue};
use fluke_model::label::{Operator, Requirement, Selector};

use crate::hcl::convert::convert;
use crate::hcl::decode::{Field, Fields, Mistake};
use crate::hcl::suggest::did_you_mean;
use crate::hcl::types::Type;
use crate::hcl::value::Value;

const OPERATORS: [(&str, Operator); 4] = [
    ("in", Operator::In),
    ("not_in", Operator::NotIn),
    ("exists", Operator::Exists),
    ("not_exists", Operator::NotExists),
];

const KEYS: [&str; 3] = ["key", "operator", "values"];

pub(super) fn read(mut fields: Fields<'_, '_>) -> Option<Selector> {
    if fields.is_empty() {
        let help = "add `match_labels = { … }`; an empty map matches every host";
        fields.report(fields.header(), "a `selector` block must say which hosts it matches", help);
        return None;
    }
    let labels = fields.optional(Field::string_map("match_labels").parse(labels));
    let expressions = Field::new("match_expressions", "a list of objects", requirements);
    let expressions = fields.optional(expressions);
    fields.finish();
    Some(Selector {
        match_labels: labels.unwrap_or_default(),
        match_expressions: expressions.unwrap_or_default(),
    })
}

const EXAMPLE: &str =
    "write it as [{ key = \"role\", operator = \"in\", values = [\"web\", \"db\"] }]";

fn labels(pairs: BTreeMap<String, String>) -> Result<BTreeMap<LabelKey, LabelValue>, InvalidName> {
    pairs
        .into_iter()
        .map(|(key, value)| Ok((LabelKey::new(key)?, LabelValue::new(value)?)))
        .collect()
}

fn requirements(value: &Value) -> Result<Vec<Requirement>, Mistake> {
    value.as_items().ok_or(Mistake::Type)?.iter().map(requirement).collect()
}

fn requirement(item: &Value) -> Result<Requirement, Mistake> {
    let wrong = |message: String| Mistake::value(message).help(EXAMPLE);
    let entries = item.as_entries().ok_or(Mistake::Type)?;
    if let Some(unknown) = entries.keys().find(|key| !KEYS.contains(&&***key)) {
        let help = did_you_mean(unknown, KEYS).unwrap_or(EXAMPLE.into());
        return Err(Mistake::value(format!("unknown key `{unknown}`")).help(help));
    }
    let text = |key: &str| {
        let value = entries.get(key).and_then(|value| convert(value, &Type::String).ok());
        let text = value.and_then(|value| value.as_str().map(str::to_string));
        text.ok_or_else(|| wrong(format!("each expression needs a `{key}`")))
    };
    let key = LabelKey::new(text("key")?).map_err(|error| wrong(error.to_string()))?;
    let operator = operator(&text("operator")?)?;
    let values = values(entries.get("values"))?;
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            Err(wrong("`in` and `not_in` need `values`".into()))
        }
        Operator::Exists | Operator::NotExists if !values.is_empty() => {
            Err(wrong("`exists` and `not_exists` take no `values`".into()))
        }
        _ => Ok(Requirement { key, operator, values }),
    }
}

fn operator(word: &str) -> Result<Operator, Mistake> {
    let found = OPERATORS.iter().find(|(name, _)| *name == word);
    found.map(|(_, operator)| *operator).ok_or_else(|| {
        let meant = did_you_mean(word, OPERATORS.iter().map(|(name, _)| *name));
        Mistake::value(format!(
            "the operator \"{word}\" is none of \"in\", \"not_in\", \"exists\", \"not_exists\""
        ))
        .help(meant.unwrap_or(EXAMPLE.into()))
    })
}

fn values(value: Option<&Value>) -> Result<BTreeSet<LabelValue>, Mistake> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(BTreeSet::new()) };
    let list = convert(value, &Type::String.list()).ok();
    let items = list.as_ref().and_then(Value::as_items);
    let items = items.ok_or_else(|| Mistake::value("`values` must be a list of strings"))?;
    let read = |text| LabelValue::new(text).map_err(|error| Mistake::value(error.to_string()));
    items.iter().filter_map(Value::as_str).map(read).collect()
}
