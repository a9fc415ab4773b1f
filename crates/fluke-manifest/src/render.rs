//! Diagnostics as text for a terminal, from nothing but the diagnostics.

#[cfg(test)]
mod tests;

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use fluke_model::diagnostic::{Diagnostic, Severity};
use unicode_segmentation::UnicodeSegmentation;

/// Every diagnostic with its source lines and carets, a blank line between two, a line end at
/// the end.
pub fn to_text(diagnostics: &[Diagnostic], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let shown = diagnostics.iter().map(|diagnostic| renderer.render(&[group(diagnostic)]) + "\n");
    shown.collect::<Vec<_>>().join("\n")
}

fn group(diagnostic: &Diagnostic) -> Group<'static> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(harmless(&diagnostic.message));
    let file = harmless(&diagnostic.file);
    let group = match diagnostic.source.is_empty() {
        true => {
            let origin = Origin::path(file).line(diagnostic.line as usize);
            title.element(origin.char_column(diagnostic.column as usize))
        }
        false => {
            let (source, span) = source(diagnostic);
            let snippet = Snippet::source(source).path(file).line_start(diagnostic.line as usize);
            title.element(snippet.fold(false).annotation(AnnotationKind::Primary.span(span)))
        }
    };
    match &diagnostic.help {
        Some(help) => group.element(Level::HELP.message(harmless(help))),
        None => group,
    }
}

/// The source lines as one text, and the span in it.
fn source(diagnostic: &Diagnostic) -> (String, Range<usize>) {
    let lines: Vec<String> = diagnostic.source.iter().map(|line| harmless(line)).collect();
    let source = lines.join("\n");
    let start = byte_of_column(&lines[0], diagnostic.column);
    let last = (diagnostic.end_line.saturating_sub(diagnostic.line) as usize).min(lines.len());
    let end = match lines.get(last) {
        Some(line) => {
            let before: usize = lines[..last].iter().map(|line| line.len() + 1).sum();
            before + byte_of_column(line, diagnostic.end_column)
        }
        // It goes beyond what is shown, or ends with a line end.
        None => source.len(),
    };
    (source, start..end.max(start))
}

fn byte_of_column(line: &str, column: u32) -> usize {
    let before = column.saturating_sub(1) as usize;
    line.grapheme_indices(true).nth(before).map_or(line.len(), |(at, _)| at)
}

/// The text without anything that a terminal would act on or that hides other text. Every
/// character stays one character, so that columns stay right.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if acts(c) { picture(c) } else { c }).collect()
}

fn acts(c: char) -> bool {
    let hides = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    );
    hides || (c.is_control() && c != '\t')
}

fn picture(c: char) -> char {
    match c as u32 {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or(char::REPLACEMENT_CHARACTER),
        0x7f => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}
