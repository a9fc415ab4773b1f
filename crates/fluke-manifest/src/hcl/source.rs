//! From bytes to lines and columns: a problem becomes a diagnostic that needs no file.

#[cfg(test)]
mod tests;

use fluke_model::diagnostic::{Diagnostic, Severity};
use unicode_segmentation::UnicodeSegmentation;

use super::problem::Problem;

/// Longer lines are cut in diagnostics, with [`CUT`] at the end.
pub const MOST_COLUMNS: usize = 500;
/// How many lines of one span are shown.
pub const MOST_LINES: usize = 8;
/// Stands for what was cut off a line.
pub const CUT: char = '…';

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A file's name and text, with its lines found.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    file: &'a str,
    text: &'a [u8],
    /// Where every line begins.
    lines: Vec<u32>,
}

impl<'a> Source<'a> {
    /// Finds the lines of a text.
    pub fn new(file: &'a str, text: &'a [u8]) -> Self {
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let lines = std::iter::once(start).chain(ends.map(|(at, _)| at + 1));
        Self { file, text, lines: lines.map(|at| at as u32).collect() }
    }

    /// The file's path.
    pub fn file(&self) -> &str {
        self.file
    }

    /// Line and column of a byte, both counted from 1; columns in characters as people see them.
    pub fn position(&self, at: u32) -> (u32, u32) {
        let at = at.min(self.text.len() as u32);
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let start = self.lines[line - 1].min(at);
        let before = &self.text[start as usize..at as usize];
        (line as u32, count_columns(before) as u32 + 1)
    }

    /// The problem with all that is needed to show it.
    pub fn diagnostic(&self, severity: Severity, problem: Problem) -> Diagnostic {
        let (line, column) = self.position(problem.span.start);
        let (end_line, end_column) = self.position(problem.span.end.max(problem.span.start));
        Diagnostic {
            severity,
            message: problem.message,
            help: problem.help,
            file: self.file.to_owned(),
            line,
            column,
            end_line,
            end_column,
            source: self.shown_lines(line, end_line, end_column),
        }
    }

    /// All problems as errors, in their order.
    pub fn errors(&self, problems: Vec<Problem>) -> Vec<Diagnostic> {
        problems.into_iter().map(|problem| self.diagnostic(Severity::Error, problem)).collect()
    }

    /// The lines that a span touches; a line that it ends before is not touched.
    fn shown_lines(&self, line: u32, end_line: u32, end_column: u32) -> Vec<String> {
        let last = if end_line > line && end_column == 1 { end_line - 1 } else { end_line };
        (line..=last).take(MOST_LINES).map(|line| self.shown_line(line as usize)).collect()
    }

    fn shown_line(&self, line: usize) -> String {
        let start = self.lines[line - 1] as usize;
        let end = self.lines.get(line).map_or(self.text.len(), |next| *next as usize);
        let bytes = &self.text[start..end.max(start)];
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        // Enough bytes for any characters that are shown, without reading all of a huge line.
        let near = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_COLUMNS * 16)]);
        match near.grapheme_indices(true).nth(MOST_COLUMNS) {
            Some((cut, _)) => format!("{}{CUT}", &near[..cut]),
            None if bytes.len() > MOST_COLUMNS * 16 => format!("{near}{CUT}"),
            None => near.into_owned(),
        }
    }
}

fn count_columns(text: &[u8]) -> usize {
    match text.is_ascii() {
        // The one pair that people see as one is a line's end.
        true => text.len() - text.windows(2).filter(|pair| pair == b"\r\n").count(),
        false => String::from_utf8_lossy(text).graphemes(true).count(),
    }
}
