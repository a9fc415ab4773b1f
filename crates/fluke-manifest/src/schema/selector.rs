//! `selector { … }`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluke_model::id::{LabelKey, LabelValue};
use fluke_model::label::{Operator, Requirement, Selector};

use crate::hcl::convert::convert;
use crate::hcl::decode::{Entry, Field, Fields, Mistake, Parts, Reported};
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

pub(super) fn read(mut fields: Fields<'_, '_>) -> Result<Selector, Reported> {
    let labels = Field::string_map("match_labels").entries(
        |key| LabelKey::new(key).map_err(Mistake::of),
        |_, value| LabelValue::new(value).map_err(Mistake::of),
    );
    let labels = fields.given(labels);
    let expressions = Field::new("match_expressions", "a list of objects", |value| {
        value.as_items().map(<[Value]>::to_vec).ok_or(Mistake::Type)
    });
    let expressions = fields.given(expressions.each(|_, item| requirement(&item)));
    // Null says nothing, as an empty block does; it must not come to mean every host there is.
    let says_nothing = labels == Ok(None) && expressions == Ok(None);
    if says_nothing && fields.are_all_taken() {
        let message = "a `selector` block must say which hosts it matches";
        let help = "add `match_labels = { … }`; an empty map matches every host";
        return Err(fields.report(fields.header(), message, help));
    }
    fields.finish();
    Ok(Selector {
        match_labels: labels?.unwrap_or_default(),
        match_expressions: expressions?.unwrap_or_default(),
    })
}

const EXAMPLE: &str =
    "write it as [{ key = \"role\", operator = \"in\", values = [\"web\", \"db\"] }]";

fn requirement(item: &Value) -> Result<Requirement, Mistake> {
    let entries = known_entries(item)?;
    let text = |name: &str| {
        let value = entries.get(name).and_then(|value| convert(value, &Type::String).ok());
        let text = value.and_then(|value| value.as_str().map(str::to_string));
        text.ok_or_else(|| wrong(format!("each expression needs a `{name}`")))
    };
    let key = text("key").and_then(|key| LabelKey::new(key).map_err(|it| wrong(it.to_string())));
    let operator = text("operator").and_then(|word| operator(&word));
    let values = values(entries.get("values"));
    let mut parts = Parts::default();
    let key = parts.take(|| Entry::Value("key".into()), key);
    let operator = parts.take(|| Entry::Value("operator".into()), operator);
    let values = parts.take(|| Entry::Value("values".into()), values);
    match parts.finish(key.zip(operator).zip(values))? {
        Some(((key, operator), values)) => fitting(Requirement { key, operator, values }),
        None => Err(Mistake::Type),
    }
}

fn wrong(message: String) -> Mistake {
    Mistake::value(message).help(EXAMPLE)
}

/// What an expression says, if nothing in it is unheard of.
fn known_entries(item: &Value) -> Result<&BTreeMap<Arc<str>, Value>, Mistake> {
    let what = || wrong(format!("each expression is an object, but this is {}", item.described()));
    let entries = item.as_entries().ok_or_else(what)?;
    let mut parts = Parts::default();
    for name in entries.keys().filter(|name| !KEYS.contains(&&***name)) {
        let help = did_you_mean(name, KEYS).unwrap_or(EXAMPLE.into());
        let unknown = Mistake::value(format!("unknown key `{name}`")).help(help);
        parts.take(|| Entry::Key(name.to_string()), Err::<(), _>(unknown));
    }
    parts.finish(entries)
}

/// Accepts values where the operator looks at them, and nowhere else.
fn fitting(requirement: Requirement) -> Result<Requirement, Mistake> {
    match requirement.operator {
        Operator::In | Operator::NotIn if requirement.values.is_empty() => {
            Err(wrong("`in` and `not_in` need `values`".into()))
        }
        Operator::Exists | Operator::NotExists if !requirement.values.is_empty() => {
            Err(wrong("`exists` and `not_exists` take no `values`".into()))
        }
        _ => Ok(requirement),
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
    let (mut parts, mut read) = (Parts::default(), BTreeSet::new());
    for (index, item) in items.iter().enumerate() {
        let text = item.as_str().ok_or_else(|| Mistake::value("a value must not be null"));
        let value = text.and_then(|text| LabelValue::new(text).map_err(Mistake::of));
        read.extend(parts.take(|| Entry::Item(index), value));
    }
    parts.finish(read)
}
