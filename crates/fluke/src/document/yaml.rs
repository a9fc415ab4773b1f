//! A value as YAML: block style, keys in their order, text quoted wherever it might be misread.
//!
//! Keeps to what YAML 1.1 and 1.2 agree on, so that any reader gets the same value back.

use super::{Document, quoted};
use crate::sanitise;

/// The document as YAML; ends with a newline.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    match document {
        Document::List(items) if !items.is_empty() => write_list(&mut out, items, 0),
        Document::Map(entries) if !entries.is_empty() => write_map(&mut out, entries, 0),
        scalar => out.push_str(&inline(scalar)),
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn write_list(out: &mut String, items: &[Document], depth: usize) {
    for item in items {
        indent(out, depth);
        out.push('-');
        match item {
            // The first entry of a map or list stands on the line of the dash.
            Document::Map(entries) if !entries.is_empty() => {
                join_first_line(out, |out| write_map(out, entries, depth + 1));
            }
            Document::List(items) if !items.is_empty() => {
                join_first_line(out, |out| write_list(out, items, depth + 1));
            }
            scalar => write_scalar(out, scalar, depth),
        }
    }
}

fn write_map(out: &mut String, entries: &[(String, Document)], depth: usize) {
    for (key, value) in entries {
        indent(out, depth);
        out.push_str(&plain_or_quoted(key));
        out.push(':');
        match value {
            Document::Map(entries) if !entries.is_empty() => {
                out.push('\n');
                write_map(out, entries, depth + 1);
            }
            Document::List(items) if !items.is_empty() => {
                out.push('\n');
                write_list(out, items, depth + 1);
            }
            scalar => write_scalar(out, scalar, depth),
        }
    }
}

fn join_first_line(out: &mut String, write: impl FnOnce(&mut String)) {
    let mut inner = String::new();
    write(&mut inner);
    out.push(' ');
    out.push_str(inner.trim_start_matches(' '));
}

fn write_scalar(out: &mut String, scalar: &Document, depth: usize) {
    match scalar {
        Document::Text(text) if suits_block(text) => write_block(out, text, depth + 1),
        scalar => {
            out.push(' ');
            out.push_str(&inline(scalar));
            out.push('\n');
        }
    }
}

fn inline(scalar: &Document) -> String {
    match scalar {
        Document::Null => "null".into(),
        Document::Bool(value) => value.to_string(),
        Document::Number(number) => number.clone(),
        Document::Text(text) => plain_or_quoted(text),
        Document::List(_) => "[]".into(),
        Document::Map(_) => "{}".into(),
    }
}

/// Several lines as they are, where indentation and line ends leave no doubt.
fn suits_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.starts_with([' ', '\t', '\n'])
        && !body.ends_with('\n')
        && body.lines().all(|line| !line.ends_with([' ', '\t']))
        && !body.chars().any(|c| (c != '\n' && sanitise::is_harmful(c)) || is_odd(c))
}

fn write_block(out: &mut String, text: &str, depth: usize) {
    out.push_str(if text.ends_with('\n') { " |\n" } else { " |-\n" });
    for line in text.lines() {
        if !line.is_empty() {
            indent(out, depth);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn plain_or_quoted(text: &str) -> String {
    if is_plain(text) { text.to_string() } else { quoted(text) }
}

/// Whether every reader takes the bare text for exactly this text.
fn is_plain(text: &str) -> bool {
    let inside =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '@' | '=');
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/'));
    starts_well
        && text.split(' ').all(|word| !word.is_empty() && word.chars().all(inside))
        && !is_reserved(text)
}

/// Words that some reader takes for something other than text.
fn is_reserved(text: &str) -> bool {
    const WORDS: [&str; 11] =
        ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Outside what YAML calls printable, or a mark that a reader may swallow.
fn is_odd(c: char) -> bool {
    matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn indent(out: &mut String, depth: usize) {
    out.push_str(&"  ".repeat(depth));
}
