use fluke_model::diagnostic::{Diagnostic, Severity};
use proptest::prelude::*;

use super::to_text;
use crate::hcl;
use crate::hcl::source::Source;

fn rendered(text: &str) -> String {
    let source = Source::new("web.fluke.hcl", text.as_bytes());
    to_text(&source.errors(hcl::parse(text.as_bytes()).problems), false)
}

#[test]
fn every_problem_is_shown_with_its_line_and_a_caret() {
    insta::assert_snapshot!(rendered("task \"a\" {\n  x = 1 2\n  größe = [1,, 2]\n}\n"), @r#"
    error: expected an operator or a new line behind the value, found the number `2`
     --> web.fluke.hcl:2:9
      |
    2 |   x = 1 2
      |         ^

    error: expected a value, found `,`
     --> web.fluke.hcl:3:14
      |
    3 |   größe = [1,, 2]
      |              ^
    "#);
}

#[test]
fn help_stands_below_and_line_ends_get_a_caret_too() {
    insta::assert_snapshot!(rendered("task \"a\"\n{\n}\n"), @r#"
    error: expected `{`, found the end of the line
     --> web.fluke.hcl:1:9
      |
    1 | task "a"
      |         ^
      |
      = help: the `{` stands on the line of the block's name and labels
    "#);
}

#[test]
fn hostile_text_cannot_reach_the_terminal() {
    let hostile = "a = \u{1b}[2J\u{202e} ] \u{7} \u{9b}\n";
    let text = rendered(hostile);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert!(!text.contains('\u{202e}'), "{text:?}");
    assert!(text.contains("a = ␛[2J"), "{text}");
}

fn diagnostic(source: &[&str]) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        message: "odd".into(),
        help: None,
        file: "f.hcl".into(),
        line: 7,
        column: 3,
        end_line: 7,
        end_column: 5,
        source: source.iter().map(|line| (*line).to_owned()).collect(),
    }
}

#[test]
fn a_diagnostic_without_lines_still_has_its_place() {
    assert_eq!(to_text(&[diagnostic(&[])], false), "warning: odd\n--> f.hcl:7:3\n");
}

#[test]
fn colours_come_only_when_wanted() {
    assert!(to_text(&[diagnostic(&["abcdef"])], true).contains('\u{1b}'));
    assert!(!to_text(&[diagnostic(&["abcdef"])], false).contains('\u{1b}'));
    assert_eq!(to_text(&[], true), "");
}

proptest! {
    #[test]
    fn diagnostics_from_elsewhere_never_break_it(
        lines in prop::collection::vec("\\PC{0,20}|[\\x00-\\x1f\\u{80}-\\u{9f}]{0,4}", 0..4),
        places in any::<[u16; 4]>(),
        message in "\\PC{0,20}",
    ) {
        let [line, column, end_line, end_column] = places.map(u32::from);
        let diagnostic = Diagnostic {
            line, column, end_line, end_column, message,
            source: lines,
            ..diagnostic(&[])
        };
        to_text(&[diagnostic], true);
    }
}
