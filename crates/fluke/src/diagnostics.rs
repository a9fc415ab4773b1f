//! Diagnostics for people: the frame of code, what is wrong, what to do; and a sum.

use fluke_manifest::render;
use fluke_model::diagnostic::{Diagnostic, Severity};

use crate::report::count;
use crate::screen::Style;

/// All of them, one below the other.
pub fn text(diagnostics: &[Diagnostic], style: Style) -> String {
    render::to_text(diagnostics, style.colours)
}

/// All of them on one line, for a log.
pub fn one_line(diagnostics: &[Diagnostic]) -> String {
    let line = |d: &Diagnostic| format!("{}:{}:{}: {}", d.file, d.line, d.column, d.message);
    diagnostics.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// `2 errors and 1 warning in 1 of 14 files`
pub fn sum(diagnostics: &[Diagnostic], files: usize) -> String {
    let of = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let mut concerned: Vec<&str> = diagnostics.iter().map(|d| d.file.as_str()).collect();
    concerned.sort_unstable();
    concerned.dedup();
    let what = match (errors, warnings) {
        (_, 0) => count(errors, "error"),
        (0, _) => count(warnings, "warning"),
        _ => format!("{} and {}", count(errors, "error"), count(warnings, "warning")),
    };
    format!("{what} in {} of {}", concerned.len(), count(files.max(concerned.len()), "file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(severity: Severity, file: &str) -> Diagnostic {
        Diagnostic {
            severity,
            message: "wrong".into(),
            help: None,
            file: file.into(),
            line: 1,
            column: 1,
            end_line: 1,
            end_column: 2,
            source: Vec::new(),
        }
    }

    #[test]
    fn a_sum_counts_errors_warnings_and_files() {
        use Severity::*;
        for (all, files, told) in [
            (vec![(Error, "a")], 14, "1 error in 1 of 14 files"),
            (vec![(Error, "a"), (Error, "a"), (Error, "b")], 2, "3 errors in 2 of 2 files"),
            (vec![(Warning, "a")], 1, "1 warning in 1 of 1 file"),
            (vec![(Error, "a"), (Warning, "b")], 9, "1 error and 1 warning in 2 of 9 files"),
        ] {
            let all: Vec<Diagnostic> =
                all.into_iter().map(|(s, file)| diagnostic(s, file)).collect();
            assert_eq!(sum(&all, files), told);
        }
    }
}
