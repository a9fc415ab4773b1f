//! A table as it was published, and how it came to be what it is: whoever has an earlier one is
//! told what changed since, and everybody else all of it.

use std::collections::VecDeque;
use std::sync::Arc;

use fluke_model::directory::{Edit, Table};
use fluke_model::id::Hash256;
use serde::Serialize;

/// How many changes back somebody may be who is not told all of it.
const REMEMBERED: usize = 16;

/// A table, and its last changes.
#[derive(Debug, Clone)]
pub struct Sheet<K: Ord, V> {
    table: Arc<Table<K, V>>,
    hash: Hash256,
    /// The newest last; each makes of the one before what the next one is for.
    edits: VecDeque<Arc<Edit<K, V>>>,
}

impl<K, V> Default for Sheet<K, V>
where
    K: Ord + Clone + Serialize,
    V: Clone + PartialEq + Serialize,
{
    fn default() -> Self {
        let table = Table::default();
        Self { hash: table.hash(), table: Arc::new(table), edits: VecDeque::new() }
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
        self.hash
    }

    /// Publishes another table in its place; says what changed, if anything did.
    pub fn turn(&mut self, table: Table<K, V>) -> Option<Arc<Edit<K, V>>> {
        if table.0 == self.table.0 {
            return None;
        }
        let edit = Arc::new(table.since(&self.table));
        (self.hash, self.table) = (edit.to, Arc::new(table));
        if self.edits.len() >= REMEMBERED {
            self.edits.pop_front();
        }
        self.edits.push_back(edit.clone());
        Some(edit)
    }

    /// What somebody needs who holds this table; none: who is not known to hold any.
    pub fn edits_for(&self, held: Option<Hash256>) -> Vec<Edit<K, V>> {
        if held == Some(self.hash) {
            return Vec::new();
        }
        // A table may have been the same before; the last time counts.
        let from = self.edits.iter().rposition(|edit| edit.from == held);
        match (held, from) {
            (Some(_), Some(from)) => {
                self.edits.range(from..).map(|edit| Edit::clone(edit)).collect()
            }
            _ => vec![self.table.whole()],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(rows: &[(u8, u8)]) -> Table<u8, u8> {
        Table(rows.iter().copied().collect())
    }

    #[test]
    fn what_is_the_same_is_no_change() {
        let mut sheet = Sheet::default();
        assert!(sheet.turn(table(&[(1, 1)])).is_some());
        assert!(sheet.turn(table(&[(1, 1)])).is_none());
        assert!(sheet.edits_for(Some(sheet.hash())).is_empty());
    }

    #[test]
    fn who_is_one_behind_is_told_what_changed_and_who_is_lost_everything() {
        let mut sheet = Sheet::default();
        sheet.turn(table(&[(1, 1), (2, 2)]));
        let before = sheet.hash();
        sheet.turn(table(&[(1, 1), (2, 3)]));
        let edits = sheet.edits_for(Some(before));
        assert_eq!(edits.len(), 1);
        assert_eq!((&edits[0].set[..], edits[0].from), (&[(2, 3)][..], Some(before)));
        for held in [None, Some(Hash256::of(b"something else"))] {
            let edits = sheet.edits_for(held);
            assert_eq!((edits.len(), edits[0].from, edits[0].set.len()), (1, None, 2));
        }
    }

    proptest! {
        #[test]
        fn whatever_somebody_holds_becomes_the_newest(
            tables in prop::collection::vec(prop::collection::btree_map(0u8..5, 0u8..3, 0..5), 1..40),
            held in any::<prop::sample::Index>(),
        ) {
            let (mut sheet, mut holder) = (Sheet::default(), Table::default());
            let held = held.index(tables.len());
            for (at, rows) in tables.into_iter().enumerate() {
                sheet.turn(Table(rows));
                if at == held {
                    holder = sheet.table().clone();
                }
            }
            for edit in sheet.edits_for(Some(holder.hash())) {
                holder.apply(edit).map_err(|error| TestCaseError::fail(error.to_string()))?;
            }
            prop_assert_eq!(&holder, sheet.table());
        }
    }
}
