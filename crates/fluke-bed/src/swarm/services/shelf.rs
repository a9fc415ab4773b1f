//! Tables as members hold them: each version is there once, whoever holds it, and is made once. Ten
//! thousand hosts that know of each other need ten thousand rows, and not a hundred million.
//!
//! Nothing is taken on trust: an edit that is not the very one by which a version was made is applied
//! to a table as an agent does it, and the hash of what comes of it is compared.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use fluke_model::directory::{
    DoesNotFit, Edit, NameKey, Peer, Route, RouteKey, Table, Whereabouts,
};
use fluke_model::id::{AgentName, Hash256, ServiceName};
use serde::Serialize;

use super::super::lock;

/// How many versions are kept that nobody may hold any more: members come through them one by one.
const RECENT: usize = 24;
/// How many ways to one version are remembered.
const WAYS: usize = 256;

/// One version of a table.
#[derive(Debug)]
pub(crate) struct Version<K: Ord, V> {
    pub(crate) hash: Hash256,
    pub(crate) table: Table<K, V>,
    /// The edits by which it was made of other versions.
    ways: Mutex<Vec<Edit<K, V>>>,
}

/// What a member holds; none of which nothing was ever heard.
pub(crate) type Held<K, V> = Option<Arc<Version<K, V>>>;

/// All versions of one table.
#[derive(Debug)]
pub(crate) struct Shelf<K: Ord, V> {
    versions: HashMap<Hash256, Weak<Version<K, V>>>,
    recent: VecDeque<Arc<Version<K, V>>>,
}

impl<K: Ord, V> Default for Shelf<K, V> {
    fn default() -> Self {
        Self { versions: HashMap::new(), recent: VecDeque::new() }
    }
}

/// The tables of a swarm.
#[derive(Debug, Default)]
pub(crate) struct Shelves {
    pub(crate) names: Mutex<Shelf<NameKey, ()>>,
    pub(crate) routes: Mutex<Shelf<RouteKey, Route>>,
    pub(crate) peers: Mutex<Shelf<AgentName, Peer>>,
    pub(crate) placements: Mutex<Shelf<ServiceName, Whereabouts>>,
}

impl<K, V> Shelf<K, V>
where
    K: Ord + Clone + Serialize,
    V: Clone + PartialEq + Serialize,
{
    /// Does what an edit says to what somebody holds, or nothing where it does not fit.
    pub(crate) fn edit(
        &mut self,
        held: &mut Held<K, V>,
        edit: Edit<K, V>,
    ) -> Result<(), DoesNotFit> {
        let fits = edit.from.is_none() || edit.from == Some(hash_of(held));
        let known = self.versions.get(&edit.to).and_then(Weak::upgrade);
        if let Some(version) = known.filter(|it| fits && it.is_made_by(&edit)) {
            *held = Some(version);
            return Ok(());
        }
        let mut table = held.as_ref().map(|it| it.table.clone()).unwrap_or_default();
        table.apply(edit.clone())?;
        *held = Some(self.keep(edit, table));
        Ok(())
    }

    /// What was made by an edit is there for all.
    fn keep(&mut self, edit: Edit<K, V>, table: Table<K, V>) -> Arc<Version<K, V>> {
        let (hash, is_whole) = (edit.to, edit.from.is_none());
        let version = match self.versions.get(&hash).and_then(Weak::upgrade) {
            Some(version) => version,
            None => self.add(Version { hash, table, ways: Mutex::default() }),
        };
        let mut ways = lock(&version.ways);
        if !is_whole && ways.len() < WAYS {
            ways.push(edit);
        }
        drop(ways);
        version
    }

    fn add(&mut self, version: Version<K, V>) -> Arc<Version<K, V>> {
        let version = Arc::new(version);
        self.recent.truncate(RECENT - 1);
        self.recent.push_front(version.clone());
        self.versions.retain(|_, version| version.strong_count() > 0);
        self.versions.insert(version.hash, Arc::downgrade(&version));
        version
    }

    /// How many hold a version of which something is so.
    pub(crate) fn holders(&self, is_so: impl Fn(&Table<K, V>) -> bool) -> u64 {
        let versions = self.versions.values().filter_map(Weak::upgrade);
        let count = |version: Arc<Version<K, V>>| {
            let is_recent = self.recent.iter().any(|it| it.hash == version.hash);
            // Beside those who hold it: this one, and the shelf.
            (Arc::strong_count(&version) - 1 - usize::from(is_recent)) as u64
        };
        versions.filter(|version| is_so(&version.table)).map(count).sum()
    }
}

