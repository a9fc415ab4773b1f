//! What expressions can see: variables, functions, files, and how much they may cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::budget::Budget;
use super::value::Value;
use crate::tree::Tree;

/// The outcome of asking for a variable or one of its attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// Here it is.
    Found(Value),
    /// There is none; perhaps one of these was meant.
    Missing(Vec<Arc<str>>),
    /// There is one, but it has problems that are reported where it is defined.
    Failed,
}

/// Variables that may be computed when they are asked for.
///
/// Keeping what was computed, and noticing cycles, is up to the implementation.
pub trait Variables {
    /// The whole variable: `name`.
    fn root(&self, name: &str) -> Lookup;

    /// `root.name`, where that can be had without computing all of the root; otherwise `None`,
    /// and the attribute is taken from the value of the root.
    fn attribute(&self, _root: &str, _name: &str) -> Option<Lookup> {
        None
    }
}

/// Variables that are there from the beginning.
impl Variables for BTreeMap<Arc<str>, Value> {
    fn root(&self, name: &str) -> Lookup {
        match self.get(name) {
            Some(value) => Lookup::Found(value.clone()),
            None => Lookup::Missing(self.keys().cloned().collect()),
        }
    }
}

/// No variables at all.
impl Variables for () {
    fn root(&self, _name: &str) -> Lookup {
        Lookup::Missing(Vec::new())
    }
}

/// What an expression can see.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub(super) variables: &'a dyn Variables,
    pub(super) budget: &'a Budget,
    pub(super) tree: Option<&'a dyn Tree>,
    pub(super) frame: Option<&'a Frame<'a>>,
    pub(super) templates: u32,
}

/// A name that is bound within a `for`, or the element of a splat.
pub(super) struct Frame<'a> {
    pub(super) name: &'a str,
    pub(super) value: Value,
    pub(super) outer: Option<&'a Frame<'a>>,
}

/// The name of a splat's element; no identifier can be that.
pub(super) const SPLAT_ITEM: &str = "*";

impl<'a> Scope<'a> {
    /// Variables and all functions, but no files.
    pub fn new(variables: &'a dyn Variables, budget: &'a Budget) -> Self {
        Self { variables, budget, tree: None, frame: None, templates: 0 }
    }

    /// Lets `file`, `templatefile` and `fileset` read these files.
    pub fn with_files(self, tree: &'a dyn Tree) -> Self {
        Self { tree: Some(tree), ..self }
    }

    pub(super) fn with_frame<'f>(&'f self, frame: &'f Frame<'f>) -> Scope<'f>
    where
        'a: 'f,
    {
        Scope { frame: Some(frame), ..*self }
    }

    /// The innermost binding of the name within `for` and splat.
    pub(super) fn bound(&self, name: &str) -> Option<&Value> {
        let frames = std::iter::successors(self.frame, |frame| frame.outer);
        frames.into_iter().find(|frame| frame.name == name).map(|frame| &frame.value)
    }

    /// All names that are bound within `for`.
    pub(super) fn bound_names(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(self.frame, |frame| frame.outer)
            .map(|frame| frame.name)
            .filter(|name| *name != SPLAT_ITEM)
    }
}
