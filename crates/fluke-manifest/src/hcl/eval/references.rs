//! What an expression refers to, without evaluating it.

use super::super::ast::{Expr, ExprKind, ForExpr, Ident, Part, Span};

/// A variable that an expression uses, as far as its text tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `local` of `local.port`.
    pub root: Box<str>,
    /// `port` of `local.port` or `local["port"]`; none where the whole variable is used.
    pub attribute: Option<Box<str>>,
    /// From the root to the attribute.
    pub span: Span,
}

/// Every use of a variable that comes from outside of the expression, in the order written.
pub fn references(expr: &Expr) -> Vec<Reference> {
    let mut walk = Walk { found: Vec::new(), bound: Vec::new() };
    walk.expr(expr);
    walk.found
}

struct Walk<'e> {
    found: Vec<Reference>,
    bound: Vec<&'e str>,
}

impl<'e> Walk<'e> {
    fn expr(&mut self, expr: &'e Expr) {
        match &expr.kind {
            ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::SplatItem => {}
            ExprKind::Variable(name) => self.add(name, None, expr.span),
            ExprKind::Template(parts) => self.parts(parts),
            ExprKind::GetAttr { of, name } => match &of.kind {
                ExprKind::Variable(root) => self.add(root, Some(&name.text), expr.span),
                _ => self.expr(of),
            },
            ExprKind::Index { of, key } => {
                match (&of.kind, constant(key)) {
                    (ExprKind::Variable(root), Some(name)) => {
                        self.add(root, Some(name), expr.span);
                    }
                    _ => self.expr(of),
                }
                self.expr(key);
            }
            ExprKind::Splat { of, each } => self.all([&**of, &**each]),
            ExprKind::Call { args, .. } | ExprKind::Tuple(args) => self.all(args),
            ExprKind::Object(items) => {
                for item in items {
                    if !item.literal_key {
                        self.expr(&item.key);
                    }
                    self.expr(&item.value);
                }
            }
            ExprKind::For(for_expr) => self.for_expr(for_expr),
            ExprKind::Conditional { condition, yes, no } => {
                self.all([&**condition, &**yes, &**no]);
            }
            ExprKind::Binary { left, right, .. } => self.all([&**left, &**right]),
            ExprKind::Unary { operand: inner, .. } | ExprKind::Paren(inner) => self.expr(inner),
        }
    }

    fn all(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    fn for_expr(&mut self, for_expr: &'e ForExpr) {
        self.expr(&for_expr.collection);
        self.within(for_expr.key_name.as_ref(), &for_expr.value_name, |walk| {
            walk.all(for_expr.key.iter().chain([&for_expr.value]).chain(&for_expr.condition));
        });
    }

    fn parts(&mut self, parts: &'e [Part]) {
        for part in parts {
            match part {
                Part::Literal(_) => {}
                Part::Interpolation(expr) => self.expr(expr),
                Part::If { condition, yes, no, .. } => {
                    self.expr(condition);
                    self.parts(yes);
                    self.parts(no);
                }
                Part::For { key_name, value_name, collection, body, .. } => {
                    self.expr(collection);
                    self.within(key_name.as_ref(), value_name, |walk| walk.parts(body));
                }
            }
        }
    }

    fn within(&mut self, key: Option<&'e Ident>, value: &'e Ident, walk: impl FnOnce(&mut Self)) {
        let outside = self.bound.len();
        self.bound.extend(key.map(|name| &*name.text));
        self.bound.push(&value.text);
        walk(self);
        self.bound.truncate(outside);
    }

    fn add(&mut self, root: &str, attribute: Option<&str>, span: Span) {
        if !self.bound.contains(&root) {
            self.found.push(Reference {
                root: root.into(),
                attribute: attribute.map(Into::into),
                span,
            });
        }
    }
}

/// The text of a key that is written out.
fn constant(key: &Expr) -> Option<&str> {
    match &key.kind {
        ExprKind::Template(parts) => match &parts[..] {
            [Part::Literal(text)] => Some(text),
            _ => None,
        },
        ExprKind::Paren(inner) => constant(inner),
        _ => None,
    }
}
