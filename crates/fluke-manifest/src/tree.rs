//! The files of one commit (or one folder), as manifests see them.
//!
//! Nothing here touches a disk: Git and folders are behind [`Tree`].

use std::sync::Arc;

/// The largest file that is read; a larger one is refused, not cut.
pub const MAX_FILE: u64 = 1024 * 1024;

/// All files of one commit.
pub trait Tree: Send + Sync {
    /// Every entry, sorted by path, directories left out.
    fn entries(&self) -> &[TreeEntry];

    /// The entry of this path.
    fn entry(&self, path: &str) -> Option<&TreeEntry> {
        let entries = self.entries();
        let at = entries.binary_search_by(|entry| (*entry.path).cmp(path)).ok()?;
        entries.get(at)
    }

    /// The content of a regular file. `path` is one of [`Tree::entries`].
    fn read(&self, path: &str) -> Result<Arc<[u8]>, TreeError>;

    /// The contents of many regular files, in their order; may be faster than one by one.
    fn read_all(&self, entries: &[&TreeEntry]) -> Vec<Result<Arc<[u8]>, TreeError>> {
        entries.iter().map(|entry| self.read(&entry.path)).collect()
    }
}

/// One file of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Relative, with `/`, never with `..`.
    pub path: Arc<str>,
    /// What it is.
    pub kind: EntryKind,
    /// Equal ids mean equal content; what was parsed can be kept by it.
    pub id: Arc<str>,
}

/// What an entry of a commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Content.
    File,
    /// Never followed.
    Symlink,
    /// Never entered.
    Submodule,
}

/// Why a file's content cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// No such file in the commit.
    #[error("there is no file `{0}` in the commit")]
    Missing(String),
    /// More than [`MAX_FILE`].
    #[error("`{path}` has {size} bytes; files over 1 MiB are refused")]
    TooLarge {
        /// Which file.
        path: String,
        /// How large.
        size: u64,
    },
    /// The place where the commit is kept failed.
    #[error("`{path}` could not be read: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        reason: String,
    },
}

/// A tree in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryTree {
    entries: Vec<TreeEntry>,
    contents: std::collections::BTreeMap<Arc<str>, Arc<[u8]>>,
}

impl MemoryTree {
    /// Puts files together; a later one replaces an earlier one of the same path.
    pub fn new<P: AsRef<str>, C: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, C)>) -> Self {
        let contents: std::collections::BTreeMap<Arc<str>, Arc<[u8]>> = files
            .into_iter()
            .map(|(path, content)| (Arc::from(path.as_ref()), Arc::from(content.as_ref())))
            .collect();
        let entries = contents
            .iter()
            .map(|(path, content)| TreeEntry {
                path: path.clone(),
                kind: EntryKind::File,
                id: fluke_model::id::Hash256::of(content).to_string().into(),
            })
            .collect();
        Self { entries, contents }
    }

    /// Adds an entry that is no regular file.
    pub fn with_special(mut self, path: &str, kind: EntryKind) -> Self {
        self.entries.push(TreeEntry { path: path.into(), kind, id: "".into() });
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        self
    }
}

impl Tree for MemoryTree {
    fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, TreeError> {
        let content =
            self.contents.get(path).ok_or_else(|| TreeError::Missing(path.to_string()))?;
        match content.len() as u64 {
            size if size > MAX_FILE => Err(TreeError::TooLarge { path: path.to_string(), size }),
            _ => Ok(content.clone()),
        }
    }
}
