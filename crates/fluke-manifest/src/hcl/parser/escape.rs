//! From text as written to text as meant.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::Parser;
use crate::hcl::ast::Span;
use crate::hcl::lexer::{Kind, Token};
use crate::hcl::problem::Problem;

/// The text in Unicode's normal form C, as all text of the language is.
pub(super) fn normalized(text: Cow<str>) -> Box<str> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        return text.into();
    }
    text.nfc().collect::<String>().into()
}

impl<'t> Parser<'t> {
    /// What a token of template text means.
    pub(super) fn unescape(&mut self, token: Token) -> Cow<'t, str> {
        let text = self.text(token.span);
        if let [first @ (b'$' | b'%'), second, b'{', ..] = text.as_bytes()
            && first == second
        {
            return Cow::Borrowed(&text[1..]);
        }
        if token.kind != Kind::QuotedText || !text.contains('\\') {
            return Cow::Borrowed(text);
        }
        let mut meant = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            meant.push_str(&rest[..at]);
            rest = &rest[at..];
            let len = self.escape(rest, token.span.end - rest.len() as u32, &mut meant);
            rest = &rest[len..];
        }
        meant.push_str(rest);
        Cow::Owned(meant)
    }

    /// One escape at the beginning of `rest`, which stands at `start`; gives its length.
    fn escape(&mut self, rest: &str, start: u32, meant: &mut String) -> usize {
        let Some(selector) = rest[1..].chars().next() else {
            // The line ends here, which has been told.
            return 1;
        };
        let len = 1 + selector.len_utf8();
        match selector {
            'n' => meant.push('\n'),
            'r' => meant.push('\r'),
            't' => meant.push('\t'),
            '"' => meant.push('"'),
            '\\' => meant.push('\\'),
            'u' => return self.code_point(rest, start, 4, meant),
            'U' => return self.code_point(rest, start, 8, meant),
            _ => {
                let span = Span { start, end: start + len as u32 };
                let shown = selector.escape_debug();
                let help = match selector {
                    '$' | '%' => format!("write `{shown}{shown}{{` for a literal `{shown}{{`"),
                    _ => format!("write `\\\\{shown}` if a backslash is meant"),
                };
                self.report(Problem::new(span, format!("unknown escape `\\{shown}`")).help(help));
                meant.push(selector);
            }
        }
        len
    }

    fn code_point(&mut self, rest: &str, start: u32, want: usize, meant: &mut String) -> usize {
        let digits = rest.bytes().skip(2).take(want).take_while(u8::is_ascii_hexdigit).count();
        let len = 2 + digits;
        let span = Span { start, end: start + len as u32 };
        let point = u32::from_str_radix(&rest[2..len], 16).ok().filter(|_| digits == want);
        match point.map(char::from_u32) {
            Some(Some(c)) => meant.push(c),
            Some(None) => {
                let message = format!("`{}` is not a character of Unicode", &rest[..len]);
                self.report(Problem::new(span, message));
            }
            None => {
                let message = format!("`{}` needs {want} hexadecimal digits", &rest[..2]);
                self.report(Problem::new(span, message));
            }
        }
        len
    }
}
