//! Tables of expressions and their results: a line with the expression, and an indented one with
//! what it gives. The results are those of HashiCorp's own implementation.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::super::super::budget::Budget;
use super::super::super::scope::Scope;
use super::super::super::value::Value;
use super::parse;
use crate::hcl::{eval, parse_expression};
use crate::tree::MemoryTree;

/// The variables that the tables use.
const VARIABLES: &str = r#"{
  b      = true
  big    = 123456789012345678901234567890
  el     = tolist([])
  empty  = []
  eo     = {}
  f      = 1.5
  l      = ["a", "b", "c"]
  lobjs  = tolist([{ id = 1, n = "eins" }, { id = 2, n = "zwei" }])
  mixed  = [1, "a", true, null]
  n      = 42
  nlist  = true ? null : tolist(["a"])
  nn     = [1, 2, 3]
  nstr   = tostring(null)
  nul    = null
  o      = { name = "web", age = 5, tags = ["t1", "t2"], in = { deep = { x = 1 } } }
  objs   = [{ id = 1, n = "eins" }, { id = 2, n = "zwei" }]
  s      = "node"
  tl     = tolist(["x", "y"])
  tm     = tomap({ k1 = "v1", k2 = "v2" })
  ts     = toset(["q", "p", "q"])
}"#;

/// Evaluates every expression of a table and compares what it gives.
pub(in crate::hcl) fn check_table(table: &str) {
    let budget = Budget::default();
    let variables = eval(&parse(VARIABLES), &Scope::new(&(), &budget)).expect("variables");
    let variables = variables.as_entries().expect("an object").clone();
    let tree = MemoryTree::new(Vec::<(&str, &str)>::new());
    let mut wrong = String::new();
    let mut lines = table.lines().peekable();
    while let Some(text) = lines.next() {
        let expected = lines.next().expect("a result").trim();
        let given = show(text, &variables, &tree);
        if given != expected {
            writeln!(wrong, "{text}\n    expected {expected}\n    given    {given}").expect("text");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn show(text: &str, variables: &BTreeMap<Arc<str>, Value>, tree: &MemoryTree) -> String {
    let expr = match parse_expression(text.as_bytes()) {
        Ok(expr) => expr,
        Err(problems) => return format!("not parsed: {problems:?}"),
    };
    let budget = Budget::default();
    match eval(&expr, &Scope::new(variables, &budget).with_files(tree)) {
        Ok(value @ (Value::List(_) | Value::Set(_) | Value::Map(_))) => {
            format!("{} {}", value.type_name(), value.to_json_string())
        }
        Ok(value) => value.to_json_string(),
        Err(problems) => {
            let problems = problems.iter().map(|problem| {
                let span = problem.span;
                format!("{}..{}: {}", span.start, span.end, problem.message)
            });
            format!("error at {}", problems.collect::<Vec<_>>().join(" | "))
        }
    }
}

#[test]
fn conditionals_give_one_type_and_only_the_problems_of_the_chosen_arm() {
    check_table(include_str!("conditionals.txt"));
}

#[test]
fn loops_go_through_anything_that_has_elements() {
    check_table(include_str!("loops.txt"));
}

#[test]
fn operators_convert_their_operands() {
    check_table(include_str!("operators.txt"));
}

#[test]
fn splats_take_single_values_for_lists() {
    check_table(include_str!("splats.txt"));
}

#[test]
fn templates_refuse_what_has_no_text() {
    check_table(include_str!("templates.txt"));
}

#[test]
fn traversals_say_what_is_not_there() {
    check_table(include_str!("traversals.txt"));
}

#[test]
fn everything_else_is_as_it_should_be() {
    check_table(include_str!("others.txt"));
}
