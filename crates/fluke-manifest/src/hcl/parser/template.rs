//! Templates: quoted strings, heredocs and bare texts.
//!
//! A template is read in three passes: to flat pieces (strip markers applied), then the indent of
//! `<<-` is taken off the pieces that begin a line, then `if` and `for` directives are paired.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

use super::collection::ForHead;
use super::escape::normalized;
use super::{Outcome, Parser, Told};
use crate::hcl::ast::{Expr, ExprKind, Part, Span};
use crate::hcl::lexer::{Kind, Token};
use crate::hcl::problem::Problem;

/// One token's worth of template.
enum Piece<'t> {
    Text(Cow<'t, str>),
    Interpolation(Expr),
    If { condition: Expr, span: Span },
    For { head: Box<ForHead>, span: Span },
    Else(Span),
    EndIf(Span),
    EndFor(Span),
}

/// What a template is enclosed by: decides where to go on after a mistake.
#[derive(Clone, Copy)]
enum Frame {
    /// A quoted string: it ends with its line.
    Quote { open: u32, depth: usize },
    /// A heredoc or bare template: it goes on with the next line.
    Lines { depth: usize },
}

impl<'t> Parser<'t> {
    /// `"…"`
    pub(super) fn quoted_template(&mut self) -> Outcome<Expr> {
        let depth = self.lexer.depth();
        let open = self.advance();
        let mut pieces = Vec::new();
        if self.token.kind == Kind::QuotedText {
            let token = self.advance();
            let text = self.unescape(token);
            if self.token.kind == Kind::CloseQuote {
                self.advance();
                let parts = vec![Part::Literal(normalized(text))];
                return self.leaf(ExprKind::Template(parts), self.since(open.span));
            }
            pieces.push(Piece::Text(text));
        }
        let frame = Frame::Quote { open: open.span.start, depth: depth - 1 };
        let tallest = self.pieces(&mut pieces, Kind::CloseQuote, frame)?;
        let span = self.since(open.span);
        let parts = self.parts(pieces)?;
        self.node(ExprKind::Template(parts), span, tallest.max(self.height))
    }

    /// `<<MARKER` or `<<-MARKER`
    pub(super) fn heredoc(&mut self) -> Outcome<Expr> {
        let depth = self.lexer.depth();
        let open = self.advance();
        let mut pieces = Vec::new();
        let tallest = self.pieces(&mut pieces, Kind::CloseHeredoc, Frame::Lines { depth })?;
        if self.text(open.span).starts_with("<<-") {
            take_indent_off(&mut pieces);
        }
        let span = self.since(open.span);
        let parts = self.parts(pieces)?;
        self.node(ExprKind::Template(parts), span, tallest.max(self.height))
    }

    /// A template that is all of the text.
    pub(super) fn bare_template(&mut self) -> Outcome<Vec<Part>> {
        let mut pieces = Vec::new();
        self.pieces(&mut pieces, Kind::End, Frame::Lines { depth: 0 })?;
        self.parts(pieces)
    }

    /// Adds all pieces up to `end`, which is taken; gives how tall the tallest expression is.
    fn pieces(&mut self, pieces: &mut Vec<Piece<'t>>, end: Kind, frame: Frame) -> Outcome<u32> {
        let mut tallest = 0;
        let mut strip = false;
        loop {
            let kind = self.token.kind;
            if kind == end {
                self.advance();
                return Ok(tallest);
            }
            match kind {
                Kind::QuotedText | Kind::PlainText => {
                    let token = self.advance();
                    let mut text = self.unescape(token);
                    if std::mem::take(&mut strip) {
                        cut(&mut text, |text| text.trim_start());
                    }
                    self.count(1)?;
                    pieces.push(Piece::Text(text));
                }
                Kind::OpenInterpolation | Kind::OpenDirective => {
                    let before = self.text(self.token.span).ends_with('~');
                    if let (true, Some(Piece::Text(text))) = (before, pieces.last_mut()) {
                        cut(text, |text| text.trim_end());
                    }
                    self.count(1)?;
                    let (piece, behind) = self.sequence(frame)?;
                    tallest = tallest.max(self.height);
                    pieces.extend(piece);
                    strip = behind;
                }
                // Only after reading has stopped.
                _ => return Err(Told),
            }
        }
    }

    /// `${ … }` or `%{ … }`, and whether it ends with a strip marker. A sequence with a mistake
    /// gives no piece.
    fn sequence(&mut self, frame: Frame) -> Outcome<(Option<Piece<'t>>, bool)> {
        let told = self.lexer.problem_count();
        let open = self.advance();
        let read = |parser: &mut Self| match open.kind {
            Kind::OpenInterpolation => parser.interpolation(open),
            _ => parser.directive(open),
        };
        match self.with_newlines(false, read) {
            Ok((piece, strip)) => Ok((Some(piece), strip)),
            Err(Told) => {
                self.skip_sequence(open, frame, told)?;
                Ok((None, false))
            }
        }
    }

    fn interpolation(&mut self, open: Token) -> Outcome<(Piece<'t>, bool)> {
        let expr = self.expression()?;
        let strip = self.end_of_sequence(open)?;
        Ok((Piece::Interpolation(expr), strip))
    }

