use super::{check, file};
use crate::hcl::ast::Span;
use crate::hcl::parse;

#[test]
fn attributes_and_blocks() {
    check(
        file,
        &[
            ("", "<>"),
            ("\n\n", "<>"),
            ("a = 1", "<a=1>"),
            ("a = 1\nb = 2\n", "<a=1; b=2>"),
            ("a {}\n", "<a <>>"),
            ("a {\n}\n", "<a <>>"),
            ("a \"b\" c {\n  d = 1\n}\n", "<a \"b\" \"c\" <d=1>>"),
            ("a { b = 1 }\n", "<a <b=1>>"),
            ("a { b = { c = 1 } }", "<a <b={'c=1}>>"),
            ("a { b = [\n1,\n] }\n", "<a <b=[1]>>"),
            ("a {\n  b {\n    c {}\n  }\n  d = 1\n}\n", "<a <d=1; b <c <>>>>"),
            ("a \"x\\ty\" {}\n", "<a \"x\\ty\" <>>"),
            ("for = 1\nif = 2\nnull = 3\n", "<for=1; if=2; null=3>"),
            ("\u{feff}a = 1\n", "<a=1>"),
            ("a = 1\r\nb {\r\n}\r\n", "<a=1; b <>>"),
            ("a\t=\t1\n", "<a=1>"),
        ],
    );
}

#[test]
fn comments_are_nothing_and_the_line_ends_of_comments_are_line_ends() {
    check(
        file,
        &[
            ("# x\n// y\n/* z\n z */\n", "<>"),
            ("a = 1 # x\nb = 2 // y\n", "<a=1; b=2>"),
            ("a /* x */ = /* y */ 1 /* z */\n", "<a=1>"),
            ("a { # x\n}\n", "<a <>>"),
            ("a = 1 # at the end", "<a=1>"),
            ("/* ** / */ a = 1", "<a=1>"),
            ("a = [ # x\n 1, // y\n]\n", "<a=[1]>"),
        ],
    );
}

#[test]
fn blocks_and_bodies_know_their_places() {
    let text = "task \"a\" {\n  x = 1\n}\n";
    let parsed = parse(text.as_bytes());
    let block = &parsed.body.blocks[0];
    assert_eq!(block.header(), Span { start: 0, end: 8 });
    assert_eq!(block.span, Span { start: 0, end: 20 });
    assert_eq!(block.labels[0].span, Span { start: 5, end: 8 });
    assert_eq!(block.body.span, Span { start: 10, end: 19 });
    assert_eq!(block.body.attributes[0].name.span, Span { start: 13, end: 14 });
    assert_eq!(parsed.body.span, Span { start: 0, end: 21 });
}
