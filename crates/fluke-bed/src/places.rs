//! Where the bed keeps things, and the locks that keep processes out of each other's way.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Hosts' disks and everything else that goes when a bed goes.
pub(crate) fn sites() -> PathBuf {
    PathBuf::from("/var/lib/fluke-bed")
}

/// What may stay: packages that were downloaded, logs of image builds.
pub(crate) fn cache() -> PathBuf {
    PathBuf::from("/var/cache/fluke-bed")
}

/// What went wrong with a file.
#[derive(Debug, thiserror::Error)]
#[error("could not {doing} {}", .path.display())]
pub struct FileError {
    /// To write, to read, to lock…
    pub doing: &'static str,
    /// Which one.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Says what was attempted.
pub(crate) fn doing(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_path_buf();
    move |source| FileError { doing, path, source }
}

/// A lock that ends with the process that holds it, however that ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

impl Lock {
    /// Waits for it.
    pub(crate) fn wait(path: &Path) -> Result<Self, FileError> {
        let file = open(path)?;
        file.lock().map_err(doing("lock", path))?;
        Ok(Self(file))
    }

    /// Takes it, unless somebody has it.
    pub(crate) fn attempt(path: &Path) -> Result<Option<Self>, FileError> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(doing("lock", path)(error)),
        }
    }
}

fn open(path: &Path) -> Result<File, FileError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(doing("make", folder))?;
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).open(path).map_err(doing("open", path))
}
