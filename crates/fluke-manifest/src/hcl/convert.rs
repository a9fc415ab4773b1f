//! Conversions between types, and the type that several types have in common.
//!
//! The rules are those of HCL. *Safe* conversions cannot fail (a number always has a text);
//! *unsafe* ones depend on the value (a text may be a number).

mod mismatch;
mod unify;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluke_model::gather::Gather;

use super::number::Number;
use super::types::Type;
use super::value::Value;

pub use mismatch::mismatch;
pub use unify::unify;

/// Why a value cannot become what is wanted; the words fit behind a colon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(pub(super) String);

impl ConvertError {
    fn within(self, place: impl std::fmt::Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

/// Gives the value as the type that is wanted, where that is possible.
pub fn convert(value: &Value, wanted: &Type) -> Result<Value, ConvertError> {
    if value.is_of(wanted) || *wanted == Type::Any {
        return Ok(value.clone());
    }
    let kind = value.kind();
    if !is_convertible(&kind, wanted, true) {
        return Err(ConvertError(mismatch(&kind, wanted)));
    }
    apply(value, wanted)
}

/// The text of a string, number or bool.
pub fn to_text(value: &Value) -> Result<Arc<str>, ConvertError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(true) => Ok("true".into()),
        Value::Bool(false) => Ok("false".into()),
        Value::Number(number) => Ok(number.to_string().into()),
        _ => Err(ConvertError(format!("string required, but have {}", value.type_name()))),
    }
}

/// Whether values of one type can become another: always when safe, perhaps when not.
pub(super) fn is_convertible(from: &Type, to: &Type, unsafely: bool) -> bool {
    let element = |from: &Type, to: &Type| from == to || is_convertible(from, to, unsafely);
    match (from, to) {
        (_, Type::Any) => true,
        (Type::Any, _) => unsafely,
        (Type::Number | Type::Bool, Type::String) => true,
        (Type::String, Type::Number | Type::Bool) => unsafely,
        (Type::Object(from), Type::Object(to)) => {
            to.iter().all(|(name, kind)| from.get(name).is_some_and(|from| element(from, kind)))
        }
        (Type::Tuple(from), Type::Tuple(to)) => {
            from.len() == to.len() && from.iter().zip(to.iter()).all(|(from, to)| element(from, to))
        }
        (Type::List(from) | Type::Set(from), Type::List(to)) => element(from, to),
        (Type::List(from), Type::Set(to)) => unsafely && element(from, to),
        (Type::Set(from), Type::Set(to)) => element(from, to),
        (Type::Map(from), Type::Map(to)) => is_convertible(from, to, unsafely) || from == to,
        (Type::Tuple(kinds), Type::List(to) | Type::Set(to)) => {
            all_become(kinds.iter(), to, unsafely, true)
        }
        (Type::Object(kinds), Type::Map(to)) => all_become(kinds.values(), to, unsafely, false),
        (Type::Map(from), Type::Object(to)) => unsafely && to.values().all(|to| element(from, to)),
        _ => false,
    }
}

/// Whether all of these can become one element type; `Any` asks for one that they have in common.
fn all_become<'t>(
    kinds: impl Iterator<Item = &'t Type> + Clone,
    to: &Type,
    unsafely: bool,
    ordered: bool,
) -> bool {
    let Some(to) = common_element(kinds.clone(), to, unsafely) else {
        return false;
    };
    // An unknown common type is none, unless there was nothing but bare nulls to begin with.
    if to == Type::Any && ordered && kinds.clone().any(|kind| *kind != Type::Any) {
        return false;
    }
    kinds.into_iter().all(|kind| *kind == to || is_convertible(kind, &to, unsafely))
}

fn common_element<'t>(
    kinds: impl Iterator<Item = &'t Type> + Clone,
    to: &Type,
    unsafely: bool,
) -> Option<Type> {
    let mut peek = kinds.clone();
    match (to, peek.next()) {
        (Type::Any, Some(_)) => unify(kinds, unsafely),
        _ => Some(to.clone()),
    }
}

