//! The files of one commit in the mirror.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluke_manifest::tree::{EntryKind, MAX_FILE, Tree, TreeEntry, TreeError};

use super::command::Program;
use super::objects::{Header, Objects};

/// The most files and directories that a commit may have.
pub const MAX_ENTRIES: usize = 200_000;
/// The deepest nesting of directories.
const MAX_DEPTH: usize = 64;
/// The largest directory, as Git stores it.
const MAX_DIRECTORY: u64 = 16 * 1024 * 1024;
/// The longest path, in bytes.
const MAX_PATH: usize = 4096;
/// The largest commit object: its message is part of it.
const MAX_COMMIT: u64 = 1024 * 1024;
/// How much is remembered, in bytes, of files that manifests read.
const MAX_REMEMBERED: usize = 16 * 1024 * 1024;

/// Why the files of a commit cannot be listed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0} is missing")]
    Missing(String),
    #[error("{0} cannot be understood")]
    Malformed(String),
    #[error("has {0}")]
    TooLarge(String),
}

/// A commit, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) id: String,
    pub(super) tree: String,
    pub(super) parents: Vec<String>,
}

/// Objects of the mirror, with what was read of them remembered: they never change.
pub(super) struct Store {
    program: Program,
    objects: Objects,
    directories: HashMap<Arc<str>, Arc<Directory>>,
    /// Of files that were read one by one: these are read time and again.
    contents: HashMap<Arc<str>, Arc<[u8]>>,
    remembered: usize,
}

impl Store {
    pub(super) fn new(program: Program) -> Self {
        Self {
            program,
            objects: Objects::default(),
            directories: HashMap::new(),
            contents: HashMap::new(),
            remembered: 0,
        }
    }

    /// To be called when packs were removed or the mirror is another one.
    pub(super) fn restart(&mut self) {
        self.objects.restart();
    }

    /// The commit that `name` stands for.
    pub(super) fn commit(&mut self, name: &str) -> Result<Commit, ReadError> {
        let header = self.header(name)?;
        if header.kind != "commit" {
            return Err(ReadError::Malformed(format!("{name}, a {}", header.kind)));
        }
        if header.size > MAX_COMMIT {
            return Err(ReadError::TooLarge(format!("a message of {} bytes", header.size)));
        }
        let content = self.objects.contents(&self.program, &[&header.id])?.swap_remove(0);
        parse_commit(header.id, &content)
    }

    fn header(&mut self, name: &str) -> Result<Header, ReadError> {
        let found = self.objects.headers(&self.program, &[name])?.swap_remove(0);
        found.ok_or_else(|| ReadError::Missing(name.to_string()))
    }

    /// Reads those of `ids` that are not remembered yet, all at once.
    fn load_directories(&mut self, ids: &[Arc<str>]) -> Result<(), ReadError> {
        let unknown: HashSet<&str> =
            ids.iter().filter(|id| !self.directories.contains_key(*id)).map(|id| &**id).collect();
        let unknown: Vec<&str> = unknown.into_iter().collect();
        for (id, header) in unknown.iter().zip(self.objects.headers(&self.program, &unknown)?) {
            let header = header.ok_or_else(|| ReadError::Missing(id.to_string()))?;
            if header.size > MAX_DIRECTORY {
                let size = format!("a directory that takes {} bytes to list", header.size);
                return Err(ReadError::TooLarge(size));
            }
        }
        let contents = self.objects.contents(&self.program, &unknown)?;
        for (id, content) in unknown.into_iter().zip(contents) {
            let directory = parse_directory(&content, id.len() / 2)
                .ok_or_else(|| ReadError::Malformed(format!("directory {id}")))?;
            self.directories.insert(id.into(), Arc::new(directory));
        }
        Ok(())
    }

    /// Reads many files at once.
    fn read_all(&mut self, entries: &[&TreeEntry]) -> Vec<Result<Arc<[u8]>, TreeError>> {
        let ids: Vec<&str> = entries.iter().map(|entry| &*entry.id).collect();
        let read = self.read_small(&ids);
        let read = read.map_err(|error| error.to_string());
        let one = |at: usize, entry: &&TreeEntry| {
            let path = entry.path.to_string();
            let unreadable =
                |reason: &str| TreeError::Unreadable { path: path.clone(), reason: reason.into() };
            match read.as_ref().map_err(|reason| unreadable(reason))?[at].clone() {
                Read::Content(content) => Ok(content),
                Read::TooLarge(size) => Err(TreeError::TooLarge { path, size }),
                Read::Missing => {
                    Err(unreadable(&ReadError::Missing(entry.id.to_string()).to_string()))
                }
            }
        };
        entries.iter().enumerate().map(|(at, entry)| one(at, entry)).collect()
    }

