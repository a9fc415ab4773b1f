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

    /// The same of what may fail.
    fn try_gather<C: OneByOne<T>, T, E>(mut self) -> Result<C, E>
    where
        Self: Iterator<Item = Result<T, E>>,
    {
        self.try_fold(C::default(), |mut all, item| {
            all.extend([item?]);
            Ok(all)
        })
    }
}

impl<I: Iterator> Gather for I {}
