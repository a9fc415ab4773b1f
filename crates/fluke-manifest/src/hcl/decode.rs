//! Reads blocks into typed values, and reports everything that does not belong.
//!
//! A schema is a list of what it takes:
//!
//! ```
//! # use fluke_manifest::hcl::ast::Block;
//! # use fluke_manifest::hcl::decode::{Evaluate, Field, Fields};
//! # use fluke_manifest::hcl::problem::Problem;
//! # fn read(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) {
//! let mut fields = Fields::of_block(block, evaluate, problems);
//! let command = fields.required(Field::string("command"));
//! let timeout = fields.optional(Field::duration("timeout"));
//! let user = fields.optional(Field::string("user"));
//! fields.finish();
//! # }
//! ```
//!
//! What fails is reported and read as absent; what is never taken is reported by `finish`. What
//! must be there and is not comes back as [`Reported`], which only this module makes: a block that
//! cannot be read is never lost in silence.

mod field;
mod part;

#[cfg(test)]
mod tests;

use super::ast::{Attribute, Block, Body, Expr, Span};
use super::eval::Outcome;
use super::problem::Problem;
use super::suggest::closest;
use super::value::Value;

pub use field::{Field, Mistake, parse_duration};
pub use part::{Entry, Parts};

/// Room for as many attributes as most blocks take.
const FEW: usize = 8;

/// How expressions become values.
pub type Evaluate<'a> = &'a dyn Fn(&Expr) -> Outcome;

/// A value and where it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spanned<T> {
    /// What was read.
    pub value: T,
    /// The expression it was read from.
    pub span: Span,
}

/// Says that something is wrong, and that people are told: it was reported, or is by `finish`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported(());

/// The attributes and blocks of one body, each to be taken once.
pub struct Fields<'b, 'p> {
    body: &'b Body,
    /// What to point at when something is missing.
    header: Span,
    /// The kind of block that the body is of; none for a file.
    kind: Option<&'b str>,
    evaluate: Evaluate<'b>,
    problems: &'p mut Vec<Problem>,
    attributes: Vec<&'static str>,
    blocks: Vec<&'static str>,
}

impl<'b, 'p> Fields<'b, 'p> {
    /// The content of a block.
    pub fn of_block(
        block: &'b Block,
        evaluate: Evaluate<'b>,
        problems: &'p mut Vec<Problem>,
    ) -> Self {
        let kind = Some(&*block.kind.text);
        Self::new(&block.body, block.header(), kind, evaluate, problems)
    }

    /// The content of a file.
    pub fn of_file(body: &'b Body, evaluate: Evaluate<'b>, problems: &'p mut Vec<Problem>) -> Self {
        let start = Span { start: body.span.start, end: body.span.start };
        Self::new(body, start, None, evaluate, problems)
    }

    fn new(
        body: &'b Body,
        header: Span,
        kind: Option<&'b str>,
        evaluate: Evaluate<'b>,
        problems: &'p mut Vec<Problem>,
    ) -> Self {
        let (attributes, blocks) = (Vec::with_capacity(FEW), Vec::new());
        Self { body, header, kind, evaluate, problems, attributes, blocks }
    }

    /// What to call the body in messages.
    fn name(&self) -> String {
        self.kind.map_or_else(|| "this file".into(), a_block)
    }

    /// The content of a block within this body.
    pub fn within(&mut self, block: &'b Block) -> Fields<'b, '_> {
        Fields::of_block(block, self.evaluate, self.problems)
    }

