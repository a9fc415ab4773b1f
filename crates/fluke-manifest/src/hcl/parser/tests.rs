//! What parses to what, and what is said when it does not. All expectations about the language
//! were confirmed with HashiCorp's implementation.

mod expressions;
mod limits;
mod mistakes;
mod random;
mod shape;
mod structure;
mod templates;

use super::{parse, parse_expression, parse_template};
use crate::hcl::problem::Problem;
use crate::hcl::source::Source;

/// The shape of a file without mistakes.
fn file(text: &str) -> String {
    let parsed = parse(text.as_bytes());
    assert_eq!(parsed.problems, [], "in {text:?}");
    shape::body(&parsed.body)
}

/// The shape of an expression without mistakes.
fn expression(text: &str) -> String {
    match parse_expression(text.as_bytes()) {
        Ok(expr) => shape::expr(&expr),
        Err(problems) => panic!("{text:?}: {problems:#?}"),
    }
}

/// The shape of a template without mistakes.
fn template(text: &str) -> String {
    match parse_template(text.as_bytes()) {
        Ok(parts) => shape::parts(&parts),
        Err(problems) => panic!("{text:?}: {problems:#?}"),
    }
}

/// `line:column-line:column message` of every problem of a file.
fn problems(text: &str) -> Vec<String> {
    places(text, parse(text.as_bytes()).problems)
}

fn places(text: &str, problems: Vec<Problem>) -> Vec<String> {
    let source = Source::new("test.hcl", text.as_bytes());
    let place = |at| {
        let (line, column) = source.position(at);
        format!("{line}:{column}")
    };
    problems
        .iter()
        .map(|problem| {
            let Problem { span, message, .. } = problem;
            format!("{}-{} {message}", place(span.start), place(span.end))
        })
        .collect()
}

#[track_caller]
fn check(read: fn(&str) -> String, table: &[(&str, &str)]) {
    for (text, want) in table {
        assert_eq!(read(text), *want, "for {text:?}");
    }
}
