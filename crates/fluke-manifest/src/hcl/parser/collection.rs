//! Tuples, objects, `for` expressions and calls.

use super::{Outcome, Parser, Told};
use crate::hcl::ast::{Expr, ExprKind, ForExpr, Ident, ObjectItem};
use crate::hcl::lexer::{Kind, Token};
use crate::hcl::problem::Problem;

/// The names of a `for`, and what it goes through.
pub(super) struct ForHead {
    pub key_name: Option<Ident>,
    pub value_name: Ident,
    pub collection: Expr,
}

impl Parser<'_> {
    /// `[ … ]`
    pub(super) fn tuple(&mut self) -> Outcome<Expr> {
        let open = self.advance();
        let read = |parser: &mut Self| match parser.at_keyword("for") {
            true => parser.for_expression(open, Kind::CloseBracket),
            false => parser.items_of_tuple(open),
        };
        match self.with_newlines(false, read) {
            Ok(kind) => self.node(kind, self.since(open.span), self.height),
            Err(Told) => self.skip_behind(open, Kind::CloseBracket),
        }
    }

    fn items_of_tuple(&mut self, open: Token) -> Outcome<ExprKind> {
        let (items, _) = self.list(open, Kind::CloseBracket, "an operator, `,` or `]`")?;
        Ok(ExprKind::Tuple(items))
    }

    /// Expressions with commas between them and the closing bracket, and whether `...` was
    /// before it (in calls only).
    fn list(&mut self, open: Token, closer: Kind, what: &str) -> Outcome<(Vec<Expr>, bool)> {
        let mut items = Vec::new();
        let mut tallest = 0;
        let mut expand = false;
        while self.take(closer).is_none() {
            if self.token.kind == Kind::End || self.attribute_follows() {
                return Err(self.unclosed(open.span));
            }
            items.push(self.expression()?);
            tallest = tallest.max(self.height);
            if closer == Kind::CloseParen && self.take(Kind::Ellipsis).is_some() {
                expand = true;
                if self.take(closer).is_some() {
                    break;
                }
                let help = "`...` stands behind the last argument only";
                return Err(self.expected_because("`)` behind `...`", help));
            }
            if self.take(Kind::Comma).is_none() {
                if self.take(closer).is_some() {
                    break;
                }
                return Err(self.expected_between(open, what));
            }
        }
        items.shrink_to_fit();
        self.height = tallest;
        Ok((items, expand))
    }

    /// `name(…)`, from behind the name on.
    pub(super) fn call(&mut self, first: Token) -> Outcome<Expr> {
        let name = self.function_name(first)?;
        let open = self.advance();
        let read =
            |parser: &mut Self| parser.list(open, Kind::CloseParen, "an operator, `,` or `)`");
        match self.with_newlines(false, read) {
            Ok((args, expand_last)) => {
                let kind = ExprKind::Call { name, args, expand_last };
                self.node(kind, self.since(first.span), self.height)
            }
            Err(Told) => self.skip_behind(first, Kind::CloseParen),
        }
    }

    /// `a::b`, up to the opening bracket.
    fn function_name(&mut self, first: Token) -> Outcome<Ident> {
        let mut name = self.ident(first);
        while self.take(Kind::DoubleColon).is_some() {
            if self.peek() != Kind::Name {
                return Err(self.expected("the name of a function behind `::`"));
            }
            let next = self.advance();
            name.text = format!("{}::{}", name.text, self.text(next.span)).into();
            name.span = name.span.to(next.span);
        }
        if self.peek() != Kind::OpenParen {
            return Err(self.expected(&format!("`(` behind the function `{}`", name.text)));
        }
        Ok(name)
    }

    /// `{ … }`
    pub(super) fn object(&mut self) -> Outcome<Expr> {
        let open = self.advance();
        let is_for = self.with_newlines(false, |parser| parser.at_keyword("for"));
        let kind = if is_for {
            let read = |parser: &mut Self| parser.for_expression(open, Kind::CloseBrace);
            self.with_newlines(false, read)
        } else {
            self.with_newlines(true, |parser| parser.items_of_object(open))
        };
        match kind {
            Ok(kind) => self.node(kind, self.since(open.span), self.height),
            Err(Told) => self.skip_behind(open, Kind::CloseBrace),
        }
    }

    fn items_of_object(&mut self, open: Token) -> Outcome<ExprKind> {
        let mut items = Vec::new();
        let mut tallest = 0;
        loop {
            while self.take(Kind::Newline).is_some() {}
            if self.take(Kind::CloseBrace).is_some() {
                break;
            }
            if self.token.kind == Kind::End {
                return Err(self.unclosed(open.span));
            }
            match self.object_item(open) {
                Ok((item, height)) => {
                    items.push(item);
                    tallest = tallest.max(height);
                }
                Err(Told) if self.skip_object_item() => {}
                Err(Told) => return Err(Told),
            }
        }
        items.shrink_to_fit();
        self.height = tallest;
        Ok(ExprKind::Object(items))
    }

    /// `key = value` or `key : value`, and the comma or line end behind it.
    fn object_item(&mut self, open: Token) -> Outcome<(ObjectItem, u32)> {
        let parenthesised = self.peek() == Kind::OpenParen;
        let key = self.expression()?;
        let tallest = self.height;
        if !matches!(self.peek(), Kind::Assign | Kind::Colon) {
            return Err(self.no_object_value(open, &key));
        }
        self.advance();
        let (key, literal_key) = self.object_key(key, parenthesised);
        let value = self.expression()?;
        let tallest = tallest.max(self.height);
        match self.peek() {
            Kind::Comma | Kind::Newline => {
                self.advance();
            }
            Kind::CloseBrace => {}
            Kind::Name | Kind::OpenQuote => {
                let help = "put a comma or a new line between the items";
                return Err(self.expected_because("`,`, a new line or `}`", help));
            }
            _ => return Err(self.expected_between(open, "an operator, `,`, a new line or `}`")),
        }
        Ok((ObjectItem { key, literal_key, value }, tallest))
    }

    fn no_object_value(&mut self, open: Token, key: &Expr) -> Told {
        match self.token.kind {
            Kind::End => self.unclosed(open.span),
            Kind::OpenBrace => {
                let help = "there are no blocks within `{ … }`: write the name, `=` and a value";
                self.expected_because("`=` and a value", help)
            }
            _ => {
                let key = self.quoted(key.span);
                self.expected(&format!("`=` and a value behind {key}"))
            }
        }
    }

    /// A bare name means itself; a path could mean two things, so it means none.
    fn object_key(&mut self, key: Expr, parenthesised: bool) -> (Expr, bool) {
        if parenthesised {
            return (key, false);
        }
        let name = match &key.kind {
            ExprKind::Variable(_) => return (key, true),
            ExprKind::Bool(true) => "true",
            ExprKind::Bool(false) => "false",
            ExprKind::Null => "null",
            _ => {
                if is_path(&key) {
                    let path = self.shown(key.span);
                    let problem = Problem::new(key.span, format!("the key `{path}` is ambiguous"));
                    let help = format!("write `({path})` for its value, `\"{path}\"` for the text");
                    self.report(problem.help(help));
                }
                return (key, false);
            }
        };
        (Expr { kind: ExprKind::Variable(name.into()), span: key.span }, true)
    }

    /// After a mistake in an item: behind its comma or line, or at the closing brace.
    fn skip_object_item(&mut self) -> bool {
        let mut open = Vec::new();
        loop {
            let kind = self.token.kind;
            match kind {
                Kind::End => return false,
                Kind::CloseBrace if open.is_empty() => return true,
                Kind::Newline | Kind::Comma if open.is_empty() => {
                    self.advance();
                    return true;
                }
                _ => {}
            }
            if let Some(closer) = super::recovery::closer_of(kind) {
                open.push(closer);
            } else if open.last() == Some(&kind) {
                open.pop();
            } else if super::recovery::is_closer(kind) {
                return false;
            }
            self.advance();
        }
    }

    /// `for …` up to the closing bracket, which is taken.
    fn for_expression(&mut self, open: Token, closer: Kind) -> Outcome<ExprKind> {
        self.advance();
        let ForHead { key_name, value_name, collection } = self.for_head()?;
        let mut tallest = self.height;
        if self.take(Kind::Colon).is_none() {
            return Err(self.expected_between(open, "`:` and the result of the `for`"));
        }
        let mut value = self.expression()?;
        tallest = tallest.max(self.height);
        let mut key = None;
        if self.take(Kind::Arrow).is_some() {
            key = Some(std::mem::replace(&mut value, self.expression()?));
            tallest = tallest.max(self.height);
        }
        let ellipsis = self.take(Kind::Ellipsis);
        let condition = self.for_condition()?;
        tallest = tallest.max(self.height);
        if self.take(closer).is_none() {
            let end = if closer == Kind::CloseBrace { "`}`" } else { "`]`" };
            return Err(self.expected_between(open, &format!("`if` or {end}")));
        }
        self.check_for_form(closer, key.as_ref(), &value, ellipsis);
        self.height = tallest;
        let group = ellipsis.is_some();
        let parts = ForExpr { key_name, value_name, collection, key, value, group, condition };
        Ok(ExprKind::For(Box::new(parts)))
    }

    fn for_condition(&mut self) -> Outcome<Option<Expr>> {
        if !self.at_keyword("if") {
            self.height = 0;
            return Ok(None);
        }
        self.advance();
        self.expression().map(Some)
    }

    /// `names in collection`
    pub(super) fn for_head(&mut self) -> Outcome<ForHead> {
        let mut key_name = None;
        let mut value_name = self.for_name()?;
        if self.take(Kind::Comma).is_some() {
            key_name = Some(std::mem::replace(&mut value_name, self.for_name()?));
        }
        if !self.at_keyword("in") {
            return Err(self.expected_because("`in`", "write: for name in collection"));
        }
        self.advance();
        let collection = self.expression()?;
        Ok(ForHead { key_name, value_name, collection })
    }

    fn for_name(&mut self) -> Outcome<Ident> {
        if self.peek() != Kind::Name {
            return Err(self.expected("a name for the elements behind `for`"));
        }
        let name = self.advance();
        Ok(self.ident(name))
    }

    /// Keys belong to objects, and objects need them.
    fn check_for_form(
        &mut self,
        closer: Kind,
        key: Option<&Expr>,
        value: &Expr,
        ellipsis: Option<Token>,
    ) {
        if closer == Kind::CloseBrace {
            if key.is_none() {
                let problem = Problem::new(value.span, "a `for` in braces needs a key");
                self.report(problem.help("write: key => value; or brackets for a list"));
            }
            return;
        }
        if let Some(key) = key {
            let problem = Problem::new(key.span, "a `for` in brackets has no key");
            self.report(problem.help("use braces to make an object"));
        }
        if let Some(ellipsis) = ellipsis {
            let problem = Problem::new(ellipsis.span, "`...` groups by key, and here is none");
            self.report(problem.help("use braces and `key => value...`"));
        }
    }
}

/// Whether it is a variable with fixed accesses behind it.
fn is_path(key: &Expr) -> bool {
    let mut at = key;
    loop {
        at = match &at.kind {
            ExprKind::GetAttr { of, .. } => of,
            ExprKind::Index { of, key } if is_fixed(key) => of,
            ExprKind::Variable(_) => return true,
            _ => return false,
        };
    }
}

fn is_fixed(key: &Expr) -> bool {
    use crate::hcl::ast::Part;
    match &key.kind {
        ExprKind::Number(_) | ExprKind::Bool(_) | ExprKind::Null => true,
        ExprKind::Template(parts) => parts.iter().all(|part| matches!(part, Part::Literal(_))),
        _ => false,
    }
}
