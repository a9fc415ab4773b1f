//! Bodies, attributes and blocks.

use std::collections::HashMap;

use super::{BLOCK_NODES, Outcome, Parser, Told};
use crate::hcl::ast::{Attribute, Block, Body, Expr, ExprKind, Ident, Span};
use crate::hcl::lexer::{Kind, Token};
use crate::hcl::problem::Problem;

const ONE_A_LINE: &str = "write one attribute a line";

/// Up to here, comparing all names with each other is quicker than a map.
const FEW_ATTRIBUTES: usize = 16;

/// How many duplicates of one body are told.
const MOST_DUPLICATES: usize = 100;

impl Parser<'_> {
    /// All of a file.
    pub(super) fn file(&mut self) -> Body {
        let mut body = Body::default();
        let end = self.items(&mut body, None);
        body.span = Span { start: 0, end: end.end };
        body
    }

    /// The items up to the closing brace (which is taken) or the end of the file; gives the place
    /// of that.
    fn items(&mut self, body: &mut Body, open: Option<Span>) -> Span {
        let end = loop {
            match self.token.kind {
                Kind::Newline => self.load(),
                Kind::CloseBrace if open.is_some() => break self.advance().span,
                Kind::End => {
                    open.map(|open| self.unclosed(open));
                    break self.token.span;
                }
                Kind::Name => {
                    if self.item(body, open.is_some()).is_err() {
                        self.skip_item(open.is_some());
                    }
                }
                _ => self.not_an_item(open.is_some()),
            }
        };
        self.refuse_duplicates(&mut body.attributes);
        body.attributes.shrink_to_fit();
        body.blocks.shrink_to_fit();
        end
    }

    fn not_an_item(&mut self, in_block: bool) {
        match self.token.kind {
            Kind::CloseBrace => {
                let problem = Problem::new(self.token.span, "this `}` closes nothing")
                    .help("remove it, or look for a `{` that is missing above");
                self.report(problem);
                self.advance();
                return;
            }
            Kind::OpenQuote => {
                self.expected_because(
                    "the name of an attribute or block",
                    "names of attributes and blocks are not quoted",
                );
            }
            _ => {
                self.expected("an attribute or a block");
            }
        }
        self.advance();
        self.skip_item(in_block);
    }

    fn item(&mut self, body: &mut Body, in_block: bool) -> Outcome<()> {
        let name = self.advance();
        match self.token.kind {
            Kind::Assign => {
                self.attribute(name, body)?;
                self.end_of_attribute(in_block)
            }
            Kind::OpenBrace | Kind::OpenQuote | Kind::Name | Kind::WrongQuotes => {
                let block = self.nested(|parser| parser.block(name))?;
                body.blocks.push(block);
                self.end_of_block(in_block)
            }
            _ => Err(self.neither_attribute_nor_block(name)),
        }
    }

    fn neither_attribute_nor_block(&mut self, name: Token) -> Told {
        let name = self.shown(name.span);
        let what = format!("`=` or `{{` behind `{name}`");
        let help = match self.token.kind {
            Kind::Colon => format!("attributes are set with `=`: `{name} = …`"),
            Kind::Dot => "the name of an attribute has no dots".into(),
            _ => format!("write `{name} = …` for an attribute, `{name} {{ … }}` for a block"),
        };
        self.expected_because(&what, help)
    }

    /// From the `=` on. A value with a mistake is kept as none, so that the name counts as set.
    fn attribute(&mut self, name: Token, body: &mut Body) -> Outcome<()> {
        self.count(1)?;
        self.advance();
        let (value, outcome) = match self.expression() {
            Ok(value) => (value, Ok(())),
            Err(Told) => (Expr { kind: ExprKind::Null, span: name.span }, Err(Told)),
        };
        body.attributes.push(Attribute { name: self.ident(name), value });
        outcome
    }

    fn end_of_attribute(&mut self, in_block: bool) -> Outcome<()> {
        let what = "a new line behind the attribute";
        match self.token.kind {
            Kind::Newline => {
                self.advance();
                Ok(())
            }
            Kind::CloseBrace => {
                if in_block {
                    let help = "the `}` of a block of several lines stands on its own line";
                    self.expected_because(what, help);
                }
                Ok(())
            }
            Kind::End => Ok(()),
            Kind::Comma => {
                let help = format!("no commas between attributes; {ONE_A_LINE}");
                Err(self.expected_because(what, help))
            }
            Kind::Name => Err(self.expected_because(what, ONE_A_LINE)),
            _ => Err(self.expected("an operator or a new line behind the value")),
        }
    }

    fn end_of_block(&mut self, in_block: bool) -> Outcome<()> {
        let what = "a new line behind the block";
        match self.token.kind {
            Kind::Newline => {
                self.advance();
                Ok(())
            }
            Kind::CloseBrace => {
                if in_block {
                    self.expected(what);
                }
                Ok(())
            }
            Kind::End => Ok(()),
            _ => Err(self.expected_because(what, "put what follows on a line of its own")),
        }
    }

    /// From the first label or the brace on.
    fn block(&mut self, kind: Token) -> Outcome<Block> {
        self.count(BLOCK_NODES)?;
        let mut labels = Vec::with_capacity(1);
        let open = loop {
            self.count(1)?;
            match self.token.kind {
                Kind::OpenBrace => break self.advance(),
                Kind::Name => {
                    let label = self.advance();
                    labels.push(self.ident(label));
                }
                Kind::OpenQuote => labels.push(self.label()?),
                Kind::WrongQuotes => {
                    let label = self.advance();
                    labels.push(self.ident(label));
                }
                Kind::Newline => break self.brace_missing_on_line(kind, labels.last())?,
                _ => return Err(self.not_in_header(kind, &labels)),
            }
        };
        let body = self.block_body(open);
        Ok(Block { kind: self.ident(kind), labels, body, span: self.since(kind.span) })
    }

    fn not_in_header(&mut self, kind: Token, labels: &[Ident]) -> Told {
        let name = self.shown(kind.span);
        match self.token.kind {
            Kind::Assign if labels.is_empty() => self.expected("`{`"),
            Kind::Assign => {
                let help = "a block has no `=`; the name of an attribute is one word";
                self.expected_because("`{`", help)
            }
            _ => self.expected(&format!("a label or `{{` of the block `{name}`")),
        }
    }

    /// The header's line ended without a brace. It is told; then what follows is read as the
    /// block's body if it looks like one.
    fn brace_missing_on_line(&mut self, kind: Token, label: Option<&Ident>) -> Outcome<Token> {
        let at = self.token;
        if label.is_some_and(|label| self.has_no_end(label)) {
            return Ok(at);
        }
        let name = self.shown(kind.span);
        let next_line = at.span.end;
        let deeper = self.lexer.indent_at(next_line) > self.lexer.indent_at(kind.span.start);
        let on_next_line = self.lexer.first_char_behind(next_line) == Some('{');
        let help = if on_next_line {
            "the `{` stands on the line of the block's name and labels".into()
        } else if deeper {
            format!("put `{{` at the end of the line to begin the block `{name}`")
        } else {
            format!("write `{name} = …` for an attribute, or `{{ … }}` behind it for a block")
        };
        let message = "expected `{`, found the end of the line";
        let told = self.report(Problem::new(at.span, message).help(help));
        if on_next_line {
            while self.take(Kind::Newline).is_some() {}
            return Ok(self.advance());
        }
        if deeper { Ok(at) } else { Err(told) }
    }

    /// Whether the label's closing quote is missing (which has been told) and the brace is most
    /// likely within it.
    fn has_no_end(&self, label: &Ident) -> bool {
        label.text.trim_end().ends_with('{') && !self.text(label.span).ends_with('"')
    }

    /// Between the braces, and the closing one.
    fn block_body(&mut self, open: Token) -> Body {
        let mut body = Body::default();
        let several_lines = open.kind == Kind::Newline
            || matches!(self.token.kind, Kind::Newline | Kind::CloseBrace | Kind::End);
        let end = if several_lines {
            self.items(&mut body, Some(open.span)).start
        } else {
            self.single_line(&mut body, open).unwrap_or_else(|Told| {
                self.skip_to(Kind::CloseBrace);
                self.behind
            })
        };
        body.span = Span { start: open.span.end, end: end.max(open.span.end) };
        body
    }

    /// `name = value }`: a block on one line holds one attribute. Gives the place of the brace.
    fn single_line(&mut self, body: &mut Body, open: Token) -> Outcome<u32> {
        if self.token.kind != Kind::Name {
            return Err(self.expected("an attribute or `}`"));
        }
        let name = self.advance();
        match self.token.kind {
            Kind::Assign => {
                body.attributes.reserve_exact(1);
                self.attribute(name, body)?;
            }
            Kind::OpenBrace | Kind::OpenQuote | Kind::Name => {
                let span = name.span.to(self.token.span);
                let problem = Problem::new(span, "a block on one line holds one attribute only")
                    .help("put a nested block on lines of its own");
                return Err(self.report(problem));
            }
            _ => return Err(self.neither_attribute_nor_block(name)),
        }
        match self.token.kind {
            Kind::CloseBrace => Ok(self.advance().span.start),
            Kind::End => Err(self.unclosed(open.span)),
            Kind::Comma | Kind::Name => Err(self.expected_because(
                "`}`",
                format!("a block on one line holds one attribute; for more, {ONE_A_LINE}, none on the line of the `{{`"),
            )),
            Kind::Newline => Err(self.expected_because(
                "`}`",
                "a block that begins on the line of its `{` ends on it; \
                 for several lines, begin a new line behind the `{`",
            )),
            _ => Err(self.expected("`}`")),
        }
    }

    /// A quoted label: text without templates.
    fn label(&mut self) -> Outcome<Ident> {
        let open = self.advance();
        let depth = self.lexer.depth();
        let mut text = String::new();
        loop {
            match self.token.kind {
                Kind::QuotedText => {
                    let token = self.advance();
                    text.push_str(&self.unescape(token));
                }
                Kind::CloseQuote => {
                    self.advance();
                    return Ok(Ident { text: text.into(), span: self.since(open.span) });
                }
                _ => {
                    let sign = &self.text(self.token.span)[..1];
                    let problem =
                        Problem::new(self.token.span, "a label is plain text, without templates")
                            .help(format!("double the sign to mean it as it is: `{sign}{sign}{{`"));
                    let told = self.report(problem);
                    self.advance();
                    if !self.skip_to(Kind::CloseTemplate) {
                        self.lexer.skip_line(open.span.start, depth.saturating_sub(1));
                        self.load();
                        return Err(told);
                    }
                }
            }
        }
    }

    pub(super) fn ident(&self, token: Token) -> Ident {
        Ident { text: self.text(token.span).into(), span: token.span }
    }

    /// Keeps the first of attributes with equal names, and tells of the others.
    fn refuse_duplicates(&mut self, attributes: &mut Vec<Attribute>) {
        let duplicates = duplicates(attributes);
        if duplicates.is_empty() {
            return;
        }
        for (at, first) in duplicates.iter().take(MOST_DUPLICATES) {
            let name = &attributes[*at].name;
            let line = self.lexer.line_of(attributes[*first].name.span.start);
            let problem = Problem::new(name.span, format!("`{}` is set twice", name.text))
                .help(format!("it is set on line {line} already; remove one of them"));
            self.report(problem);
        }
        let mut at = 0;
        attributes.retain(|_| {
            at += 1;
            duplicates.binary_search_by_key(&(at - 1), |(duplicate, _)| *duplicate).is_err()
        });
    }
}

/// Which attributes bear the name of an earlier one, and which that is.
fn duplicates(attributes: &[Attribute]) -> Vec<(usize, usize)> {
    if attributes.len() <= FEW_ATTRIBUTES {
        return (1..attributes.len())
            .filter_map(|at| {
                let name = &attributes[at].name.text;
                let first = attributes[..at].iter().position(|other| other.name.text == *name)?;
                Some((at, first))
            })
            .collect();
    }
    let mut first_of = HashMap::with_capacity(attributes.len());
    let earlier = attributes
        .iter()
        .enumerate()
        .map(|(at, attribute)| (at, *first_of.entry(&*attribute.name.text).or_insert(at)));
    earlier.filter(|(at, first)| at != first).collect()
}
