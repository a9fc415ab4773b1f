//! Tuples, objects, `for` and splats.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluke_model::gather::Gather;

use super::super::ast::{Expr, ExprKind, ForExpr, Ident, ObjectItem, Span};
use super::super::convert::{convert, single_type, to_text};
use super::super::number::Number;
use super::super::problem::Problem;
use super::super::scope::{Frame, SPLAT_ITEM, Scope};
use super::super::types::Type;
use super::super::value::Value;
use super::{MAX_LOOP_PROBLEMS, Outcome, add_new, exceeded, fail};

impl Scope<'_> {
    pub(super) fn tuple(&self, items: &[Expr], span: Span) -> Outcome {
        let mut values = Vec::with_capacity(items.len());
        let mut problems = None;
        for item in items {
            match self.eval(item) {
                Ok(value) => values.push(value),
                Err(more) => add_new(problems.get_or_insert_default(), more),
            }
        }
        match problems {
            Some(problems) => Err(problems),
            None => self.admit(Value::tuple(values), span),
        }
    }

    pub(super) fn object(&self, items: &[ObjectItem], span: Span) -> Outcome {
        let mut entries = BTreeMap::new();
        let mut problems = None;
        for item in items {
            match super::both(self.object_key(item), self.eval(&item.value)) {
                Ok((key, value)) => {
                    entries.insert(key, value);
                }
                Err(more) => add_new(problems.get_or_insert_default(), more),
            }
        }
        match problems {
            Some(problems) => Err(problems),
            None => self.admit(Value::object(entries), span),
        }
    }

    fn object_key(&self, item: &ObjectItem) -> Outcome<Arc<str>> {
        match &item.key.kind {
            ExprKind::Variable(name) if item.literal_key => Ok(Arc::from(&**name)),
            ExprKind::GetAttr { .. } => {
                let problem = Problem::new(item.key.span, "it is not clear what this key means");
                Err(vec![problem.help(
                    "write it in parentheses if it is a reference, in quotes if it is a name",
                )])
            }
            _ => self.key(&item.key),
        }
    }

    fn key(&self, expr: &Expr) -> Outcome<Arc<str>> {
        let value = self.eval(expr)?;
        if value.is_null() {
            return Err(fail(expr.span, "null cannot be used as a key"));
        }
        to_text(&value)
            .map_err(|error| fail(expr.span, format!("this cannot be used as a key: {error}")))
    }

    pub(super) fn for_expr(&self, for_expr: &ForExpr, span: Span) -> Outcome {
        let collection = self.eval(&for_expr.collection)?;
        let names = (for_expr.key_name.as_ref(), &for_expr.value_name);
        let at = for_expr.collection.span;
        let Some(key) = &for_expr.key else {
            let mut values = Vec::new();
            self.each(&collection, names, at, |scope| {
                if scope.is_wanted(for_expr)? {
                    values.push(scope.eval(&for_expr.value)?);
                    scope.budget.bytes(32).map_err(|limit| exceeded(limit, span))?;
                }
                Ok(())
            })?;
            return self.admit(Value::tuple(values), span);
        };
        let mut groups: BTreeMap<Arc<str>, Vec<Value>> = BTreeMap::new();
        self.each(&collection, names, at, |scope| {
            if !scope.is_wanted(for_expr)? {
                return Ok(());
            }
            let (name, value) = super::both(scope.key(key), scope.eval(&for_expr.value))?;
            scope.budget.bytes(64).map_err(|limit| exceeded(limit, span))?;
            let group = groups.entry(name.clone()).or_default();
            if !group.is_empty() && !for_expr.group {
                return Err(vec![duplicate_key(&name, key.span)]);
            }
            group.push(value);
            Ok(())
        })?;
        let entries = groups.into_iter().map(|(name, mut group)| {
            let single = if for_expr.group { None } else { group.pop() };
            (name, single.unwrap_or_else(|| Value::tuple(group)))
        });
        self.admit(Value::object(entries.gather()), span)
    }

    fn is_wanted(&self, for_expr: &ForExpr) -> Outcome<bool> {
        let Some(condition) = &for_expr.condition else {
            return Ok(true);
        };
        match convert(&self.eval(condition)?, &Type::Bool) {
            Ok(Value::Bool(truth)) => Ok(truth),
            Ok(_) => Err(fail(condition.span, "the `if` of a `for` must not be null")),
            Err(error) => {
                Err(fail(condition.span, format!("the `if` of a `for` must be a bool: {error}")))
            }
        }
    }

    /// Goes through a collection with the names bound, and gathers the problems of the rounds.
    pub(super) fn each(
        &self,
        collection: &Value,
        names: (Option<&Ident>, &Ident),
        at: Span,
        mut round: impl FnMut(&Scope) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut problems: Option<Vec<Problem>> = None;
        for (key, value) in pairs(collection, at)? {
            self.budget.work(1).map_err(|limit| exceeded(limit, at))?;
            let mut bindings = vec![(&*names.1.text, &value)];
            // Of two equal names the value's counts, which is the inner one.
            if let Some(name) = names.0 {
                bindings.insert(0, (&*name.text, &key));
            }
            let mut outcome = Ok(());
            self.eval_with(&bindings, &mut |scope| outcome = round(scope));
            if let Err(more) = outcome {
                let problems = problems.get_or_insert_default();
                add_new(problems, more);
                if problems.len() >= MAX_LOOP_PROBLEMS {
                    break;
                }
            }
        }
        problems.map_or(Ok(()), Err)
    }

    pub(super) fn splat(&self, of: &Expr, each: &Expr) -> Outcome {
        let value = self.eval(of)?;
        let items = match &value {
            Value::Null(Type::Tuple(_) | Type::List(_) | Type::Set(_)) => {
                return Err(fail(of.span, "a splat cannot be applied to a null sequence"));
            }
            Value::Null(_) => return Ok(Value::tuple(Vec::new())),
            _ => value.as_items().unwrap_or(std::slice::from_ref(&value)),
        };
        let mut results = Vec::with_capacity(items.len());
        let mut problems = None;
        for item in items {
            self.budget.work(1).map_err(|limit| exceeded(limit, of.span))?;
            let frame = Frame { name: SPLAT_ITEM, value: item.clone(), outer: self.frame };
            match self.with_frame(&frame).eval(each) {
                Ok(result) => results.push(result),
                Err(more) => add_new(problems.get_or_insert_default(), more),
            }
        }
        if let Some(problems) = problems {
            return Err(problems);
        }
        let result = match value {
            Value::List(_) | Value::Set(_) => to_list(results, each.span)?,
            _ => Value::tuple(results),
        };
        self.admit(result, of.span.to(each.span))
    }
}

