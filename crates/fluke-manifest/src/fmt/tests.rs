use proptest::prelude::*;

use super::format;
use crate::hcl::lexer::{Kind, Lexer};

#[track_caller]
fn check(table: &[(&str, &str)]) {
    for (text, want) in table {
        assert_eq!(format(text).expect("it is correct"), *want, "for {text:?}");
        assert_eq!(format(want).expect("it is correct"), *want, "again for {text:?}");
    }
}

#[test]
fn spaces_go_around_operators_and_not_inside_brackets() {
    check(&[
        ("a=1", "a = 1"),
        ("a   =    1\n", "a = 1\n"),
        ("a=b+c*2", "a = b + c * 2"),
        ("a=( 1+2 )", "a = (1 + 2)"),
        ("a=[ 1,2 , 3 ]", "a = [1, 2, 3]"),
        ("a={b=1,c:2}", "a = { b = 1, c : 2 }"),
        ("a={ }", "a = {}"),
        ("a=f ( x , y ... )", "a = f(x, y...)"),
        ("a=ns :: f(1)", "a = ns::f(1)"),
        ("a=b . c [ 0 ]", "a = b.c[0]"),
        ("a=b?c:d", "a = b ? c : d"),
        ("a=! b&&- c", "a = !b && -c"),
        ("a=b-c", "a = b-c"),
        ("a=1 -2", "a = 1 - 2"),
        ("a=1 * -2", "a = 1 * -2"),
        ("a=[for x in[1]:x if x]", "a = [for x in [1] : x if x]"),
        ("a={for k,v in b:k=>v...}", "a = { for k, v in b : k => v... }"),
        ("a=b [*] . c", "a = b[*].c"),
        ("b{a=1}\n", "b { a = 1 }\n"),
        ("b   \"l\"{}\n", "b \"l\" {}\n"),
    ]);
}

#[test]
fn templates_stay_as_they_are_but_for_their_expressions() {
    check(&[
        ("a=\"  x  ${  b  }  y  \"", "a = \"  x  ${b}  y  \""),
        ("a=\"${ {b=1} }\"", "a = \"${ { b = 1 } }\""),
        ("a=\"%{if b}x%{ endif ~}\"", "a = \"%{if b}x%{endif~}\""),
        ("a=<<E\n  x  ${ b }\n  E\n", "a = <<E\n  x  ${b}\n  E\n"),
    ]);
}

#[test]
fn neighbouring_lines_are_aligned() {
    check(&[
        ("a = 1\nlong = 2\n", "a    = 1\nlong = 2\n"),
        ("a = 1\n\nlong = 2\n", "a = 1\n\nlong = 2\n"),
        ("a = 1 # x\nlong = 22 # y\n", "a    = 1  # x\nlong = 22 # y\n"),
        ("a = [\n1\n]\nlong = 2\n", "a = [\n  1\n]\nlong = 2\n"),
        ("größe = 1\na = 2\n", "größe = 1\na     = 2\n"),
        ("a = 1\n# between\nlong = 2\n", "a = 1\n# between\nlong = 2\n"),
    ]);
}

#[test]
fn lines_are_indented_by_what_is_open() {
    check(&[
        ("a{\nb{\nc=1\n}\n}\n", "a {\n  b {\n    c = 1\n  }\n}\n"),
        ("a=f([\n1,\n])\n", "a = f([\n  1,\n])\n"),
        ("a = {\n      b = 1\n\t\tc = 2\n  }\n", "a = {\n  b = 1\n  c = 2\n}\n"),
        ("   # comment\n  a=1", "# comment\na = 1"),
        ("a {\n# comment\n\n\n}\n", "a {\n  # comment\n\n\n}\n"),
    ]);
}

#[test]
fn an_index_never_becomes_a_fraction() {
    check(&[("a=b.0 .1", "a = b.0. 1"), ("a = 1 . e5", "a = 1. e5")]);
}

#[test]
fn what_does_not_parse_is_not_touched() {
    let problems = format("a = [1 2]\n").expect_err("a comma is missing");
    assert_eq!(problems.len(), 1);
}

