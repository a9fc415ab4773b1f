//! Environment references in the strings of a config file.
//!
//! `$NAME` and `${NAME}` are replaced in the syntax tree, before anything is evaluated: so what a
//! variable holds is never looked at again, whatever characters are in it.

use fluke_manifest::hcl::ast::{Attribute, Block, Body, Expr, ExprKind, Part, Span};
use fluke_manifest::hcl::problem::Problem;

#[cfg(test)]
mod tests;

/// Where variables come from.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces every reference in every string, and tells of every variable that is not set.
pub fn expand(body: &mut Body, environment: Environment<'_>) -> Vec<Problem> {
    let mut expander = Expander { environment, problems: Vec::new() };
    expander.body(body);
    expander.problems
}

struct Expander<'a> {
    environment: Environment<'a>,
    problems: Vec<Problem>,
}

impl Expander<'_> {
    fn body(&mut self, body: &mut Body) {
        for Attribute { value, .. } in &mut body.attributes {
            self.expr(value, false);
        }
        for Block { body, .. } in &mut body.blocks {
            self.body(body);
        }
    }

    fn expr(&mut self, expr: &mut Expr, in_string: bool) {
        let span = expr.span;
        match &mut expr.kind {
            ExprKind::Template(parts) => self.parts(parts, span),
            ExprKind::Variable(name) if in_string && is_environment_name(name) => {
                let value = self.value(name, span).unwrap_or_default();
                expr.kind = ExprKind::Template(vec![Part::Literal(value.into())]);
            }
            kind => self.children(kind, in_string),
        }
    }

    fn children(&mut self, kind: &mut ExprKind, in_string: bool) {
        match kind {
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Variable(_)
            | ExprKind::SplatItem
            | ExprKind::Template(_) => {}
            ExprKind::GetAttr { of, .. } => self.expr(of, in_string),
            ExprKind::Index { of: a, key: b }
            | ExprKind::Splat { of: a, each: b }
            | ExprKind::Binary { left: a, right: b, .. } => {
                self.expr(a, in_string);
                self.expr(b, in_string);
            }
            ExprKind::Unary { operand: inner, .. } | ExprKind::Paren(inner) => {
                self.expr(inner, in_string);
            }
            ExprKind::Call { args: items, .. } | ExprKind::Tuple(items) => {
                items.iter_mut().for_each(|item| self.expr(item, in_string));
            }
            ExprKind::Object(items) => {
                for item in items {
                    if !item.literal_key {
                        self.expr(&mut item.key, in_string);
                    }
                    self.expr(&mut item.value, in_string);
                }
            }
            ExprKind::For(each) => {
                self.expr(&mut each.collection, in_string);
                each.key.iter_mut().for_each(|key| self.expr(key, in_string));
                self.expr(&mut each.value, in_string);
                each.condition.iter_mut().for_each(|condition| self.expr(condition, in_string));
            }
            ExprKind::Conditional { condition, yes, no } => {
                [condition, yes, no].into_iter().for_each(|part| self.expr(part, in_string));
            }
        }
    }

    fn parts(&mut self, parts: &mut [Part], span: Span) {
        for part in parts {
            match part {
                Part::Literal(text) if text.contains('$') => *text = self.text(text, span).into(),
                Part::Literal(_) => {}
                Part::Interpolation(inner) => self.expr(inner, true),
                Part::If { condition, yes, no, span } => {
                    self.expr(condition, true);
                    self.parts(yes, *span);
                    self.parts(no, *span);
                }
                Part::For { collection, body, span, .. } => {
                    self.expr(collection, true);
                    self.parts(body, *span);
                }
            }
        }
    }

    /// `$NAME` becomes its value, `$$` a dollar; any other dollar is one already.
    fn text(&mut self, text: &str, span: Span) -> String {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let name = leading_name(rest);
            if let Some(behind) = rest.strip_prefix('$') {
                expanded.push('$');
                rest = behind;
            } else if name.is_empty() {
                expanded.push('$');
            } else {
                expanded.push_str(&self.value(name, span).unwrap_or_default());
                rest = &rest[name.len()..];
            }
        }
        expanded.push_str(rest);
        expanded
    }

    fn value(&mut self, name: &str, span: Span) -> Option<String> {
        let value = (self.environment)(name);
        if value.is_none() {
            let problem =
                Problem::new(span, format!("the environment variable `{name}` is not set"));
            self.problems
                .push(problem.help("set it before fluke starts, or write `$$` for a dollar"));
        }
        value
    }
}

/// The longest name of a variable that `text` begins with.
fn leading_name(text: &str) -> &str {
    let is_name = |(at, c): &(usize, char)| {
        c.is_ascii_alphabetic() || *c == '_' || (*at > 0 && c.is_ascii_digit())
    };
    let end = text.char_indices().find(|part| !is_name(part)).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Lower-case names are left to the language: `for` binds them.
fn is_environment_name(name: &str) -> bool {
    leading_name(name) == name && !name.contains(|c: char| c.is_ascii_lowercase())
}
