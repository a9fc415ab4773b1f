//! Values to and from JSON, with every digit of every number kept.

mod read;

use super::super::number::Number;
use super::Value;

pub use read::JsonError;

impl Value {
    /// The value as compact JSON text, keys sorted, with `<`, `>` and `&` escaped.
    pub fn to_json_string(&self) -> String {
        let mut text = String::new();
        write(self, &mut text);
        text
    }

    /// The value for serde; numbers that do not fit a machine word become the closest float.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Self::Null(_) => Json::Null,
            Self::Bool(truth) => Json::Bool(*truth),
            Self::String(text) => Json::String(text.to_string()),
            Self::Number(number) => match number.to_i64() {
                Some(whole) => whole.into(),
                None => {
                    serde_json::Number::from_f64(number.to_f64()).map_or(Json::Null, Json::Number)
                }
            },
            Self::Tuple(sequence) | Self::List(sequence) | Self::Set(sequence) => {
                Json::Array(sequence.items.iter().map(Self::to_json).collect())
            }
            Self::Object(mapping) | Self::Map(mapping) => Json::Object(
                mapping.entries.iter().map(|(key, it)| (key.to_string(), it.to_json())).collect(),
            ),
        }
    }

    /// Arrays become tuples, objects become objects.
    pub fn from_json(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Null => Self::NULL,
            Json::Bool(truth) => Self::Bool(*truth),
            Json::String(text) => Self::string(text),
            Json::Number(number) => match Number::parse(&number.to_string()) {
                Ok(number) => Self::Number(number),
                Err(_) => Self::NULL,
            },
            Json::Array(items) => Self::tuple(items.iter().map(Self::from_json).collect()),
            Json::Object(entries) => Self::object(
                entries
                    .iter()
                    .map(|(key, it)| (key.as_str().into(), Self::from_json(it)))
                    .collect(),
            ),
        }
    }

    /// Reads JSON text, with every digit of its numbers.
    pub fn from_json_str(text: &str) -> Result<Self, JsonError> {
        read::read(text)
    }
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Null(_) => text.push_str("null"),
        Value::Bool(truth) => text.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::String(string) => write_quoted(string, text),
        Value::Tuple(sequence) | Value::List(sequence) | Value::Set(sequence) => {
            text.push('[');
            for (index, item) in sequence.items.iter().enumerate() {
                separate(index, text);
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(mapping) | Value::Map(mapping) => {
            text.push('{');
            for (index, (key, item)) in mapping.entries.iter().enumerate() {
                separate(index, text);
                write_quoted(key, text);
                text.push(':');
                write(item, text);
            }
            text.push('}');
        }
    }
}

fn separate(index: usize, text: &mut String) {
    if index > 0 {
        text.push(',');
    }
}

/// A JSON string that is also safe inside HTML.
pub(crate) fn write_quoted(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\x08' => text.push_str("\\b"),
            '\x0c' => text.push_str("\\f"),
            '\x00'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}
