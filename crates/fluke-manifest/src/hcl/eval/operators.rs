//! Operators with one and two sides.

use super::super::ast::{BinaryOp, Expr, Span, UnaryOp};
use super::super::convert::convert;
use super::super::number::{Number, NumberError};
use super::super::problem::Problem;
use super::super::scope::Scope;
use super::super::types::Type;
use super::super::value::Value;
use super::{Outcome, both, fail};

/// What computing with a number costs that does not fit a machine word.
const LARGE_NUMBER: u64 = 40;

impl Scope<'_> {
    pub(super) fn binary(
        &self,
        operator: BinaryOp,
        left: &Expr,
        right: &Expr,
        span: Span,
    ) -> Outcome {
        match operator {
            BinaryOp::Or | BinaryOp::And => self.logical(operator, left, right),
            BinaryOp::Equal | BinaryOp::NotEqual => {
                let (left, right) = both(self.eval(left), self.eval(right))?;
                Ok(Value::Bool(left.equals(&right) == (operator == BinaryOp::Equal)))
            }
            _ => {
                let left = self.operand(left, &Type::Number, "left");
                let right = self.operand(right, &Type::Number, "right");
                let (left, right) = both(left, right)?;
                match (left, right) {
                    (Value::Number(left), Value::Number(right)) => {
                        self.compute(operator, &left, &right, span)
                    }
                    _ => Err(fail(span, "numbers are required on both sides")),
                }
            }
        }
    }

    /// Evaluates and converts one side; a failed side says nothing about the other.
    fn operand(&self, expr: &Expr, wanted: &Type, side: &str) -> Outcome {
        let value = self.eval(expr)?;
        if value.is_null() {
            return Err(fail(expr.span, format!("the {side} operand is null; {wanted} required")));
        }
        convert(&value, wanted)
            .map_err(|e| fail(expr.span, format!("unsuitable value for the {side} operand: {e}")))
    }

    fn compute(&self, operator: BinaryOp, left: &Number, right: &Number, span: Span) -> Outcome {
        if !(left.is_small() && right.is_small()) {
            let spent = self.budget.work(LARGE_NUMBER);
            spent.map_err(|limit| super::exceeded(limit, span))?;
        }
        let number = match operator {
            BinaryOp::Add => left.add(right),
            BinaryOp::Subtract => left.subtract(right),
            BinaryOp::Multiply => left.multiply(right),
            BinaryOp::Divide => left.divide(right),
            BinaryOp::Modulo => left.modulo(right),
            BinaryOp::Greater => return Ok(Value::Bool(left > right)),
            BinaryOp::GreaterOrEqual => return Ok(Value::Bool(left >= right)),
            BinaryOp::Less => return Ok(Value::Bool(left < right)),
            BinaryOp::LessOrEqual => return Ok(Value::Bool(left <= right)),
            BinaryOp::Or | BinaryOp::And | BinaryOp::Equal | BinaryOp::NotEqual => {
                Err(NumberError::NotANumber)
            }
        };
        number.map(Value::Number).map_err(|error| fail(span, error.to_string()))
    }

    /// One side can decide alone, and then problems of the other do not matter; but what the
    /// other gives must be a bool all the same. Null counts as false where that decides.
    fn logical(&self, operator: BinaryOp, left: &Expr, right: &Expr) -> Outcome {
        let decisive = operator == BinaryOp::Or;
        let sides = [self.truth(left, "left"), self.truth(right, "right")];
        let is_decided = sides.iter().any(|side| match side {
            Side::Truth(truth) => *truth == decisive,
            Side::Null(_) => !decisive,
            Side::Failed(_) | Side::Unfit(_) => false,
        });
        let has_unfit = sides.iter().any(|side| matches!(side, Side::Unfit(_)));
        if is_decided && !has_unfit {
            return Ok(Value::Bool(decisive));
        }
        let [left, right] = sides.map(Side::into_outcome);
        both(left, right).map(|_| Value::Bool(!decisive))
    }

    fn truth(&self, expr: &Expr, side: &str) -> Side {
        let value = match self.eval(expr) {
            Ok(value) => value,
            Err(problems) => return Side::Failed(problems),
        };
        match convert(&value, &Type::Bool) {
            Ok(Value::Bool(truth)) => Side::Truth(truth),
            Ok(_) => {
                Side::Null(fail(expr.span, format!("the {side} operand is null; bool required")))
            }
            Err(error) => {
                let message = format!("unsuitable value for the {side} operand: {error}");
                Side::Unfit(fail(expr.span, message))
            }
        }
    }

    pub(super) fn unary(&self, operator: UnaryOp, operand: &Expr, span: Span) -> Outcome {
        let wanted = match operator {
            UnaryOp::Negate => Type::Number,
            UnaryOp::Not => Type::Bool,
        };
        let value = self.eval(operand)?;
        if value.is_null() {
            return Err(fail(operand.span, format!("the operand is null; {wanted} required")));
        }
        match convert(&value, &wanted) {
            Ok(Value::Number(number)) => Ok(Value::Number(number.negate())),
            Ok(Value::Bool(truth)) => Ok(Value::Bool(!truth)),
            Ok(_) => Err(fail(span, format!("{wanted} required"))),
            Err(error) => {
                Err(fail(operand.span, format!("unsuitable value for the operand: {error}")))
            }
        }
    }
}

/// One side of `&&` and `||`.
enum Side {
    Truth(bool),
    /// It is null, which may or may not matter.
    Null(Vec<Problem>),
    /// It could not be evaluated, which may or may not matter.
    Failed(Vec<Problem>),
    /// It is something else than a bool, which is always wrong.
    Unfit(Vec<Problem>),
}

impl Side {
    fn into_outcome(self) -> Outcome<bool> {
        match self {
            Self::Truth(truth) => Ok(truth),
            Self::Null(problems) | Self::Failed(problems) | Self::Unfit(problems) => Err(problems),
        }
    }
}
