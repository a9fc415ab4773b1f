//! Small maps and sets, put together one by one.

use std::collections::{BTreeMap, BTreeSet};

/// What [`Gather::gather`] makes.
pub trait OneByOne<T>: Default + Extend<T> {}

impl<K: Ord, V> OneByOne<(K, V)> for BTreeMap<K, V> {}
impl<T: Ord> OneByOne<T> for BTreeSet<T> {}

/// Iterators whose items are few.
pub trait Gather: Iterator + Sized {
    /// Like `collect`, which sorts everything first: quicker for thousands, but every type of item
    /// brings along a sort of its own, 6 kB of the program each.
    fn gather<C: OneByOne<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}

impl<I: Iterator> Gather for I {}