    /// The closing brace; whether it has a strip marker.
    fn end_of_sequence(&mut self, open: Token) -> Outcome<bool> {
        if let Some(close) = self.take(Kind::CloseTemplate) {
            return Ok(close.span.end - close.span.start == 2);
        }
        let sign = &self.text(open.span)[..1];
        let help =
            format!("if `{sign}{{` is meant as it is (for a shell, say), write `{sign}{sign}{{`");
        Err(self.expected_because("an operator or `}`", help))
    }

    fn directive(&mut self, open: Token) -> Outcome<(Piece<'t>, bool)> {
        self.height = 0;
        let words = "`if`, `else`, `endif`, `for` or `endfor`";
        if self.peek() != Kind::Name {
            return Err(self.expected(words));
        }
        let word = self.token.span;
        let mut piece = match self.text(word) {
            "if" => {
                self.advance();
                Piece::If { condition: self.expression()?, span: open.span }
            }
            "for" => {
                self.advance();
                Piece::For { head: Box::new(self.for_head()?), span: open.span }
            }
            "else" => Piece::Else(self.advance().span),
            "endif" => Piece::EndIf(self.advance().span),
            "endfor" => Piece::EndFor(self.advance().span),
            _ => {
                let help = "`%{` begins a directive; write `%%{` if it is meant as it is";
                return Err(self.expected_because(words, help));
            }
        };
        let strip = self.end_of_sequence(open)?;
        let all = self.since(open.span);
        match &mut piece {
            Piece::If { span, .. } | Piece::For { span, .. } => *span = all,
            Piece::Else(span) | Piece::EndIf(span) | Piece::EndFor(span) => *span = all,
            Piece::Text(_) | Piece::Interpolation(_) => {}
        }
        Ok((piece, strip))
    }

    /// After a mistake in a sequence: behind its end if that is near. Else having no end is the
    /// mistake, whatever was told since, and reading goes on behind the line.
    fn skip_sequence(&mut self, open: Token, frame: Frame, told: usize) -> Outcome<()> {
        if self.skip_to_sequence_end() {
            return Ok(());
        }
        self.lexer.forget_problems_since(told);
        let sign = self.quoted(open.span);
        let help = "end it with `}` on the same line";
        self.report(Problem::new(open.span, format!("this {sign} is never closed")).help(help));
        let (from, depth) = match frame {
            Frame::Quote { open, depth } => (open, depth),
            Frame::Lines { depth } => (open.span.start, depth),
        };
        self.lexer.skip_line(from, depth);
        self.load();
        match frame {
            Frame::Quote { .. } => Err(Told),
            Frame::Lines { .. } => Ok(()),
        }
    }

    /// Skips behind the end of the sequence unless that leads into other items or strings.
    fn skip_to_sequence_end(&mut self) -> bool {
        let told = self.lexer.problem_count();
        let mut open = 0usize;
        loop {
            match self.token.kind {
                Kind::End => return false,
                Kind::Newline => {
                    let next = self.token.span.end;
                    let own_end = self.lexer.first_char_behind(next) == Some('}');
                    if !own_end && self.lexer.item_starts_at(next as usize) {
                        return false;
                    }
                }
                Kind::OpenInterpolation | Kind::OpenDirective => open += 1,
                Kind::CloseTemplate if open == 0 => {
                    self.advance();
                    return true;
                }
                Kind::CloseTemplate => open -= 1,
                _ => {}
            }
            self.advance();
            if self.lexer.problem_count() > told {
                return false;
            }
        }
    }

    /// Pairs the directives, joins neighbouring texts.
    fn parts(&mut self, pieces: Vec<Piece<'t>>) -> Outcome<Vec<Part>> {
        self.height = 0;
        let lone = matches!(pieces[..], [Piece::Interpolation(_)]);
        let mut pieces = pieces.into_iter();
        let mut parts = Vec::with_capacity(pieces.len());
        while let Some(stop) = self.parts_until_stop(&mut pieces, &mut parts)? {
            let (word, span) = stop.name();
            let message = format!("`%{{ {word} }}` without a beginning");
            self.report(
                Problem::new(span, message)
                    .help("`else` and `endif` belong to an `if`, `endfor` to a `for`, before them"),
            );
        }
        if !lone && matches!(parts[..], [Part::Interpolation(_)]) {
            // White space was stripped beside it; it is text all the same.
            parts.push(Part::Literal("".into()));
        }
        Ok(parts)
    }

