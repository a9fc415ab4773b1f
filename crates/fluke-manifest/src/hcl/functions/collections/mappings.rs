//! Maps and objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluke_model::gather::Gather;

use super::super::{Failure, items, text};
use super::Outcome;
use crate::hcl::convert::{convert, unify};
use crate::hcl::scope::Scope;
use crate::hcl::types::Type;
use crate::hcl::value::Value;

fn not_a_mapping(value: &Value) -> Failure {
    Failure::of(0, format!("a map or object is required, but have {}", value.type_name()))
}

pub(super) fn keys(args: &[Value], _: &Scope) -> Outcome {
    let entries = args[0].as_entries().ok_or_else(|| not_a_mapping(&args[0]))?;
    let keys = entries.keys().cloned().map(Value::String).collect();
    Ok(match &args[0] {
        Value::Map(_) => Value::list(Type::String, keys),
        _ => Value::tuple(keys),
    })
}

pub(super) fn values(args: &[Value], _: &Scope) -> Outcome {
    let entries = args[0].as_entries().ok_or_else(|| not_a_mapping(&args[0]))?;
    let values = entries.values().cloned().collect();
    Ok(match &args[0] {
        Value::Map(mapping) => Value::list(mapping.element().clone(), values),
        _ => Value::tuple(values),
    })
}

pub(super) fn lookup(args: &[Value], _: &Scope) -> Outcome {
    if args.len() > 3 {
        return Err(Failure::new(format!("two or three arguments, not {}", args.len())));
    }
    let entries = args[0].as_entries().ok_or_else(|| not_a_mapping(&args[0]))?;
    let key = text(args, 1);
    let default = match (&args[0], args.get(2)) {
        (Value::Map(mapping), Some(default)) => {
            let fitting = convert(default, mapping.element());
            Some(fitting.map_err(|error| {
                Failure::of(2, format!("it must have the type of the map's elements: {error}"))
            })?)
        }
        (_, default) => default.cloned(),
    };
    match (entries.get(key), default) {
        (Some(value), _) => Ok(value.clone()),
        (None, Some(default)) => Ok(default),
        (None, None) => Err(Failure::of(1, format!("there is no element with the key `{key}`"))
            .help("give a third argument as the default")),
    }
}

pub(super) fn merge(args: &[Value], _: &Scope) -> Outcome {
    let mut merged: BTreeMap<Arc<str>, Value> = BTreeMap::new();
    for (index, arg) in args.iter().enumerate() {
        match (arg, arg.as_entries()) {
            (_, Some(entries)) => {
                merged.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            (Value::Null(Type::Any | Type::Map(_) | Type::Object(_)), _) => {}
            _ => {
                let name = arg.described();
                let message = format!("only maps and objects can be merged; this is {name}");
                return Err(Failure::of(index, message));
            }
        }
    }
    Ok(match common_map(args) {
        Some(element) => Value::map(element, merged),
        None => Value::object(merged),
    })
}

/// Maps of one type make a map again.
fn common_map(args: &[Value]) -> Option<Type> {
    let kind = args.first()?.kind();
    match &kind {
        Type::Map(element) if args.iter().all(|arg| arg.is_of(&kind)) => Some((**element).clone()),
        _ => None,
    }
}

pub(super) fn zipmap(args: &[Value], _: &Scope) -> Outcome {
    let keys = items(args, 0);
    let values = match &args[1] {
        Value::List(sequence) | Value::Tuple(sequence) => sequence.items(),
        other => {
            let name = other.type_name();
            return Err(Failure::of(1, format!("a list or tuple is required, but have {name}")));
        }
    };
    if keys.len() != values.len() {
        let (keys, values) = (keys.len(), values.len());
        return Err(Failure::new(format!("there are {keys} keys, but {values} values")));
    }
    let mut entries = BTreeMap::new();
    for (place, (key, value)) in keys.iter().zip(values).enumerate() {
        let Value::String(key) = key else {
            return Err(Failure::of(0, format!("key {place} is null")));
        };
        entries.insert(key.clone(), value.clone());
    }
    Ok(match &args[1] {
        Value::List(sequence) => Value::map(sequence.element().clone(), entries),
        _ => Value::object(entries),
    })
}

pub(super) fn matchkeys(args: &[Value], scope: &Scope) -> Outcome {
    let Some(kind) = unify([&args[1].kind(), &args[2].kind()], true) else {
        return Err(Failure::new("the keys and the search set must be of the same type"));
    };
    let (values, wanted) = (items(args, 0), convert(&args[2], &kind)?);
    let keys = convert(&args[1], &kind)?;
    let (keys, wanted) = (keys.as_items().unwrap_or_default(), wanted);
    if keys.len() != values.len() {
        let (keys, values) = (keys.len(), values.len());
        return Err(Failure::new(format!("there are {keys} keys, but {values} values")));
    }
    let wanted = wanted.as_items().unwrap_or_default();
    scope.budget.work((keys.len() as u64).saturating_mul(wanted.len() as u64))?;
    let kept = keys.iter().zip(values).filter(|(key, _)| wanted.iter().any(|it| it.equals(key)));
    let kept = kept.map(|(_, value)| value.clone()).collect();
    Ok(Value::list(args[0].kind().element().cloned().unwrap_or(Type::Any), kept))
}

pub(super) fn transpose(args: &[Value], _: &Scope) -> Outcome {
    let mut turned: BTreeMap<Arc<str>, Vec<Value>> = BTreeMap::new();
    for (key, list) in args[0].as_entries().into_iter().flatten() {
        let list = list.as_items().ok_or_else(|| Failure::of(0, format!("`{key}` is null")))?;
        for item in list {
            let Value::String(name) = item else {
                return Err(Failure::of(0, format!("`{key}` has an element that is null")));
            };
            turned.entry(name.clone()).or_default().push(Value::String(key.clone()));
        }
    }
    let entries = turned.into_iter().map(|(key, list)| (key, Value::list(Type::String, list)));
    Ok(Value::map(Type::String.list(), entries.gather()))
}
