//! The syntax tree: what the text says, with the exact place of every part.
//!
//! Trees own their text, so that a file's tree can be kept as long as its blob is unchanged.

/// A range of bytes in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte behind the last.
    pub end: u32,
}

impl Span {
    /// The smallest range that holds both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A name as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ident {
    /// Its text.
    pub text: Box<str>,
    /// Where it stands.
    pub span: Span,
}

/// What stands in a file or between a block's braces.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Body {
    /// In the order they are written; names are unique (a duplicate is a diagnostic).
    pub attributes: Vec<Attribute>,
    /// In the order they are written.
    pub blocks: Vec<Block>,
    /// From the first to the last byte of the body, without braces.
    pub span: Span,
}

/// `name = expression`
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Left of the sign.
    pub name: Ident,
    /// Right of the sign.
    pub value: Expr,
}

/// `kind "label" { … }`
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The block's type.
    pub kind: Ident,
    /// Quoted or bare; templates are not allowed in them.
    pub labels: Vec<Ident>,
    /// Between the braces.
    pub body: Body,
    /// From the kind to the closing brace.
    pub span: Span,
}

impl Block {
    /// From the kind to the last label: the part to point at when the block is meant.
    pub fn header(&self) -> Span {
        self.labels.last().map_or(self.kind.span, |label| self.kind.span.to(label.span))
    }
}

/// An expression and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
}

/// Every form of expression.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// The literal as written; it may have more digits than a machine word.
    Number(Box<str>),
    /// `"…"` or a heredoc, with escapes, strip markers and indentation already applied. A plain
    /// string is a template with no part or one literal part. A template that is one
    /// interpolation and nothing else gives that value as it is, not as a string.
    Template(Vec<Part>),
    /// The root of a traversal: `local`, a `for` variable, …
    Variable(Box<str>),
    /// `of.name`
    GetAttr {
        /// What is looked into.
        of: Box<Expr>,
        /// The attribute, or the digits of the legacy `list.0`.
        name: Ident,
    },
    /// `of[key]`
    Index {
        /// What is looked into.
        of: Box<Expr>,
        /// Any expression.
        key: Box<Expr>,
    },
    /// `of.*.each` (attribute-only) or `of[*].each`
    Splat {
        /// The collection, or a single value, or null.
        of: Box<Expr>,
        /// Applied to each element: an expression over [`ExprKind::SplatItem`].
        each: Box<Expr>,
    },
    /// Stands for the element within [`ExprKind::Splat::each`].
    SplatItem,
    /// `name(args…)`
    Call {
        /// The function; `a::b` names are kept whole.
        name: Ident,
        /// In order.
        args: Vec<Expr>,
        /// Whether the last argument is followed by `...`.
        expand_last: bool,
    },
    /// `[a, b]`
    Tuple(Vec<Expr>),
    /// `{ a = 1, (b) : 2 }`
    Object(Vec<ObjectItem>),
    /// `[for …]` or `{for …}`
    For(Box<ForExpr>),
    /// `condition ? yes : no`
    Conditional {
        /// Decides.
        condition: Box<Expr>,
        /// When true.
        yes: Box<Expr>,
        /// When false.
        no: Box<Expr>,
    },
    /// `left operator right`
    Binary {
        /// Which.
        operator: BinaryOp,
        /// Where it stands.
        at: Span,
        /// Left of it.
        left: Box<Expr>,
        /// Right of it.
        right: Box<Expr>,
    },
    /// `-x`, `!x`
    Unary {
        /// Which.
        operator: UnaryOp,
        /// What it is applied to.
        operand: Box<Expr>,
    },
    /// `(x)`; kept because `(a).b` and object keys care.
    Paren(Box<Expr>),
}

/// One item of an object expression.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectItem {
    /// Left of the sign. A bare name is a [`ExprKind::Variable`] with `literal_key` set.
    pub key: Expr,
    /// Whether the key is a bare name, meant as itself and not as a variable.
    pub literal_key: bool,
    /// Right of the sign.
    pub value: Expr,
}

/// `[for key, value in collection : result if condition]` and its object form
#[derive(Debug, Clone, PartialEq)]
pub struct ForExpr {
    /// The first of two names.
    pub key_name: Option<Ident>,
    /// The only or second name.
    pub value_name: Ident,
    /// What is gone through.
    pub collection: Expr,
    /// Left of `=>`: present in the object form only.
    pub key: Option<Expr>,
    /// The result.
    pub value: Expr,
    /// `...` behind the value: equal keys are grouped.
    pub group: bool,
    /// Keeps only the elements for which it holds.
    pub condition: Option<Expr>,
}

/// One part of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text, ready to be used.
    Literal(Box<str>),
    /// `${ … }`
    Interpolation(Expr),
    /// `%{ if … }…%{ else }…%{ endif }`
    If {
        /// Decides.
        condition: Expr,
        /// When true.
        yes: Vec<Part>,
        /// When false.
        no: Vec<Part>,
        /// All of the directive.
        span: Span,
    },
    /// `%{ for … in … }…%{ endfor }`
    For {
        /// The first of two names.
        key_name: Option<Ident>,
        /// The only or second name.
        value_name: Ident,
        /// What is gone through.
        collection: Expr,
        /// Repeated.
        body: Vec<Part>,
        /// All of the directive.
        span: Span,
    },
}

/// Operators with two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    /// `||`
    Or,
    /// `&&`
    And,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

/// Operators with one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `!`
    Not,
}
