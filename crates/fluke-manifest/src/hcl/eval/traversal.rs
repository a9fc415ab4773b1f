//! Variables, attributes and indices.

use super::super::ast::{Expr, ExprKind, Ident, Span};
use super::super::convert::{convert, to_text};
use super::super::number::Number;
use super::super::problem::Problem;
use super::super::scope::{Lookup, Scope};
use super::super::suggest::did_you_mean;
use super::super::types::Type;
use super::super::value::Value;
use super::{Outcome, both, fail};

/// What people from elsewhere mean by a bare name: Terraform's variables, the shell's, a local
/// value, or a text.
fn no_variable_help(name: &str) -> String {
    match name {
        "var" => {
            "there are no input variables: set a value in `locals`, and write `local.…`".into()
        }
        _ => format!(
            "write `local.{name}` for a local value, \"{name}\" for the text, or `$${{{name}}}` in \
             a template if the shell shall see `${{{name}}}`"
        ),
    }
}

impl Scope<'_> {
    pub(super) fn variable(&self, name: &str, span: Span) -> Outcome {
        if let Some(value) = self.bound(name) {
            return Ok(value.clone());
        }
        match self.variables.root(name) {
            Lookup::Found(value) => Ok(value),
            Lookup::Failed => Err(Vec::new()),
            Lookup::Missing(known) => {
                let candidates = known.iter().map(|name| &**name).chain(self.bound_names());
                let problem = Problem::new(span, format!("there is no variable named `{name}`"));
                Err(vec![match did_you_mean(name, candidates) {
                    Some(help) => problem.help(help),
                    None => problem.help(no_variable_help(name)),
                }])
            }
        }
    }

    pub(super) fn attribute(&self, of: &Expr, name: &Ident) -> Outcome {
        if let Some(outcome) = self.lazy_attribute(of, &name.text, name.span) {
            return outcome;
        }
        let value = self.eval(of)?;
        // The old way to write an index: `list.0`.
        if name.text.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(index) = Number::parse(&name.text)
        {
            return index_value(&value, &Value::Number(index), of.span, name.span);
        }
        get_attribute(&value, name, of.span)
    }

    pub(super) fn index(&self, of: &Expr, key: &Expr) -> Outcome {
        if matches!(of.kind, ExprKind::Variable(_)) {
            let key_value = self.eval(key);
            if let Ok(Value::String(name)) = &key_value
                && let Some(outcome) = self.lazy_attribute(of, name, key.span)
            {
                return outcome;
            }
            let (value, key_value) = both(self.eval(of), key_value)?;
            return index_value(&value, &key_value, of.span, key.span);
        }
        let (value, key_value) = both(self.eval(of), self.eval(key))?;
        index_value(&value, &key_value, of.span, key.span)
    }

    /// Asks for `root.name` without the rest of the root, where the variables can do that.
    fn lazy_attribute(&self, of: &Expr, name: &str, span: Span) -> Option<Outcome> {
        let ExprKind::Variable(root) = &of.kind else {
            return None;
        };
        if self.bound(root).is_some() {
            return None;
        }
        Some(match self.variables.attribute(root, name)? {
            Lookup::Found(value) => Ok(value),
            Lookup::Failed => Err(Vec::new()),
            Lookup::Missing(known) => {
                let message = format!("`{root}` has no attribute named `{name}`");
                Err(vec![unknown(span, message, name, known.iter().map(|name| &**name))])
            }
        })
    }
}

fn unknown<'c>(
    span: Span,
    message: String,
    name: &str,
    known: impl Iterator<Item = &'c str>,
) -> Problem {
    let problem = Problem::new(span, message);
    match did_you_mean(name, known) {
        Some(help) => problem.help(help),
        None => problem,
    }
}

fn get_attribute(value: &Value, name: &Ident, of: Span) -> Outcome {
    let text = &*name.text;
    match value {
        Value::Null(_) => Err(fail(of, "this value is null, so it has no attributes")),
        Value::Object(_) | Value::Map(_) => {
            let entries = value.as_entries();
            entries.and_then(|entries| entries.get(text)).cloned().ok_or_else(|| {
                let message = match value {
                    Value::Map(_) => format!("this map has no element with the key `{text}`"),
                    _ => format!("this object has no attribute named `{text}`"),
                };
                let keys = entries.into_iter().flatten().map(|(key, _)| &**key);
                vec![unknown(name.span, message, text, keys)]
            })
        }
        Value::List(_) | Value::Tuple(_) | Value::Set(_) => {
            let problem =
                Problem::new(name.span, format!("{} has no attributes", value.described()));
            Err(vec![problem.help(format!(
                "take one element, as in `[0].{text}`, or `{text}` of all of them, as in \
                 `[*].{text}`"
            ))])
        }
        _ => Err(fail(name.span, format!("{} has no attributes", value.described()))),
    }
}

/// `value[key]`
fn index_value(value: &Value, key: &Value, of: Span, at: Span) -> Outcome {
    if value.is_null() {
        return Err(fail(of, "this value is null, so it has no elements"));
    }
    if key.is_null() {
        return Err(fail(at, "null cannot be used as an index"));
    }
    match value {
        Value::List(_) | Value::Tuple(_) => index_sequence(value, key, at),
        Value::Map(_) | Value::Object(_) => index_mapping(value, key, at),
        Value::Set(_) => {
            let problem = Problem::new(at, "the elements of a set have no index");
            Err(vec![problem.help("make it a list first, with `tolist` or `sort`")])
        }
        _ => Err(fail(of, format!("{} has no elements", value.described()))),
    }
}

fn index_sequence(value: &Value, key: &Value, at: Span) -> Outcome {
    let key = convert(key, &Type::Number)
        .map_err(|error| fail(at, format!("this is no index of the {}: {error}", named(value))))?;
    let items = value.as_items().unwrap_or_default();
    let Value::Number(index) = key else {
        return Err(fail(at, "an index must be a number"));
    };
    if index.to_big_integer().is_none() {
        return Err(fail(at, format!("an index must be a whole number, and {index} is not")));
    }
    if index.sign().is_lt() {
        return Err(fail(at, format!("an index cannot be negative, and {index} is")));
    }
    let item = index.to_i64().and_then(|index| items.get(usize::try_from(index).ok()?));
    item.cloned().ok_or_else(|| {
        let count = match items.len() {
            0 => "it is empty".into(),
            1 => "it has one element".into(),
            count => format!("it has {count} elements, from 0 to {}", count - 1),
        };
        fail(at, format!("the {} has no element {index}: {count}", named(value)))
    })
}

fn index_mapping(value: &Value, key: &Value, at: Span) -> Outcome {
    let text = to_text(key)
        .map_err(|error| fail(at, format!("this is no key of the {}: {error}", named(value))))?;
    let entries = value.as_entries();
    entries.and_then(|entries| entries.get(&text)).cloned().ok_or_else(|| {
        let message = format!("the {} has no element with the key `{text}`", named(value));
        let keys = entries.into_iter().flatten().map(|(key, _)| &**key);
        vec![unknown(at, message, &text, keys)]
    })
}

fn named(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "list",
        Value::Tuple(_) => "tuple",
        Value::Map(_) => "map",
        _ => "object",
    }
}