/// Everything but white space between tokens.
fn tokens(text: &str) -> Vec<(Kind, String)> {
    let mut lexer = Lexer::code(text);
    let mut all = Vec::new();
    loop {
        let token = lexer.next();
        if token.kind == Kind::End {
            return all;
        }
        all.push((token.kind, lexer.slice(token.span).to_owned()));
    }
}

/// Something that may stand between two tokens.
fn gap() -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(vec!["", "", " ", "  ", "\t", " /* c */ "])
}

fn line_end() -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(vec!["\n", "\n", "\r\n", "\n\n", " # c\n", "// d\n"])
}

fn value() -> impl Strategy<Value = String> + Clone {
    let leaf = prop::sample::select(vec![
        "1",
        "0.5",
        "a",
        "long_name",
        "x-y",
        "\"text  here\"",
        "\"${ a }  \"",
        "b . c",
        "b.0 .1",
        "b [0]",
        "b[*].c",
        "b.*.c",
        "null",
        "ns::f(1)",
        "\"%{ if a }b%{ endif }\"",
        "1 . e5",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let operators = vec!["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||"];
        let operator = prop::sample::select(operators);
        let (one, two, three) = (inner.clone(), inner.clone(), inner.clone());
        let many = prop::collection::vec((gap(), inner, gap(), line_end()), 0..4);
        prop_oneof![
            (gap(), one.clone(), gap()).prop_map(|(a, x, b)| format!("({a}{x}{b})")),
            (gap(), one.clone()).prop_map(|(a, x)| format!("-{a}{x}")),
            (gap(), one.clone()).prop_map(|(a, x)| format!("!{a}{x}")),
            (one.clone(), operator, gap(), two.clone())
                .prop_map(|(x, sign, a, y)| format!("{x} {sign}{a} {y}")),
            (one.clone(), gap(), two.clone(), three)
                .prop_map(|(x, a, y, z)| format!("({x}{a}?{a}{y}{a}:{a}{z})")),
            (one.clone(), gap()).prop_map(|(x, a)| format!("f{a}({a}{x}{a},{a}1{a})")),
            (one.clone(), two).prop_map(|(x, y)| format!("[for i in {x}:{y}]")),
            one.prop_map(|x| format!("\"<${{ {x} }}>\"")),
            many.clone().prop_map(|items| {
                let item = |(a, x, b, end)| format!("{a}{x}{b},{end}");
                format!("[\n{}]", items.into_iter().map(item).collect::<String>())
            }),
            many.prop_map(|items| {
                let item = |(a, x, b, end)| format!("{a}k{b}={a}{x}{end}");
                format!("{{\n{}}}", items.into_iter().map(item).collect::<String>())
            }),
        ]
    })
}

fn body() -> impl Strategy<Value = String> {
    let attribute = (gap(), value(), gap(), line_end())
        .prop_map(|(a, value, b, end)| format!("{a}NAME{b}={a}{value}{b}{end}"));
    let heredoc = gap().prop_map(|a| format!("NAME{a}=<<-E\n  x ${{{a}y{a}}}  z\n   E\n"));
    let items = prop::collection::vec(prop_oneof![4 => attribute, 1 => heredoc], 0..5);
    let items = items.prop_map(|items| {
        let named = |(at, item): (usize, String)| item.replace("NAME", &format!("n{}", at * 7));
        items.into_iter().enumerate().map(named).collect::<String>()
    });
    (items.clone(), gap(), line_end(), items)
        .prop_map(|(inner, a, end, outer)| format!("b{a}\"l\"{a}{{{end}{inner}{a}}}{end}{outer}"))
}

proptest! {
    #[test]
    fn formatting_changes_white_space_only_and_once(text in body()) {
        let formatted = format(&text).expect("it is correct");
        prop_assert_eq!(tokens(&formatted), tokens(&text));
        prop_assert_eq!(format(&formatted).expect("it is still correct"), formatted);
    }
}
