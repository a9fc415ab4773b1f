//! Kinds of attributes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::super::convert::convert;
use super::super::number::Number;
use super::super::suggest::closest;
use super::super::types::Type;
use super::super::value::Value;
use super::part::{Entry, Parts};

/// An attribute: its name, what it must be, and how to read it.
pub struct Field<T> {
    pub(super) name: &'static str,
    pub(super) expected: Expected,
    pub(super) read: Read<T>,
}

/// What an attribute must be, in words that are made only when somebody has to be told.
pub enum Expected {
    /// Reads like "a string".
    Is(Cow<'static, str>),
    /// One of these words.
    OneOf(Vec<&'static str>),
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Is(words) => f.write_str(words),
            Self::OneOf(words) => write!(f, "one of {}", listed(words)),
        }
    }
}

type Read<T> = Box<dyn Fn(&Value) -> Result<T, Mistake>>;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mistake {
    /// It is of another type than expected.
    Type,
    /// It has the right type, but cannot be accepted.
    Value {
        /// Why not.
        message: String,
        /// What to write instead.
        help: Option<String>,
    },
    /// Parts of it cannot be accepted, each for a reason of its own.
    Parts {
        /// The first of them.
        wrong: Vec<(Entry, Mistake)>,
        /// How many more there are.
        more: usize,
    },
}

impl Mistake {
    /// The value cannot be accepted for this reason.
    pub fn value(message: impl Into<String>) -> Self {
        Self::Value { message: message.into(), help: None }
    }

    /// The value cannot be accepted, as an error says.
    pub fn of(error: impl std::fmt::Display) -> Self {
        Self::value(error.to_string())
    }

    /// Adds advice.
    pub fn help(self, help: impl Into<String>) -> Self {
        match self {
            Self::Value { message, .. } => Self::Value { message, help: Some(help.into()) },
            other => other,
        }
    }

    /// How many mistakes are told of.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Type | Self::Value { .. } => 1,
            Self::Parts { wrong, .. } => wrong.iter().map(|(_, mistake)| mistake.count()).sum(),
        }
    }

    /// How many are not told of, which is from now on for whoever asked to say.
    pub(super) fn take_untold(&mut self) -> usize {
        match self {
            Self::Type | Self::Value { .. } => 0,
            Self::Parts { more, .. } => std::mem::take(more),
        }
    }
}

impl<T: 'static> Field<T> {
    /// An attribute that is read by a function of your own; `expected` reads like "a string".
    pub fn new(
        name: &'static str,
        expected: impl Into<Cow<'static, str>>,
        read: impl Fn(&Value) -> Result<T, Mistake> + 'static,
    ) -> Self {
        Self { name, expected: Expected::Is(expected.into()), read: Box::new(read) }
    }

    /// Makes more of what was read, or refuses it.
    pub fn then<U: 'static>(self, convert: impl Fn(T) -> Result<U, Mistake> + 'static) -> Field<U> {
        let Self { name, expected, read } = self;
        Field { name, expected, read: Box::new(move |value| convert(read(value)?)) }
    }

    /// Makes more of what was read, where only the words of an error are known.
    pub fn parse<U: 'static, E: std::fmt::Display>(
        self,
        convert: impl Fn(T) -> Result<U, E> + 'static,
    ) -> Field<U> {
        self.then(move |value| convert(value).map_err(Mistake::of))
    }
}

impl Field<String> {
    /// Text; numbers and bools are taken by their text, as everywhere in HCL.
    pub fn string(name: &'static str) -> Self {
        Self::new(name, "a string", |value| text(value).ok_or(Mistake::Type))
    }

    /// Text with something in it.
    pub fn nonempty_string(name: &'static str) -> Self {
        Self::new(name, "a string", |value| match text(value) {
            Some(text) if text.trim().is_empty() => Err(Mistake::value("it must not be empty")),
            read => read.ok_or(Mistake::Type),
        })
    }
}

impl Field<bool> {
    /// `true` or `false`.
    pub fn bool(name: &'static str) -> Self {
        Self::new(name, "true or false", |value| {
            convert(value, &Type::Bool).ok().and_then(|it| it.as_bool()).ok_or(Mistake::Type)
        })
    }
}

impl Field<Number> {
    /// Any number.
    pub fn number(name: &'static str) -> Self {
        Self::new(name, "a number", |value| number(value).ok_or(Mistake::Type))
    }
}

impl Field<i64> {
    /// A whole number within a range, both ends included.
    pub fn integer(name: &'static str, range: std::ops::RangeInclusive<i64>) -> Self {
        let expected = match (*range.start(), *range.end()) {
            (i64::MIN, i64::MAX) => "a whole number".to_string(),
            (least, i64::MAX) => format!("a whole number of at least {least}"),
            (least, most) => format!("a whole number from {least} to {most}"),
        };
        let wanted = expected.clone();
        Self::new(name, expected, move |value| {
            let number = number(value).ok_or(Mistake::Type)?;
            match number.to_i64() {
                Some(whole) if range.contains(&whole) => Ok(whole),
                _ => Err(Mistake::value(format!("{number} is not {wanted}"))),
            }
        })
    }
}

impl Field<Duration> {
    /// A time span such as `10s` or `1h30m`.
    pub fn duration(name: &'static str) -> Self {
        Self::new(name, "a duration such as \"30s\" or \"1h30m\"", |value| match value {
            Value::String(text) => parse_duration(text),
            Value::Number(number) => Err(Mistake::value(format!("{number} has no unit"))
                .help(format!("write \"{number}s\" for seconds; units are ns, us, ms, s, m, h"))),
            _ => Err(Mistake::Type),
        })
    }
}

