//! The language itself: syntax, values, evaluation. Knows nothing of tasks.

pub mod ast;
pub(crate) mod lexer;
mod parser;
pub mod problem;
pub mod source;

pub use parser::{Parsed, parse, parse_expression, parse_template};
