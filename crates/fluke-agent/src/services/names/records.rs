//! The names that were last known, kept for the next start by a task that may wait for the disk:
//! whoever answers does not.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluke_model::directory::Names;
use fluke_model::id::Hash256;
use tokio::sync::watch;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use crate::host::files;

/// A disk that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sees to it that names are on disk; only the last ones count.
#[derive(Debug)]
pub struct Keeper {
    wanted: watch::Sender<Option<Arc<Names>>>,
    /// Why they are not there.
    problem: watch::Receiver<Option<String>>,
}

/// What is on disk, and by what it is known that nobody has changed it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    names: Hash256,
    mark: Mark,
}

/// Inode, length, and when it was last written.
type Mark = (u64, u64, i64, i64);

impl Keeper {
    /// Begins with what is kept at `path`, which comes first; nothing where there is none. What
    /// cannot be read is put aside.
    pub fn open(path: &Path) -> (Option<Arc<Names>>, Self) {
        let mark = std::fs::metadata(path).ok().map(|file| mark(&file));
        let names = load(path).map(Arc::new);
        let kept = names.as_ref().zip(mark);
        let kept = kept.map(|(names, mark)| Kept { names: names.hash(), mark });
        let (wanted, received) = watch::channel(names.clone());
        let (told, problem) = watch::channel(None);
        tokio::spawn(keep(path.to_owned(), kept, received, told));
        (names, Self { wanted, problem })
    }

    /// Has these kept, as soon as the disk takes them.
    pub fn keep(&self, names: Arc<Names>) {
        self.wanted.send_replace(Some(names));
    }

    /// Has it looked whether they are there, and tried again where that failed.
    pub fn look(&self) {
        self.wanted.send_modify(|_| {});
    }

    /// Why they are not kept, as far as is known by now.
    pub fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    /// Returns when that is otherwise than it was. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.problem.changed().await.is_err() {
            // The agent ends.
            std::future::pending().await
        }
    }
}

/// Keeps what is wanted until nobody wants anything any more, and what was last wanted then.
async fn keep(
    path: PathBuf,
    mut kept: Option<Kept>,
    mut wanted: watch::Receiver<Option<Arc<Names>>>,
    problem: watch::Sender<Option<String>>,
) {
    let tell = |why: Option<String>| {
        problem.send_if_modified(|told| {
            let is_news = *told != why;
            *told = why;
            is_news
        });
    };
    while wanted.changed().await.is_ok() {
        let Some(names) = wanted.borrow_and_update().clone() else { continue };
        let path = path.clone();
        let mut saved = spawn_blocking(move || save(&path, &names, kept));
        let saved: Result<io::Result<Kept>, JoinError> = match timeout(PATIENCE, &mut saved).await {
            Ok(saved) => saved,
            Err(_) => {
                tell(Some(format!("it takes more than {} s", PATIENCE.as_secs())));
                saved.await
            }
        };
        let saved = saved.map_err(io::Error::other).flatten();
        tell(saved.as_ref().err().map(ToString::to_string));
        kept = saved.ok();
    }
}

/// Has `names` at `path`, where they are not as they were `kept`.
pub(super) fn save(path: &Path, names: &Names, kept: Option<Kept>) -> io::Result<Kept> {
    let is_there = |mark: Mark| std::fs::metadata(path).is_ok_and(|file| self::mark(&file) == mark);
    let is_kept = |kept: &Kept| kept.names == names.hash() && is_there(kept.mark);
    if let Some(kept) = kept.filter(is_kept) {
        return Ok(kept);
    }
    let content = serde_json::to_vec(names).map_err(io::Error::other)?;
    let file = files::replace_known(path, &content)?;
    Ok(Kept { names: names.hash(), mark: mark(&file) })
}

fn mark(file: &Metadata) -> Mark {
    (file.ino(), file.len(), file.mtime(), file.mtime_nsec())
}

fn load(path: &Path) -> Option<Names> {
    match look(path) {
        Ok(names) => names,
        Err(error) => {
            let aside = files::quarantine(path);
            tracing::error!(
                path = %path.display(), %error, ?aside,
                "the kept names are damaged; names are answered once the server has told them"
            );
            None
        }
    }
}

/// What is kept at `path`.
pub(super) fn look(path: &Path) -> io::Result<Option<Names>> {
    let Some(content) = files::read(path)? else { return Ok(None) };
    serde_json::from_slice(&content).map(Some).map_err(io::Error::other)
}
