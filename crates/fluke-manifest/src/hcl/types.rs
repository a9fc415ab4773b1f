//! Types of values, for conversion, unification and messages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of a value, or what a value is wanted to be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// Wanted: anything. Of a value: the bare `null`, and elements of collections without any.
    Any,
    /// `true` or `false`.
    Bool,
    /// Any number.
    Number,
    /// Text.
    String,
    /// A sequence with a type for each place.
    Tuple(Arc<[Type]>),
    /// A sequence with one type for all elements.
    List(Arc<Type>),
    /// Distinct elements of one type, without order of their own.
    Set(Arc<Type>),
    /// Named attributes, each with its type.
    Object(Arc<BTreeMap<Arc<str>, Type>>),
    /// Keys and values of one type.
    Map(Arc<Type>),
}

impl Type {
    /// A list of this type.
    pub fn list(self) -> Self {
        Self::List(Arc::new(self))
    }

    /// A set of this type.
    pub fn set(self) -> Self {
        Self::Set(Arc::new(self))
    }

    /// A map of this type.
    pub fn map(self) -> Self {
        Self::Map(Arc::new(self))
    }

    /// Bool, number or string.
    pub fn is_primitive(&self) -> bool {
        matches!(self, Self::Bool | Self::Number | Self::String)
    }

    /// List, set or map.
    pub fn is_collection(&self) -> bool {
        self.element().is_some()
    }

    /// What a list, set or map consists of.
    pub fn element(&self) -> Option<&Type> {
        match self {
            Self::List(element) | Self::Set(element) | Self::Map(element) => Some(element),
            _ => None,
        }
    }

    /// The words for what is wanted, where `any` reads better as "any single type".
    pub fn wanted(&self) -> String {
        match self.element() {
            Some(Self::Any) => self.to_string().replace(" of any", " of any single type"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("any"),
            Self::Bool => formatter.write_str("bool"),
            Self::Number => formatter.write_str("number"),
            Self::String => formatter.write_str("string"),
            Self::Tuple(_) => formatter.write_str("tuple"),
            Self::Object(_) => formatter.write_str("object"),
            Self::List(element) => write!(formatter, "list of {element}"),
            Self::Set(element) => write!(formatter, "set of {element}"),
            Self::Map(element) => write!(formatter, "map of {element}"),
        }
    }
}
