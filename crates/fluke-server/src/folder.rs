//! A directory as a tree of files, and a watch on it, for authors and for `fluke validate`.
//!
//! Follows no symlink, enters no `.git`, and reads nothing that is not a regular file.

mod watch;

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluke_manifest::tree::{EntryKind, MAX_FILE, Tree, TreeEntry, TreeError};
use fluke_model::id::{CommitId, Hash256};

use crate::git::{MAX_ENTRIES, usable_name};

pub use watch::{FolderWatch, WatchError};

/// The deepest nesting of directories.
const MAX_DEPTH: usize = 64;

/// Why a directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Not there, or not to be opened.
    #[error("could not read the folder {path}: {source}; check the path and its permissions")]
    Unreadable {
        /// Which directory or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// More than any sane set of manifests.
    #[error(
        "the folder {path} has over {MAX_ENTRIES} files, or over {MAX_DEPTH} nested directories; \
         name the folder that holds the manifests"
    )]
    TooLarge {
        /// Which directory.
        path: PathBuf,
    },
}

/// All files of a directory, as they were when it was read.
#[derive(Debug)]
pub struct FolderTree {
    root: PathBuf,
    entries: Vec<TreeEntry>,
    skipped: Vec<String>,
}

impl FolderTree {
    /// Reads the directory. Blocking.
    pub fn read(root: &Path) -> Result<Self, FolderError> {
        FolderReader::new(root).read()
    }

    /// What stands for a commit's id: equal for equal files.
    pub fn commit(&self) -> CommitId {
        let lines = self.entries.iter().map(|entry| format!("{} {}\0", entry.id, entry.path));
        CommitId::new(Hash256::of(lines.collect::<String>().as_bytes()).to_string())
    }

    /// What is left out because its name is no text or it cannot be opened, made printable.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }
}

impl Tree for FolderTree {
    fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, TreeError> {
        let found = self.entries.binary_search_by(|entry| (*entry.path).cmp(path));
        let at = found.map_err(|_| TreeError::Missing(path.to_string()))?;
        let unreadable = |reason: String| TreeError::Unreadable { path: path.to_string(), reason };
        if self.entries[at].kind == EntryKind::Symlink {
            return Err(unreadable("it is a symlink, and those are not followed".to_string()));
        }
        let (file, size) = open(&self.root.join(path)).map_err(|e| unreadable(e.to_string()))?;
        if size > MAX_FILE {
            return Err(TreeError::TooLarge { path: path.to_string(), size });
        }
        let content = read_bounded(file).map_err(|error| unreadable(error.to_string()))?;
        // What was parsed is kept by id, so an id must never stand for other content.
        if Hash256::of(&content).to_string() != *self.entries[at].id {
            return Err(unreadable("it changed while it was being read".to_string()));
        }
        Ok(content.into())
    }
}

/// Reads a directory again and again; what did not change is not read again.
#[derive(Debug)]
pub struct FolderReader {
    root: PathBuf,
    known: HashMap<String, (Stamp, Arc<str>)>,
}

/// Equal stamps mean an untouched file, as far as the system can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// A file that was written a moment ago may be written again within the same tick.
    fn is_settled(&self) -> bool {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.is_ok_and(|now| now.as_secs() as i64 - self.changed.0 > 2)
    }
}

impl FolderReader {
    /// Reads nothing yet.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf(), known: HashMap::new() }
    }

    /// Reads the directory as it is now. Blocking.
    pub fn read(&mut self) -> Result<FolderTree, FolderError> {
        let mut scan = Scan { known: std::mem::take(&mut self.known), ..Scan::default() };
        let scanned = scan.directory(&self.root, "", 0);
        self.known = scan.fresh;
        scanned.map_err(|error| match error {
            ScanError::TooLarge => FolderError::TooLarge { path: self.root.clone() },
            ScanError::Io(path, source) => FolderError::Unreadable { path, source },
        })?;
        scan.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        scan.skipped.sort_unstable();
        Ok(FolderTree { root: self.root.clone(), entries: scan.entries, skipped: scan.skipped })
    }
}

