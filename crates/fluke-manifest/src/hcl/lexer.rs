//! Text to tokens, one at a time: what is inside a string, a heredoc or an interpolation is known
//! here, so that the parser sees only tokens.

mod code;
mod templates;
#[cfg(test)]
mod tests;

use super::ast::Span;
use super::problem::Problem;

/// How many problems of one text are told before the rest of it is left unread.
const MOST_PROBLEMS: usize = 100;

/// How many bytes may be read again after unclosed strings, all in all.
const MOST_REREAD: usize = 4 << 20;

/// Every kind of token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    Number,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    OpenParen,
    CloseParen,
    /// `"` at the start of a string.
    OpenQuote,
    /// `"` at its end; empty where the end is missing (which has been told).
    CloseQuote,
    /// `<<MARKER` or `<<-MARKER` with its line end.
    OpenHeredoc,
    /// The marker with the white space around it, without the line end.
    CloseHeredoc,
    /// Part of a quoted string, escapes and all.
    QuotedText,
    /// Part of a heredoc or a bare template; never more than one line.
    PlainText,
    /// `${` or `${~`
    OpenInterpolation,
    /// `%{` or `%{~`
    OpenDirective,
    /// `}` or `~}`
    CloseTemplate,
    Dot,
    Comma,
    Ellipsis,
    Colon,
    DoubleColon,
    Question,
    Assign,
    Arrow,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
    Not,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Newline,
    /// `# …` or `// …` with its line end, which counts as one.
    CommentLine,
    /// `/* … */`, or a comment that the text ends in.
    Comment,
    /// Text in the wrong quotes; told already.
    WrongQuotes,
    /// Something else that has no meaning; told already.
    Invalid,
    End,
}

/// A token and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub kind: Kind,
    pub span: Span,
}

/// What surrounds the place that is read.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// Names, operators and so on; `braces` are open within it. An interpolation when it is not
    /// the outermost.
    Code { braces: u32 },
    /// A quoted string; `told` when its missing end has been told.
    Quote { open: u32, told: bool },
    /// A heredoc that ends at `marker`, if that is alone on its line.
    Heredoc { open: Span, marker: Span, at_line_start: bool },
    /// A template that is all of the text.
    Bare,
}

/// Reads tokens from a text, and collects the problems of lexer and parser.
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    mode: Mode,
    outer: Vec<Mode>,
    problems: Vec<Problem>,
    reread: usize,
    stopped: bool,
}

impl<'t> Lexer<'t> {
    /// Reads a file or an expression.
    pub fn code(text: &'t str) -> Self {
        Self::new(text, Mode::Code { braces: 0 })
    }

    /// Reads a text that is one template.
    pub fn template(text: &'t str) -> Self {
        Self::new(text, Mode::Bare)
    }

