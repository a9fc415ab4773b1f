//! Values: what expressions evaluate to. Clones are cheap; collections know their full size.

mod json;
mod order;

#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use fluke_model::gather::Gather;

use super::number::Number;
use super::types::Type;

pub use json::JsonError;
pub(crate) use json::write_quoted;

/// What an expression evaluates to.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, though sometimes of a known type; a bare `null` is of [`Type::Any`].
    Null(Type),
    /// `true` or `false`.
    Bool(bool),
    /// Any number.
    Number(Number),
    /// Text.
    String(Arc<str>),
    /// What `[…]` makes.
    Tuple(Arc<Sequence>),
    /// Elements of one type.
    List(Arc<Sequence>),
    /// Distinct elements of one type, in a fixed order.
    Set(Arc<Sequence>),
    /// What `{…}` makes.
    Object(Arc<Mapping>),
    /// Values of one type.
    Map(Arc<Mapping>),
}

/// The elements of a tuple, list or set.
#[derive(Debug, PartialEq)]
pub struct Sequence {
    element: Type,
    items: Vec<Value>,
    extent: Extent,
}

/// The entries of an object or map, sorted by key.
#[derive(Debug, PartialEq)]
pub struct Mapping {
    element: Type,
    entries: BTreeMap<Arc<str>, Value>,
    extent: Extent,
}

/// How much a value is when written out in full, however much of it is shared in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, roughly.
    pub size: u64,
    /// Levels of nesting.
    pub depth: u32,
}

/// What one value costs apart from its text.
const NODE: u64 = 48;

impl Extent {
    const LEAF: Self = Self { size: NODE, depth: 0 };

    fn around<'v>(values: impl Iterator<Item = &'v Value>, keys: u64) -> Self {
        let start = Self { size: NODE.saturating_add(keys), depth: 1 };
        values.fold(start, |sum, value| {
            let one = value.extent();
            let size = sum.size.saturating_add(one.size);
            Self { size, depth: sum.depth.max(one.depth.saturating_add(1)) }
        })
    }
}

impl Value {
    /// The bare `null`.
    pub const NULL: Self = Self::Null(Type::Any);