enum ScanError {
    TooLarge,
    Io(PathBuf, io::Error),
}

#[derive(Default)]
struct Scan {
    known: HashMap<String, (Stamp, Arc<str>)>,
    fresh: HashMap<String, (Stamp, Arc<str>)>,
    entries: Vec<TreeEntry>,
    skipped: Vec<String>,
    visited: usize,
}

impl Scan {
    fn directory(&mut self, at: &Path, prefix: &str, depth: usize) -> Result<(), ScanError> {
        if depth > MAX_DEPTH {
            return Err(ScanError::TooLarge);
        }
        let listing = match std::fs::read_dir(at) {
            Ok(listing) => listing,
            // Only the folder itself has to be there; what is within it comes and goes.
            Err(error) if depth == 0 => return Err(ScanError::Io(at.to_path_buf(), error)),
            Err(error) => {
                self.skip(prefix, &error);
                return Ok(());
            }
        };
        for item in listing {
            let item = item.map_err(|error| ScanError::Io(at.to_path_buf(), error))?;
            self.visited += 1;
            if self.visited > MAX_ENTRIES {
                return Err(ScanError::TooLarge);
            }
            let name = item.file_name();
            let Some(name) = usable_name(name.as_bytes()) else {
                self.skipped.push(format!("{prefix}{}", name.as_bytes().escape_ascii()));
                continue;
            };
            let path = format!("{prefix}{name}");
            match item.file_type() {
                Ok(kind) if kind.is_dir() && name == ".git" => {}
                Ok(kind) if kind.is_dir() => {
                    self.directory(&item.path(), &(path + "/"), depth + 1)?;
                }
                Ok(kind) if kind.is_symlink() => self.symlink(&item.path(), path),
                Ok(kind) if kind.is_file() => self.file(&item.path(), path),
                // Sockets, pipes and devices are nothing that a commit could hold.
                Ok(_) => {}
                Err(error) => self.skip(&path, &error),
            }
        }
        Ok(())
    }

    /// One that vanished since it was listed is not worth a word.
    fn skip(&mut self, path: &str, error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            self.skipped.push(format!("{path}: {error}"));
        }
    }

    fn symlink(&mut self, at: &Path, path: String) {
        let target = std::fs::read_link(at).unwrap_or_default();
        let id = Hash256::of(target.as_os_str().as_bytes()).to_string().into();
        self.entries.push(TreeEntry { path: path.into(), kind: EntryKind::Symlink, id });
    }

    fn file(&mut self, at: &Path, path: String) {
        match self.id(at, &path) {
            Ok(id) => {
                self.entries.push(TreeEntry { path: path.into(), kind: EntryKind::File, id });
            }
            // It is there, and whoever needs its content is told why it cannot be had.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let id = Hash256::of(error.to_string().as_bytes()).to_string().into();
                self.entries.push(TreeEntry { path: path.into(), kind: EntryKind::File, id });
            }
            Err(error) => self.skip(&path, &error),
        }
    }

    fn id(&mut self, at: &Path, path: &str) -> io::Result<Arc<str>> {
        let stamp = Stamp::of(&std::fs::symlink_metadata(at)?);
        let id = match self.known.remove(path) {
            Some((known, id)) if known == stamp => id,
            _ => content_id(at, &stamp)?,
        };
        if stamp.is_settled() {
            self.fresh.insert(path.to_string(), (stamp, id.clone()));
        }
        Ok(id)
    }
}

/// What is too large to be read is told apart by its stamp.
fn content_id(at: &Path, stamp: &Stamp) -> io::Result<Arc<str>> {
    let (file, size) = open(at)?;
    if size > MAX_FILE {
        return Ok(Hash256::of(format!("{stamp:?}").as_bytes()).to_string().into());
    }
    Ok(Hash256::of(&read_bounded(file)?).to_string().into())
}

/// Opens a regular file; neither follows a symlink nor waits at a pipe that took its place.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata.len())),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

fn read_bounded(file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut content)?;
    match content.len() as u64 > MAX_FILE {
        true => Err(io::Error::other("it grew while it was being read")),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests;
