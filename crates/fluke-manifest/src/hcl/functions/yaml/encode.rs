//! Values as YAML: block style, text always in quotes or as a literal block.

use super::super::{Failure, check_size};
use crate::hcl::value::Value;

/// Quoted text is folded at spaces behind this column.
const WIDTH: usize = 80;
/// A longer key is written in the long form, with `?`.
const MAX_SIMPLE_KEY: usize = 128;

/// One document.
pub(in super::super) fn encode(value: &Value) -> Result<String, Failure> {
    let mut writer = Writer { out: String::new(), column: 0 };
    writer.node(value, Place { indent: 0, inline: true })?;
    writer.end_line();
    // A bare word could go on; this says that it does not.
    if value.as_str().is_none() && value.as_items().is_none() && value.as_entries().is_none() {
        writer.put("...\n");
    }
    Ok(writer.out)
}

struct Writer {
    out: String,
    column: usize,
}

/// Where a node is written.
#[derive(Clone, Copy)]
struct Place {
    /// The column at which the node's own lines start.
    indent: usize,
    /// Whether the first item may stand on the line that was begun.
    inline: bool,
}

impl Writer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn line(&mut self, indent: usize) {
        self.out.push('\n');
        self.column = 0;
        self.put(&" ".repeat(indent));
    }

    fn end_line(&mut self) {
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    /// Goes to the start of an item: on the line at hand if it is still empty.
    fn item(&mut self, place: Place, first: bool) {
        match (first && place.inline, self.out.ends_with('\n') || self.out.is_empty()) {
            (true, _) => {}
            (false, true) => {
                self.column = 0;
                self.put(&" ".repeat(place.indent));
            }
            (false, false) => self.line(place.indent),
        }
    }

    fn space(&mut self) {
        if self.column > 0 && !self.out.ends_with([' ', '\n']) {
            self.put(" ");
        }
    }

    fn node(&mut self, value: &Value, place: Place) -> Result<(), Failure> {
        check_size(self.out.len())?;
        if let Some(items) = value.as_items() {
            return self.sequence(items, place);
        }
        if let Some(entries) = value.as_entries() {
            if entries.is_empty() {
                self.space();
                self.put("{}");
                return Ok(());
            }
            for (index, (key, item)) in entries.iter().enumerate() {
                self.item(place, index == 0);
                self.entry(key, item, place.indent)?;
            }
            return Ok(());
        }
        self.space();
        match value {
            Value::String(text) => self.text(text, place.indent, false),
            _ => self.put(&value.to_json_string()),
        }
        Ok(())
    }

    fn sequence(&mut self, items: &[Value], place: Place) -> Result<(), Failure> {
        if items.is_empty() {
            self.space();
            self.put("[]");
            return Ok(());
        }
        for (index, item) in items.iter().enumerate() {
            self.item(place, index == 0);
            self.put("-");
            self.put(" ");
            let inside = Place { indent: place.indent + 2, inline: true };
            self.node(item, inside)?;
        }
        Ok(())
    }

    fn entry(&mut self, key: &str, value: &Value, indent: usize) -> Result<(), Failure> {
        let is_simple = key.len() <= MAX_SIMPLE_KEY && !has_break(key);
        if is_simple {
            self.text(key, indent, true);
            self.put(":");
        } else {
            self.put("? ");
            self.text(key, indent + 2, false);
            let place = Place { indent, inline: false };
            self.item(place, false);
            self.put(":");
            if value.as_items().is_some_and(|items| !items.is_empty())
                || value.as_entries().is_some_and(|entries| !entries.is_empty())
            {
                self.put(" ");
                let place = Place { indent: indent + 2, inline: true };
                return self.node(value, place);
            }
        }
        // A sequence stands under its key, a mapping is indented.
        let inner = if value.as_items().is_some() { indent } else { indent + 2 };
        self.node(value, Place { indent: inner, inline: false })
    }

    fn text(&mut self, text: &str, indent: usize, is_key: bool) {
        match text.contains('\n') && !is_key && may_be_literal(text) {
            true => self.literal(text, indent.max(2)),
            false => self.quoted(text, indent.max(2), is_key),
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put("|");
        if text.starts_with([' ', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
            self.put("2");
        }
        let mut ends = text.chars().rev();
        match (ends.next().is_some_and(is_break), ends.next()) {
            (false, _) => self.put("-"),
            (true, None) => self.put("+"),
            (true, Some(before)) if is_break(before) => self.put("+"),
            (true, Some(_)) => {}
        }
        self.out.push('\n');
        let mut at_start = true;
        for letter in text.chars() {
            if at_start && !is_break(letter) {
                self.out.push_str(&" ".repeat(indent));
            }
            self.out.push(letter);
            at_start = is_break(letter);
        }
        self.column = 1;
    }

    fn quoted(&mut self, text: &str, indent: usize, is_key: bool) {
        self.put("\"");
        let mut after_space = false;
        let mut letters = text.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let next_is_space = letters.peek().is_some_and(|(_, next)| *next == ' ');
            let is_inside = at > 0 && at + 1 < text.len();
            if letter == ' ' && !is_key && !after_space && self.column > WIDTH && is_inside {
                self.line(indent);
                if next_is_space {
                    self.put("\\");
                }
            } else {
                self.put(&escape(letter));
            }
            after_space = letter == ' ';
        }
        self.put("\"");
    }
}

fn is_break(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn has_break(text: &str) -> bool {
    text.chars().any(is_break)
}

fn is_printable(letter: char) -> bool {
    matches!(letter, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && letter != '\u{feff}'
}

/// Blanks at the end of lines and characters that cannot be seen need quotes.
fn may_be_literal(text: &str) -> bool {
    let pairs = text.chars().zip(text.chars().skip(1));
    !text.ends_with(' ')
        && text.chars().all(is_printable)
        && !pairs.into_iter().any(|(letter, next)| letter == ' ' && is_break(next))
}

fn escape(letter: char) -> String {
    let short = match letter {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ if is_printable(letter) => return letter.to_string(),
        _ => {
            let code = u32::from(letter);
            return match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}