    /// Reports a problem; `help` may be empty.
    pub fn report(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Reported {
        let problem = Problem::new(span, message);
        let help = help.into();
        self.push(if help.is_empty() { problem } else { problem.help(help) })
    }

    fn push(&mut self, problem: Problem) -> Reported {
        self.problems.push(problem);
        Reported(())
    }

    /// Whether `finish` would have nothing to report.
    pub fn are_all_taken(&self) -> bool {
        let mut attributes = self.body.attributes.iter().map(|attribute| &*attribute.name.text);
        let mut blocks = self.body.blocks.iter().map(|block| &*block.kind.text);
        attributes.all(|name| self.attributes.contains(&name))
            && blocks.all(|kind| self.blocks.contains(&kind))
    }

    /// Where problems go that have no field of their own.
    pub fn problems(&mut self) -> &mut Vec<Problem> {
        self.problems
    }

    /// What to point at when the body as a whole is meant.
    pub fn header(&self) -> Span {
        self.header
    }

    /// An attribute that may be left out; null is the same as leaving it out.
    pub fn optional<T>(&mut self, field: Field<T>) -> Option<T> {
        self.spanned(field).map(|spanned| spanned.value)
    }

    /// An attribute that may be left out, with a value to use then.
    pub fn or<T>(&mut self, field: Field<T>, default: T) -> T {
        self.optional(field).unwrap_or(default)
    }

    /// Like [`Fields::optional`], with the place of the value.
    pub fn spanned<T>(&mut self, field: Field<T>) -> Option<Spanned<T>> {
        let attribute = self.take(field.name)?;
        self.read(&field, attribute).ok().flatten()
    }

    /// Like [`Fields::optional`], where it matters whether nothing is said or something wrong.
    pub fn given<T>(&mut self, field: Field<T>) -> Result<Option<T>, Reported> {
        let Some(attribute) = self.take(field.name) else { return Ok(None) };
        Ok(self.read(&field, attribute)?.map(|spanned| spanned.value))
    }

    /// An attribute that must be there.
    pub fn required<T>(&mut self, field: Field<T>) -> Result<T, Reported> {
        self.required_spanned(field).map(|spanned| spanned.value)
    }

    /// Like [`Fields::required`], with the place of the value.
    pub fn required_spanned<T>(&mut self, field: Field<T>) -> Result<Spanned<T>, Reported> {
        let Some(attribute) = self.take(field.name) else { return Err(self.missing(&field)) };
        self.read(&field, attribute)?.ok_or_else(|| {
            let message = format!("`{}` is required and must not be null", field.name);
            self.report(attribute.value.span, message, format!("give it {}", field.expected))
        })
    }

    /// Whether an attribute is written, without taking it.
    pub fn has(&self, name: &str) -> bool {
        self.body.attributes.iter().any(|attribute| *attribute.name.text == *name)
    }

    fn missing<T>(&mut self, field: &Field<T>) -> Reported {
        let (name, expected) = (field.name, &field.expected);
        self.lacks(name, format!("add `{name} = …`: {expected}"))
    }

    /// Reports that an attribute is missing, unless it is there and only misspelt, or a block.
    pub fn lacks(&mut self, attribute: &str, help: impl Into<String>) -> Reported {
        // A block of that name is reported by `finish`, with what to write instead.
        if self.body.blocks.iter().any(|block| *block.kind.text == *attribute) {
            return Reported(());
        }
        self.report(self.header, self.needs(attribute), help)
    }

    fn needs(&self, attribute: &str) -> String {
        format!("{} needs the attribute `{attribute}`", self.name())
    }

    fn take(&mut self, name: &'static str) -> Option<&'b Attribute> {
        self.attributes.push(name);
        self.body.attributes.iter().find(|attribute| *attribute.name.text == *name)
    }

    /// The value, or nothing if it is null.
    fn read<T>(
        &mut self,
        field: &Field<T>,
        attribute: &Attribute,
    ) -> Result<Option<Spanned<T>>, Reported> {
        let expr = &attribute.value;
        let value = (self.evaluate)(expr).map_err(|problems| {
            self.problems.extend(problems);
            Reported(())
        })?;
        if value.is_null() {
            return Ok(None);
        }
        match (field.read)(&value) {
            Ok(value) => Ok(Some(Spanned { value, span: expr.span })),
            Err(mistake) => {
                mistake.tell(field, &value, expr, self.problems);
                Err(Reported(()))
            }
        }
    }

    /// All blocks of a kind, with exactly so many labels; others are reported and left out.
    pub fn blocks(&mut self, kind: &'static str, labels: &[&str]) -> Vec<&'b Block> {
        self.blocks.push(kind);
        let body = self.body;
        let found = body.blocks.iter().filter(|block| *block.kind.text == *kind);
        found.filter(|block| self.has_labels(block, labels)).collect()
    }

    /// The only block of a kind, if there is one; more are reported.
    pub fn block(&mut self, kind: &'static str) -> Option<&'b Block> {
        let blocks = self.blocks(kind, &[]);
        for extra in blocks.iter().skip(1) {
            let message = format!("{} can have only one `{kind}` block", self.name());
            let problem = Problem::new(extra.header(), message);
            self.problems.push(problem.help("put all of it into the first one"));
        }
        blocks.first().copied()
    }

    /// The only block of a kind, which must be there.
    pub fn required_block(&mut self, kind: &'static str) -> Result<&'b Block, Reported> {
        if let Some(block) = self.block(kind) {
            return Ok(block);
        }
        // With labels it is reported already; as an attribute, by `finish`.
        if self.has(kind) || self.body.blocks.iter().any(|block| *block.kind.text == *kind) {
            return Err(Reported(()));
        }
        let message = format!("{} needs {}", self.name(), a_block(kind));
        Err(self.report(self.header, message, format!("add `{kind} {{ … }}`")))
    }

    /// All blocks of several kinds, in the order written; at least one must be there.
    pub fn any_of(&mut self, kinds: &[&'static str], labels: &[&str]) -> Vec<&'b Block> {
        self.blocks.extend(kinds);
        let body = self.body;
        let is_wanted = |block: &&Block| kinds.contains(&&*block.kind.text);
        // A block of an unknown kind is one of these, misspelt; `finish` tells.
        let is_known = |block: &Block| self.blocks.contains(&&*block.kind.text);
        if body.blocks.iter().all(|block| !is_wanted(&block) && is_known(block)) {
            let all: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
            let message = format!("{} needs at least one block of {}", self.name(), all.join(", "));
            self.problems.push(Problem::new(self.header, message));
        }
        let found = body.blocks.iter().filter(is_wanted);
        found.filter(|block| self.has_labels(block, labels)).collect()
    }

    fn has_labels(&mut self, block: &Block, labels: &[&str]) -> bool {
        let kind = &block.kind.text;
        let (at, message) = if block.labels.len() < labels.len() {
            let missing = labels.get(block.labels.len()).copied().unwrap_or_default();
            (block.header(), format!("{} needs a {missing} as its label", a_block(kind)))
        } else if let Some(extra) = block.labels.get(labels.len()) {
            let most = match labels.len() {
                0 => "no label".to_string(),
                1 => "only one label".to_string(),
                count => format!("only {count} labels"),
            };
            (extra.span, format!("{} takes {most}", a_block(kind)))
        } else {
            return true;
        };
        let example: String = labels.iter().map(|label| format!(" \"{label}\"")).collect();
        self.problems.push(Problem::new(at, message).help(format!("write `{kind}{example} {{`")));
        false
    }

    /// Reports everything that was not taken.
    pub fn finish(mut self) {
        for attribute in &self.body.attributes {
            if !self.attributes.contains(&&*attribute.name.text) {
                self.forgive_missing(&attribute.name.text);
                self.problems.push(self.unknown_attribute(attribute));
            }
        }
        for block in &self.body.blocks {
            if !self.blocks.contains(&&*block.kind.text) {
                self.problems.push(self.unknown_block(block));
            }
        }
    }

    /// A required attribute that is only misspelt is one mistake, not two.
    fn forgive_missing(&mut self, written: &str) {
        if let Some(meant) = self.meant(written, &self.attributes) {
            let needs = self.needs(meant);
            let header = self.header;
            self.problems.retain(|problem| problem.span != header || problem.message != needs);
        }
    }

    fn unknown_attribute(&self, attribute: &Attribute) -> Problem {
        let name = &*attribute.name.text;
        if self.blocks.contains(&name) {
            let message = format!("`{name}` is a block, not an attribute");
            return Problem::new(attribute.name.span, message)
                .help(format!("write `{name} {{ … }}`, without `=`"));
        }
        let message = format!("unknown attribute `{name}`");
        self.with_suggestion(Problem::new(attribute.name.span, message), name, &self.attributes)
    }

    fn unknown_block(&self, block: &Block) -> Problem {
        let kind = &*block.kind.text;
        if self.attributes.contains(&kind) {
            let message = format!("`{kind}` is an attribute, not a block");
            return Problem::new(block.header(), message)
                .help(format!("write `{kind} = {{ … }}` or `{kind} = …`"));
        }
        let message = format!("unknown block `{kind}`");
        self.with_suggestion(Problem::new(block.header(), message), kind, &self.blocks)
    }

    fn meant(&self, name: &str, known: &[&'static str]) -> Option<&'static str> {
        let others = self.attributes.iter().chain(&self.blocks).copied();
        closest(name, known.iter().copied()).or_else(|| closest(name, others))
    }

    /// What was meant, or else what there is.
    fn with_suggestion(&self, problem: Problem, name: &str, known: &[&'static str]) -> Problem {
        if let Some(meant) = self.meant(name, known) {
            return problem.help(format!("did you mean `{meant}`?"));
        }
        match known.is_empty() {
            true => problem,
            false => {
                let mut known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                known.sort();
                problem.help(format!("{} takes {}", self.name(), known.join(", ")))
            }
        }
    }
}

fn a_block(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} `{kind}` block")
}

impl Mistake {
    /// Reports it, where it is written.
    fn tell<T>(self, field: &Field<T>, value: &Value, expr: &Expr, problems: &mut Vec<Problem>) {
        let name = field.name;
        match self {
            Self::Type => {
                let (expected, described) = (&field.expected, value.described());
                let message = format!("`{name}` must be {expected}, but this is {described}");
                problems.push(Problem::new(expr.span, message));
            }
            Self::Value { message, help } => {
                let message = format!("`{name}`: {message}");
                problems.push(Problem { span: expr.span, message, help });
            }
            Self::Parts { wrong, more } => {
                for (entry, mistake) in wrong {
                    mistake.tell(field, value, entry.within(expr), problems);
                }
                if more > 0 {
                    let message = format!("`{name}`: {more} more problems in it are not shown");
                    problems.push(Problem::new(expr.span, message).help("mend these first"));
                }
            }
        }
    }
}