/// Converts where [`is_convertible`] has said that it may work.
fn apply(value: &Value, to: &Type) -> Result<Value, ConvertError> {
    if *to == Type::Any || value.is_of(to) {
        return Ok(value.clone());
    }
    match (value, to) {
        (Value::Null(from), _) => Ok(Value::Null(replace_any(from, to))),
        (_, Type::String) => to_text(value).map(Value::String),
        (Value::String(text), Type::Number) => {
            Number::parse(text).map(Value::Number).map_err(|error| ConvertError(error.to_string()))
        }
        (Value::String(text), Type::Bool) => to_bool(text),
        (Value::Object(_) | Value::Map(_), Type::Object(kinds)) => to_object(value, kinds),
        (Value::Tuple(_), Type::Tuple(kinds)) => to_tuple(value, kinds),
        (_, Type::List(element)) => {
            let (element, items) = to_elements(value, element, true)?;
            Ok(Value::list(element, items))
        }
        (_, Type::Set(element)) => {
            let (element, items) = to_elements(value, element, false)?;
            Ok(Value::set(element, items))
        }
        (_, Type::Map(element)) => to_map(value, element),
        _ => Err(ConvertError(mismatch(&value.kind(), to))),
    }
}

fn to_bool(text: &str) -> Result<Value, ConvertError> {
    match text {
        "true" | "1" => Ok(Value::Bool(true)),
        "false" | "0" => Ok(Value::Bool(false)),
        _ if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") => {
            let word = text.to_ascii_lowercase();
            Err(ConvertError(format!("a bool is required; write \"{word}\" in lower case")))
        }
        _ => Err(ConvertError("a bool is required".into())),
    }
}

fn to_object(value: &Value, kinds: &BTreeMap<Arc<str>, Type>) -> Result<Value, ConvertError> {
    let entries = value.as_entries().into_iter().flatten();
    let mut converted = BTreeMap::new();
    for (name, item) in entries {
        if let Some(kind) = kinds.get(name) {
            let item = apply(item, kind).map_err(|e| e.within(format_args!("`{name}`")))?;
            converted.insert(name.clone(), item);
        }
    }
    match kinds.keys().find(|name| !converted.contains_key(*name)) {
        Some(name) => Err(ConvertError(format!("the map has no element `{name}`"))),
        None => Ok(Value::object(converted)),
    }
}

fn to_tuple(value: &Value, kinds: &[Type]) -> Result<Value, ConvertError> {
    let items = value.as_items().unwrap_or_default();
    let converted = items.iter().zip(kinds).enumerate().map(|(index, (item, kind))| {
        apply(item, kind).map_err(|e| e.within(format_args!("element {index}")))
    });
    Ok(Value::tuple(converted.collect::<Result<_, _>>()?))
}

/// The elements, all of one type, and that type.
fn to_elements(
    value: &Value,
    wanted: &Type,
    is_list: bool,
) -> Result<(Type, Vec<Value>), ConvertError> {
    let items = value.as_items().unwrap_or_default();
    if items.is_empty() {
        let own = match value {
            Value::List(own) | Value::Set(own) if *wanted == Type::Any => own.element(),
            _ => wanted,
        };
        return Ok((own.clone(), Vec::new()));
    }
    let is_tuple = matches!(value, Value::Tuple(_));
    let element = match (is_tuple, wanted) {
        (true, Type::Any) => common_type_of(items)?,
        _ => wanted.clone(),
    };
    let converted = items.iter().enumerate().map(|(index, item)| {
        apply(item, &element).map_err(|e| e.within(format_args!("element {index}")))
    });
    let converted: Vec<Value> = converted.collect::<Result<_, _>>()?;
    let converted = if is_tuple && is_list { unify_values(converted)? } else { converted };
    let kind = single_type(converted.iter())
        .ok_or_else(|| ConvertError("all elements must have the same type".into()))?;
    Ok((kind, converted))
}

