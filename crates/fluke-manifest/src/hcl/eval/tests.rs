mod limits;
mod random;
mod tables;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::ast::Expr;
use super::super::budget::Budget;
use super::super::problem::Problem;
use super::super::scope::{Lookup, Scope, Variables};
use super::super::value::Value;
use super::{eval, references};
use crate::hcl::parse_expression;

pub(in crate::hcl) use tables::check_table;

pub(in crate::hcl) fn parse(text: &str) -> Expr {
    parse_expression(text.as_bytes())
        .unwrap_or_else(|problems| panic!("{text}: {:?}", problems.first()))
}

fn problems(text: &str, variables: &dyn Variables) -> Vec<Problem> {
    let budget = Budget::new(2_000_000, 256 << 20);
    eval(&parse(text), &Scope::new(variables, &budget)).expect_err(text)
}

/// Locals that are computed when they are asked for.
struct Locals {
    exprs: BTreeMap<Arc<str>, Expr>,
    asked: RefCell<Vec<String>>,
    budget: Budget,
}

impl Locals {
    fn new(locals: &[(&str, &str)]) -> Self {
        let exprs = locals.iter().map(|(name, text)| ((*name).into(), parse(text))).collect();
        Self { exprs, asked: RefCell::default(), budget: Budget::default() }
    }

    fn eval(&self, text: &str) -> Result<Value, Vec<Problem>> {
        eval(&parse(text), &Scope::new(self, &self.budget))
    }
}

impl Variables for Locals {
    fn root(&self, name: &str) -> Lookup {
        match name {
            "local" => Lookup::Failed,
            _ => Lookup::Missing(vec!["local".into()]),
        }
    }

    fn attribute(&self, root: &str, name: &str) -> Option<Lookup> {
        if root != "local" {
            return None;
        }
        self.asked.borrow_mut().push(name.into());
        let Some(expr) = self.exprs.get(name) else {
            return Some(Lookup::Missing(self.exprs.keys().cloned().collect()));
        };
        let outcome = eval(expr, &Scope::new(self, &self.budget));
        Some(outcome.map_or(Lookup::Failed, Lookup::Found))
    }
}

#[test]
fn locals_are_computed_when_they_are_asked_for() {
    let locals = Locals::new(&[("a", "1"), ("b", "local.a + 1"), ("unused", "1 / 0")]);
    let sum = locals.eval(r#"local.b + local["a"]"#).expect("a sum");
    assert_eq!(sum, Value::from(3));
    assert_eq!(*locals.asked.borrow(), ["b", "a", "a"]);
}

#[test]
fn a_broken_local_is_not_reported_again_where_it_is_used() {
    let locals = Locals::new(&[("broken", "1 / 0")]);
    assert_eq!(locals.eval("local.broken + 1"), Err(vec![]));
    let found = locals.eval("[local.broken, nope]").expect_err("one problem");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(locals.eval("try(local.broken, 5)").expect("the fallback"), Value::from(5));
}

#[test]
fn unknown_names_come_with_what_was_meant() {
    let locals = Locals::new(&[("app_dir", "1")]);
    let cases = [
        ("local.app_dri", "did you mean `app_dir`?"),
        ("locals.app_dir", "did you mean `local`?"),
        ("uper(\"x\")", "did you mean `upper`?"),
        ("{ port = 1 }.prot", "did you mean `port`?"),
        ("{ port = 1 }[\"prot\"]", "did you mean `port`?"),
        ("[for item in [1] : itme]", "did you mean `item`?"),
    ];
    for (text, help) in cases {
        let found = locals.eval(text).expect_err(text);
        assert_eq!(found[0].help.as_deref(), Some(help), "{text}");
    }
}

#[test]
fn independent_problems_are_all_reported_and_repeated_ones_once() {
    let found = problems("[a, { b = c, d = upper(e, []) }, \"${f}${g}\"]", &());
    let spans: Vec<u32> = found.iter().map(|problem| problem.span.start).collect();
    assert_eq!(spans, [1, 10, 23, 36, 40]);
    assert_eq!(problems("[for i in range(1000) : i + nope]", &()).len(), 1);
    assert_eq!(problems("[for i in range(1000) : [][i]]", &()).len(), 10);
}

#[test]
fn references_leave_out_what_is_bound_inside() {
    let text = r#"[for k, v in local.map : "${v}${k}${local.name}" if v != other["x"]]"#;
    let found: Vec<(String, Option<String>)> = references(&parse(text))
        .into_iter()
        .map(|it| (it.root.into(), it.attribute.map(Into::into)))
        .collect();
    let expected = [("local", Some("map")), ("local", Some("name")), ("other", Some("x"))];
    assert_eq!(found, expected.map(|(root, name)| (root.to_string(), name.map(str::to_string))));
    assert_eq!(references(&parse("[for local in [1] : local.a]")), []);
    assert_eq!(references(&parse("{ key = 1, (key) = 2 }")).len(), 1);
    let whole = references(&parse("keys(local)"));
    assert_eq!((whole[0].attribute.as_deref(), whole[0].span.start), (None, 5));
    let template =
        references(&parse("\"%{ for x in xs }${x}${y}%{ endfor }%{ if z }a%{ endif }\""));
    let roots: Vec<&str> = template.iter().map(|it| &*it.root).collect();
    assert_eq!(roots, ["xs", "y", "z"]);
}
