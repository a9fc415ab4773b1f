//! What Podman listed last, for as long as it would list the same.
//!
//! To list takes Podman a millisecond for each container. What it lists comes from its database and
//! from the containers' processes: while nobody wrote to the one and all of the others live, there
//! is nothing new. Processes are for whoever asks. Volumes are in the same database; networks are
//! not, but one that is in use cannot be removed without the containers in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fluke_model::volume::Volumes;

use crate::services::podman::{Listed, Network, Podman, Store};

/// Podman is asked at least so often, whatever its files say.
const OLDEST: Duration = Duration::from_secs(60);
/// What was written so shortly before may have been written once more at the same time, as far as
/// times of files tell.
const BLUR: Duration = Duration::from_secs(1);

/// What is remembered.
#[derive(Debug, Default)]
pub struct Memory {
    /// None: nobody has asked yet. Nothing in it: it cannot be told.
    files: Option<Vec<PathBuf>>,
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    stamp: Stamp,
    asked: Instant,
    listed: Arc<Listing>,
}

/// Everything there is.
#[derive(Debug, PartialEq, Eq)]
pub struct Listing {
    /// Whoever's they are.
    pub containers: Vec<Listed>,
    /// Of numbered replicas; none where Podman would not tell.
    pub volumes: Option<Volumes>,
    /// What containers are connected by, if it is there; or that Podman would not tell.
    pub network: Result<Option<Network>, Untold>,
}

/// Podman has said something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untold;

/// Differs once somebody wrote to Podman's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Vec<Option<(u64, SystemTime)>>);

impl Memory {
    /// Learns where Podman's database is, once.
    pub async fn learn(&mut self, podman: &Podman) {
        if self.files.is_none() {
            self.files = podman.store().await.ok().map(|store| database(&store));
        }
    }

    /// How Podman's database is now; none where that cannot be told.
    pub fn stamp(&self) -> Option<Stamp> {
        let files = self.files.as_ref()?;
        Stamp::of(files, SystemTime::now())
    }

    /// What Podman would list, if that is known.
    pub fn recall(&self, stamp: Option<&Stamp>, now: Instant) -> Option<Arc<Listing>> {
        let last = self.last.as_ref()?;
        let is_same = stamp == Some(&last.stamp);
        let is_young = now.saturating_duration_since(last.asked) < OLDEST;
        (is_same && is_young).then(|| last.listed.clone())
    }

    /// Keeps what Podman listed after the stamp was taken.
    pub fn keep(&mut self, stamp: Option<Stamp>, listed: &Arc<Listing>, now: Instant) {
        let last = |stamp| Last { stamp, asked: now, listed: listed.clone() };
        self.last = stamp.map(last);
    }

    /// Something happened that files do not tell of.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

impl Stamp {
    fn of(files: &[PathBuf], now: SystemTime) -> Option<Self> {
        let each = |file: &PathBuf| {
            let found = std::fs::metadata(file).ok()?;
            Some((found.len(), found.modified().ok()?))
        };
        let found: Vec<_> = files.iter().map(each).collect();
        let is_old = |(_, written): &(u64, SystemTime)| {
            now.duration_since(*written).is_ok_and(|age| age > BLUR)
        };
        let is_there = found.first().is_some_and(Option::is_some);
        (is_there && found.iter().flatten().all(is_old)).then_some(Self(found))
    }
}

/// The files that Podman's database is in, the first of which must be there; none where it is kept
/// in another way than is known.
fn database(store: &Store) -> Vec<PathBuf> {
    let Store { folder, backend, is_transient } = store;
    if *is_transient {
        return Vec::new();
    }
    let files: &[&str] = match backend.as_str() {
        // Said only since there is another.
        "" | "boltdb" => &["libpod/bolt_state.db"],
        "sqlite" => &["db.sql", "db.sql-wal", "db.sql-journal"],
        _ => &[],
    };
    files.iter().map(|file| Path::new(folder).join(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(folder: &Path, backend: &str) -> Store {
        Store { folder: folder.into(), backend: backend.into(), is_transient: false }
    }

    #[test]
    fn a_database_that_was_written_to_has_another_stamp() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = database(&store(folder.path(), "sqlite"));
        let later = SystemTime::now() + Duration::from_secs(10);
        assert_eq!(Stamp::of(&files, later), None, "there is none");
        std::fs::write(&files[0], "a").expect("written");
        let before = Stamp::of(&files, later);
        assert!(before.is_some() && before == Stamp::of(&files, later));
        std::fs::write(&files[1], "more").expect("written");
        assert_ne!(Stamp::of(&files, later), before, "a journal counts");
        assert_eq!(Stamp::of(&files, SystemTime::now()), None, "it may be written to just now");
    }

    #[test]
    fn what_is_kept_in_an_unknown_way_is_not_remembered() {
        let folder = Path::new("/store");
        assert_eq!(database(&store(folder, "")), [folder.join("libpod/bolt_state.db")]);
        assert!(database(&store(folder, "postgres")).is_empty());
        let transient = Store { is_transient: true, ..store(folder, "sqlite") };
        assert!(database(&transient).is_empty());
    }

    #[test]
    fn a_list_is_remembered_for_the_same_stamp_and_not_for_ever() {
        let (stamp, other) = (Stamp(vec![None]), Stamp(vec![]));
        let (mut memory, now) = (Memory::default(), Instant::now());
        let listed = Arc::new(Listing { containers: Vec::new(), volumes: None, network: Ok(None) });
        memory.keep(Some(stamp.clone()), &listed, now);
        assert_eq!(memory.recall(Some(&stamp), now), Some(listed.clone()));
        assert_eq!(memory.recall(Some(&other), now), None);
        assert_eq!(memory.recall(None, now), None);
        assert_eq!(memory.recall(Some(&stamp), now + OLDEST), None);
        memory.forget();
        assert_eq!(memory.recall(Some(&stamp), now), None);
        memory.keep(None, &listed, now);
        assert_eq!(memory.recall(None, now), None, "without a stamp nothing is kept");
    }
}