    /// Text, brought into the composed form (NFC) that all strings have here.
    pub fn string(text: impl AsRef<str>) -> Self {
        use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};
        let text = text.as_ref();
        if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
            return Self::String(text.into());
        }
        Self::String(text.nfc().collect::<String>().into())
    }

    /// A tuple of these.
    pub fn tuple(items: Vec<Value>) -> Self {
        Self::Tuple(Arc::new(Sequence::new(Type::Any, items)))
    }

    /// A list of values that are all of this type.
    pub fn list(element: Type, items: Vec<Value>) -> Self {
        Self::List(Arc::new(Sequence::new(element, items)))
    }

    /// A set of values that are all of this type; equal ones become one.
    pub fn set(element: Type, items: Vec<Value>) -> Self {
        Self::Set(Arc::new(Sequence::new(element, order::sort_distinct(items))))
    }

    /// A list of strings.
    pub fn strings<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::list(Type::String, items.into_iter().map(Self::string).collect())
    }

    /// An object with these attributes.
    pub fn object(entries: BTreeMap<Arc<str>, Value>) -> Self {
        Self::Object(Arc::new(Mapping::new(Type::Any, entries)))
    }

    /// A map of values that are all of this type.
    pub fn map(element: Type, entries: BTreeMap<Arc<str>, Value>) -> Self {
        Self::Map(Arc::new(Mapping::new(element, entries)))
    }

    /// How large and deep the value is.
    pub fn extent(&self) -> Extent {
        match self {
            Self::Null(_) | Self::Bool(_) | Self::Number(_) => Extent::LEAF,
            Self::String(text) => Extent { size: NODE + text.len() as u64, depth: 0 },
            Self::Tuple(sequence) | Self::List(sequence) | Self::Set(sequence) => sequence.extent,
            Self::Object(mapping) | Self::Map(mapping) => mapping.extent,
        }
    }

    /// Whether it is null of any type.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null(_))
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number.
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The elements of a tuple, list or set.
    pub fn as_items(&self) -> Option<&[Value]> {
        match self {
            Self::Tuple(sequence) | Self::List(sequence) | Self::Set(sequence) => {
                Some(&sequence.items)
            }
            _ => None,
        }
    }

    /// The entries of an object or map.
    pub fn as_entries(&self) -> Option<&BTreeMap<Arc<str>, Value>> {
        match self {
            Self::Object(mapping) | Self::Map(mapping) => Some(&mapping.entries),
            _ => None,
        }
    }

    /// Its type in full.
    pub fn kind(&self) -> Type {
        match self {
            Self::Null(kind) => kind.clone(),
            Self::Bool(_) => Type::Bool,
            Self::Number(_) => Type::Number,
            Self::String(_) => Type::String,
            Self::Tuple(sequence) => Type::Tuple(sequence.items.iter().map(Value::kind).collect()),
            Self::List(sequence) => sequence.element.clone().list(),
            Self::Set(sequence) => sequence.element.clone().set(),
            Self::Map(mapping) => mapping.element.clone().map(),
            Self::Object(mapping) => {
                let kinds = mapping.entries.iter();
                Type::Object(Arc::new(kinds.map(|(key, it)| (key.clone(), it.kind())).gather()))
            }
        }
    }

    /// Whether the value is exactly of this type; the same as comparing [`Value::kind`], without
    /// building it.
    pub fn is_of(&self, kind: &Type) -> bool {
        match (self, kind) {
            (Self::Null(own), _) => own == kind,
            (Self::Bool(_), Type::Bool)
            | (Self::Number(_), Type::Number)
            | (Self::String(_), Type::String) => true,
            (Self::Tuple(sequence), Type::Tuple(kinds)) => {
                sequence.items.len() == kinds.len()
                    && sequence.items.iter().zip(kinds.iter()).all(|(item, kind)| item.is_of(kind))
            }
            (Self::List(sequence), Type::List(element))
            | (Self::Set(sequence), Type::Set(element)) => sequence.element == **element,
            (Self::Map(mapping), Type::Map(element)) => mapping.element == **element,
            (Self::Object(mapping), Type::Object(kinds)) => {
                mapping.entries.len() == kinds.len()
                    && mapping
                        .entries
                        .iter()
                        .zip(kinds.iter())
                        .all(|((name, item), (wanted, kind))| name == wanted && item.is_of(kind))
            }
            _ => false,
        }
    }

    /// What to call it in a message: `string`, `list of number`, `object`, `null`.
    pub fn type_name(&self) -> String {
        match self {
            Self::Null(_) => "null".into(),
            Self::Tuple(_) => "tuple".into(),
            Self::Object(_) => "object".into(),
            _ => self.kind().to_string(),
        }
    }

    /// The same with an article: `a string`, `an object`.
    pub fn described(&self) -> String {
        match self.type_name() {
            name if self.is_null() => name,
            name if name.starts_with('o') => format!("an {name}"),
            name => format!("a {name}"),
        }
    }

    /// What `==` says: equal content of equal type; all nulls are equal.
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null(_), Self::Null(_)) => true,
            _ => self == other,
        }
    }
}

impl Sequence {
    fn new(element: Type, items: Vec<Value>) -> Self {
        let extent = Extent::around(items.iter(), 0);
        Self { element, items, extent }
    }

    /// The type of all elements of a list or set.
    pub fn element(&self) -> &Type {
        &self.element
    }

    /// The elements in order.
    pub fn items(&self) -> &[Value] {
        &self.items
    }
}

impl Mapping {
    fn new(element: Type, entries: BTreeMap<Arc<str>, Value>) -> Self {
        let keys = entries.keys().map(|key| NODE + key.len() as u64).sum();
        let extent = Extent::around(entries.values(), keys);
        Self { element, entries, extent }
    }

    /// The type of all values of a map.
    pub fn element(&self) -> &Type {
        &self.element
    }

    /// The entries, sorted by key.
    pub fn entries(&self) -> &BTreeMap<Arc<str>, Value> {
        &self.entries
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::string(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::string(text)
    }
}
