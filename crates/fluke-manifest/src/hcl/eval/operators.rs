//! Operators with one and two sides.

use super::super::ast::{BinaryOp, Expr, Span, UnaryOp};
use super::super::convert::convert;
use super::super::number::{Number, NumberError};
use super::super::scope::Scope;
use super::super::types::Type;
use super::super::value::Value;
use super::{Outcome, both, fail};

/// What computing with a number costs that does not fit a machine word.
const LARGE_NUMBER: u64 = 20;

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
    /// other gives must be a bool all the same.
    fn logical(&self, operator: BinaryOp, left: &Expr, right: &Expr) -> Outcome {
        let decisive = operator == BinaryOp::Or;
        let (left, left_unfit) = self.truth(left, "left");
        let (right, right_unfit) = self.truth(right, "right");
        if left_unfit || right_unfit {
            return both(left, right).map(|_| Value::Bool(decisive));
        }
        match (left, right) {
            (Ok(truth), _) | (_, Ok(truth)) if truth == decisive => Ok(Value::Bool(decisive)),
            (left, right) => both(left, right).map(|_| Value::Bool(!decisive)),
        }
    }

    /// The truth of one side, and whether it has a value that cannot be one.
    fn truth(&self, expr: &Expr, side: &str) -> (Outcome<bool>, bool) {
        let value = match self.eval(expr) {
            Ok(value) => value,
            Err(problems) => return (Err(problems), false),
        };
        match convert(&value, &Type::Bool) {
            Ok(Value::Bool(truth)) => (Ok(truth), false),
            Ok(_) => {
                let message = format!("the {side} operand is null; bool required");
                (Err(fail(expr.span, message)), true)
            }
            Err(error) => {
                let message = format!("unsuitable value for the {side} operand: {error}");
                (Err(fail(expr.span, message)), true)
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
