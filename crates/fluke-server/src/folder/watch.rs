//! Says that something in a directory changed, once things have calmed down.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

/// How long nothing may happen before a change is told: editors write in several steps.
const QUIET: Duration = Duration::from_millis(50);
/// A directory that is never quiet is told about this often.
const LONGEST: Duration = Duration::from_secs(1);
/// How often a directory is looked for that is gone together with the one above it.
const ABSENT: Duration = Duration::from_secs(1);

/// Why a directory cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error(
    "could not watch the folder {path}: {source}; if the limit of watches is reached, raise \
     fs.inotify.max_user_watches or name a smaller folder"
)]
pub struct WatchError {
    path: PathBuf,
    source: notify::Error,
}

/// A watch on a directory and all below it, which outlives the directory.
pub struct FolderWatch {
    root: PathBuf,
    watcher: RecommendedWatcher,
    changed: Arc<Notify>,
    /// Set when the folder came, went or was renamed: a new one may even have the old one's
    /// inode number.
    replaced: Arc<AtomicBool>,
    watched: bool,
    /// Whether the directory above is watched, where the folder's own coming and going is seen.
    above: bool,
}

impl FolderWatch {
    /// Begins to watch `root`, which need not be there yet.
    pub fn new(root: &Path) -> Result<Self, WatchError> {
        let failed = |source| WatchError { path: root.to_path_buf(), source };
        // Events name resolved paths where the folder is reached through a symlink.
        let root = std::fs::canonicalize(root)
            .or_else(|_| std::path::absolute(root))
            .map_err(|error| failed(notify::Error::io(error)))?;
        let changed = Arc::new(Notify::new());
        let replaced = Arc::new(AtomicBool::new(true));
        let (tell, within, lost) = (changed.clone(), root.clone(), replaced.clone());
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.as_ref().is_ok_and(|event| replaces(event, &within)) {
                lost.store(true, Ordering::SeqCst);
            }
            if event.map_or(true, |event| matters(&event, &within)) {
                tell.notify_one();
            }
        })
        .map_err(failed)?;
        let mut watch = Self { root, watcher, changed, replaced, watched: false, above: false };
        watch.renew().map_err(failed)?;
        Ok(watch)
    }

    /// Waits until something changed and then nothing for a moment. Safe to cancel.
    pub async fn changed(&mut self) -> Result<(), WatchError> {
        loop {
            let told = self.changed.notified();
            let absent = !self.watched && !self.above;
            if absent {
                let _ = timeout(ABSENT, told).await;
            } else {
                told.await;
            }
            self.calm().await;
            self.renew().map_err(|source| WatchError { path: self.root.clone(), source })?;
            if !absent || self.watched {
                return Ok(());
            }
        }
    }

    async fn calm(&self) {
        let latest = Instant::now() + LONGEST;
        loop {
            let quiet = (Instant::now() + QUIET).min(latest);
            if timeout_at(quiet, self.changed.notified()).await.is_err() {
                return;
            }
        }
    }

    /// Watches what now has the folder's name, and the directory above it.
    fn renew(&mut self) -> notify::Result<()> {
        if self.replaced.swap(false, Ordering::SeqCst) || !self.watched {
            // The old directory may be gone, and its watch with it.
            let _ = self.watcher.unwatch(&self.root);
            self.watched = self.watch(self.root.clone(), RecursiveMode::Recursive)?;
        }
        if !self.above
            && let Some(parent) = self.root.parent()
        {
            self.above = self.watch(parent.to_path_buf(), RecursiveMode::NonRecursive)?;
        }
        Ok(())
    }

    /// Watches `path`, unless it is not there.
    fn watch(&mut self, path: PathBuf, mode: RecursiveMode) -> notify::Result<bool> {
        match self.watcher.watch(&path, mode) {
            Ok(()) => Ok(true),
            Err(_) if !path.exists() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn replaces(event: &Event, root: &Path) -> bool {
    let about = matches!(
        event.kind,
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
    );
    event.need_rescan() || (about && event.paths.iter().any(|path| path == root))
}

/// Reading is no change: our own reading would never end.
fn matters(event: &Event, root: &Path) -> bool {
    let changes = match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    };
    let within = event.paths.is_empty() || event.paths.iter().any(|path| path.starts_with(root));
    event.need_rescan() || (changes && within)
}
