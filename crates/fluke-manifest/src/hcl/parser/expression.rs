//! Operators, accesses and the smallest expressions.

use super::{Outcome, Parser, Told};
use crate::hcl::ast::{BinaryOp, Expr, ExprKind, Ident, UnaryOp};
use crate::hcl::lexer::{Kind, Token};
use crate::hcl::problem::Problem;

/// The operator, and how strongly it binds.
fn binary(kind: Kind) -> Option<(BinaryOp, u8)> {
    Some(match kind {
        Kind::Or => (BinaryOp::Or, 1),
        Kind::And => (BinaryOp::And, 2),
        Kind::Equal => (BinaryOp::Equal, 3),
        Kind::NotEqual => (BinaryOp::NotEqual, 3),
        Kind::Greater => (BinaryOp::Greater, 4),
        Kind::GreaterOrEqual => (BinaryOp::GreaterOrEqual, 4),
        Kind::Less => (BinaryOp::Less, 4),
        Kind::LessOrEqual => (BinaryOp::LessOrEqual, 4),
        Kind::Plus => (BinaryOp::Add, 5),
        Kind::Minus => (BinaryOp::Subtract, 5),
        Kind::Star => (BinaryOp::Multiply, 6),
        Kind::Slash => (BinaryOp::Divide, 6),
        Kind::Percent => (BinaryOp::Modulo, 6),
        _ => return None,
    })
}

/// Whether the digits, dots and exponents make a number.
fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.trim_start_matches(['+', '-'])),
        None => (text, "0"),
    };
    mantissa.bytes().filter(|byte| *byte == b'.').count() <= 1
        && exponent.bytes().all(|byte| byte.is_ascii_digit())
}

