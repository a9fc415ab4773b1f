//! What is wrong with a text that somebody wrote, and exactly where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One problem in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// Whether it stops the commit.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it, where one can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Path within the repository.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1, in characters as people see them.
    pub column: u32,
    /// The line of the span's end.
    pub end_line: u32,
    /// The column just behind the span's end.
    pub end_column: u32,
    /// The source lines that the span touches, without line ends; empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<String>,
}

/// How bad a problem is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The commit is rejected.
    Error,
    /// Probably not what was meant, but not wrong.
    Warning,
}

impl Diagnostic {
    /// Whether any of `all` stops the commit.
    pub fn any_error(all: &[Diagnostic]) -> bool {
        all.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}
