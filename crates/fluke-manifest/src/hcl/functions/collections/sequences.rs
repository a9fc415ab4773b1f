//! Lists and tuples.

use unicode_segmentation::UnicodeSegmentation;

use super::super::{Failure, items, number, whole};
use super::Outcome;
use crate::hcl::convert::{convert, unify};
use crate::hcl::number::Number;
use crate::hcl::scope::Scope;
use crate::hcl::types::Type;
use crate::hcl::value::Value;

/// The longest list that `range` makes.
const MAX_RANGE: usize = 1024;

pub(super) fn length(args: &[Value], _: &Scope) -> Outcome {
    let value = &args[0];
    let count = match value {
        Value::String(text) => text.graphemes(true).count(),
        _ => match (value.as_items(), value.as_entries()) {
            (Some(items), _) => items.len(),
            (_, Some(entries)) => entries.len(),
            _ => {
                let name = value.described();
                return Err(Failure::of(0, format!("{name} has no length")));
            }
        },
    };
    Ok(Number::count(count).into())
}

pub(super) fn alltrue(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::Bool(items(args, 0).iter().all(|item| item.as_bool() == Some(true))))
}

pub(super) fn anytrue(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::Bool(items(args, 0).iter().any(|item| item.as_bool() == Some(true))))
}

pub(super) fn chunklist(args: &[Value], _: &Scope) -> Outcome {
    let size = usize::try_from(whole(args, 1)?)
        .map_err(|_| Failure::of(1, "the size must not be negative"))?;
    let list = &args[0];
    let kind = list.kind();
    let element = kind.element().cloned().unwrap_or(Type::Any);
    if size == 0 && !items(args, 0).is_empty() {
        return Ok(Value::list(kind, vec![list.clone()]));
    }
    let chunks = items(args, 0).chunks(size.max(1));
    let chunks = chunks.map(|chunk| Value::list(element.clone(), chunk.to_vec())).collect();
    Ok(Value::list(kind, chunks))
}

/// The first argument that is neither null nor an empty string.
pub(super) fn coalesce(args: &[Value], _: &Scope) -> Outcome {
    let kinds: Vec<Type> = args.iter().map(Value::kind).collect();
    let Some(kind) = unify(&kinds, true) else {
        return Err(Failure::new("all arguments must have the same type"));
    };
    for (index, arg) in args.iter().enumerate() {
        let value = convert(arg, &kind).map_err(|error| Failure::of(index, error.to_string()))?;
        if !value.is_null() && value.as_str() != Some("") {
            return Ok(value);
        }
    }
    Err(Failure::new("all arguments are null or empty strings"))
}

pub(super) fn coalescelist(args: &[Value], _: &Scope) -> Outcome {
    for (index, arg) in args.iter().enumerate() {
        match arg {
            Value::List(sequence) | Value::Tuple(sequence) if !sequence.items().is_empty() => {
                return Ok(arg.clone());
            }
            Value::List(_) | Value::Tuple(_) | Value::Null(Type::List(_) | Type::Tuple(_)) => {}
            _ => return Err(Failure::of(index, "all arguments must be lists or tuples")),
        }
    }
    Err(Failure::new("all arguments are null or empty"))
}

pub(super) fn compact(args: &[Value], _: &Scope) -> Outcome {
    let kept = items(args, 0).iter().filter(|item| item.as_str().is_some_and(|it| !it.is_empty()));
    Ok(Value::list(Type::String, kept.cloned().collect()))
}

