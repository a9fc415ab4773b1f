//! The order of elements in a set.
//!
//! Numbers by size, strings by bytes, `false` before `true`, nulls last. Sets of collections are
//! sorted by a spelling of their elements; it is the same one that other readers of HCL use, so
//! that encoded sets come out alike.

use std::cmp::Ordering;
use std::fmt::Write;

use super::Value;

/// Sorts, and keeps one of each.
pub(super) fn sort_distinct(items: Vec<Value>) -> Vec<Value> {
    let mut spelled: Vec<(String, Value)> =
        items.into_iter().map(|item| (spelling_of_nested(&item), item)).collect();
    spelled.sort_by(|(left_text, left), (right_text, right)| {
        compare(left, right).then_with(|| left_text.cmp(right_text))
    });
    let mut distinct: Vec<(String, Value)> = Vec::with_capacity(spelled.len());
    for (text, item) in spelled {
        // Numbers are spelled with few digits, so equal spellings may hide different values.
        let same = distinct
            .iter()
            .rev()
            .take_while(|(other, kept)| *other == text && compare(kept, &item) == Ordering::Equal);
        if !same.into_iter().any(|(_, kept)| *kept == item) {
            distinct.push((text, item));
        }
    }
    distinct.into_iter().map(|(_, item)| item).collect()
}

fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Null(_), Value::Null(_)) => Ordering::Equal,
        (Value::Null(_), _) => Ordering::Greater,
        (_, Value::Null(_)) => Ordering::Less,
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        _ => Ordering::Equal,
    }
}

fn spelling_of_nested(value: &Value) -> String {
    let mut text = String::new();
    if value.as_items().is_some() || value.as_entries().is_some() {
        spell(value, &mut text);
    }
    text
}

fn spell(value: &Value, text: &mut String) {
    match value {
        Value::Null(_) => text.push('~'),
        Value::Bool(truth) => text.push(if *truth { 'T' } else { 'F' }),
        Value::Number(number) => text.push_str(&number.to_general(Some(10))),
        Value::String(string) => spell_string(string, text),
        Value::Tuple(sequence) => spell_all(('<', '>'), sequence.items.iter(), text),
        Value::List(sequence) | Value::Set(sequence) => {
            spell_all(('[', ']'), sequence.items.iter(), text);
        }
        Value::Object(mapping) => spell_all(('<', '>'), mapping.entries.values(), text),
        Value::Map(mapping) => {
            text.push('{');
            for (key, item) in &mapping.entries {
                spell_string(key, text);
                text.push(':');
                spell(item, text);
                text.push(';');
            }
            text.push('}');
        }
    }
}

fn spell_all<'v>(
    (open, close): (char, char),
    items: impl Iterator<Item = &'v Value>,
    text: &mut String,
) {
    text.push(open);
    for item in items {
        spell(item, text);
        text.push(';');
    }
    text.push(close);
}

fn spell_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\x00'..='\x1f' | '\x7f' => {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\x{:02x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}
