//! Tokens of quoted strings, heredocs and bare templates.

use super::{Kind, Lexer, Mode, Token};
use crate::hcl::ast::Span;
use crate::hcl::problem::Problem;

impl Lexer<'_> {
    pub(super) fn open_quote(&mut self) -> Token {
        let open = self.at as u32;
        self.enter(Mode::Quote { open, told: false });
        self.take(Kind::OpenQuote, 1)
    }

    pub(super) fn quoted_token(&mut self, open: u32, told: bool) -> Token {
        match self.byte(0) {
            None => self.end_of_text_in_quote(open, told),
            Some(b'"') => {
                self.leave();
                self.take(Kind::CloseQuote, 1)
            }
            Some(b'\n' | b'\r') => self.line_end_in_quote(open, told),
            Some(b'$' | b'%') => self.template_sign(Kind::QuotedText),
            Some(_) => self.quoted_text(),
        }
    }

    fn quoted_text(&mut self) -> Token {
        let rest = &self.bytes()[self.at..];
        let mut len = 0;
        loop {
            match rest.get(len) {
                None | Some(b'"' | b'$' | b'%' | b'\n' | b'\r') => break,
                Some(b'\\') if matches!(rest.get(len + 1), Some(b'"' | b'$' | b'%' | b'\\')) => {
                    len += 2;
                }
                Some(_) => len += 1,
            }
        }
        self.take(Kind::QuotedText, len)
    }

    /// A quoted string may not go beyond its line. It is taken as ended when the next line looks
    /// like an item of its own, and as a text of several lines when not.
    fn line_end_in_quote(&mut self, open: u32, told: bool) -> Token {
        let rest = &self.bytes()[self.at..];
        let len = rest.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        if !told {
            let span = Span { start: open, end: self.at as u32 };
            self.report(
                Problem::new(span, "this string has no closing `\"` on its line")
                    .help("close it; for text of several lines use `\\n` or a heredoc (`<<EOT`)"),
            );
        }
        if self.item_starts_at(self.at + len) {
            self.leave();
            return self.take(Kind::CloseQuote, 0);
        }
        self.mode = Mode::Quote { open, told: true };
        self.take(Kind::QuotedText, len)
    }

    fn end_of_text_in_quote(&mut self, open: u32, told: bool) -> Token {
        if !told {
            let span = Span { start: open, end: self.at as u32 };
            self.report(Problem::new(span, "this string is never closed").help("end it with `\"`"));
        }
        self.leave();
        self.take(Kind::CloseQuote, 0)
    }

    /// `$` or `%`: the start of a sequence, an escape such as `$${`, or itself.
    fn template_sign(&mut self, text: Kind) -> Token {
        let sign = self.byte(0);
        if self.byte(1) == Some(b'{') {
            let len = 2 + self.strip_marker(2);
            self.enter(Mode::Code { braces: 0 });
            let interpolation = sign == Some(b'$');
            let kind = if interpolation { Kind::OpenInterpolation } else { Kind::OpenDirective };
            return self.take(kind, len);
        }
        if self.byte(1) == sign && self.byte(2) == Some(b'{') {
            let len = 3 + self.strip_marker(3);
            return self.take(text, len);
        }
        self.take(text, 1)
    }

    fn strip_marker(&self, offset: usize) -> usize {
        usize::from(self.byte(offset) == Some(b'~'))
    }

    pub(super) fn heredoc_token(&mut self, open: Span, marker: Span, line_start: bool) -> Token {
        let token = match self.byte(0) {
            None => return self.end_of_text_in_heredoc(open, marker),
            Some(b'$' | b'%') => {
                // The way back from an interpolation leads into the middle of a line.
                self.mode = Mode::Heredoc { open, marker, at_line_start: false };
                return self.template_sign(Kind::PlainText);
            }
            Some(_) => match line_start.then(|| self.marker_line(marker)).flatten() {
                Some(len) => {
                    self.leave();
                    return self.take(Kind::CloseHeredoc, len);
                }
                None => self.plain_text(),
            },
        };
        let at_line_start = self.bytes()[self.at - 1] == b'\n';
        self.mode = Mode::Heredoc { open, marker, at_line_start };
        token
    }

    /// The length of this line without its end, if it holds the marker and nothing else.
    fn marker_line(&self, marker: Span) -> Option<usize> {
        let rest = &self.text[self.at..];
        let line = &rest[..rest.find('\n')?];
        (line.trim() == self.slice(marker)).then(|| line.strip_suffix('\r').unwrap_or(line).len())
    }

    fn end_of_text_in_heredoc(&mut self, open: Span, marker: Span) -> Token {
        let marker = self.slice(marker);
        let last_line = self.text[open.end as usize..].rsplit('\n').next().unwrap_or_default();
        let help = if last_line.trim() == marker {
            format!("put a line end behind `{marker}` on the last line")
        } else {
            format!("end it with a line that holds only `{marker}`")
        };
        self.report(Problem::new(open, "this heredoc is never closed").help(help));
        self.leave();
        self.take(Kind::CloseHeredoc, 0)
    }

    pub(super) fn bare_token(&mut self) -> Token {
        match self.byte(0) {
            None => self.take(Kind::End, 0),
            Some(b'$' | b'%') => self.template_sign(Kind::PlainText),
            Some(_) => self.plain_text(),
        }
    }

    /// Up to the next `$`, `%` or line end, which belongs to it.
    fn plain_text(&mut self) -> Token {
        let rest = &self.bytes()[self.at..];
        let stop = rest.iter().position(|byte| matches!(byte, b'$' | b'%' | b'\n'));
        let len = match stop {
            Some(end) if rest[end] == b'\n' => end + 1,
            Some(end) => end,
            None => rest.len(),
        };
        self.take(Kind::PlainText, len)
    }
}
