//! Tokens outside of template text.

use super::{Kind, Lexer, Mode, Token};
use crate::hcl::ast::Span;
use crate::hcl::problem::Problem;

/// Whether a name may begin with it.
pub(super) fn starts_name(c: char) -> bool {
    c == '_' || unicode_ident::is_xid_start(c)
}

/// Whether it may stand within a name.
pub(super) fn is_name_char(c: char) -> bool {
    c == '-' || unicode_ident::is_xid_continue(c)
}

impl Lexer<'_> {
    pub(super) fn code_token(&mut self) -> Token {
        while let Some(b' ' | b'\t') = self.byte(0) {
            self.at += 1;
        }
        let Some(first) = self.byte(0) else { return self.take(Kind::End, 0) };
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.name(),
            b'0'..=b'9' => self.number(),
            b'\n' => self.take(Kind::Newline, 1),
            b'\r' if self.byte(1) == Some(b'\n') => self.take(Kind::Newline, 2),
            b'"' => self.open_quote(),
            b'#' => self.comment_line(),
            b'/' if self.byte(1) == Some(b'/') => self.comment_line(),
            b'/' if self.byte(1) == Some(b'*') => self.comment(),
            b'{' => self.open_brace(),
            b'}' => self.close_brace(1),
            b'~' if self.byte(1) == Some(b'}') => self.close_brace(2),
            b'<' if self.byte(1) == Some(b'<') => self.heredoc_or_less(),
            b'&' | b'|' if self.byte(1) != Some(first) => self.single_logical(first),
            b'\'' | b'`' => self.wrong_quotes(first as char, first as char),
            0x80.. => self.beyond_ascii(),
            _ => self.operator(first),
        }
    }

    fn name(&mut self) -> Token {
        let rest = &self.bytes()[self.at..];
        let mut len = 1;
        while let Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-') = rest.get(len) {
            len += 1;
        }
        if rest.get(len).is_some_and(|byte| !byte.is_ascii()) {
            let rest = &self.text[self.at..];
            len = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
        }
        self.take(Kind::Name, len)
    }

    /// Digits, dots and exponents: all that begins like a number and does not end with a dot.
    /// Whether it is one, is the parser's matter.
    fn number(&mut self) -> Token {
        let rest = &self.bytes()[self.at..];
        let (mut len, mut next) = (1, 1);
        loop {
            match rest.get(next) {
                Some(b'0'..=b'9') => next += 1,
                Some(b'.') => {
                    next += 1;
                    continue;
                }
                Some(b'e' | b'E') => {
                    let sign = usize::from(matches!(rest.get(next + 1), Some(b'+' | b'-')));
                    if !rest.get(next + 1 + sign).is_some_and(u8::is_ascii_digit) {
                        break;
                    }
                    next += 2 + sign;
                }
                _ => break,
            }
            len = next;
        }
        self.take(Kind::Number, len)
    }

    fn comment_line(&mut self) -> Token {
        let rest = &self.bytes()[self.at..];
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => self.take(Kind::CommentLine, end + 1),
            None => self.take(Kind::Comment, rest.len()),
        }
    }

    fn comment(&mut self) -> Token {
        let rest = &self.text[self.at..];
        if let Some(end) = rest[2..].find("*/") {
            return self.take(Kind::Comment, end + 4);
        }
        let start = self.at as u32;
        self.report(
            Problem::new(Span { start, end: start + 2 }, "this comment is never closed")
                .help("end it with `*/`"),
        );
        self.take(Kind::Invalid, rest.len())
    }

    fn open_brace(&mut self) -> Token {
        if let Mode::Code { braces } = &mut self.mode {
            *braces += 1;
        }
        self.take(Kind::OpenBrace, 1)
    }

    /// `}` or `~}`: the end of an interpolation when no brace is open within it.
    fn close_brace(&mut self, len: usize) -> Token {
        match &mut self.mode {
            Mode::Code { braces: 0 } if !self.outer.is_empty() => {
                let token = self.take(Kind::CloseTemplate, len);
                self.leave();
                return token;
            }
            Mode::Code { braces } => *braces = braces.saturating_sub(1),
            _ => {}
        }
        self.take(if len == 1 { Kind::CloseBrace } else { Kind::CloseTemplate }, len)
    }

    fn heredoc_or_less(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let name = rest[2..].strip_prefix('-').unwrap_or(&rest[2..]);
        let intro = rest.len() - name.len();
        let len = name.find(|c| !is_name_char(c)).unwrap_or(name.len());
        let line_end = match name.as_bytes().get(len..) {
            Some([b'\n', ..]) => 1,
            Some([b'\r', b'\n', ..]) => 2,
            _ => 0,
        };
        if line_end == 0 || !name.starts_with(starts_name) {
            return self.take(Kind::Less, 1);
        }
        let start = (self.at + intro) as u32;
        let marker = Span { start, end: start + len as u32 };
        let token = self.take(Kind::OpenHeredoc, intro + len + line_end);
        let open = Span { start: token.span.start, end: marker.end };
        self.enter(Mode::Heredoc { open, marker, at_line_start: true });
        token
    }

    /// `&` or `|` alone; read as the double one, so that one problem stays one.
    fn single_logical(&mut self, sign: u8) -> Token {
        let (kind, sign) = if sign == b'&' { (Kind::And, '&') } else { (Kind::Or, '|') };
        let token = self.take(kind, 1);
        self.report(
            Problem::new(token.span, format!("`{sign}` is not an operator"))
                .help(format!("write `{sign}{sign}`")),
        );
        token
    }

    /// `'text'` and the like, up to the closing quote if it is on the same line.
    fn wrong_quotes(&mut self, open: char, close: char) -> Token {
        let rest = &self.text[self.at + open.len_utf8()..];
        let line = rest.split('\n').next().unwrap_or_default();
        let (kind, len) = match line.find(close) {
            Some(end) => (Kind::WrongQuotes, open.len_utf8() + end + close.len_utf8()),
            None => (Kind::Invalid, open.len_utf8()),
        };
        let token = self.take(kind, len);
        let name = match open {
            '\'' => "single quotes",
            '`' => "backticks",
            _ => "curly quotes",
        };
        self.report(
            Problem::new(token.span, format!("{name} do not quote text"))
                .help("use straight double quotes: `\"…\"`"),
        );
        token
    }

    fn beyond_ascii(&mut self) -> Token {
        match self.text[self.at..].chars().next() {
            Some(c) if starts_name(c) => self.name(),
            Some('“') => self.wrong_quotes('“', '”'),
            Some('‘') => self.wrong_quotes('‘', '’'),
            Some(c) => self.meaningless(c),
            None => self.take(Kind::End, 0),
        }
    }

    fn operator(&mut self, first: u8) -> Token {
        let (kind, len) = match (first, self.byte(1), self.byte(2)) {
            (b'.', Some(b'.'), Some(b'.')) => (Kind::Ellipsis, 3),
            (b'=', Some(b'='), _) => (Kind::Equal, 2),
            (b'=', Some(b'>'), _) => (Kind::Arrow, 2),
            (b'!', Some(b'='), _) => (Kind::NotEqual, 2),
            (b'<', Some(b'='), _) => (Kind::LessOrEqual, 2),
            (b'>', Some(b'='), _) => (Kind::GreaterOrEqual, 2),
            (b'&', ..) => (Kind::And, 2),
            (b'|', ..) => (Kind::Or, 2),
            (b':', Some(b':'), _) => (Kind::DoubleColon, 2),
            (b'.', ..) => (Kind::Dot, 1),
            (b',', ..) => (Kind::Comma, 1),
            (b':', ..) => (Kind::Colon, 1),
            (b'?', ..) => (Kind::Question, 1),
            (b'=', ..) => (Kind::Assign, 1),
            (b'!', ..) => (Kind::Not, 1),
            (b'<', ..) => (Kind::Less, 1),
            (b'>', ..) => (Kind::Greater, 1),
            (b'+', ..) => (Kind::Plus, 1),
            (b'-', ..) => (Kind::Minus, 1),
            (b'*', ..) => (Kind::Star, 1),
            (b'/', ..) => (Kind::Slash, 1),
            (b'%', ..) => (Kind::Percent, 1),
            (b'(', ..) => (Kind::OpenParen, 1),
            (b')', ..) => (Kind::CloseParen, 1),
            (b'[', ..) => (Kind::OpenBracket, 1),
            (b']', ..) => (Kind::CloseBracket, 1),
            _ => return self.meaningless(first as char),
        };
        self.take(kind, len)
    }

    fn meaningless(&mut self, c: char) -> Token {
        let token = self.take(Kind::Invalid, c.len_utf8());
        let problem = |name: &str| Problem::new(token.span, format!("{name} has no meaning here"));
        let shown = format!("`{}`", c.escape_debug());
        self.report(match c {
            ';' => problem("`;`").help("write one attribute a line, and commas within lists"),
            '\r' => problem("a carriage return without a line feed")
                .help("save the file with ordinary line ends"),
            '^' | '~' => problem(&shown).help("there are no operators on bits"),
            '\u{a0}' | '\u{2000}'..='\u{200f}' | '\u{202f}' | '\u{3000}' | '\u{feff}' => {
                problem(&format!("U+{:04X}, which looks like a space or like nothing,", c as u32))
                    .help("replace it by an ordinary space")
            }
            c if c.is_control() => problem(&format!("the control character U+{:04X}", c as u32)),
            _ => problem(&shown),
        });
        token
    }
}