impl Parser<'_> {
    /// Any expression.
    pub(super) fn expression(&mut self) -> Outcome<Expr> {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> Outcome<Expr> {
        let condition = self.operation(1)?;
        let mut tallest = self.height;
        let Some(question) = self.take(Kind::Question) else { return Ok(condition) };
        let yes = self.expression()?;
        tallest = tallest.max(self.height);
        if self.take(Kind::Colon).is_none() {
            let line = self.lexer.line_of(question.span.start);
            let help = format!("the `?` on line {line} needs both: condition ? this : otherwise");
            return Err(self.expected_because("`:` and the other value", help));
        }
        let no = self.expression()?;
        tallest = tallest.max(self.height);
        let span = condition.span.to(no.span);
        let [condition, yes, no] = [condition, yes, no].map(Box::new);
        self.node(ExprKind::Conditional { condition, yes, no }, span, tallest)
    }

    /// Operators that bind at least as strongly as `weakest`; equal ones group to the left.
    fn operation(&mut self, weakest: u8) -> Outcome<Expr> {
        let mut left = self.operand()?;
        loop {
            let tallest = self.height;
            let Some((operator, strength)) = binary(self.peek()) else { return Ok(left) };
            if strength < weakest {
                return Ok(left);
            }
            let at = self.advance().span;
            let right = self.operation(strength + 1)?;
            let span = left.span.to(right.span);
            let tallest = tallest.max(self.height);
            let [first, second] = [left, right].map(Box::new);
            let kind = ExprKind::Binary { operator, at, left: first, right: second };
            left = self.node(kind, span, tallest)?;
        }
    }

    fn operand(&mut self) -> Outcome<Expr> {
        let operator = match self.peek() {
            Kind::Minus => UnaryOp::Negate,
            Kind::Not => UnaryOp::Not,
            _ => {
                let term = self.term()?;
                return self.accesses(term);
            }
        };
        let sign = self.advance();
        let operand = self.nested(Self::operand)?;
        let span = sign.span.to(operand.span);
        let kind = ExprKind::Unary { operator, operand: Box::new(operand) };
        self.node(kind, span, self.height)
    }

    fn term(&mut self) -> Outcome<Expr> {
        match self.peek() {
            Kind::Name => self.name_or_call(),
            Kind::OpenQuote => self.quoted_template(),
            Kind::OpenHeredoc => self.heredoc(),
            Kind::Number => self.number(),
            Kind::OpenParen => self.parentheses(),
            Kind::OpenBracket => self.tuple(),
            Kind::OpenBrace => self.object(),
            Kind::WrongQuotes => {
                let token = self.advance();
                self.leaf(ExprKind::Null, token.span)
            }
            _ => Err(self.no_value()),
        }
    }

    fn no_value(&mut self) -> Told {
        if self.lexer.starts_with(self.token.span.start, "<<") {
            return self.report(
                Problem::new(self.token.span, "this is not the beginning of a heredoc").help(
                    "write `<<MARKER` or `<<-MARKER`, with a bare name and nothing behind it",
                ),
            );
        }
        match self.token.kind {
            Kind::Assign => self.expected_because("a value", "two values are compared with `==`"),
            Kind::Star => self.expected_because("a value", "`pow(base, exponent)` gives powers"),
            _ => self.expected("a value"),
        }
    }

    fn number(&mut self) -> Outcome<Expr> {
        let token = self.advance();
        let text = self.text(token.span);
        if !is_number(text) {
            let message = format!("{} is not a number", self.quoted(token.span));
            self.report(Problem::new(token.span, message).help("write it like 1, 1.5 or 1.5e3"));
        }
        self.leaf(ExprKind::Number(text.into()), token.span)
    }

    fn name_or_call(&mut self) -> Outcome<Expr> {
        let name = self.advance();
        if matches!(self.peek(), Kind::OpenParen | Kind::DoubleColon) {
            return self.call(name);
        }
        let kind = match self.text(name.span) {
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            "null" => ExprKind::Null,
            text => ExprKind::Variable(text.into()),
        };
        self.leaf(kind, name.span)
    }

    fn parentheses(&mut self) -> Outcome<Expr> {
        let open = self.advance();
        let inner = self.with_newlines(false, |parser| parser.between_parentheses(open));
        let Ok(inner) = inner else {
            return self.skip_behind(open, Kind::CloseParen);
        };
        self.node(ExprKind::Paren(Box::new(inner)), self.since(open.span), self.height)
    }

    fn between_parentheses(&mut self, open: Token) -> Outcome<Expr> {
        let inner = self.expression()?;
        match self.take(Kind::CloseParen) {
            Some(_) => Ok(inner),
            None => Err(self.expected_between(open, "an operator or `)`")),
        }
    }

    /// After a mistake between brackets: something to go on with, if their end is found.
    pub(super) fn skip_behind(&mut self, open: Token, closer: Kind) -> Outcome<Expr> {
        if !self.skip_to(closer) {
            return Err(Told);
        }
        self.leaf(ExprKind::Null, self.since(open.span))
    }

    /// All that follows a value: `.name`, `.0`, `[key]`, `.*`, `[*]`.
    fn accesses(&mut self, from: Expr) -> Outcome<Expr> {
        let mut expr = from;
        loop {
            expr = match self.peek() {
                Kind::Dot => self.dot(expr)?,
                Kind::OpenBracket => self.index(expr)?,
                _ => return Ok(expr),
            };
        }
    }

    fn dot(&mut self, of: Expr) -> Outcome<Expr> {
        let dot = self.advance();
        match self.peek() {
            Kind::Name | Kind::Number => self.attribute_of(of),
            Kind::Star => {
                let star = self.advance();
                self.attribute_splat(of, dot, star)
            }
            _ => Err(self.expected("the name of an attribute behind the dot")),
        }
    }

    fn attribute_of(&mut self, of: Expr) -> Outcome<Expr> {
        let tallest = self.height;
        let token = self.advance();
        let name = self.attribute_name(token);
        let span = of.span.to(name.span);
        self.node(ExprKind::GetAttr { of: Box::new(of), name }, span, tallest)
    }

    /// A name, or the digits of a legacy index.
    fn attribute_name(&mut self, token: Token) -> Ident {
        let text = self.text(token.span);
        if let (Kind::Number, Some((first, second))) = (token.kind, text.split_once('.')) {
            let problem = Problem::new(token.span, "two indexes cannot be chained with dots")
                .help(format!("write them in brackets: [{first}][{second}]"));
            self.report(problem);
        }
        self.ident(token)
    }

    /// `.*`: takes the names that follow, and no brackets.
    fn attribute_splat(&mut self, of: Expr, dot: Token, star: Token) -> Outcome<Expr> {
        let below = self.height;
        let mut each = self.leaf(ExprKind::SplatItem, dot.span.to(star.span))?;
        while self.take(Kind::Dot).is_some() {
            each = match self.peek() {
                Kind::Name | Kind::Number => self.attribute_of(each)?,
                Kind::Star => {
                    return Err(self.expected_because(
                        "a name",
                        "a splat within a splat is written with brackets: [*]",
                    ));
                }
                _ => return Err(self.expected("the name of an attribute behind the dot")),
            };
        }
        self.splat(of, each, below)
    }

    fn splat(&mut self, of: Expr, each: Expr, below: u32) -> Outcome<Expr> {
        let span = of.span.to(each.span);
        let tallest = below.max(self.height);
        let [of, each] = [of, each].map(Box::new);
        self.node(ExprKind::Splat { of, each }, span, tallest)
    }

    /// `[key]` or `[*]`.
    fn index(&mut self, of: Expr) -> Outcome<Expr> {
        let below = self.height;
        let open = self.advance();
        if self.peek() == Kind::Star {
            self.advance();
            return self.full_splat(of, open, below);
        }
        let key = self.with_newlines(false, |parser| parser.between_brackets(open));
        let key = match key {
            Ok(key) => key,
            Err(Told) => self.skip_behind(open, Kind::CloseBracket)?,
        };
        let span = self.since(of.span);
        let tallest = below.max(self.height);
        let [of, key] = [of, key].map(Box::new);
        self.node(ExprKind::Index { of, key }, span, tallest)
    }

    fn between_brackets(&mut self, open: Token) -> Outcome<Expr> {
        let key = self.expression()?;
        match self.take(Kind::CloseBracket) {
            Some(_) => Ok(key),
            None => Err(self.expected_between(open, "an operator or `]`")),
        }
    }

    /// `[*]`: takes all accesses that follow.
    fn full_splat(&mut self, of: Expr, open: Token, below: u32) -> Outcome<Expr> {
        if self.take(Kind::CloseBracket).is_none() {
            self.expected_between(open, "`]`");
            self.skip_behind(open, Kind::CloseBracket)?;
        }
        let item = self.leaf(ExprKind::SplatItem, self.since(open.span))?;
        let each = self.nested(|parser| parser.accesses(item))?;
        self.splat(of, each, below)
    }
}
