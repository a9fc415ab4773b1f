//! Templates: text with values and directives in it.

use super::super::ast::{Expr, Ident, Part, Span};
use super::super::budget::{Exceeded, MAX_VALUE};
use super::super::convert::to_text;
use super::super::problem::Problem;
use super::super::scope::Scope;
use super::super::value::Value;
use super::{Outcome, add_new, exceeded};

/// What turning a large number into text costs.
const LARGE_NUMBER: u64 = 400;

impl Scope<'_> {
    pub(super) fn template(&self, parts: &[Part], span: Span) -> Outcome {
        match parts {
            [] => Ok(Value::from("")),
            [Part::Literal(text)] => self.admit(Value::string(text), span),
            [Part::Interpolation(expr)] => self.eval(expr),
            _ => {
                // About as long as it is written.
                let mut text = String::with_capacity(span.end.saturating_sub(span.start) as usize);
                let mut problems = Vec::new();
                let complete = self.render(parts, &mut text, &mut problems);
                match complete {
                    true => self.admit(Value::string(text), span),
                    false => Err(problems),
                }
            }
        }
    }

    /// Appends the parts; false if any of them failed.
    fn render(&self, parts: &[Part], text: &mut String, problems: &mut Vec<Problem>) -> bool {
        let mut complete = true;
        for part in parts {
            let outcome = match part {
                Part::Literal(literal) => {
                    text.push_str(literal);
                    continue;
                }
                Part::Interpolation(expr) => self.interpolate(expr, text),
                Part::If { condition, yes, no, .. } => self.render_if(condition, yes, no, text),
                Part::For { key_name, value_name, collection, body, span } => {
                    self.render_for((key_name.as_ref(), value_name), collection, body, *span, text)
                }
            };
            if let Err(more) = outcome {
                complete = false;
                add_new(problems, more);
            }
        }
        complete
    }

    fn interpolate(&self, expr: &Expr, text: &mut String) -> Outcome<()> {
        let value = self.eval(expr)?;
        if value.as_number().is_some_and(|number| !number.is_small()) {
            self.budget.work(LARGE_NUMBER).map_err(|limit| exceeded(limit, expr.span))?;
        }
        let piece = to_text(&value).map_err(|_| vec![not_text(&value, expr.span)])?;
        if (text.len() + piece.len()) as u64 > MAX_VALUE {
            return Err(exceeded(Exceeded::Value, expr.span));
        }
        text.push_str(&piece);
        Ok(())
    }

    fn render_if(
        &self,
        condition: &Expr,
        yes: &[Part],
        no: &[Part],
        text: &mut String,
    ) -> Outcome<()> {
        let chosen = if self.condition(condition)? { yes } else { no };
        let mut problems = Vec::new();
        match self.render(chosen, text, &mut problems) {
            true => Ok(()),
            false => Err(problems),
        }
    }

    fn render_for(
        &self,
        names: (Option<&Ident>, &Ident),
        collection: &Expr,
        body: &[Part],
        span: Span,
        text: &mut String,
    ) -> Outcome<()> {
        let value = self.eval(collection)?;
        self.each(&value, names, collection.span, |scope| {
            scope.budget.work(1).map_err(|limit| exceeded(limit, span))?;
            let before = text.len();
            let mut problems = Vec::new();
            if !scope.render(body, text, &mut problems) {
                return Err(problems);
            }
            // Counted as it grows, since a loop can make any amount of text from little.
            let grown = scope.budget.bytes((text.len() - before) as u64);
            grown.map_err(|limit| exceeded(limit, span))?;
            match text.len() as u64 > MAX_VALUE {
                true => Err(exceeded(Exceeded::Value, span)),
                false => Ok(()),
            }
        })
    }
}

fn not_text(value: &Value, span: Span) -> Problem {
    if value.is_null() {
        let problem = Problem::new(span, "the value is null, and null has no text");
        return problem.help("use `coalesce(value, \"…\")` to give a text for null");
    }
    let problem = Problem::new(span, format!("{} has no text of its own", value.described()));
    problem.help("use `join`, `jsonencode` or a `for` directive to write it out")
}