fn to_list(results: Vec<Value>, span: Span) -> Outcome {
    if results.is_empty() {
        return Ok(Value::list(Type::Any, results));
    }
    match single_type(results.iter()) {
        Some(kind) => Ok(Value::list(kind, results)),
        None => {
            let message = "this gives elements of different types, which cannot form a list";
            let help = "use a `for` expression instead; its result may have elements of any type";
            Err(vec![Problem::new(span, message).help(help)])
        }
    }
}

fn duplicate_key(name: &str, span: Span) -> Problem {
    let problem = Problem::new(span, format!("two elements give the same key `{name}`"));
    problem.help("write `...` behind the value to collect all values of a key")
}

/// Keys and values of anything that can be gone through.
fn pairs(collection: &Value, at: Span) -> Outcome<Vec<(Value, Value)>> {
    Ok(match collection {
        Value::Tuple(sequence) | Value::List(sequence) => {
            let items = sequence.items().iter().enumerate();
            items.map(|(index, it)| (Number::count(index).into(), it.clone())).collect()
        }
        Value::Set(sequence) => {
            sequence.items().iter().map(|item| (item.clone(), item.clone())).collect()
        }
        Value::Object(mapping) | Value::Map(mapping) => {
            let entries = mapping.entries().iter();
            entries.map(|(key, item)| (Value::String(key.clone()), item.clone())).collect()
        }
        Value::Null(_) => return Err(fail(at, "null cannot be iterated with `for`")),
        _ => {
            let name = collection.described();
            return Err(fail(at, format!("{name} cannot be iterated with `for`")));
        }
    })
}