    /// Adds parts up to an `else` or end, which is given back.
    fn parts_until_stop(
        &mut self,
        pieces: &mut std::vec::IntoIter<Piece<'t>>,
        parts: &mut Vec<Part>,
    ) -> Outcome<Option<Stop>> {
        let mut text = Cow::Borrowed("");
        let mut tallest = 0;
        let stop = loop {
            let piece = match pieces.next() {
                Some(Piece::Text(more)) if text.is_empty() => {
                    text = more;
                    continue;
                }
                Some(Piece::Text(more)) => {
                    text.to_mut().push_str(&more);
                    continue;
                }
                other => other,
            };
            if !text.is_empty() {
                parts.push(Part::Literal(normalized(std::mem::take(&mut text))));
            }
            match piece {
                Some(Piece::Interpolation(expr)) => parts.push(Part::Interpolation(expr)),
                Some(Piece::If { condition, span }) => {
                    parts.push(self.nested(|parser| parser.if_part(condition, span, pieces))?);
                    tallest = tallest.max(self.height);
                }
                Some(Piece::For { head, span }) => {
                    parts.push(self.nested(|parser| parser.for_part(*head, span, pieces))?);
                    tallest = tallest.max(self.height);
                }
                Some(Piece::Else(span)) => break Some(Stop::Else(span)),
                Some(Piece::EndIf(span)) => break Some(Stop::EndIf(span)),
                Some(Piece::EndFor(span)) => break Some(Stop::EndFor(span)),
                Some(Piece::Text(_)) => {}
                None => break None,
            }
        };
        parts.shrink_to_fit();
        self.height = tallest + 1;
        Ok(stop)
    }

    fn if_part(
        &mut self,
        condition: Expr,
        open: Span,
        pieces: &mut std::vec::IntoIter<Piece<'t>>,
    ) -> Outcome<Part> {
        let mut yes = Vec::new();
        let mut no = Vec::new();
        let mut stop = self.parts_until_stop(pieces, &mut yes)?;
        let mut height = self.height;
        if let Some(Stop::Else(_)) = stop {
            stop = self.parts_until_stop(pieces, &mut no)?;
            height = height.max(self.height);
        }
        self.height = height;
        match stop {
            Some(Stop::EndIf(end)) => Ok(Part::If { condition, yes, no, span: open.to(end) }),
            stop => Err(self.wrong_stop(open, "if", "endif", stop)),
        }
    }

    fn for_part(
        &mut self,
        head: ForHead,
        open: Span,
        pieces: &mut std::vec::IntoIter<Piece<'t>>,
    ) -> Outcome<Part> {
        let mut body = Vec::new();
        let ForHead { key_name, value_name, collection } = head;
        match self.parts_until_stop(pieces, &mut body)? {
            Some(Stop::EndFor(end)) => {
                let span = open.to(end);
                Ok(Part::For { key_name, value_name, collection, body, span })
            }
            stop => Err(self.wrong_stop(open, "for", "endfor", stop)),
        }
    }

    fn wrong_stop(&mut self, open: Span, word: &str, end: &str, stop: Option<Stop>) -> Told {
        let Some(stop) = stop else {
            let message = format!("this `%{{ {word} }}` has no `%{{ {end} }}`");
            return self.report(Problem::new(open, message));
        };
        let (found, span) = stop.name();
        let line = self.lexer.line_of(open.start);
        let message = format!("expected `%{{ {end} }}`, found `%{{ {found} }}`");
        self.report(Problem::new(span, message).help(format!("the `{word}` is on line {line}")))
    }
}

/// A directive that ends a list of parts.
enum Stop {
    Else(Span),
    EndIf(Span),
    EndFor(Span),
}

impl Stop {
    fn name(&self) -> (&'static str, Span) {
        match self {
            Stop::Else(span) => ("else", *span),
            Stop::EndIf(span) => ("endif", *span),
            Stop::EndFor(span) => ("endfor", *span),
        }
    }
}

/// Keeps a part of the text only.
fn cut<'t>(text: &mut Cow<'t, str>, part: impl Fn(&str) -> &str) {
    match text {
        Cow::Borrowed(all) => *all = part(all),
        Cow::Owned(all) => *all = part(all).to_owned(),
    }
}

/// Takes the smallest indent of all lines off every line. What counts is the text as it is
/// after strip markers; lines of white space alone do not count.
fn take_indent_off(pieces: &mut [Piece]) {
    let mut smallest = usize::MAX;
    let mut indented = Vec::new();
    let mut line_start = true;
    for (at, piece) in pieces.iter().enumerate() {
        let Piece::Text(text) = piece else {
            smallest = if line_start { 0 } else { smallest };
            line_start = false;
            continue;
        };
        let ends_line = text.ends_with('\n');
        if line_start {
            let unindented = text.trim_start();
            if !unindented.is_empty() || !ends_line {
                let indent = &text[..text.len() - unindented.len()];
                smallest = smallest.min(columns(indent));
                indented.push(at);
            }
        }
        line_start = ends_line;
    }
    for at in indented {
        if let Piece::Text(text) = &mut pieces[at] {
            let indent = bytes_of_columns(text, smallest);
            cut(text, |text| &text[indent..]);
        }
    }
}

fn is_plain_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// How many characters people would count.
fn columns(space: &str) -> usize {
    match space.as_bytes().iter().all(is_plain_space) {
        true => space.len(),
        false => space.graphemes(true).count(),
    }
}

/// How many bytes the first `columns` characters take.
fn bytes_of_columns(text: &str, columns: usize) -> usize {
    match text.as_bytes().iter().take(columns).all(is_plain_space) {
        true => columns.min(text.len()),
        false => text.graphemes(true).take(columns).map(str::len).sum(),
    }
}