    fn new(text: &'t str, mode: Mode) -> Self {
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, at, mode, outer: Vec::new(), problems: Vec::new(), reread: 0, stopped: false }
    }

    /// The next token, comments and line ends included; [`Kind::End`] for ever at the end.
    pub fn next(&mut self) -> Token {
        match self.mode {
            Mode::Code { .. } => self.code_token(),
            Mode::Quote { open, told } => self.quoted_token(open, told),
            Mode::Heredoc { open, marker, at_line_start } => {
                self.heredoc_token(open, marker, at_line_start)
            }
            Mode::Bare => self.bare_token(),
        }
    }

    /// What stands in the span.
    pub fn slice(&self, span: Span) -> &'t str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Adds a problem, unless reading has stopped; stops reading when there are too many.
    pub fn report(&mut self, problem: Problem) {
        if self.stopped {
            return;
        }
        self.problems.push(problem);
        if self.problems.len() >= MOST_PROBLEMS {
            let span = Span { start: self.at as u32, end: self.at as u32 };
            self.problems.push(
                Problem::new(span, format!("more than {MOST_PROBLEMS} problems in this file"))
                    .help("the file is not read beyond this place; mend what is told so far first"),
            );
            self.stop();
        }
    }

    /// Reads no further: only [`Kind::End`] follows, and nothing is reported any more.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.at = self.text.len();
        self.outer.clear();
        self.mode = Mode::Code { braces: 0 };
    }

    /// How many problems there are so far.
    pub fn problem_count(&self) -> usize {
        self.problems.len()
    }

    /// Forgets problems that turned out to follow from another one.
    pub fn forget_problems_since(&mut self, count: usize) {
        if !self.stopped {
            self.problems.truncate(count);
        }
    }

    /// All problems, in the order of the text.
    pub fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| problem.span.start);
        self.problems
    }

    /// How deep the place that is read lies in strings and interpolations.
    pub fn depth(&self) -> usize {
        self.outer.len()
    }

    /// Continues behind the line that holds `start`, as if all strings deeper than `depth` had
    /// ended there.
    pub fn skip_line(&mut self, start: u32, depth: usize) {
        if self.stopped {
            return;
        }
        if self.outer.len() > depth {
            self.mode = self.outer[depth];
            self.outer.truncate(depth);
        }
        let rest = &self.text.as_bytes()[start as usize..];
        let line = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.reread += self.at.saturating_sub(start as usize + line);
        self.at = start as usize + line;
        if self.reread > MOST_REREAD {
            self.stop();
        }
    }

    /// Whether a line that begins at `at` looks like the next item of a body: `name =`,
    /// `name {`, `name "label"`, a closing brace, a comment, or nothing.
    pub fn item_starts_at(&self, at: usize) -> bool {
        let rest = &self.text[at.min(self.text.len())..];
        let line = rest.split('\n').next().unwrap_or_default().trim();
        let behind_name = line.trim_start_matches(code::is_name_char);
        let next = behind_name.trim_start();
        match next.as_bytes() {
            [] => line.is_empty(),
            [b'}' | b'#', ..] => behind_name.len() == line.len(),
            [b'/', b'/' | b'*', ..] => behind_name.len() == line.len(),
            [b'=', b'=' | b'>', ..] => false,
            [b'=' | b'{', ..] => behind_name.len() < line.len(),
            [b'"', ..] => behind_name.len() < line.len() && line.ends_with('{'),
            _ => false,
        }
    }

    /// Whether this text stands at `at`.
    pub fn starts_with(&self, at: u32, text: &str) -> bool {
        self.text[at as usize..].starts_with(text)
    }

    /// The first character at or behind `at` that is not white space.
    pub fn first_char_behind(&self, at: u32) -> Option<char> {
        self.text[at as usize..].chars().find(|c| !c.is_whitespace())
    }

    /// Whether `name =` stands at `at`.
    pub fn attribute_starts_at(&self, at: u32) -> bool {
        let rest = &self.text[at as usize..];
        let next = rest.trim_start_matches(code::is_name_char).trim_start_matches([' ', '\t']);
        next.len() < rest.len()
            && next.starts_with('=')
            && !next.starts_with("==")
            && !next.starts_with("=>")
    }

    /// How far the line that holds the byte is indented, in bytes.
    pub fn indent_at(&self, at: u32) -> usize {
        let start = self.text[..at as usize].rfind('\n').map_or(0, |end| end + 1);
        let line = &self.text[start..];
        line.len() - line.trim_start_matches([' ', '\t']).len()
    }

    /// The number of the line that holds the byte.
    pub fn line_of(&self, at: u32) -> usize {
        self.text.as_bytes()[..at as usize].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    fn byte(&self, offset: usize) -> Option<u8> {
        self.bytes().get(self.at + offset).copied()
    }

    fn take(&mut self, kind: Kind, len: usize) -> Token {
        let start = self.at as u32;
        self.at += len;
        Token { kind, span: Span { start, end: self.at as u32 } }
    }

    fn enter(&mut self, mode: Mode) {
        self.outer.push(std::mem::replace(&mut self.mode, mode));
    }

    fn leave(&mut self) {
        self.mode = self.outer.pop().unwrap_or(Mode::Code { braces: 0 });
    }
}