impl<K: Ord, V: PartialEq> Version<K, V> {
    /// Whether an edit certainly makes this version of the one that it is for.
    fn is_made_by(&self, edit: &Edit<K, V>) -> bool {
        match edit.from {
            None => {
                let rows = edit.set.iter().map(|(key, value)| (key, value));
                edit.removed.is_empty() && rows.eq(self.table.rows())
            }
            Some(_) => lock(&self.ways).iter().any(|way| way == edit),
        }
    }
}

/// The hash of what somebody holds; of an empty table where that is nothing.
pub(crate) fn hash_of<K, V>(held: &Held<K, V>) -> Hash256
where
    K: Ord + Clone + Serialize,
    V: Clone + PartialEq + Serialize,
{
    held.as_ref().map_or_else(|| Table::<K, V>::default().hash(), |version| version.hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(u8, u8)]) -> Table<u8, u8> {
        rows.iter().copied().collect()
    }

    fn is_shared(one: &Held<u8, u8>, other: &Held<u8, u8>) -> bool {
        one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }

    #[test]
    fn who_comes_to_the_same_version_holds_the_same_one() {
        let mut shelf = Shelf::default();
        let (first, second) = (table(&[(1, 1)]), table(&[(1, 2), (3, 3)]));
        let (mut one, mut other, mut late) = (None, None, None);
        for held in [&mut one, &mut other] {
            shelf.edit(held, first.whole()).expect("it fits");
        }
        assert!(is_shared(&one, &other));
        for held in [&mut one, &mut other] {
            shelf.edit(held, second.since(&first)).expect("it fits");
        }
        shelf.edit(&mut late, second.whole()).expect("it fits");
        assert!(is_shared(&one, &other) && is_shared(&one, &late));
        assert_eq!(late.as_ref().map(|it| &it.table), Some(&second));
        assert_eq!(shelf.holders(|table| table.rows().contains_key(&3)), 3);
        assert_eq!(shelf.holders(|table| table.rows().is_empty()), 0);
    }

    #[test]
    fn what_does_not_fit_or_lies_is_found_out_though_the_version_is_known() {
        let mut shelf = Shelf::default();
        let (first, second) = (table(&[(1, 1)]), table(&[(1, 2), (3, 3)]));
        let (mut one, mut other) = (None, None);
        shelf.edit(&mut one, first.whole()).expect("it fits");
        shelf.edit(&mut one, second.since(&first)).expect("it fits");
        assert!(shelf.edit(&mut other, second.since(&first)).is_err(), "it holds nothing");
        shelf.edit(&mut other, first.whole()).expect("it fits");
        let lies = Edit { set: vec![(1, 7)], ..second.since(&first) };
        assert!(shelf.edit(&mut other, lies).is_err());
        let lies = Edit { set: vec![(1, 7)], ..second.whole() };
        assert!(shelf.edit(&mut other, lies).is_err());
        assert_eq!(hash_of(&other), first.hash());
    }

    #[test]
    fn versions_that_nobody_holds_are_forgotten() {
        let mut shelf = Shelf::default();
        let mut held = None;
        for number in 0..100 {
            shelf.edit(&mut held, table(&[(number, 1)]).whole()).expect("it fits");
        }
        assert!(shelf.versions.len() <= RECENT + 1, "{}", shelf.versions.len());
    }
}
