//! A table as it was published, and how it came to be what it is: whoever has an earlier one is
//! told what changed since, and everybody else all of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fluke_model::directory::{Edit, Table};
use fluke_model::gather::Gather;
use fluke_model::id::Hash256;
use serde::Serialize;

/// So many changed rows are remembered in any case, and as many as there are rows.
const REMEMBERED: usize = 256;

/// A table, and its last changes.
#[derive(Debug, Clone)]
pub struct Sheet<K: Ord, V> {
    table: Arc<Table<K, V>>,
    /// The newest last.
    changes: Arc<VecDeque<Change<K>>>,
    /// How many rows those changed.
    remembered: usize,
}

/// What made another table of one.
#[derive(Debug, Clone)]
struct Change<K> {
    /// Of which.
    from: Hash256,
    /// The rows that are others since; mostly few.
    rows: Arc<[K]>,
}

impl<K: Ord, V> Default for Sheet<K, V> {
    fn default() -> Self {
        Self { table: Arc::default(), changes: Arc::default(), remembered: 0 }
    }
}

impl<K, V> Sheet<K, V>
where
    K: Ord + Clone + Serialize,
    V: Clone + PartialEq + Serialize,
{
    /// The table itself.
    pub fn table(&self) -> &Table<K, V> {
        &self.table
    }

    /// Names it.
    pub fn hash(&self) -> Hash256 {
        self.table.hash()
    }

    /// Publishes these rows in the place of those that were under their keys; says which are others
    /// now.
    pub fn turn(&mut self, rows: BTreeMap<K, Option<V>>) -> Vec<K> {
        let is_other = |(key, row): &(K, Option<V>)| self.table.rows().get(key) != row.as_ref();
        let others: Vec<(K, Option<V>)> = rows.into_iter().filter(is_other).collect();
        let keys: Vec<K> = others.iter().map(|(key, _)| key.clone()).collect();
        if keys.is_empty() {
            return keys;
        }
        let from = self.table.hash();
        let table = Arc::make_mut(&mut self.table);
        others.into_iter().for_each(|(key, row)| table.put(key, row));
        self.remember(Change { from, rows: keys.clone().into() });
        keys
    }

    /// Whoever is so far behind that they would be told of more rows than there are is told all.
    fn remember(&mut self, change: Change<K>) {
        let most = self.table.rows().len().max(REMEMBERED);
        self.remembered += change.rows.len();
        let changes = Arc::make_mut(&mut self.changes);
        changes.push_back(change);
        while self.remembered > most
            && let Some(oldest) = changes.pop_front()
        {
            self.remembered -= oldest.rows.len();
        }
    }

    /// What somebody needs who holds this table; none: who is not known to hold any.
    pub fn edit_for(&self, held: Option<Hash256>) -> Option<Edit<K, V>> {
        let held = match held {
            Some(held) if held == self.hash() => return None,
            Some(held) => held,
            None => return Some(self.table.whole()),
        };
        // A table may have been the same before; the last time counts.
        let from = self.changes.iter().rposition(|change| change.from == held);
        Some(from.map_or_else(|| self.table.whole(), |from| self.since(held, from)))
    }

    /// All changes from one on, as one.
    fn since(&self, held: Hash256, first: usize) -> Edit<K, V> {
        let changes = self.changes.range(first..);
        let keys: BTreeSet<&K> = changes.flat_map(|change| change.rows.iter()).gather();
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for key in keys {
            match self.table.rows().get(key) {
                Some(row) => set.push((key.clone(), row.clone())),
                None => removed.push(key.clone()),
            }
        }
        Edit { from: Some(held), set, removed, to: self.hash() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(rows: &[(u8, u8)]) -> BTreeMap<u8, u8> {
        rows.iter().copied().collect()
    }

    /// Publishes another table in its place; says which rows are others now.
    fn turn_to(sheet: &mut Sheet<u8, u8>, rows: BTreeMap<u8, u8>) -> Vec<u8> {
        let gone = sheet.table().rows().keys().filter(|key| !rows.contains_key(*key));
        let gone: Vec<(u8, Option<u8>)> = gone.map(|key| (*key, None)).collect();
        sheet.turn(rows.into_iter().map(|(key, row)| (key, Some(row))).chain(gone).collect())
    }

    #[test]
    fn what_is_the_same_is_no_change() {
        let mut sheet = Sheet::default();
        assert_eq!(turn_to(&mut sheet, rows(&[(1, 1)])), [1]);
        assert!(turn_to(&mut sheet, rows(&[(1, 1)])).is_empty());
        assert!(sheet.turn([(1, Some(1)), (2, None)].into()).is_empty());
        assert_eq!(sheet.edit_for(Some(sheet.hash())), None);
    }

    #[test]
    fn who_is_behind_is_told_what_changed_and_who_is_lost_everything() {
        let mut sheet = Sheet::default();
        turn_to(&mut sheet, rows(&[(1, 1), (2, 2), (3, 3)]));
        let before = sheet.hash();
        for version in 3..9 {
            sheet.turn([(2, Some(version))].into());
        }
        sheet.turn([(1, None)].into());
        let edit = sheet.edit_for(Some(before)).expect("something changed");
        assert_eq!((&edit.set[..], &edit.removed[..]), (&[(2, 8)][..], &[1][..]), "once each");
        for held in [None, Some(Hash256::of(b"something else"))] {
            let edit = sheet.edit_for(held).expect("it has nothing of it");
            assert_eq!((edit.from, edit.set.len()), (None, 2));
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut sheet = Sheet::default();
        let first = sheet.hash();
        for version in 0..4 * REMEMBERED {
            sheet.turn([(0, Some(version))].into());
        }
        assert_eq!((sheet.changes.len(), sheet.remembered), (REMEMBERED, REMEMBERED));
        assert_eq!(sheet.edit_for(Some(first)).and_then(|edit| edit.from), None);
    }

    proptest! {
        #[test]
        fn whatever_somebody_holds_becomes_the_newest(
            tables in prop::collection::vec(prop::collection::btree_map(0u8..5, 0u8..3, 0..5), 1..40),
            held in any::<prop::sample::Index>(),
        ) {
            let (mut sheet, mut holder) = (Sheet::default(), Table::default());
            let held = held.index(tables.len());
            let newest = tables.last().cloned().expect("one at least");
            for (at, rows) in tables.into_iter().enumerate() {
                turn_to(&mut sheet, rows);
                if at == held {
                    holder = sheet.table().clone();
                }
            }
            if let Some(edit) = sheet.edit_for(Some(holder.hash())) {
                prop_assert!(edit.from.is_some(), "it is not told all again");
                holder.apply(edit).map_err(|error| TestCaseError::fail(error.to_string()))?;
            }
            prop_assert_eq!(&holder, sheet.table());
            prop_assert_eq!(holder.rows(), &newest);
        }
    }
}
