//! What the API returned, key for key and in its own order, as JSON or YAML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::sanitise;

pub mod yaml;

/// A JSON value that remembers the order of its keys.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number as JSON has it.
    Number(serde_json::Number),
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
        serde_json::from_str(json)
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
            Self::Number(number) => out.push_str(&number.to_string()),
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

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Document, E> {
        Ok(Document::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Document, E> {
        Ok(Document::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Document, E> {
        Ok(Document::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Document, E> {
        Ok(Document::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Document, E> {
        Ok(serde_json::Number::from_f64(value).map_or(Document::Null, Document::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Document, E> {
        Ok(Document::Text(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Document, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Document::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Document, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = from.next_entry()? {
            entries.push(entry);
        }
        Ok(Document::Map(entries))
    }
}

#[cfg(test)]
mod tests;
