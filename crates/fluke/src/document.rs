//! What the API returned, key for key and in its own order, as JSON or YAML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::sanitise;

pub mod yaml;

/// The deepest nesting that is read.
const DEEPEST: usize = 128;

/// A JSON value that remembers the order of its keys.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, digit for digit.
    Number(String),
    /// Text.
    Text(String),
    /// `[…]`
    List(Vec<Document>),
    /// `{…}`
    Map(Vec<(String, Document)>),
}

impl Document {
    /// Reads JSON.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        read(serde_json::from_str(json)?, 0)
    }

    /// JSON over several lines, for people; ends with a newline.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        self.write_json(&mut text, Some(0));
        text.push('\n');
        text
    }

    /// JSON on one line; ends with a newline.
    pub fn to_json_line(&self) -> String {
        let mut text = String::new();
        self.write_json(&mut text, None);
        text.push('\n');
        text
    }

    /// `depth` is none on one line.
    fn write_json(&self, out: &mut String, depth: Option<usize>) {
        match self {
            Self::List(items) => write_items(out, "[]", items, depth, |out, item, depth| {
                item.write_json(out, depth);
            }),
            Self::Map(entries) => {
                write_items(out, "{}", entries, depth, |out, (key, value), depth| {
                    out.push_str(&quoted(key));
                    out.push_str(if depth.is_some() { ": " } else { ":" });
                    value.write_json(out, depth);
                })
            }
            Self::Text(text) => out.push_str(&quoted(text)),
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => out.push_str(number),
        }
    }
}

fn write_items<T>(
    out: &mut String,
    brackets: &str,
    items: &[T],
    depth: Option<usize>,
    write: impl Fn(&mut String, &T, Option<usize>),
) {
    let (open, close) = brackets.split_at(1);
    let inner = depth.map(|depth| depth + 1);
    let new_line = |out: &mut String, depth: Option<usize>| {
        if let Some(depth) = depth {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
    };
    out.push_str(open);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        new_line(out, inner);
        write(out, item, inner);
    }
    if !items.is_empty() {
        new_line(out, depth);
    }
    out.push_str(close);
}

/// Text between double quotes, as JSON and YAML both read it; nothing in it moves a terminal.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if sanitise::is_harmful(c) || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Numbers keep their digits, and maps their order, because neither is read as anything else.
fn read(raw: &RawValue, depth: usize) -> Result<Document, serde_json::Error> {
    let text = raw.get();
    if depth > DEEPEST {
        return Err(Error::custom("nested too deeply"));
    }
    match text.as_bytes().first() {
        Some(b'{') => {
            let Entries(entries) = serde_json::from_str(text)?;
            let read = |(key, value)| Ok((key, read(value, depth + 1)?));
            Ok(Document::Map(entries.into_iter().map(read).collect::<Result<_, _>>()?))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            let read = |item| read(item, depth + 1);
            Ok(Document::List(items.into_iter().map(read).collect::<Result<_, _>>()?))
        }
        Some(b'"') => Ok(Document::Text(serde_json::from_str(text)?)),
        Some(b'n') => Ok(Document::Null),
        Some(b't' | b'f') => Ok(Document::Bool(serde_json::from_str(text)?)),
        _ => Ok(Document::Number(text.to_string())),
    }
}

/// The entries of an object, in their order.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = from.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

#[cfg(test)]
mod tests;
