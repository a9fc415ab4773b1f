use fluke_manifest::hcl::parse;
use proptest::prelude::*;

use super::*;

fn environment(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("s3cret".into()),
        "ODD" => Some("a$TOKEN${TOKEN}$$".into()),
        "EMPTY" => Some(String::new()),
        "lower" => Some("case".into()),
        _ => None,
    }
}

/// All text of a template that holds nothing but text.
fn text(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Template(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Literal(text) => text.to_string(),
                Part::Interpolation(inner) => text_of_literal(inner),
                other => panic!("not a plain string: {other:?}"),
            })
            .collect(),
        other => panic!("not a string: {other:?}"),
    }
}

fn text_of_literal(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Template(_) => text(expr),
        other => panic!("left to the language: {other:?}"),
    }
}

fn expanded(source: &str) -> (Body, Vec<Problem>) {
    let parsed = parse(source.as_bytes());
    assert_eq!(parsed.problems, [], "{source}");
    let mut body = parsed.body;
    let problems = expand(&mut body, &environment);
    (body, problems)
}

#[test]
fn references_are_replaced_in_every_spelling() {
    for (written, meant) in [
        (r#""plain""#, "plain"),
        (r#""$TOKEN""#, "s3cret"),
        (r#""${TOKEN}""#, "s3cret"),
        (r#""a-$TOKEN-b""#, "a-s3cret-b"),
        (r#""a${TOKEN}b$TOKEN""#, "as3cretbs3cret"),
        (r#""$TOKEN$TOKEN""#, "s3crets3cret"),
        (r#""$lower""#, "case"),
        (r#""[$EMPTY]""#, "[]"),
        (r#""$$""#, "$"),
        (r#""$$TOKEN""#, "$TOKEN"),
        (r#""$$$TOKEN""#, "$s3cret"),
        (r#""$${TOKEN}""#, "${TOKEN}"),
        (r#""100$ and $5""#, "100$ and $5"),
        (r#""ends in $""#, "ends in $"),
        ("<<E\nurl: $TOKEN\nE\n", "url: s3cret\n"),
    ] {
        let (body, problems) = expanded(&format!("x = {written}\n"));
        assert_eq!(problems, [], "{written}");
        assert_eq!(text(&body.attributes[0].value), meant, "{written}");
    }
}

#[test]
fn what_a_variable_holds_is_never_looked_at_again() {
    for written in [r#""$ODD""#, r#""${ODD}""#] {
        let (body, problems) = expanded(&format!("x = {written}\n"));
        assert_eq!(problems, []);
        assert_eq!(text(&body.attributes[0].value), "a$TOKEN${TOKEN}$$");
    }
}

#[test]
fn every_variable_that_is_not_set_is_named_where_it_stands() {
    let source = "x = \"$NONE\"\nserver {\n  y = [\"ok\", \"a${MISSING}\"]\n}\n";
    let (_, problems) = expanded(source);
    let told: Vec<(&str, &str)> = problems
        .iter()
        .map(|p| (p.message.as_str(), &source[p.span.start as usize..p.span.end as usize]))
        .collect();
    assert_eq!(
        told,
        [
            ("the environment variable `NONE` is not set", "\"$NONE\""),
            ("the environment variable `MISSING` is not set", "MISSING"),
        ]
    );
}

#[test]
fn strings_are_found_wherever_they_are() {
    let source = r#"
x = { "$TOKEN" = ["$TOKEN"], k = true ? upper("$TOKEN") : "" }
y = [for n in ["$TOKEN"] : "${n}-$TOKEN" if n != "$TOKEN"]
z = "%{ if true }$TOKEN%{ endif }%{ for n in [] }$TOKEN%{ endfor }"
"#;
    let (body, problems) = expanded(source);
    assert_eq!(problems, []);
    let shown = format!("{body:?}");
    assert!(!shown.contains("$TOKEN"), "{shown}");
    assert_eq!(shown.matches("s3cret").count(), 8, "{shown}");
}

#[test]
fn only_strings_see_the_environment() {
    let (body, problems) = expanded("x = TOKEN\n");
    assert_eq!(problems, []);
    assert!(
        matches!(&body.attributes[0].value.kind, ExprKind::Variable(name) if &**name == "TOKEN")
    );
}

proptest! {
    #[test]
    fn no_file_is_too_strange(source in "\\PC{0,80}|[a-z$A-Z{}=\"\\[\\]% \n<~.]{0,80}") {
        let mut body = parse(source.as_bytes()).body;
        expand(&mut body, &environment);
    }

    #[test]
    fn text_without_dollars_stays_as_it_is(text in "[^$%\"\\\\\\x00-\\x1f\\x7f]{0,40}") {
        let mut expander = Expander { environment: &|_| None, problems: Vec::new() };
        prop_assert_eq!(expander.text(&text, Span::default()), text);
        prop_assert!(expander.problems.is_empty());
    }
}
