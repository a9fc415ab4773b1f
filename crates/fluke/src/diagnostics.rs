//! Diagnostics for people: the frame of code, what is wrong, what to do.

use fluke_model::diagnostic::Diagnostic;

use crate::screen::Style;

/// All of them, one below the other.
pub fn text(diagnostics: &[Diagnostic], _style: Style) -> String {
    diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect()
}
