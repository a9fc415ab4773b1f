//! The language itself: syntax, values, evaluation. Knows nothing of tasks.

pub mod ast;
pub mod problem;
