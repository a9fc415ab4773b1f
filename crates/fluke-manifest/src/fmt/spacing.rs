//! Where a space goes between two tokens.

use super::Spaced;
use crate::hcl::lexer::Kind;

/// Whether a space goes between `left` and `right`; `before` is what stands left of both.
pub(super) fn between(before: Option<&Spaced>, left: &Spaced, right: &Spaced) -> bool {
    use Kind::*;
    let before = before.map(|token| token.kind);
    match (left.kind, right.kind) {
        (_, Newline) => false,
        // A function and its bracket, and the parts of its name.
        (Name, OpenParen) | (Name, DoubleColon) | (DoubleColon, Name) => false,
        // Dots touch what they join, unless all three would become one number.
        (Dot, Number) if before == Some(Number) => true,
        (Dot, Name) if before == Some(Number) => right.text.starts_with(['e', 'E']),
        (Dot, _) | (_, Dot) => false,
        (_, Comma | Ellipsis) => false,
        (Comma, _) => true,
        // Within templates every space counts.
        (QuotedText | PlainText | OpenQuote | OpenHeredoc, _) => false,
        (_, QuotedText | PlainText | CloseQuote | CloseHeredoc) => false,
        // `for x in [y]`
        (Name, _) if left.text == "in" && before == Some(Name) => true,
        (Name | Number, OpenBracket) => false,
        (_, OpenBracket) if left.brackets() < 0 => false,
        (Not, _) => false,
        (Minus, _) => !begins_operand(before),
        (OpenBrace, CloseBrace) => false,
        (OpenBrace, _) | (_, CloseBrace) => true,
        // `${ {…} }`
        (OpenInterpolation | OpenDirective, OpenBrace) => true,
        (CloseBrace, CloseTemplate) => true,
        (CloseTemplate, OpenInterpolation | OpenDirective) => false,
        _ => left.brackets() <= 0 && right.brackets() >= 0,
    }
}

/// Whether a minus behind this is a sign and not an operator.
fn begins_operand(before: Option<Kind>) -> bool {
    use Kind::*;
    matches!(
        before,
        None | Some(
            OpenParen
                | OpenBrace
                | OpenBracket
                | Assign
                | Colon
                | Comma
                | Question
                | Plus
                | Star
                | Slash
                | Percent
                | Minus
                | Equal
                | NotEqual
                | Greater
                | GreaterOrEqual
                | Less
                | LessOrEqual
                | And
                | Or
                | Not
        )
    )
}
