//! Regular expressions, and replacing with and without them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use fluke_model::gather::Gather;
use regex::{Captures, Regex, RegexBuilder};

use super::{Failure, Function, Parameter, Wanted, check_size, text};
use crate::hcl::scope::Scope;
use crate::hcl::types::Type;
use crate::hcl::value::Value;

type Outcome = Result<Value, Failure>;

const STR: Parameter = Parameter::new("str", Wanted::String);
const PATTERN: &[Parameter] =
    &[Parameter::new("pattern", Wanted::String), Parameter::new("string", Wanted::String)];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("regex", PATTERN, regex),
    Function::new("regexall", PATTERN, regexall),
    Function::new(
        "replace",
        &[STR, Parameter::new("substr", Wanted::String), Parameter::new("replace", Wanted::String)],
        replace,
    ),
];

/// No compiled pattern may need more memory.
const MAX_PATTERN: usize = 2 * 1024 * 1024;

fn compile(pattern: &str, argument: usize) -> Result<Regex, Failure> {
    let mut builder = RegexBuilder::new(pattern);
    let built = builder.size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN).build();
    built.map_err(|error| {
        let reason = match &error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_string(),
            _ => reason(&error.to_string()),
        };
        Failure::of(argument, format!("invalid regular expression: {reason}"))
    })
}

/// The last line of what the parser says; those before it draw a picture.
fn reason(error: &str) -> String {
    let last = error.lines().last().unwrap_or(error);
    last.trim().trim_start_matches("error: ").to_string()
}

/// What a match gives: all of it, its groups in order, or its groups by name.
enum Shape {
    Whole,
    Groups,
    Names(Vec<Arc<str>>),
}

impl Shape {
    fn of(pattern: &Regex) -> Result<Self, Failure> {
        let groups = pattern.captures_len() - 1;
        let names: Vec<Arc<str>> = pattern.capture_names().flatten().map(Arc::from).collect();
        match (groups, names.len()) {
            (0, _) => Ok(Self::Whole),
            (_, 0) => Ok(Self::Groups),
            (all, named) if all == named => Ok(Self::Names(names)),
            _ => Err(Failure::of(0, "groups must either all have names or none of them")),
        }
    }

    fn value(&self, captures: &Captures) -> Value {
        let group = |found: Option<regex::Match>| {
            found.map_or(Value::Null(Type::String), |found| Value::string(found.as_str()))
        };
        match self {
            Self::Whole => group(captures.get(0)),
            Self::Groups => Value::tuple(captures.iter().skip(1).map(group).collect()),
            Self::Names(names) => Value::object(
                names.iter().map(|name| (name.clone(), group(captures.name(name)))).gather(),
            ),
        }
    }

    fn kind(&self, groups: usize) -> Type {
        match self {
            Self::Whole => Type::String,
            Self::Groups => Type::Tuple(vec![Type::String; groups].into()),
            Self::Names(names) => {
                let kinds = names.iter().map(|name| (name.clone(), Type::String));
                Type::Object(Arc::new(kinds.gather::<BTreeMap<_, _>>()))
            }
        }
    }
}

fn regex(args: &[Value], _: &Scope) -> Outcome {
    let pattern = compile(text(args, 0), 0)?;
    let shape = Shape::of(&pattern)?;
    match pattern.captures(text(args, 1)) {
        Some(captures) => Ok(shape.value(&captures)),
        None => Err(Failure::new("the pattern matches no part of the string")
            .help("use `try(regex(…), …)` or `regexall` where there may be no match")),
    }
}

fn regexall(args: &[Value], scope: &Scope) -> Outcome {
    let pattern = compile(text(args, 0), 0)?;
    let shape = Shape::of(&pattern)?;
    let groups = pattern.captures_len();
    let mut found = Vec::new();
    for captures in pattern.captures_iter(text(args, 1)) {
        scope.budget.bytes(64 * groups as u64)?;
        found.push(shape.value(&captures));
    }
    Ok(Value::list(shape.kind(groups - 1), found))
}

/// What stands between slashes is a regular expression.
fn replace(args: &[Value], _: &Scope) -> Outcome {
    let (string, wanted, by) = (text(args, 0), text(args, 1), text(args, 2));
    if let Some(pattern) = wanted.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
        return replace_pattern(string, pattern, by);
    }
    let count = match wanted {
        "" => string.chars().count() + 1,
        _ => string.matches(wanted).count(),
    };
    check_size(string.len().saturating_add(count.saturating_mul(by.len())))?;
    Ok(Value::string(string.replace(wanted, by)))
}

fn replace_pattern(string: &str, pattern: &str, by: &str) -> Outcome {
    let pattern = compile(pattern, 1)?;
    let mut result = String::new();
    let mut end = 0;
    for captures in pattern.captures_iter(string) {
        let Some(found) = captures.get(0) else {
            continue;
        };
        result.push_str(&string[end..found.start()]);
        expand(by, &captures, &mut result);
        check_size(result.len())?;
        end = found.end();
    }
    result.push_str(&string[end..]);
    Ok(Value::string(result))
}

/// `$1`, `$name` and `${name}` stand for groups, `$$` for a dollar sign, and a lone `$` for itself.
fn expand(template: &str, captures: &Captures, result: &mut String) {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            result.push('$');
            rest = after;
            continue;
        }
        match group_name(after) {
            Some((name, after)) => {
                let found = match name.parse::<usize>() {
                    Ok(index) => captures.get(index),
                    Err(_) => captures.name(name),
                };
                result.push_str(found.map_or("", |found| found.as_str()));
                rest = after;
            }
            None => {
                // Writing to a string cannot fail.
                let _ = write!(result, "$");
                rest = after;
            }
        }
    }
    result.push_str(rest);
}

fn group_name(after: &str) -> Option<(&str, &str)> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    if let Some(braced) = after.strip_prefix('{') {
        let (name, rest) = braced.split_once('}')?;
        return (!name.is_empty() && name.chars().all(is_word)).then_some((name, rest));
    }
    let end = after.find(|letter| !is_word(letter)).unwrap_or(after.len());
    (end > 0).then(|| after.split_at(end))
}