fn to_map(value: &Value, wanted: &Type) -> Result<Value, ConvertError> {
    let entries = value.as_entries().into_iter().flatten();
    let items: Vec<Value> = entries.clone().map(|(_, item)| item.clone()).collect();
    if items.is_empty() {
        let own = match value {
            Value::Map(own) if *wanted == Type::Any => own.element(),
            _ => wanted,
        };
        return Ok(Value::map(own.clone(), BTreeMap::new()));
    }
    let element = match (value, wanted) {
        (Value::Object(_), Type::Any) => common_type_of(&items)?,
        _ => wanted.clone(),
    };
    let converted = entries.clone().map(|(key, item)| {
        apply(item, &element).map_err(|e| e.within(format_args!("element \"{key}\"")))
    });
    let mut converted: Vec<Value> = converted.collect::<Result<_, _>>()?;
    if element == Type::Any {
        converted = type_nulls(converted);
    } else if !element.is_primitive() {
        converted = unify_values(converted)?;
    }
    let kind = single_type(converted.iter())
        .ok_or_else(|| ConvertError("all elements must have the same type".into()))?;
    let keys = entries.map(|(key, _)| key.clone());
    Ok(Value::map(kind, keys.zip(converted).gather()))
}

fn common_type_of(items: &[Value]) -> Result<Type, ConvertError> {
    if let Some(kind) = single_type(items.iter()) {
        return Ok(kind);
    }
    let kinds: Vec<Type> = items.iter().map(Value::kind).collect();
    unify(kinds.iter(), true)
        .ok_or_else(|| ConvertError("all elements must have the same type".into()))
}

/// Nested wishes for any type can leave elements of different types; bring them together.
fn unify_values(items: Vec<Value>) -> Result<Vec<Value>, ConvertError> {
    if single_type(items.iter()).is_some() {
        return Ok(items);
    }
    let element = common_type_of(&items)?;
    items.iter().map(|item| apply(item, &element)).collect()
}

/// Bare nulls take the type of the first value that has one.
fn type_nulls(items: Vec<Value>) -> Vec<Value> {
    let known = items.iter().map(Value::kind).find(|kind| *kind != Type::Any);
    let Some(kind) = known else {
        return items;
    };
    let typed = |item| if item == Value::NULL { Value::Null(kind.clone()) } else { item };
    items.into_iter().map(typed).collect()
}

/// The type of all the values, if it is one.
pub(super) fn single_type<'v>(mut items: impl Iterator<Item = &'v Value>) -> Option<Type> {
    let kind = items.next()?.kind();
    items.all(|item| item.is_of(&kind)).then_some(kind)
}

/// The type of a null that is converted: what is wanted, with what is known filled in.
fn replace_any(from: &Type, to: &Type) -> Type {
    match (from, to) {
        (Type::Any, _) => to.clone(),
        (_, Type::Any) => from.clone(),
        (Type::Map(from), Type::Map(to)) => replace_any(from, to).map(),
        (Type::List(from) | Type::Set(from), Type::List(to)) => replace_any(from, to).list(),
        (Type::List(from) | Type::Set(from), Type::Set(to)) => replace_any(from, to).set(),
        (Type::Object(kinds), Type::Map(to)) => {
            let common = unify(kinds.values(), true).unwrap_or(Type::Any);
            replace_any(&common, to).map()
        }
        (Type::Tuple(kinds), Type::List(to)) => {
            let common = unify(kinds.iter(), true).unwrap_or(Type::Any);
            replace_any(&common, to).list()
        }
        (Type::Tuple(kinds), Type::Set(to)) => {
            let common = unify(kinds.iter(), true).unwrap_or(Type::Any);
            replace_any(&common, to).set()
        }
        _ => to.clone(),
    }
}
