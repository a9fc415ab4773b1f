//! Random texts: nothing panics, everything ends, every place is within the text; and what is
//! written from a known tree is read as that tree.

use proptest::prelude::*;

use super::{expression, parse, parse_expression, parse_template, shape};
use crate::hcl::ast::{Body, Span};
use crate::hcl::problem::Problem;

const TOKENS: [&str; 72] = [
    "\"", "${", "${~", "%{", "}", "~}", "$", "%", "$${", "%%{", "{", "[", "]", "(", ")", "=", "==",
    "=>", "!=", "\n", "\r\n", " ", "  ", "\t", ",", ".", "..", "...", "*", ".*", "[*]", "a", "b.c",
    "for", "in", "if", "else", "endif", "endfor", "1", "0.5", "1e3", "?", ":", "::", "!", "-", "+",
    "<<E\n", "<<-E\n", "E\n", "\nE\n", "# x\n", "/* c */", "/*", "//", "\\n", "\\", "\\u00e9", "é",
    "e\u{301}", "'", "`", "“", ";", "&", "||", "x = 1\n", "b {\n", "}\n", "\u{1b}", "\u{feff}",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&TOKENS[..]), 0..60).prop_map(|all| all.concat())
}

fn check_span(span: Span, text: &[u8]) {
    assert!(span.start <= span.end, "{span:?}");
    assert!(span.end as usize <= text.len(), "{span:?} in {} bytes", text.len());
    if let Ok(text) = std::str::from_utf8(text) {
        assert!(text.get(span.start as usize..span.end as usize).is_some(), "{span:?} cuts");
    }
}

fn check_body(body: &Body, text: &[u8]) {
    check_span(body.span, text);
    for attribute in &body.attributes {
        check_span(attribute.name.span, text);
        check_span(attribute.value.span, text);
    }
    for block in &body.blocks {
        check_span(block.span, text);
        check_span(block.header(), text);
        check_body(&block.body, text);
    }
}

fn check_problems(problems: &[Problem], text: &[u8]) {
    problems.iter().for_each(|problem| check_span(problem.span, text));
}

fn check_all(text: &[u8]) {
    let parsed = parse(text);
    check_body(&parsed.body, text);
    check_problems(&parsed.problems, text);
    match parse_expression(text) {
        Ok(expr) => check_span(expr.span, text),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            check_problems(&problems, text);
        }
    }
    if let Err(problems) = parse_template(text) {
        assert!(!problems.is_empty(), "refused without a reason");
        check_problems(&problems, text);
    }
}

/// An expression as text and as shape; operators only in parentheses, so that strength does not
/// matter.
fn written() -> impl Strategy<Value = (String, String)> {
    let leaf = prop_oneof![
        "[a-z][a-z0-9_]{0,5}"
            .prop_filter("no word of the language", |name| {
                !["true", "false", "null", "for", "in", "if"].contains(&name.as_str())
            })
            .prop_map(|name| (name.clone(), name)),
        (0u32..1000).prop_map(|number| (number.to_string(), number.to_string())),
        Just(("null".into(), "null".into())),
        Just(("true".into(), "true".into())),
        "[ -!#&-\\[\\]-~é]{0,8}".prop_map(|text| {
            let shape = if text.is_empty() { String::new() } else { format!("{text:?}") };
            (format!("\"{text}\""), format!("t[{shape}]"))
        }),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        let operators = vec!["+", "-", "*", "/", "%", "==", "!=", "<", ">", "<=", ">=", "&&", "||"];
        let operator = prop::sample::select(operators);
        let one = inner.clone();
        prop_oneof![
            list.clone().prop_map(|items| {
                let (text, shape): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                (format!("[{}]", text.join(", ")), format!("[{}]", shape.join(" ")))
            }),
            list.prop_map(|items| {
                let text: String =
                    items.iter().map(|(text, _)| format!("\n  k = {text}")).collect();
                let shape: Vec<_> = items.iter().map(|(_, shape)| format!("'k={shape}")).collect();
                (format!("{{{text}\n}}"), format!("{{{}}}", shape.join(" ")))
            }),
            (one.clone(), operator, one.clone()).prop_map(|((a, sa), operator, (b, sb))| {
                (format!("(({a}) {operator} ({b}))"), {
                    format!("(paren ({operator} (paren {sa}) (paren {sb})))")
                })
            }),
            (one.clone(), one.clone(), one.clone()).prop_map(|((a, sa), (b, sb), (c, sc))| {
                (format!("({a} ? {b} : {c})"), format!("(paren (? {sa} {sb} {sc}))"))
            }),
            one.clone().prop_map(|(a, sa)| (format!("(!{a})"), format!("(paren (not {sa}))"))),
            one.clone().prop_map(|(a, sa)| (format!("({a}).x[0]"), {
                format!("(idx (. (paren {sa}) x) 0)")
            })),
            one.clone().prop_map(|(a, sa)| (format!("({a})[*].x"), {
                format!("(splat (paren {sa}) (. @ x))")
            })),
            one.clone().prop_map(|(a, sa)| (format!("f({a}, 1...)"), format!("(f {sa} 1...)"))),
            one.clone().prop_map(|(a, sa)| (format!("\"<${{ {a} }}>\""), {
                format!("t[\"<\" ${{{sa}}} \">\"]")
            })),
            (one.clone(), one).prop_map(|((a, sa), (b, sb))| {
                (format!("[for x in {a} : {b} if x]"), format!("(for x {sa} {sb} if x)"))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn random_bytes_never_break_anything(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_all(&bytes);
    }

    #[test]
    fn random_characters_never_break_anything(text in "\\PC{0,80}") {
        check_all(text.as_bytes());
    }

    #[test]
    fn random_tokens_never_break_anything(text in soup()) {
        check_all(text.as_bytes());
    }

    #[test]
    fn what_is_written_from_a_tree_is_read_as_that_tree((text, want) in written()) {
        prop_assert_eq!(expression(&text), want.clone());
        let parsed = parse(format!("a {{\n  b = {text}\n}}\n").as_bytes());
        prop_assert_eq!(shape::body(&parsed.body), format!("<a <b={want}>>"));
    }
}
