//! A reader of JSON that keeps numbers as they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::super::number::Number;
use super::super::Value;

/// Deeper nesting is refused.
const MAX_DEPTH: usize = 120;

/// Why a text is no JSON value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not valid JSON at byte {at}: {reason}")]
pub struct JsonError {
    at: usize,
    reason: &'static str,
}

/// Reads exactly one value.
pub(super) fn read(text: &str) -> Result<Value, JsonError> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.value()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.error("there is something behind the value")),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn error(&self, reason: &'static str) -> JsonError {
        JsonError { at: self.at, reason }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.rest().bytes().next()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            None => Err(self.error("a value is missing")),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Value::string(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
        }
    }

    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Value, JsonError>,
    ) -> Result<Value, JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error("it is nested too deeply"));
        }
        self.at += 1;
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::tuple(items));
        }
        loop {
            items.push(self.value()?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.error("expected `,` or `]`")),
            }
        }
        self.at += 1;
        Ok(Value::tuple(items))
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        let mut entries = BTreeMap::new();
        if self.take(b'}') {
            return Ok(Value::object(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a key in quotes"));
            }
            let Value::String(key) = Value::string(self.string()?) else {
                return Err(self.error("expected a key in quotes"));
            };
            if !self.take(b':') {
                return Err(self.error("expected `:`"));
            }
            let value = self.value()?;
            self.insert(&mut entries, key, value)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.error("expected `,` or `}`")),
            }
        }
        self.at += 1;
        Ok(Value::object(entries))
    }

    /// A key may come twice as long as its type stays the same; the last one counts.
    fn insert(
        &self,
        entries: &mut BTreeMap<Arc<str>, Value>,
        key: Arc<str>,
        value: Value,
    ) -> Result<(), JsonError> {
        let kind = value.kind();
        match entries.insert(key, value) {
            Some(before) if !before.is_of(&kind) => {
                Err(self.error("a key comes twice, with values of different types"))
            }
            _ => Ok(()),
        }
    }

    fn word(&mut self) -> Result<Value, JsonError> {
        let words =
            [("null", Value::NULL), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
        for (word, value) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error("expected a value"))
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let literal = &rest[..end.unwrap_or(rest.len())];
        if !is_number(literal) {
            return Err(self.error("this is no number"));
        }
        let number = Number::parse(literal).map_err(|_| self.error("the number is too large"))?;
        self.at += literal.len();
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = self.rest();
            let Some(end) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') else {
                return Err(self.error("the string has no end"));
            };
            string.push_str(&rest[..end]);
            self.at += end + 1;
            match rest.as_bytes()[end] {
                b'"' => return Ok(string),
                b'\\' => string.push(self.escape()?),
                _ => return Err(self.error("control characters must be escaped in strings")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let escape = self.rest().bytes().next();
        self.at += 1;
        Ok(match escape {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.error("there is no such escape")),
        })
    }

    /// Half a pair stands for nothing and becomes the replacement character.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex()?;
        if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Result<u32, JsonError> {
        let digits = self.rest().get(..4).filter(|it| it.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.error("four hexadecimal digits are needed"))?;
        self.at += 4;
        Ok(code)
    }
}

/// JSON's own rule: no leading zeros, no bare points.
fn is_number(literal: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let unsigned = literal.strip_prefix('-').unwrap_or(literal);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|it| digits(it.strip_prefix(['+', '-']).unwrap_or(it)))
}
