//! `condition ? yes : no`

use super::super::ast::{BinaryOp, Expr, ExprKind, Part, UnaryOp};
use super::super::convert::{convert, unify};
use super::super::problem::Problem;
use super::super::scope::Scope;
use super::super::types::Type;
use super::super::value::Value;
use super::{Outcome, fail};

impl Scope<'_> {
    /// Both arms are evaluated, since the result has a type that suits both; but problems count
    /// only in the arm that is chosen.
    pub(super) fn conditional(&self, condition: &Expr, yes: &Expr, no: &Expr) -> Outcome {
        let yes_outcome = self.eval(yes);
        let no_outcome = self.eval(no);
        let kind = common_type((yes, &yes_outcome), (no, &no_outcome))?;
        let (arm, outcome) = match self.condition(condition)? {
            true => (yes, yes_outcome),
            false => (no, no_outcome),
        };
        let value = outcome?;
        convert(&value, &kind).map_err(|error| {
            let message = format!("the result does not fit the type of the other one: {error}");
            fail(arm.span, message)
        })
    }

    /// Evaluates to true or false.
    pub(super) fn condition(&self, condition: &Expr) -> Outcome<bool> {
        match convert(&self.eval(condition)?, &Type::Bool) {
            Ok(Value::Bool(truth)) => Ok(truth),
            Ok(_) => Err(fail(condition.span, "the condition is null; it must be true or false")),
            Err(error) => {
                Err(fail(condition.span, format!("the condition must be a bool: {error}")))
            }
        }
    }
}

type Arm<'a> = (&'a Expr, &'a Outcome);

/// The type of the result; `Any` where each arm may stay as it is.
fn common_type(yes: Arm, no: Arm) -> Outcome<Type> {
    match (yes.1, no.1) {
        (Ok(Value::Null(Type::Any)), Ok(other)) | (Ok(other), Ok(Value::Null(Type::Any))) => {
            return Ok(other.kind());
        }
        (Ok(Value::String(_)), Ok(Value::String(_)))
        | (Ok(Value::Number(_)), Ok(Value::Number(_)))
        | (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => return Ok(Type::Any),
        _ => {}
    }
    let (yes_type, no_type) = (type_of(yes), type_of(no));
    if yes_type == Type::Any || no_type == Type::Any {
        return Ok(Type::Any);
    }
    unify([&yes_type, &no_type], true).ok_or_else(|| {
        let problem = Problem::new(
            yes.0.span.to(no.0.span),
            format!(
                "the two results must have consistent types; {}",
                difference(&yes_type, &no_type)
            ),
        );
        vec![problem.help("convert one of them, for example with `tostring` or `tolist`")]
    })
}

/// The type of the arm, or the one that it would have had if it had not failed.
fn type_of((expr, outcome): Arm) -> Type {
    match (outcome, &expr.kind) {
        (Ok(value), _) => value.kind(),
        (Err(_), ExprKind::Template(parts)) if !matches!(&parts[..], [Part::Interpolation(_)]) => {
            Type::String
        }
        (Err(_), ExprKind::Binary { operator, .. }) => match operator {
            BinaryOp::Add
            | BinaryOp::Subtract
            | BinaryOp::Multiply
            | BinaryOp::Divide
            | BinaryOp::Modulo => Type::Number,
            _ => Type::Bool,
        },
        (Err(_), ExprKind::Unary { operator: UnaryOp::Negate, .. }) => Type::Number,
        (Err(_), ExprKind::Unary { operator: UnaryOp::Not, .. }) => Type::Bool,
        _ => Type::Any,
    }
}

fn difference(yes: &Type, no: &Type) -> String {
    match (yes, no) {
        (Type::Object(yes), Type::Object(no)) => {
            for (name, kind) in yes.iter() {
                match no.get(name) {
                    None => return format!("the first has an attribute `{name}`, the second not"),
                    Some(other) if other != kind => {
                        return format!("attribute `{name}`: {}", difference(kind, other));
                    }
                    Some(_) => {}
                }
            }
            let missing = no.keys().find(|name| !yes.contains_key(*name));
            let name = missing.map_or("", |name| name);
            format!("the second has an attribute `{name}`, the first not")
        }
        (Type::Tuple(yes), Type::Tuple(no)) if yes.len() != no.len() => {
            format!("the first has {} elements, the second {}", yes.len(), no.len())
        }
        (Type::Tuple(yes), Type::Tuple(no)) => {
            let places = yes.iter().zip(no.iter()).enumerate();
            let differing = places.into_iter().find(|(_, (yes, no))| yes != no);
            differing.map_or_else(String::new, |(index, (yes, no))| {
                format!("element {index}: {}", difference(yes, no))
            })
        }
        _ => format!("the first is {yes}, the second is {no}"),
    }
}
