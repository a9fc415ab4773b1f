//! Problems as they are found: a span and words; the file is known only further out.

use super::ast::Span;

/// Something wrong at some place of the file at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub span: Span,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it, where one can tell.
    pub help: Option<String>,
}

impl Problem {
    /// A problem without advice.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    /// Adds advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