    /// The content of each of `ids` that is small enough.
    fn read_small(&mut self, ids: &[&str]) -> io::Result<Vec<Read>> {
        let headers = self.objects.headers(&self.program, ids)?;
        let is_small = |header: &Header| header.size <= MAX_FILE;
        let small: Vec<&str> =
            headers.iter().flatten().filter(|header| is_small(header)).map(|it| &*it.id).collect();
        let mut contents = self.objects.contents(&self.program, &small)?.into_iter();
        let read = |header: &Option<Header>| match header {
            Some(header) if is_small(header) => {
                contents.next().map_or(Read::Missing, Read::Content)
            }
            Some(header) => Read::TooLarge(header.size),
            None => Read::Missing,
        };
        Ok(headers.iter().map(read).collect())
    }

    fn remember(&mut self, id: Arc<str>, content: Arc<[u8]>) {
        if self.remembered + content.len() > MAX_REMEMBERED {
            self.contents.clear();
            self.remembered = 0;
        }
        self.remembered += content.len();
        self.contents.insert(id, content);
    }

    fn content(&mut self, path: &str, id: &Arc<str>) -> Result<Arc<[u8]>, TreeError> {
        if let Some(content) = self.contents.get(id) {
            return Ok(content.clone());
        }
        let unreadable = |reason: String| TreeError::Unreadable { path: path.to_string(), reason };
        let header = self.header(id).map_err(|error| unreadable(error.to_string()))?;
        if header.size > MAX_FILE {
            return Err(TreeError::TooLarge { path: path.to_string(), size: header.size });
        }
        let read = self.objects.contents(&self.program, &[id]);
        let content = read.map_err(|error| unreadable(error.to_string()))?.swap_remove(0);
        self.remember(id.clone(), content.clone());
        Ok(content)
    }
}

/// What came of reading one file.
#[derive(Clone)]
enum Read {
    Content(Arc<[u8]>),
    TooLarge(u64),
    Missing,
}

/// All files of one commit of the mirror.
pub struct GitTree {
    entries: Vec<TreeEntry>,
    skipped: Vec<String>,
    store: Arc<Mutex<Store>>,
    damaged: AtomicBool,
}

impl GitTree {
    /// Lists `commit`. Blocking.
    pub(super) fn list(store: &Arc<Mutex<Store>>, commit: &Commit) -> Result<Self, ReadError> {
        let mut walk = Walk::default();
        {
            let mut store = lock(store);
            let mut level = vec![(String::new(), Arc::<str>::from(&*commit.tree))];
            for _ in 0..MAX_DEPTH {
                let ids: Vec<_> = level.iter().map(|(_, id)| id.clone()).collect();
                store.load_directories(&ids)?;
                level = walk.level(&store.directories, level)?;
                if level.is_empty() {
                    break;
                }
            }
            if !level.is_empty() {
                return Err(ReadError::TooLarge(format!("over {MAX_DEPTH} nested directories")));
            }
            store.directories.retain(|id, _| walk.seen.contains(id));
        }
        walk.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(Self {
            entries: walk.entries,
            skipped: walk.skipped,
            store: store.clone(),
            damaged: AtomicBool::new(false),
        })
    }

    /// Whether a file could not be read that the commit has: the mirror is at fault, not the
    /// commit.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    fn note<T>(&self, read: &Result<T, TreeError>) {
        if matches!(read, Err(TreeError::Unreadable { .. })) {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// Names that are left out because they are no text, made printable.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }
}

impl Tree for GitTree {
    fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    fn read(&self, path: &str) -> Result<Arc<[u8]>, TreeError> {
        let entry = self.entry(path).ok_or_else(|| TreeError::Missing(path.to_string()))?;
        let refused = |reason: &str| {
            Err(TreeError::Unreadable { path: path.to_string(), reason: reason.to_string() })
        };
        match entry.kind {
            EntryKind::File => {
                let read = lock(&self.store).content(&entry.path, &entry.id);
                self.note(&read);
                read
            }
            EntryKind::Symlink => refused("it is a symlink, and those are not followed"),
            EntryKind::Submodule => refused("it is a submodule, and those are not entered"),
        }
    }

