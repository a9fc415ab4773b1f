use super::{parse_expression, parse_template, places, problems};
use crate::hcl::parse;

#[track_caller]
fn check(table: &[(&str, &[&str])]) {
    for (text, want) in table {
        assert_eq!(problems(text), *want, "for {text:?}");
    }
}

#[test]
fn blocks_on_one_line_hold_one_attribute() {
    let one = "expected `}`, found";
    check(&[
        ("a { b = 1, c = 2 }\n", &[&format!("1:10-1:11 {one} `,`")]),
        ("a { b = 1\n}\n", &[&format!("1:10-2:1 {one} the end of the line")]),
        ("a { b = 1\n  c = 2 }\nd = 3\n", &[&format!("1:10-2:1 {one} the end of the line")]),
        ("a { b = 1 c = 2 }\n", &[&format!("1:11-1:12 {one} the name `c`")]),
        ("a { b {} }\n", &["1:5-1:8 a block on one line holds one attribute only"]),
        ("a {\n  b = 1 }\n", &["2:9-2:10 expected a new line behind the attribute, found `}`"]),
    ]);
}

#[test]
fn several_mistakes_are_all_told_and_none_twice() {
    let text = "\
a { b = 1, c = 2 }
a { b = 1
}
a { d {} }
e = [1 2]
f = foo(
g = 7 8
h 5
i = \"open
";
    assert_eq!(
        problems(text),
        [
            "1:10-1:11 expected `}`, found `,`",
            "2:10-3:1 expected `}`, found the end of the line",
            "4:5-4:8 a block on one line holds one attribute only",
            "5:8-5:9 expected an operator, `,` or `]`, found the number `2`",
            "6:8-6:9 this `(` is never closed",
            "7:7-7:8 expected an operator or a new line behind the value, found the number `8`",
            "8:3-8:4 expected `=` or `{` behind `h`, found the number `5`",
            "9:5-9:10 this string has no closing `\"` on its line",
        ]
    );
}

#[test]
fn the_opening_is_pointed_at_when_the_closing_is_missing() {
    check(&[
        ("a {", &["1:3-1:4 this `{` is never closed"]),
        ("a {\n  b = 1\n", &["1:3-1:4 this `{` is never closed"]),
        ("a {\n  b {\n  }\n", &["1:3-1:4 this `{` is never closed"]),
        ("a = [1,\n", &["1:5-1:6 this `[` is never closed"]),
        ("a = [1, 2\nb = 3\n", &["1:5-1:6 this `[` is never closed"]),
        ("a {\n  b = f(1\n}\nc = 2\n", &["2:8-2:9 this `(` is never closed"]),
        ("a = {\n  b = [1\n  c = 2\n}\nd = 3\n", &["2:7-2:8 this `[` is never closed"]),
        ("a = {\n  b = 1\n", &["1:5-1:6 this `{` is never closed"]),
        ("a = \"x ${b\"\nc = 1\n", &["1:8-1:10 this `${` is never closed"]),
        ("a = <<E\n${b\nE\nc = 1\n", &["2:1-2:3 this `${` is never closed"]),
        ("a = <<E\nx\n", &["1:5-1:8 this heredoc is never closed"]),
        ("a = <<E\nx\nE", &["1:5-1:8 this heredoc is never closed"]),
        ("/* x\n", &["1:1-1:3 this comment is never closed"]),
        ("a = \"x", &["1:5-1:7 this string is never closed"]),
        ("a = \"%{ if b }x\"\n", &["1:6-1:15 this `%{ if }` has no `%{ endif }`"]),
    ]);
}

#[test]
fn what_is_found_is_said_in_words() {
    check(&[
        ("a = \n", &["1:5-2:1 expected a value, found the end of the line"]),
        ("a =", &["1:4-1:4 expected a value, found the end of the file"]),
        (
            "a = ]\nb = )\n",
            &["1:5-1:6 expected a value, found `]`", "2:5-2:6 expected a value, found `)`"],
        ),
        ("a = 1, b = 2\n", &["1:6-1:7 expected a new line behind the attribute, found `,`"]),
        (
            "a = 1 b = 2\n",
            &["1:7-1:8 expected a new line behind the attribute, found the name `b`"],
        ),
        ("a {} b {}\n", &["1:6-1:7 expected a new line behind the block, found the name `b`"]),
        ("a: 1\n", &["1:2-1:3 expected `=` or `{` behind `a`, found `:`"]),
        ("a.b = 1\n", &["1:2-1:3 expected `=` or `{` behind `a`, found `.`"]),
        ("a\n", &["1:2-2:1 expected `=` or `{` behind `a`, found the end of the line"]),
        ("a \"b\" = 1\n", &["1:7-1:8 expected `{`, found `=`"]),
        ("\"a\" = 1\n", &["1:1-1:2 expected the name of an attribute or block, found a string"]),
        ("5\n", &["1:1-1:2 expected an attribute or a block, found the number `5`"]),
        ("}\na = 1\n", &["1:1-1:2 this `}` closes nothing"]),
        ("a = 1 }\n", &["1:7-1:8 this `}` closes nothing"]),
        (
            "a = b.\n",
            &[
                "1:7-2:1 expected the name of an attribute behind the dot, found the end of the line",
            ],
        ),
        ("a = b ? c\n", &["1:10-2:1 expected `:` and the other value, found the end of the line"]),
        ("a = f(b..., c)\n", &["1:11-1:12 expected `)` behind `...`, found `,`"]),
        (
            "a = x::1()\n",
            &["1:8-1:9 expected the name of a function behind `::`, found the number `1`"],
        ),
        ("a = b.*.*\n", &["1:9-1:10 expected a name, found `*`"]),
    ]);
}

#[test]
fn characters_without_meaning_are_told_once() {
    check(&[
        (
            "a = 'x'\nb = 'y'\n",
            &["1:5-1:8 single quotes do not quote text", "2:5-2:8 single quotes do not quote text"],
        ),
        (
            "task 'x' {\n  a = `y`\n}\n",
            &["1:6-1:9 single quotes do not quote text", "2:7-2:10 backticks do not quote text"],
        ),
        ("a = “x”\n", &["1:5-1:8 curly quotes do not quote text"]),
        ("a = 1;\n", &["1:6-1:7 `;` has no meaning here"]),
        ("a = b & c\n", &["1:7-1:8 `&` is not an operator"]),
        ("a = b @ c\n", &["1:7-1:8 `@` has no meaning here"]),
        (
            "a =\u{a0}1\n",
            &["1:4-1:5 U+00A0, which looks like a space or like nothing, has no meaning here"],
        ),
        ("a = 1\rb = 2\n", &["1:6-1:7 a carriage return without a line feed has no meaning here"]),
        ("a = \u{1b}[0m\n", &["1:5-1:6 the control character U+001B has no meaning here"]),
    ]);
}

#[test]
fn strings_stay_on_their_line() {
    check(&[
        ("a = \"x\nb = 1\n", &["1:5-1:7 this string has no closing `\"` on its line"]),
        ("a = \"x\ny z\"\nb = 1\n", &["1:5-1:7 this string has no closing `\"` on its line"]),
        ("task \"a {\n  b = 1\n}\n", &["1:6-1:10 this string has no closing `\"` on its line"]),
        ("a = \"\\q\"\n", &["1:6-1:8 unknown escape `\\q`"]),
        ("a = \"\\u12x\"\n", &["1:6-1:10 `\\u` needs 4 hexadecimal digits"]),
        ("a = \"\\ud800\"\n", &["1:6-1:12 `\\ud800` is not a character of Unicode"]),
        ("a \"${b}\" {}\n", &["1:4-1:6 a label is plain text, without templates"]),
    ]);
}

#[test]
fn attributes_are_set_once() {
    check(&[
        ("a = 1\nb = 2\na = 3\n", &["3:1-3:2 `a` is set twice"]),
        ("a = ]\na = 2\n", &["1:5-1:6 expected a value, found `]`", "2:1-2:2 `a` is set twice"]),
        ("x {\n  a = 1\n  a = 2\n}\na = 3\n", &["3:3-3:4 `a` is set twice"]),
    ]);
    let parsed = parse(b"a = 1\na = 2\n");
    assert_eq!(parsed.body.attributes.len(), 1);
    assert_eq!(
        parsed.problems[0].help.as_deref(),
        Some("it is set on line 1 already; remove one of them")
    );
    let many: String = (0..40).map(|at| format!("a{} = 1\n", at % 20)).collect();
    assert_eq!(problems(&many).len(), 20);
}

#[test]
fn objects_tell_of_every_item() {
    let text = "a = {\n  b 1\n  c { x = 1 }\n  d = 1 e = 2\n  f.g = 3\n  h = [1 2]\n}\ni = 1\n";
    assert_eq!(
        problems(text),
        [
            "2:5-2:6 expected `=` and a value behind `b`, found the number `1`",
            "3:5-3:6 expected `=` and a value, found `{`",
            "4:9-4:10 expected `,`, a new line or `}`, found the name `e`",
            "5:3-5:6 the key `f.g` is ambiguous",
            "6:10-6:11 expected an operator, `,` or `]`, found the number `2`",
        ]
    );
}

#[test]
fn for_expressions_have_their_forms() {
    check(&[
        ("a = [for x in y]\n", &["1:16-1:17 expected `:` and the result of the `for`, found `]`"]),
        (
            "a = [for 1 in y : x]\n",
            &["1:10-1:11 expected a name for the elements behind `for`, found the number `1`"],
        ),
        ("a = [for x of y : x]\n", &["1:12-1:14 expected `in`, found the name `of`"]),
        ("a = {for x in y : x}\n", &["1:19-1:20 a `for` in braces needs a key"]),
        ("a = [for x in y : x => x]\n", &["1:19-1:20 a `for` in brackets has no key"]),
        ("a = [for x in y : x...]\n", &["1:20-1:23 `...` groups by key, and here is none"]),
    ]);
}

#[test]
fn blocks_begin_on_the_line_of_their_name() {
    let missing = "expected `{`, found the end of the line";
    check(&[
        ("a \"b\"\n{\n  c = 1\n}\nd = 2\n", &[&format!("1:6-2:1 {missing}")]),
        ("a \"b\"\n  c = 1\n}\nd = 2\n", &[&format!("1:6-2:1 {missing}")]),
        ("a \"b\"\nc = 1\n", &[&format!("1:6-2:1 {missing}")]),
    ]);
}

#[test]
fn sequences_of_other_languages_are_told_with_advice() {
    let text = "a = <<E\n${VAR:-x} ${ok} ${b c}\n%{ iff x }\nE\n";
    assert_eq!(
        problems(text),
        [
            "2:6-2:7 expected an operator or `}`, found `:`",
            "2:21-2:22 expected an operator or `}`, found the name `c`",
            "3:4-3:7 expected `if`, `else`, `endif`, `for` or `endfor`, found the name `iff`",
        ]
    );
    let help = parse(text.as_bytes()).problems[0].help.clone();
    assert_eq!(help.as_deref(), Some("if `${` is meant as it is (for a shell, say), write `$${`"));
}

#[test]
fn directives_are_paired() {
    check(&[
        ("a = \"%{ endif }\"\n", &["1:6-1:16 `%{ endif }` without a beginning"]),
        (
            "a = \"%{ if b }%{ endfor }\"\n",
            &["1:15-1:26 expected `%{ endif }`, found `%{ endfor }`"],
        ),
        (
            "a = \"%{ for x in b }%{ else }%{ endfor }\"\n",
            &["1:21-1:30 expected `%{ endfor }`, found `%{ else }`"],
        ),
    ]);
}

#[test]
fn legacy_indexes_are_not_chained() {
    check(&[
        ("a = b.0.1\n", &["1:7-1:10 two indexes cannot be chained with dots"]),
        ("a = 1.2.3\n", &["1:5-1:10 `1.2.3` is not a number"]),
    ]);
}

#[test]
fn what_is_not_text_is_refused_with_its_place() {
    let parsed = parse(b"a = 1\nb = \"\xff\"\n");
    assert_eq!(parsed.problems.len(), 1);
    assert_eq!(parsed.problems[0].span.start, 11);
    assert!(parsed.problems[0].message.contains("not valid UTF-8"));
    assert!(parse_expression(b"\xc3").is_err());
    assert!(parse_template(b"\xc3").is_err());
}

#[test]
fn nothing_may_follow_an_expression() {
    let problems = parse_expression(b"1 2").expect_err("two values");
    assert_eq!(
        places("1 2", problems),
        ["1:3-1:4 expected the end of the expression, found the number `2`"]
    );
}

#[test]
fn what_is_right_is_read_beside_what_is_wrong() {
    let parsed = parse(b"task \"a\" {\n  x = ]\n  y = 2\n}\ntask \"b\" {\n  z = 3\n}\n");
    assert_eq!(parsed.problems.len(), 1);
    assert_eq!(parsed.body.blocks.len(), 2);
    assert_eq!(parsed.body.blocks[0].body.attributes.len(), 2);
}
