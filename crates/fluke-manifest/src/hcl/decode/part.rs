//! Parts of a value: entries of maps and elements of lists, each with a place of its own where the
//! text writes it out.

use super::super::ast::{Expr, ExprKind, ObjectItem, Part};
use super::Mistake;

/// One part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The key of an entry.
    Key(String),
    /// The value of an entry.
    Value(String),
    /// An element of a list, counted from 0.
    Item(usize),
}

impl Entry {
    /// Where it is written in an expression; all of it, where a part is made rather than written.
    pub(super) fn within<'e>(&self, expr: &'e Expr) -> &'e Expr {
        let found = match (self, &expr.kind) {
            (_, ExprKind::Paren(inner)) => Some(self.within(inner)),
            (Self::Item(index), ExprKind::Tuple(items)) => items.get(*index),
            (Self::Key(name), ExprKind::Object(items)) => named(items, name).map(|item| &item.key),
            (Self::Value(name), ExprKind::Object(items)) => {
                named(items, name).map(|item| &item.value)
            }
            _ => None,
        };
        found.unwrap_or(expr)
    }
}

/// The item that gives an object the entry of this name: of several, the last.
fn named<'e>(items: &'e [ObjectItem], name: &str) -> Option<&'e ObjectItem> {
    items.iter().rfind(|item| written_key(item) == Some(name))
}

/// The key, where nothing has to be worked out for it.
fn written_key(item: &ObjectItem) -> Option<&str> {
    match &item.key.kind {
        ExprKind::Variable(name) if item.literal_key => Some(name),
        ExprKind::Number(digits) => Some(digits),
        ExprKind::Template(parts) => match parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Of how many parts of one value it is told what is wrong, those of its parts included. A value is
/// worked out once and may be used by any number of blocks, each of which would tell of all of it.
pub(super) const MOST_PARTS: usize = 10;

/// Reads a value part by part, and gathers what is wrong with each of them.
#[derive(Debug, Default)]
pub struct Parts {
    wrong: Vec<(Entry, Mistake)>,
    /// How many mistakes those are.
    told: usize,
    /// How many there are beyond them.
    more: usize,
}

impl Parts {
    /// What was read of a part, if it was; which one that is is asked only if it is wrong.
    pub fn take<T>(
        &mut self,
        which: impl FnOnce() -> Entry,
        read: Result<T, Mistake>,
    ) -> Option<T> {
        read.map_err(|mistake| self.note(which, mistake)).ok()
    }

    fn note(&mut self, which: impl FnOnce() -> Entry, mut mistake: Mistake) {
        self.more += mistake.take_untold();
        match self.told < MOST_PARTS {
            true => {
                self.told += mistake.count();
                self.wrong.push((which(), mistake));
            }
            false => self.more += mistake.count(),
        }
    }

    /// What all parts come to, if none is wrong.
    pub fn finish<T>(self, whole: T) -> Result<T, Mistake> {
        match self.wrong.is_empty() {
            true => Ok(whole),
            false => Err(Mistake::Parts { wrong: self.wrong, more: self.more }),
        }
    }
}