pub(super) fn concat(args: &[Value], _: &Scope) -> Outcome {
    if args.is_empty() {
        return Err(Failure::new("at least one argument is required"));
    }
    let kinds: Option<Vec<Type>> =
        args.iter().map(|arg| matches!(arg, Value::List(_)).then(|| arg.kind())).collect();
    if let Some(kind) = kinds.and_then(|kinds| unify(&kinds, true)) {
        let mut joined = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            let list =
                convert(arg, &kind).map_err(|error| Failure::of(index, error.to_string()))?;
            joined.extend_from_slice(list.as_items().unwrap_or_default());
        }
        return Ok(Value::list(kind.element().cloned().unwrap_or(Type::Any), joined));
    }
    let mut joined = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        match arg {
            Value::List(sequence) | Value::Tuple(sequence) => {
                joined.extend_from_slice(sequence.items());
            }
            _ => {
                let name = arg.described();
                let message = format!("only lists and tuples can be joined; this is {name}");
                return Err(Failure::of(index, message));
            }
        }
    }
    Ok(Value::tuple(joined))
}

pub(super) fn contains(args: &[Value], _: &Scope) -> Outcome {
    let list = args[0].as_items().ok_or_else(|| not_a_sequence(&args[0]))?;
    Ok(Value::Bool(list.iter().any(|item| item.equals(&args[1]))))
}

fn not_a_sequence(value: &Value) -> Failure {
    Failure::of(0, format!("a list, tuple or set is required, but have {}", value.type_name()))
}

/// Comparing each with each, but text by a look into a table.
pub(super) fn distinct(args: &[Value], scope: &Scope) -> Outcome {
    let mut texts = std::collections::HashSet::new();
    let mut kept: Vec<Value> = Vec::new();
    for item in items(args, 0) {
        let is_new = match item {
            Value::String(text) => texts.insert(text.clone()),
            _ => {
                scope.budget.work(1 + kept.len() as u64)?;
                !kept.iter().any(|other| other.equals(item))
            }
        };
        if is_new {
            kept.push(item.clone());
        }
    }
    Ok(Value::list(args[0].kind().element().cloned().unwrap_or(Type::Any), kept))
}

/// Wraps around at both ends.
pub(super) fn element(args: &[Value], _: &Scope) -> Outcome {
    let index = whole(args, 1)?;
    let list = match &args[0] {
        Value::List(sequence) | Value::Tuple(sequence) => sequence.items(),
        other => {
            return Err(Failure::of(0, format!("cannot take elements of {}", other.described())));
        }
    };
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    if length == 0 {
        return Err(Failure::of(0, "the list is empty, so it has no element"));
    }
    let place = usize::try_from(index.rem_euclid(length)).unwrap_or(0);
    Ok(list.get(place).cloned().unwrap_or(Value::NULL))
}

pub(super) fn flatten(args: &[Value], _: &Scope) -> Outcome {
    let list = args[0].as_items().ok_or_else(|| not_a_sequence(&args[0]))?;
    let mut flat = Vec::new();
    flatten_into(list, &mut flat);
    Ok(Value::tuple(flat))
}

fn flatten_into(items: &[Value], flat: &mut Vec<Value>) {
    for item in items {
        match item.as_items() {
            Some(nested) => flatten_into(nested, flat),
            None => flat.push(item.clone()),
        }
    }
}

pub(super) fn index(args: &[Value], _: &Scope) -> Outcome {
    let list = match &args[0] {
        Value::List(sequence) | Value::Tuple(sequence) => sequence.items(),
        _ => return Err(Failure::of(0, "it must be a list or tuple")),
    };
    match list.iter().position(|item| item.equals(&args[1])) {
        Some(place) => Ok(Number::count(place).into()),
        None if list.is_empty() => Err(Failure::of(0, "the list is empty")),
        None => Err(Failure::new("the list has no such element")),
    }
}

/// The only element, or null if there is none.
pub(super) fn one(args: &[Value], _: &Scope) -> Outcome {
    let list = args[0].as_items().ok_or_else(|| not_a_sequence(&args[0]))?;
    match list {
        [] => Ok(Value::Null(args[0].kind().element().cloned().unwrap_or(Type::Any))),
        [only] => Ok(only.clone()),
        _ => {
            let count = list.len();
            Err(Failure::of(0, format!("it must have one element or none, but has {count}")))
        }
    }
}

