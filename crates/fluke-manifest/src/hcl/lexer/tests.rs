use super::{Kind, Lexer};

/// Every token as `Kind text`.
fn tokens(mut lexer: Lexer) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let token = lexer.next();
        if token.kind == Kind::End {
            return all;
        }
        all.push(format!("{:?} {}", token.kind, lexer.slice(token.span).escape_debug()));
    }
}

fn code(text: &str) -> Vec<String> {
    tokens(Lexer::code(text))
}

#[test]
fn numbers_end_where_they_stop_being_numbers() {
    for (text, want) in [
        ("1", "Number 1"),
        ("1.5", "Number 1.5"),
        ("1e5", "Number 1e5"),
        ("1E-5", "Number 1E-5"),
        ("1e", "Number 1, Name e"),
        ("1...", "Number 1, Ellipsis ..."),
        ("1.a", "Number 1, Dot ., Name a"),
        ("0x10", "Number 0, Name x10"),
        ("1..2", "Number 1..2"),
    ] {
        assert_eq!(code(text).join(", "), want, "for {text:?}");
    }
}

#[test]
fn names_hold_letters_of_all_languages_digits_and_dashes() {
    assert_eq!(code("a-b_c1 é 変数"), ["Name a-b_c1", "Name é", "Name 変数"]);
    assert_eq!(code("a -b"), ["Name a", "Minus -", "Name b"]);
}

#[test]
fn the_longest_operator_wins() {
    let signs = "== != <= >= && || => :: ... = ! < > : . ? + - * / % , ( ) [ ]";
    let found = code(signs);
    assert_eq!(found.len(), signs.split(' ').count());
    assert_eq!(found[0], "Equal ==");
    assert_eq!(found[8], "Ellipsis ...");
}

#[test]
fn line_comments_take_their_line_end_along() {
    assert_eq!(
        code("# a\n// b\r\n/* c\n */ x # d"),
        [
            r"CommentLine # a\n",
            r"CommentLine // b\r\n",
            r"Comment /* c\n */",
            "Name x",
            "Comment # d"
        ]
    );
}

#[test]
fn strings_and_sequences_nest() {
    assert_eq!(
        code("\"a ${ {b = \"}\"} ~} $$ $${\""),
        [
            "OpenQuote \\\"",
            "QuotedText a ",
            "OpenInterpolation ${",
            "OpenBrace {",
            "Name b",
            "Assign =",
            "OpenQuote \\\"",
            "QuotedText }",
            "CloseQuote \\\"",
            "CloseBrace }",
            "CloseTemplate ~}",
            "QuotedText  ",
            "QuotedText $",
            "QuotedText $",
            "QuotedText  ",
            "QuotedText $${",
            "CloseQuote \\\"",
        ]
    );
}

#[test]
fn heredocs_are_read_line_by_line() {
    assert_eq!(
        code("<<-E\n  a\n ${b}E\n  E\nc"),
        [
            r"OpenHeredoc <<-E\n",
            r"PlainText   a\n",
            "PlainText  ",
            "OpenInterpolation ${",
            "Name b",
            "CloseTemplate }",
            r"PlainText E\n",
            "CloseHeredoc   E",
            r"Newline \n",
            "Name c",
        ]
    );
    assert_eq!(code("<<E x"), ["Less <", "Less <", "Name E", "Name x"]);
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_only() {
    assert_eq!(code("\u{feff}a"), ["Name a"]);
    assert_eq!(code("a\u{feff}")[1], "Invalid \\u{feff}");
}

#[test]
fn templates_are_text_until_a_sequence() {
    assert_eq!(
        tokens(Lexer::template("x \"y\"\n%{~ if a }$")),
        [
            "PlainText x \\\"y\\\"\\n",
            "OpenDirective %{~",
            "Name if",
            "Name a",
            "CloseTemplate }",
            "PlainText $",
        ]
    );
}
