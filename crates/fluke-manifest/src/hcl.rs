//! The language itself: syntax, values, evaluation. Knows nothing of tasks.

pub mod ast;
pub mod budget;
pub mod convert;
pub mod decode;
pub mod eval;
mod functions;
pub(crate) mod lexer;
pub mod number;
mod parser;
pub mod problem;
pub mod scope;
pub mod source;
pub mod suggest;
pub mod types;
pub mod value;

pub use eval::{Reference, eval, references};
pub use parser::{Parsed, parse, parse_expression, parse_template};
