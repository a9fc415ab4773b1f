//! What to say when something else was expected, and where to go on then.

use super::{Parser, Told};
use crate::hcl::ast::Span;
use crate::hcl::lexer::{Kind, Token};
use crate::hcl::problem::Problem;

/// Longer names are cut in messages.
const MOST_SHOWN: usize = 40;

/// What closes the bracket, if it is one.
pub(super) fn closer_of(open: Kind) -> Option<Kind> {
    Some(match open {
        Kind::OpenBrace => Kind::CloseBrace,
        Kind::OpenBracket => Kind::CloseBracket,
        Kind::OpenParen => Kind::CloseParen,
        Kind::OpenQuote => Kind::CloseQuote,
        Kind::OpenHeredoc => Kind::CloseHeredoc,
        Kind::OpenInterpolation | Kind::OpenDirective => Kind::CloseTemplate,
        _ => return None,
    })
}

/// Whether it closes a bracket or the like.
pub(super) fn is_closer(kind: Kind) -> bool {
    use Kind::*;
    matches!(
        kind,
        CloseBrace | CloseBracket | CloseParen | CloseQuote | CloseHeredoc | CloseTemplate
    )
}

impl Parser<'_> {
    /// "expected …, found …" at the next token.
    pub(super) fn expected(&mut self, what: &str) -> Told {
        self.expected_problem(what, None)
    }

    /// The same, with advice.
    pub(super) fn expected_because(&mut self, what: &str, help: impl Into<String>) -> Told {
        self.expected_problem(what, Some(help.into()))
    }

    fn expected_problem(&mut self, what: &str, help: Option<String>) -> Told {
        if matches!(self.token.kind, Kind::Invalid | Kind::WrongQuotes) {
            return Told;
        }
        let message = format!("expected {what}, found {}", self.found());
        self.report(Problem { span: self.token.span, message, help })
    }

    /// The next token in people's words.
    pub(super) fn found(&self) -> String {
        match self.token.kind {
            Kind::Name => format!("the name {}", self.quoted(self.token.span)),
            Kind::Number => format!("the number {}", self.quoted(self.token.span)),
            Kind::OpenQuote => "a string".into(),
            Kind::OpenHeredoc => "a heredoc".into(),
            Kind::Newline => "the end of the line".into(),
            Kind::End => "the end of the file".into(),
            Kind::CloseQuote => "the end of the string".into(),
            Kind::CloseHeredoc => "the end of the heredoc".into(),
            Kind::QuotedText | Kind::PlainText => "text".into(),
            _ => self.quoted(self.token.span),
        }
    }

    /// What stands in the span, in backticks, cut if it is long.
    pub(super) fn quoted(&self, span: Span) -> String {
        format!("`{}`", self.shown(span))
    }

    /// What stands in the span, cut if it is long.
    pub(super) fn shown(&self, span: Span) -> String {
        let text = self.text(span).trim_end();
        match text.char_indices().nth(MOST_SHOWN) {
            Some((cut, _)) => format!("{}…", &text[..cut]),
            None => text.to_owned(),
        }
    }

    /// Something else was found between brackets. Where the closing one seems to be what is
    /// missing, the opening one is pointed at.
    pub(super) fn expected_between(&mut self, open: Token, what: &str) -> Told {
        let foreign = is_closer(self.token.kind) && Some(self.token.kind) != closer_of(open.kind);
        if self.token.kind == Kind::End || foreign || self.attribute_follows() {
            return self.unclosed(open.span);
        }
        self.expected(what)
    }

    /// Whether the next token is the first of its line and begins `name = …`.
    pub(super) fn attribute_follows(&self) -> bool {
        self.token.kind == Kind::Name
            && self.fresh_line
            && self.lexer.attribute_starts_at(self.token.span.start)
    }

    /// Tells that what begins at `open` has no end, unless something within it had none.
    pub(super) fn unclosed(&mut self, open: Span) -> Told {
        let at_end = self.token.kind == Kind::End;
        if at_end && std::mem::replace(&mut self.told_unclosed, true) {
            return Told;
        }
        let sign = self.text(open);
        let closer = match sign.as_bytes() {
            [b'(', ..] => ")",
            [b'[', ..] => "]",
            _ => "}",
        };
        let sign = self.quoted(open);
        let message = format!("this {sign} is never closed");
        let help = if at_end {
            format!("add the missing `{closer}`; none is left before the end of the file")
        } else {
            let line = self.lexer.line_of(self.token.span.start);
            format!("expected `{closer}` before {} on line {line}", self.found())
        };
        self.report(Problem::new(open, message).help(help))
    }

    /// Skips behind the closing bracket. Stops short, and says so, where it seems to be missing.
    pub(super) fn skip_to(&mut self, closer: Kind) -> bool {
        let mut open = vec![closer];
        while self.token.kind != Kind::End {
            let within_lines = matches!(open.last(), Some(Kind::CloseBracket | Kind::CloseParen));
            if within_lines && self.attribute_follows() {
                return false;
            }
            if let Some(closer) = closer_of(self.token.kind) {
                open.push(closer);
            } else if is_closer(self.token.kind) {
                let Some(at) = open.iter().rposition(|kind| *kind == self.token.kind) else {
                    return false;
                };
                open.truncate(at);
            }
            if open.is_empty() {
                self.advance();
                return true;
            }
            self.advance();
        }
        false
    }

    /// Skips behind the line that the present item of a body ends on, brackets and all.
    pub(super) fn skip_item(&mut self, in_block: bool) {
        let mut open = Vec::new();
        loop {
            let kind = self.token.kind;
            if kind == Kind::End {
                return;
            }
            if open.is_empty() {
                let begins_item = kind == Kind::Name
                    && self.fresh_line
                    && self.lexer.item_starts_at(self.token.span.start as usize);
                if begins_item || (in_block && kind == Kind::CloseBrace) {
                    return;
                }
                if kind == Kind::Newline {
                    self.advance();
                    return;
                }
            }
            if let Some(closer) = closer_of(kind) {
                open.push(closer);
            } else if is_closer(kind) {
                match open.iter().rposition(|closer| *closer == kind) {
                    Some(at) => open.truncate(at),
                    None => open.clear(),
                }
            }
            self.advance();
        }
    }
}