    fn read_all(&self, entries: &[&TreeEntry]) -> Vec<Result<Arc<[u8]>, TreeError>> {
        let read = lock(&self.store).read_all(entries);
        read.iter().for_each(|read| self.note(read));
        read
    }
}

pub(super) fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    // What is remembered is written in one step each; the processes are checked before each use.
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The listing as far as it has come.
#[derive(Default)]
struct Walk {
    entries: Vec<TreeEntry>,
    skipped: Vec<String>,
    seen: HashSet<Arc<str>>,
    visited: usize,
}

type Level = Vec<(String, Arc<str>)>;

impl Walk {
    /// Lists the directories of one level and returns those below.
    fn level(
        &mut self,
        directories: &HashMap<Arc<str>, Arc<Directory>>,
        level: Level,
    ) -> Result<Level, ReadError> {
        let mut below = Vec::new();
        for (prefix, id) in level {
            let directory =
                directories.get(&id).ok_or_else(|| ReadError::Missing(id.to_string()))?;
            self.seen.insert(id);
            // Counted before anything is made: a few objects can spell billions of paths.
            self.visited += directory.items.len().max(1);
            if self.visited > MAX_ENTRIES {
                return Err(ReadError::TooLarge(format!("over {MAX_ENTRIES} files")));
            }
            self.skipped.extend(directory.skipped.iter().map(|name| format!("{prefix}{name}")));
            for item in &directory.items {
                if prefix.len() + item.name.len() > MAX_PATH {
                    return Err(ReadError::TooLarge(format!("a path of over {MAX_PATH} bytes")));
                }
                let path = format!("{prefix}{}", item.name);
                match item.kind {
                    ItemKind::Directory => below.push((path + "/", item.id.clone())),
                    ItemKind::Entry(kind) => {
                        let id = item.id.clone();
                        self.entries.push(TreeEntry { path: path.into(), kind, id });
                    }
                }
            }
        }
        Ok(below)
    }
}

/// One directory as Git stores it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Directory {
    items: Vec<Item>,
    skipped: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Item {
    name: String,
    kind: ItemKind,
    id: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Directory,
    Entry(EntryKind),
}

/// `<mode> <name>\0<id>`, over and over; none if it is anything else.
fn parse_directory(mut content: &[u8], id_bytes: usize) -> Option<Directory> {
    let mut directory = Directory::default();
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ')?;
        let end = content.iter().position(|byte| *byte == 0).filter(|end| *end > space)?;
        let mode = std::str::from_utf8(&content[..space]).ok()?;
        let mode = u32::from_str_radix(mode, 8).ok()?;
        let name = &content[space + 1..end];
        let id = content.get(end + 1..end + 1 + id_bytes)?;
        content = &content[end + 1 + id_bytes..];
        let kind = match mode >> 12 {
            0o04 => ItemKind::Directory,
            0o10 => ItemKind::Entry(EntryKind::File),
            0o12 => ItemKind::Entry(EntryKind::Symlink),
            0o16 => ItemKind::Entry(EntryKind::Submodule),
            _ => return None,
        };
        match usable_name(name) {
            Some(name) => directory.items.push(Item { name: name.into(), kind, id: hex(id) }),
            None => directory.skipped.push(name.escape_ascii().to_string()),
        }
    }
    Some(directory)
}

/// A name that can stand in a path and on a terminal.
pub(crate) fn usable_name(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let unusable =
        matches!(name, "" | "." | "..") || name.contains('/') || name.chars().any(char::is_control);
    (!unusable).then_some(name)
}

fn hex(bytes: &[u8]) -> Arc<str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| DIGITS[usize::from(digit)] as char).collect::<String>().into()
}

/// Header lines up to the first empty one.
fn parse_commit(id: String, content: &[u8]) -> Result<Commit, ReadError> {
    let text = String::from_utf8_lossy(content);
    let lines = || text.lines().take_while(|line| !line.is_empty());
    let tree = lines().find_map(|line| line.strip_prefix("tree "));
    let tree = tree.ok_or_else(|| ReadError::Malformed(format!("commit {id}")))?.to_string();
    let parents = lines().filter_map(|line| line.strip_prefix("parent ")).map(String::from);
    Ok(Commit { tree, parents: parents.collect(), id })
}

#[cfg(test)]
mod tests;