impl Field<Vec<String>> {
    /// A list of texts.
    pub fn strings(name: &'static str) -> Self {
        Self::new(name, "a list of strings", |value| {
            let items = value.as_items().ok_or(Mistake::Type)?;
            each(items, |index, item| {
                text(item).ok_or_else(|| unfit(format_args!("element {index}"), item))
            })
        })
    }
}

impl<T: 'static> Field<Vec<T>> {
    /// Makes more of each element, or refuses it where it stands; they are counted from 0.
    pub fn each<U: 'static>(
        self,
        convert: impl Fn(usize, T) -> Result<U, Mistake> + 'static,
    ) -> Field<Vec<U>> {
        self.then(move |items| each(items, &convert))
    }
}

fn each<T, U>(
    items: impl IntoIterator<Item = T>,
    convert: impl Fn(usize, T) -> Result<U, Mistake>,
) -> Result<Vec<U>, Mistake> {
    let mut parts = Parts::default();
    let items = items.into_iter().enumerate();
    let read = |(index, item)| parts.take(|| Entry::Item(index), convert(index, item));
    let items = items.filter_map(read).collect();
    parts.finish(items)
}

impl Field<BTreeMap<String, String>> {
    /// Names and texts.
    pub fn string_map(name: &'static str) -> Self {
        Self::new(name, "a map of strings", |value| {
            let entries = value.as_entries().ok_or(Mistake::Type)?;
            let (mut parts, mut texts) = (Parts::default(), BTreeMap::new());
            for (key, item) in entries {
                let text = text(item).ok_or_else(|| unfit(format_args!("\"{key}\""), item));
                let text = parts.take(|| Entry::Value(key.to_string()), text);
                texts.extend(text.map(|text| (key.to_string(), text)));
            }
            parts.finish(texts)
        })
    }

    /// Makes more of each key and each value, or refuses it where it stands.
    pub fn entries<K: Ord + 'static, V: 'static>(
        self,
        key: impl Fn(&str) -> Result<K, Mistake> + 'static,
        value: impl Fn(&str, String) -> Result<V, Mistake> + 'static,
    ) -> Field<BTreeMap<K, V>> {
        self.then(move |entries| {
            let (mut parts, mut read) = (Parts::default(), BTreeMap::new());
            for (name, text) in entries {
                let value = parts.take(|| Entry::Value(name.clone()), value(&name, text));
                let key = parts.take(|| Entry::Key(name.clone()), key(&name));
                read.extend(key.zip(value));
            }
            parts.finish(read)
        })
    }
}

impl Field<Value> {
    /// Anything.
    pub fn value(name: &'static str) -> Self {
        Self::new(name, "a value", |value| Ok(value.clone()))
    }
}

impl<T: Clone + 'static> Field<T> {
    /// One of a few words, each with its meaning.
    pub fn word(name: &'static str, words: &'static [(&'static str, T)]) -> Self
    where
        T: Sync,
    {
        let known = || words.iter().map(|(word, _)| *word);
        let read = move |value: &Value| {
            let text = value.as_str().ok_or(Mistake::Type)?;
            if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
                return Ok(meaning.clone());
            }
            let all = listed(&known().collect::<Vec<_>>());
            let mistake = Mistake::value(format!("\"{text}\" is not one of {all}"));
            Err(match closest(text, known()) {
                Some(word) => mistake.help(format!("did you mean \"{word}\"?")),
                None => mistake,
            })
        };
        Self { name, expected: Expected::OneOf(known().collect()), read: Box::new(read) }
    }
}

/// `"a", "b"`
fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        _ => convert(value, &Type::String).ok()?.as_str().map(str::to_string),
    }
}

fn number(value: &Value) -> Option<Number> {
    convert(value, &Type::Number).ok().and_then(|value| value.as_number().cloned())
}

fn unfit(place: std::fmt::Arguments, item: &Value) -> Mistake {
    Mistake::value(format!("{place} must be a string, but is {}", item.described()))
}

/// Reads a duration as Go writes it: numbers with units from `ns` to `h`, one after the other.
pub fn parse_duration(text: &str) -> Result<Duration, Mistake> {
    let wrong = |message: String| {
        Mistake::value(message).help("write it like \"500ms\", \"30s\", \"5m\" or \"1h30m\"")
    };
    if text.trim().is_empty() {
        return Err(wrong("it is empty".into()));
    }
    if text.starts_with('-') {
        return Err(wrong(format!("\"{text}\" is negative")));
    }
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, behind) = rest.split_at(digits);
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, next) = behind.split_at(unit_end.unwrap_or(behind.len()));
        let scale: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => return Err(wrong(format!("\"{text}\" has no unit behind {amount}"))),
            _ => {
                let message = format!("\"{text}\" has an unknown unit `{unit}`");
                return Err(wrong(message + "; units are ns, us, ms, s, m and h"));
            }
        };
        let part =
            scaled(amount, scale).ok_or_else(|| wrong(format!("\"{text}\" is not a duration")))?;
        nanos = nanos.saturating_add(part);
        rest = next;
    }
    let nanos = u64::try_from(nanos).ok().filter(|nanos| i64::try_from(*nanos).is_ok());
    nanos
        .map(Duration::from_nanos)
        .ok_or_else(|| wrong(format!("\"{text}\" is longer than 292 years")))
}

/// `amount · scale`, where the amount may have a fraction.
fn scaled(amount: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    if whole.is_empty() && fraction.is_empty() || whole.len() > 20 || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let power = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole = digits(whole)?.checked_mul(scale)?;
    let fraction = digits(fraction)?.checked_mul(scale)? / power;
    whole.checked_add(fraction)
}
