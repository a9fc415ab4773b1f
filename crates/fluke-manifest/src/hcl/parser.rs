//! Tokens to syntax tree: recursive descent that goes on after a mistake, so that every mistake
//! of a file is told at once, and none twice.

mod body;
mod collection;
mod escape;
mod expression;
mod recovery;
mod template;
#[cfg(test)]
mod tests;

use super::ast::{Body, Expr, ExprKind, Part, Span};
use super::lexer::{Kind, Lexer, Token};
use super::problem::Problem;

/// How deep blocks, expressions and templates may be nested.
const MOST_NESTING: u32 = 100;
/// How tall the tree of one expression may be; long chains of operators make it tall.
const MOST_HEIGHT: u32 = 200;
/// How many parts one file may have.
const MOST_NODES: u32 = 1_000_000;
/// A block costs this many expressions' worth of memory.
const BLOCK_NODES: u32 = 4;
/// How long one text may be.
const MOST_BYTES: usize = 32 << 20;

/// A file's tree, as far as it could be understood, and all that is wrong with the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// Complete only where there are no problems.
    pub body: Body,
    /// In the order of the text.
    pub problems: Vec<Problem>,
}

/// Reads a whole file.
pub fn parse(text: &[u8]) -> Parsed {
    let text = match readable(text) {
        Ok(text) => text,
        Err(problem) => return Parsed { body: Body::default(), problems: vec![problem] },
    };
    let mut parser = Parser::new(Lexer::code(text));
    let body = parser.file();
    Parsed { body, problems: parser.lexer.into_problems() }
}

/// Reads a text that is one expression.
pub fn parse_expression(text: &[u8]) -> Result<Expr, Vec<Problem>> {
    let mut parser = Parser::new(Lexer::code(readable(text).map_err(|problem| vec![problem])?));
    parser.newlines = false;
    let parsed = parser.expression();
    if parsed.is_ok() && parser.peek() != Kind::End {
        parser.expected("the end of the expression");
    }
    parser.finish(parsed)
}

/// Reads a text that is one template, such as a file for `templatefile`.
pub fn parse_template(text: &[u8]) -> Result<Vec<Part>, Vec<Problem>> {
    let mut parser = Parser::new(Lexer::template(readable(text).map_err(|problem| vec![problem])?));
    let parsed = parser.bare_template();
    parser.finish(parsed)
}

/// The text, if it is one and not too long.
fn readable(text: &[u8]) -> Result<&str, Problem> {
    if text.len() > MOST_BYTES {
        let message = format!("this file has more than {} MiB", MOST_BYTES >> 20);
        return Err(Problem::new(Span::default(), message).help("split it into several files"));
    }
    std::str::from_utf8(text).map_err(|error| {
        let start = error.valid_up_to() as u32;
        let span = Span { start, end: start + error.error_len().unwrap_or(1) as u32 };
        Problem::new(span, "this is not text: the byte here is not valid UTF-8")
            .help("save the file in the encoding UTF-8")
    })
}

/// The mistake has been told; whoever gets this goes on behind it, quietly.
#[derive(Debug, Clone, Copy)]
struct Told;

type Outcome<T> = Result<T, Told>;

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The token to be looked at; comments never get here.
    token: Token,
    /// Whether it is the first of its line.
    fresh_line: bool,
    /// The end of the token before it.
    behind: u32,
    /// Whether line ends mean something here.
    newlines: bool,
    depth: u32,
    /// How tall the expression is that was read last.
    height: u32,
    nodes: u32,
    /// Whether something without an end was told; what surrounds it then has none either.
    told_unclosed: bool,
}

impl<'t> Parser<'t> {
    fn new(lexer: Lexer<'t>) -> Self {
        let token = Token { kind: Kind::Newline, span: Span::default() };
        let mut parser = Self {
            lexer,
            token,
            fresh_line: true,
            behind: 0,
            newlines: true,
            depth: 0,
            height: 0,
            nodes: 0,
            told_unclosed: false,
        };
        parser.load();
        parser
    }

    fn finish<T>(self, parsed: Outcome<T>) -> Result<T, Vec<Problem>> {
        let problems = self.lexer.into_problems();
        match parsed {
            Ok(parsed) if problems.is_empty() => Ok(parsed),
            _ => Err(problems),
        }
    }

    fn load(&mut self) {
        self.fresh_line = self.token.kind == Kind::Newline;
        self.token = loop {
            let token = self.lexer.next();
            match token.kind {
                Kind::Comment => {}
                Kind::CommentLine => break Token { kind: Kind::Newline, ..token },
                _ => break token,
            }
        };
    }

    /// The kind of the next token that means something here.
    fn peek(&mut self) -> Kind {
        if !self.newlines {
            while self.token.kind == Kind::Newline {
                self.load();
            }
        }
        self.token.kind
    }

    /// Takes the token that was looked at.
    fn advance(&mut self) -> Token {
        let token = self.token;
        self.behind = token.span.end;
        self.load();
        token
    }

    /// Takes the next token if it is of this kind.
    fn take(&mut self, kind: Kind) -> Option<Token> {
        (self.peek() == kind).then(|| self.advance())
    }

    fn at_keyword(&mut self, word: &str) -> bool {
        self.peek() == Kind::Name && self.lexer.slice(self.token.span) == word
    }

    fn text(&self, span: Span) -> &'t str {
        self.lexer.slice(span)
    }

    /// From `start` to the end of the last token taken.
    fn since(&self, start: Span) -> Span {
        Span { start: start.start, end: self.behind.max(start.end) }
    }

    fn with_newlines<T>(&mut self, newlines: bool, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.newlines, newlines);
        let result = read(self);
        self.newlines = before;
        result
    }

    /// Reads something one level deeper, if there may be one.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        if self.depth >= MOST_NESTING {
            let message = format!("nested more than {MOST_NESTING} levels deep");
            return Err(self.give_up(message, "move an inner part into a local value"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// An expression whose tallest part is `tallest` tall.
    fn node(&mut self, kind: ExprKind, span: Span, tallest: u32) -> Outcome<Expr> {
        self.height = tallest + 1;
        if self.height > MOST_HEIGHT {
            let message = format!("a chain of more than {MOST_HEIGHT} operators or accesses");
            return Err(self.give_up(message, "move a part of it into a local value"));
        }
        self.count(1)?;
        Ok(Expr { kind, span })
    }

    fn leaf(&mut self, kind: ExprKind, span: Span) -> Outcome<Expr> {
        self.node(kind, span, 0)
    }

    fn count(&mut self, nodes: u32) -> Outcome<()> {
        self.nodes += nodes;
        if self.nodes <= MOST_NODES {
            return Ok(());
        }
        Err(self.give_up("this file has too many parts".into(), "split it into several files"))
    }

    /// Tells of a limit at the present place and reads no further.
    fn give_up(&mut self, message: String, help: &str) -> Told {
        self.lexer.report(Problem::new(self.token.span, message).help(help));
        self.lexer.stop();
        self.load();
        Told
    }

    fn report(&mut self, problem: Problem) -> Told {
        self.lexer.report(problem);
        Told
    }
}
