//! The functions that expressions can call: pure, and the same as in Terraform.
//!
//! Each is an entry with what it takes; what it is given has been converted and checked by then.
//! `try` and `can` are not here, because their arguments may fail.

mod collections;
mod conversion;
mod encoding;
mod files;
mod format;
mod hashes;
mod numbers;
mod patterns;
mod sets;
mod strings;
mod yaml;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::budget::{Exceeded, MAX_VALUE};
use super::convert::ConvertError;
use super::number::{Number, NumberError};
use super::scope::Scope;
use super::types::Type;
use super::value::Value;

/// A function.
pub(super) struct Function {
    /// As it is called.
    pub(super) name: &'static str,
    /// Those it needs.
    pub(super) parameters: &'static [Parameter],
    /// Any number more.
    pub(super) rest: Option<Parameter>,
    /// What it does.
    pub(super) body: Body,
}

/// Takes converted arguments, as many as the entry says.
type Body = fn(&[Value], &Scope) -> Result<Value, Failure>;

/// What one argument may be.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    /// For messages.
    pub(super) name: &'static str,
    /// Arguments are converted to it.
    pub(super) wanted: Wanted,
    /// Whether null is as good.
    pub(super) null: bool,
}

/// The types that parameters have.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    Any,
    Number,
    String,
    ListOfAny,
    ListOfBool,
    ListOfString,
    SetOfAny,
    MapOfLists,
}

impl Wanted {
    pub(super) fn kind(self) -> Type {
        match self {
            Self::Any => Type::Any,
            Self::Number => Type::Number,
            Self::String => Type::String,
            Self::ListOfAny => Type::Any.list(),
            Self::ListOfBool => Type::Bool.list(),
            Self::ListOfString => Type::String.list(),
            Self::SetOfAny => Type::Any.set(),
            Self::MapOfLists => Type::String.list().map(),
        }
    }
}

impl Parameter {
    const fn new(name: &'static str, wanted: Wanted) -> Self {
        Self { name, wanted, null: false }
    }

    const fn or_null(self) -> Self {
        Self { null: true, ..self }
    }
}

/// Why a call failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The argument to blame, if it is one.
    pub(super) argument: Option<usize>,
    /// What is wrong.
    pub(super) message: String,
    /// What to do.
    pub(super) help: Option<String>,
}

impl Failure {
    fn new(message: impl Into<String>) -> Self {
        Self { argument: None, message: message.into(), help: None }
    }

    fn of(argument: usize, message: impl Into<String>) -> Self {
        Self { argument: Some(argument), message: message.into(), help: None }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl From<ConvertError> for Failure {
    fn from(error: ConvertError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<NumberError> for Failure {
    fn from(error: NumberError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<Exceeded> for Failure {
    fn from(limit: Exceeded) -> Self {
        Self::new(limit.to_string())
    }
}

impl Function {
    const fn new(name: &'static str, parameters: &'static [Parameter], body: Body) -> Self {
        Self { name, parameters, rest: None, body }
    }

    const fn with_rest(self, rest: Parameter) -> Self {
        Self { rest: Some(rest), ..self }
    }

    /// The parameter that an argument is for.
    pub(super) fn parameter(&self, index: usize) -> Option<&Parameter> {
        self.parameters.get(index).or(self.rest.as_ref())
    }

    /// How a call is written.
    pub(super) fn signature(&self) -> String {
        let names = self.parameters.iter().map(|parameter| parameter.name.to_string());
        let rest = self.rest.iter().map(|parameter| format!("{}...", parameter.name));
        format!("{}({})", self.name, names.chain(rest).collect::<Vec<_>>().join(", "))
    }
}

static FUNCTIONS: LazyLock<HashMap<&'static str, &'static Function>> = LazyLock::new(|| {
    let groups: [&'static [Function]; 10] = [
        strings::FUNCTIONS,
        patterns::FUNCTIONS,
        format::FUNCTIONS,
        numbers::FUNCTIONS,
        collections::FUNCTIONS,
        sets::FUNCTIONS,
        encoding::FUNCTIONS,
        hashes::FUNCTIONS,
        conversion::FUNCTIONS,
        files::FUNCTIONS,
    ];
    groups.iter().flat_map(|group| group.iter()).map(|function| (function.name, function)).collect()
});

/// The function of that name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name).copied()
}

/// All names, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = FUNCTIONS.keys().copied().chain(["can", "try"]).collect();
    names.sort_unstable();
    names
}

/// The text of an argument that is known to be a string.
fn text(args: &[Value], index: usize) -> &str {
    args.get(index).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of an argument that is known to be a list or set.
fn items(args: &[Value], index: usize) -> &[Value] {
    args.get(index).and_then(Value::as_items).unwrap_or_default()
}

/// The number of an argument that is known to be one.
fn number(args: &[Value], index: usize) -> Result<&Number, Failure> {
    let number = args.get(index).and_then(Value::as_number);
    number.ok_or_else(|| Failure::of(index, "a number is required"))
}

/// The whole number of an argument that is known to be a number.
fn whole(args: &[Value], index: usize) -> Result<i64, Failure> {
    let number = number(args, index)?;
    match number.to_i64() {
        Some(whole) => Ok(whole),
        None if number.to_big_integer().is_some() => {
            Err(Failure::of(index, "the number is too large"))
        }
        None => Err(Failure::of(index, "a whole number is required")),
    }
}

/// Refuses to make a text of more bytes than a value may have.
fn check_size(bytes: usize) -> Result<(), Failure> {
    match bytes as u64 > MAX_VALUE {
        true => Err(Exceeded::Value.into()),
        false => Ok(()),
    }
}
