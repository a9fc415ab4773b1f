use fluke_model::diagnostic::Severity;

use super::{MOST_COLUMNS, Source};
use crate::hcl::ast::Span;
use crate::hcl::problem::Problem;

fn problem(start: u32, end: u32) -> Problem {
    Problem::new(Span { start, end }, "wrong").help("mend it")
}

#[test]
fn columns_count_characters_as_people_see_them() {
    for (text, at, want) in [
        ("abc", 0, (1, 1)),
        ("abc", 3, (1, 4)),
        ("a\nb", 2, (2, 1)),
        ("a\r\nb", 3, (2, 1)),
        ("äö = 1", 4, (1, 3)),
        ("e\u{301}x", 3, (1, 2)),
        ("👩‍👩‍👧x", 18, (1, 2)),
        ("\u{feff}ab", 4, (1, 2)),
        ("\u{feff}ab", 0, (1, 1)),
        ("\tx", 1, (1, 2)),
        ("a\n", 2, (2, 1)),
        ("", 0, (1, 1)),
        ("a", 99, (1, 2)),
    ] {
        assert_eq!(Source::new("f", text.as_bytes()).position(at), want, "{at} in {text:?}");
    }
}

#[test]
fn a_diagnostic_carries_the_lines_of_its_span() {
    let source = Source::new("web.fluke.hcl", b"one\r\ntwo three\nfour\n");
    let diagnostic = source.diagnostic(Severity::Error, problem(9, 14));
    assert_eq!((diagnostic.line, diagnostic.column), (2, 5));
    assert_eq!((diagnostic.end_line, diagnostic.end_column), (2, 10));
    assert_eq!(diagnostic.source, ["two three"]);
    assert_eq!(diagnostic.to_string(), "web.fluke.hcl:2:5: wrong; mend it");

    let across = source.diagnostic(Severity::Warning, problem(1, 7));
    assert_eq!((across.line, across.end_line), (1, 2));
    assert_eq!(across.source, ["one", "two three"]);
}

#[test]
fn a_span_over_a_line_end_shows_only_the_line_it_is_on() {
    let source = Source::new("f", b"a = \nb = 2\n");
    let diagnostic = source.diagnostic(Severity::Error, problem(4, 5));
    assert_eq!((diagnostic.end_line, diagnostic.end_column), (2, 1));
    assert_eq!(diagnostic.source, ["a = "]);
}

#[test]
fn huge_lines_and_spans_are_cut() {
    let line = "x".repeat(1 << 20);
    let source = Source::new("f", line.as_bytes());
    let diagnostic = source.diagnostic(Severity::Error, problem(900_000, 900_001));
    assert_eq!(diagnostic.column, 900_001);
    assert_eq!(diagnostic.source[0].chars().count(), MOST_COLUMNS + 1);

    let lines = "y\n".repeat(1000);
    let source = Source::new("f", lines.as_bytes());
    let diagnostic = source.diagnostic(Severity::Error, problem(0, 2000));
    assert_eq!(diagnostic.source.len(), super::MOST_LINES);
    assert_eq!(diagnostic.end_line, 1001);
}

#[test]
fn bytes_that_are_no_text_are_shown_all_the_same() {
    let source = Source::new("f", b"ab\xff\xfecd\n");
    let diagnostic = source.diagnostic(Severity::Error, problem(2, 3));
    assert_eq!((diagnostic.line, diagnostic.column), (1, 3));
    assert_eq!(diagnostic.source, ["ab\u{fffd}\u{fffd}cd"]);
}