pub(super) fn range(args: &[Value], _: &Scope) -> Outcome {
    let zero = Number::integer(0);
    let (start, end) = match args.len() {
        1 => (&zero, number(args, 0)?),
        2 | 3 => (number(args, 0)?, number(args, 1)?),
        _ => return Err(Failure::new("one, two or three arguments are required")),
    };
    let step = match args.len() {
        3 => number(args, 2)?.clone(),
        _ => Number::integer(if end < start { -1 } else { 1 }),
    };
    let down = match step.sign() {
        std::cmp::Ordering::Equal => return Err(Failure::of(2, "the step must not be zero")),
        sign => sign.is_lt(),
    };
    if (down && end > start) || (!down && end < start) {
        let relation = if down { "less" } else { "greater" };
        return Err(Failure::of(1, format!("the end must be {relation} than the start")));
    }
    let mut numbers = Vec::new();
    let mut next = start.clone();
    while if down { next > *end } else { next < *end } {
        if numbers.len() == MAX_RANGE {
            return Err(Failure::new(format!("it would give more than {MAX_RANGE} numbers"))
                .help("take a smaller range or a larger step"));
        }
        let after = next.add(&step)?;
        numbers.push(Value::Number(next));
        next = after;
    }
    Ok(Value::list(Type::Number, numbers))
}

pub(super) fn reverse(args: &[Value], _: &Scope) -> Outcome {
    let list = args[0].as_items().ok_or_else(|| not_a_sequence(&args[0]))?;
    let reversed = list.iter().rev().cloned().collect();
    Ok(match &args[0] {
        Value::List(sequence) | Value::Set(sequence) => {
            Value::list(sequence.element().clone(), reversed)
        }
        _ => Value::tuple(reversed),
    })
}

pub(super) fn slice(args: &[Value], _: &Scope) -> Outcome {
    let list = match &args[0] {
        Value::List(sequence) | Value::Tuple(sequence) => sequence.items(),
        Value::Set(_) => {
            return Err(Failure::of(0, "the elements of a set have no index")
                .help("make it a list first, with `tolist` or `sort`"));
        }
        other => {
            let name = other.type_name();
            return Err(Failure::of(0, format!("a list or tuple is required, but have {name}")));
        }
    };
    let place = |index: usize, what: &str| {
        let place = usize::try_from(whole(args, index)?);
        let place = place.map_err(|_| Failure::of(index, format!("the {what} is negative")))?;
        match place > list.len() {
            true => {
                let count = list.len();
                let message = format!("the {what} is {place}, but there are {count} elements");
                Err(Failure::of(index, message))
            }
            false => Ok(place),
        }
    };
    let (start, end) = (place(1, "start")?, place(2, "end")?);
    if start > end {
        return Err(Failure::of(1, "the start must not be behind the end"));
    }
    let part = list[start..end].to_vec();
    Ok(match &args[0] {
        Value::List(sequence) => Value::list(sequence.element().clone(), part),
        _ => Value::tuple(part),
    })
}

pub(super) fn sort(args: &[Value], _: &Scope) -> Outcome {
    let mut sorted = items(args, 0).to_vec();
    if let Some(place) = sorted.iter().position(Value::is_null) {
        return Err(Failure::of(0, format!("element {place} is null; null cannot be sorted")));
    }
    sorted.sort_by(|left, right| left.as_str().cmp(&right.as_str()));
    Ok(Value::list(Type::String, sorted))
}

pub(super) fn sum(args: &[Value], _: &Scope) -> Outcome {
    let list = args[0].as_items().ok_or_else(|| not_a_sequence(&args[0]))?;
    let mut sum: Option<Number> = None;
    for (place, item) in list.iter().enumerate() {
        let Ok(Value::Number(number)) = convert(item, &Type::Number) else {
            let name = item.type_name();
            return Err(Failure::of(0, format!("element {place} is {name}, not a number")));
        };
        sum = Some(match sum {
            Some(sum) => sum.add(&number)?,
            None => number,
        });
    }
    sum.map(Value::Number).ok_or_else(|| Failure::of(0, "the sum of nothing is not defined"))
}
