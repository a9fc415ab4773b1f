//! Evaluation of expressions.
//!
//! A part that fails gives its own problems and spares the whole from further ones: an expression
//! fails with the problems of all its parts, or with none where they are reported elsewhere.

mod call;
mod collections;
mod conditional;
mod operators;
mod references;
mod template;
mod traversal;

#[cfg(test)]
pub(super) mod tests;

use super::ast::{Expr, ExprKind, Part, Span};
use super::budget::Exceeded;
use super::number::Number;
use super::problem::Problem;
use super::scope::{Frame, SPLAT_ITEM, Scope};
use super::value::Value;

pub use references::{Reference, references};

/// A value, or what stands in its way; an empty list says that it is reported elsewhere.
pub type Outcome<T = Value> = Result<T, Vec<Problem>>;

/// More problems than this are not collected from the rounds of one loop.
const MAX_LOOP_PROBLEMS: usize = 10;

/// What reading a number costs that does not fit a machine word.
const LARGE_NUMBER: u64 = 40;

/// Evaluates an expression.
pub fn eval(expr: &Expr, scope: &Scope) -> Outcome {
    scope.eval(expr)
}

/// Evaluates the parts of a template, such as a template file, to the value it stands for.
pub fn eval_template(parts: &[Part], span: Span, scope: &Scope) -> Outcome {
    scope.template(parts, span)
}

impl Scope<'_> {
    pub(super) fn eval(&self, expr: &Expr) -> Outcome {
        // The leaves first, since they are most of all that there is.
        match &expr.kind {
            ExprKind::Null => return Ok(Value::NULL),
            ExprKind::Bool(truth) => return Ok(Value::Bool(*truth)),
            ExprKind::Number(digits) => return self.number(digits, expr.span),
            ExprKind::SplatItem => return self.splat_item(expr.span),
            _ => {}
        }
        let level = self.budget.enter().and_then(|level| self.budget.work(1).map(|()| level));
        let _level = level.map_err(|limit| exceeded(limit, expr.span))?;
        self.eval_inner(expr)
    }

    fn eval_inner(&self, expr: &Expr) -> Outcome {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Template(parts) => self.template(parts, span),
            ExprKind::Variable(name) => self.variable(name, span),
            ExprKind::GetAttr { of, name } => self.attribute(of, name),
            ExprKind::Index { of, key } => self.index(of, key),
            ExprKind::Splat { of, each } => self.splat(of, each),
            ExprKind::Call { name, args, expand_last } => self.call(name, args, *expand_last, span),
            ExprKind::Tuple(items) => self.tuple(items, span),
            ExprKind::Object(items) => self.object(items, span),
            ExprKind::For(for_expr) => self.for_expr(for_expr, span),
            ExprKind::Conditional { condition, yes, no } => self.conditional(condition, yes, no),
            ExprKind::Binary { operator, left, right, .. } => {
                self.binary(*operator, left, right, span)
            }
            ExprKind::Unary { operator, operand } => self.unary(*operator, operand, span),
            ExprKind::Paren(inner) => self.eval(inner),
            ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::SplatItem => {
                Ok(Value::NULL)
            }
        }
    }

    fn number(&self, digits: &str, span: Span) -> Outcome {
        let number = Number::parse(digits).map_err(|error| fail(span, error.to_string()))?;
        if !number.is_small() {
            self.budget.work(LARGE_NUMBER).map_err(|limit| exceeded(limit, span))?;
        }
        Ok(Value::Number(number))
    }

    fn splat_item(&self, span: Span) -> Outcome {
        self.bound(SPLAT_ITEM)
            .cloned()
            .ok_or_else(|| fail(span, "there is no element here that a splat could stand for"))
    }

    /// Counts a new value against the budget.
    pub(super) fn admit(&self, value: Value, span: Span) -> Outcome {
        match self.budget.admit(&value) {
            Ok(()) => Ok(value),
            Err(limit) => Err(exceeded(limit, span)),
        }
    }

    /// Evaluates with names bound.
    fn eval_with(&self, bindings: &[(&str, &Value)], evaluate: &mut dyn FnMut(&Scope)) {
        match bindings {
            [] => evaluate(self),
            [(name, value), rest @ ..] => {
                let frame = Frame { name, value: (*value).clone(), outer: self.frame };
                self.with_frame(&frame).eval_with(rest, evaluate);
            }
        }
    }
}

/// One problem.
fn fail(span: Span, message: impl Into<String>) -> Vec<Problem> {
    vec![Problem::new(span, message)]
}

/// A limit that was reached.
pub(super) fn exceeded(limit: Exceeded, span: Span) -> Vec<Problem> {
    let help = "limits keep one commit from exhausting the server; make less of it, or split it";
    vec![Problem::new(span, limit.to_string()).help(help)]
}

/// Adds problems that are not there yet.
fn add_new(problems: &mut Vec<Problem>, more: Vec<Problem>) {
    for problem in more {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
}

/// Both, or the problems of both.
fn both<A, B>(left: Outcome<A>, right: Outcome<B>) -> Outcome<(A, B)> {
    match (left, right) {
        (Ok(left), Ok(right)) => Ok((left, right)),
        (Err(mut problems), Err(more)) => {
            add_new(&mut problems, more);
            Err(problems)
        }
        (Err(problems), _) | (_, Err(problems)) => Err(problems),
    }
}
