//! What the disk says of units: whether what is known of enabled units still holds, and names like
//! one that is not there.
//!
//! systemd reads many directories to tell whether a unit is enabled, which takes it milliseconds.
//! The answer depends on those directories and on the unit's file alone, so it is kept for as long
//! as none of them has changed.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::facts::FileState;
use super::name::UnitName;

/// A change this young may be followed by one with the same time.
const TOO_YOUNG: Duration = Duration::from_secs(1);
/// How alike a name must be to be offered.
const LIKENESS: f64 = 0.85;
/// How many names are offered.
const OFFERED: usize = 3;

/// Tells one version of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// Of what links lead to; none for nothing.
    fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|meta| Self::from(&meta))
    }

    fn is_older_than(&self, moment: (i64, i64)) -> bool {
        self.changed < moment
    }
}

impl From<&Metadata> for Stamp {
    fn from(meta: &Metadata) -> Self {
        Self { inode: meta.ino(), size: meta.size(), changed: (meta.ctime(), meta.ctime_nsec()) }
    }
}

/// The directories that decide which units are enabled, as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Directories {
    roots: Vec<Root>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Root {
    path: PathBuf,
    stamp: Option<Stamp>,
    /// `*.wants` and the like.
    links: Vec<(PathBuf, Option<Stamp>)>,
}

impl Directories {
    /// Looks at them now; lists only those that are not as in `known`.
    pub(super) fn look(paths: &[PathBuf], known: &Self) -> Self {
        let roots = paths.iter().enumerate().map(|(at, path)| {
            let stamp = Stamp::of(path);
            let known = known.roots.get(at).filter(|root| root.path == *path);
            let links = match known {
                Some(known) if known.stamp == stamp => {
                    known.links.iter().map(|(path, _)| (path.clone(), Stamp::of(path))).collect()
                }
                _ => links_in(path),
            };
            Root { path: path.clone(), stamp, links }
        });
        Self { roots: roots.collect() }
    }

    fn is_older_than(&self, moment: (i64, i64)) -> bool {
        let links = self.roots.iter().flat_map(|root| root.links.iter().map(|(_, stamp)| stamp));
        let stamps = self.roots.iter().map(|root| &root.stamp).chain(links);
        stamps.flatten().all(|stamp| stamp.is_older_than(moment))
    }

    /// The file that a unit is made from.
    fn file_of(&self, unit: &UnitName) -> Option<(PathBuf, Stamp)> {
        [unit.as_str().to_owned(), unit.file()].into_iter().find_map(|name| {
            self.roots.iter().find_map(|root| {
                let path = root.path.join(&name);
                let stamp = Stamp::of(&path)?;
                Some((path, stamp))
            })
        })
    }
}

fn links_in(root: &Path) -> Vec<(PathBuf, Option<Stamp>)> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path()).filter(|path| {
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or("");
        matches!(kind, "wants" | "requires" | "upholds")
    });
    paths.map(|path| (path.clone(), Stamp::of(&path))).collect()
}

/// What systemd said of units' files, and what it depends on.
#[derive(Debug, Default)]
pub(super) struct Known {
    directories: Directories,
    states: HashMap<UnitName, Said>,
}

/// What systemd said of one unit.
#[derive(Debug)]
struct Said {
    /// The unit's file as it was then.
    file: Option<(PathBuf, Stamp)>,
    state: Option<FileState>,
}

impl Known {
    /// Forgets everything that may no longer hold; tells how the directories are.
    pub(super) fn refresh(&mut self, paths: &[PathBuf]) -> Directories {
        let now = Directories::look(paths, &self.directories);
        if now != self.directories {
            self.states.clear();
            self.directories = now.clone();
        }
        now
    }

    /// What still holds of a unit.
    pub(super) fn get(&self, unit: &UnitName) -> Option<&Option<FileState>> {
        let Said { file, state } = self.states.get(unit)?;
        let holds = match file {
            Some((path, stamp)) => Stamp::of(path) == Some(*stamp),
            None => true,
        };
        holds.then_some(state)
    }

    /// Keeps what systemd said after the directories were looked at, unless they change right now.
    pub(super) fn keep(
        &mut self,
        unit: &UnitName,
        state: &Option<FileState>,
        seen: &Directories,
        now: SystemTime,
    ) {
        if *seen != self.directories {
            return;
        }
        let young = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let young = young.saturating_sub(TOO_YOUNG);
        let young = (young.as_secs() as i64, i64::from(young.subsec_nanos()));
        let file = seen.file_of(unit);
        let settled = file.as_ref().is_none_or(|(_, stamp)| stamp.is_older_than(young));
        if settled && seen.is_older_than(young) {
            self.states.insert(unit.clone(), Said { file, state: state.clone() });
        }
    }
}

/// Names of units that are there, and like one that is not.
pub(super) fn near(unit: &UnitName, paths: &[PathBuf]) -> Vec<String> {
    let entries = paths.iter().flat_map(|path| std::fs::read_dir(path).into_iter().flatten());
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut alike: Vec<(f64, String)> = names
        .filter(|name| super::name::kind(name) == unit.kind())
        .map(|name| (strsim::jaro_winkler(stem(unit.as_str()), stem(&name)), name))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    alike.dedup();
    alike.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Whether a unit's file says how it is enabled; none if that cannot be told.
pub(super) fn is_installable(fragment: &str) -> Option<bool> {
    let text = std::fs::read_to_string(fragment).ok()?;
    Some(text.lines().any(|line| line.trim() == "[Install]"))
}

#[cfg(test)]
mod tests;
