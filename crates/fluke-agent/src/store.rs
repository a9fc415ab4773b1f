//! What the agent keeps across restarts, in its state directory.
//!
//! | file            | what                                            |
//! |-----------------|-------------------------------------------------|
//! | `lock`          | held while an agent lives: one agent a directory|
//! | `identity.json` | which installation this is                      |
//! | `snapshot.json` | what the host should be, and under which commit |
//! | `settings.json` | what the server said about its ways             |
//! | `journal`       | records that the server has not acknowledged    |
//! | `run`           | the mark of its commands, while an agent lives  |
//! | `leaving`       | put there by who uninstalls an agent that lives |
//!
//! Only opening can fail. Later a disk that is full or read-only costs what a crash would lose, no
//! more: everything is in memory as well, is said once, and is written when it can be.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::{InstanceId, TaskName};
use fluke_model::message::{Fact, Record, RecordId, Subject};
use fluke_model::time::Timestamp;
use fluke_model::verdict::Outcome;
use nix::fcntl::Flock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::host::files;
use crate::journal::{self, Condition, Entry, Journal};
use crate::state::Held;

/// What to assume of a server that was never met.
const DEFAULT_POLL: Duration = Duration::from_secs(60);
/// Below this a journal is not worth rewriting.
const WORTH_REWRITING: u64 = 256 * 1024;
/// How many numbers of records are set apart at once: more than a full disk ever leaves unwritten.
const SET_APART: u64 = 1 << 20;

/// How often it is tried to take hold of the directory, and how long after each other.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another agent lives there.
    #[error(
        "another agent uses the state directory {}; stop it, or give this one a `state_dir` of \
         its own",
        dir.display()
    )]
    InUse {
        /// Which directory.
        dir: PathBuf,
    },
    /// It cannot be made or entered.
    #[error(
        "the state directory {} cannot be used; give the agent's user the right to write there, \
         or another `state_dir`",
        dir.display()
    )]
    Unusable {
        /// Which directory.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The system has no randomness to give.
    #[error("the system gave no random bytes for an identity: {reason}")]
    Random {
        /// Why.
        reason: String,
    },
}

/// The state directory, and what is in it.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    lock: Option<Flock<File>>,
    identity: Identity,
    held: Option<Arc<Held>>,
    settings: Settings,
    journal: Journal,
    /// The mark of this agent's commands.
    run: String,
    /// The mark of the commands of one that did not end in order.
    left_behind: Option<String>,
    /// The journal's file, while it is good to be added to.
    file: Option<File>,
    file_size: u64,
    unwritten: Unwritten,
    /// Whether it was said that the disk cannot be written.
    warned: bool,
}

/// What is only in memory, for want of a disk.
#[derive(Debug, Default)]
struct Unwritten {
    identity: bool,
    snapshot: bool,
    settings: bool,
    journal: bool,
    run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    instance: InstanceId,
    /// No record has this number or a higher one. Kept apart from the journal, so that numbers
    /// never go back when it is lost, or a full disk did not take all of it: a server takes what
    /// has an old number for known.
    unused: RecordId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Settings {
    poll_interval_ms: u64,
}

impl Store {
    /// Opens `dir`, makes it if need be, and reads what is there.
    pub fn open(dir: &Path, now: Timestamp) -> Result<Self, StoreError> {
        let unusable = |source| StoreError::Unusable { dir: dir.to_owned(), source };
        let lock = match files::private_dir(dir).and_then(|()| lock(&dir.join("lock"))) {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => return Err(StoreError::InUse { dir: dir.to_owned() }),
            Err(error) if is_no_room(&error) => None,
            Err(error) => return Err(unusable(error)),
        };
        let known: Option<Identity> = load(&dir.join("identity.json"));
        let identity = match known {
            Some(identity) => identity,
            None => Identity { instance: InstanceId(random()?), unused: RecordId(1) },
        };
        let left_behind = read_or_set_aside(&dir.join("run"));
        let settings = load(&dir.join("settings.json"));
        let held = load(&dir.join("snapshot.json")).map(Arc::new);
        let mut journal = load_journal(&dir.join("journal"), identity.unused);
        while journal.close_open(now).is_some() {}
        let mut store = Self {
            dir: dir.to_owned(),
            lock,
            identity,
            held,
            settings: settings.unwrap_or(Settings { poll_interval_ms: millis(DEFAULT_POLL) }),
            journal,
            run: format!("{:016x}", random()?),
            left_behind: left_behind.and_then(|mark| String::from_utf8(mark).ok()),
            file: None,
            file_size: 0,
            unwritten: Unwritten { journal: true, ..Unwritten::default() },
            warned: false,
        };
        store.set_numbers_apart();
        store.write();
        if store.unwritten.identity {
            // No numbers are set apart on disk for this run: the next must not repeat its own.
            store.journal.skip_by(now.0);
        }
        Ok(store)
    }

    /// The process of the agent that lives in `dir`, if there is one.
    pub fn inhabitant(dir: &Path) -> Option<u32> {
        files::holder(&dir.join("lock"))
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Which installation this is.
    pub fn instance(&self) -> InstanceId {
        self.identity.instance
    }

    /// The mark of commands that an agent which did not end in order may have left.
    pub fn left_behind(&self) -> Option<&str> {
        self.left_behind.as_deref()
    }

    /// Keeps the mark of this agent's commands until [`Store::end_run`].
    pub fn begin_run(&mut self) {
        self.unwritten.run = true;
        self.write();
        // An agent that begins does not leave, whoever thought so before.
        let _ = files::remove(&Self::mark_of_leaving(&self.dir));
    }

    /// What is there when an agent with this state directory ends for good.
    pub fn mark_of_leaving(dir: &Path) -> PathBuf {
        dir.join("leaving")
    }

    /// Whether the agent ends for good.
    pub fn is_leaving(&self) -> bool {
        Self::mark_of_leaving(&self.dir).exists()
    }

    /// The mark of this agent's commands.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The agent ends in order: none of its commands is under way.
    pub fn end_run(&mut self) {
        self.unwritten.run = false;
        self.write();
        // At worst the next agent looks for what is not there.
        let _ = files::remove(&self.dir.join("run"));
    }

    /// What the host should be.
    pub fn held(&self) -> Option<&Arc<Held>> {
        self.held.as_ref()
    }

    /// How often to look while the server is away.
    pub fn poll_interval(&self) -> Duration {
        Duration::from_millis(self.settings.poll_interval_ms)
    }

    /// Keeps what the host should be.
    pub fn keep_held(&mut self, held: Arc<Held>) {
        self.held = Some(held);
        self.unwritten.snapshot = true;
        self.write();
    }

    /// Keeps how often to look while the server is away.
    pub fn keep_poll_interval(&mut self, interval: Duration) {
        let settings = Settings { poll_interval_ms: millis(interval) };
        if settings != self.settings {
            self.settings = settings;
            self.unwritten.settings = true;
            self.write();
        }
    }

    /// Takes a record down; it is on disk when this returns, if there is one to be had.
    pub fn record(&mut self, entry: Entry) -> RecordId {
        self.set_numbers_apart();
        let lost = self.journal.lost();
        let record = self.journal.add(entry);
        let id = record.id;
        let line = journal::line(record);
        match self.file.as_mut().map(|file| files::append(file, &line)) {
            Some(Ok(())) => self.file_size += line.len() as u64,
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => self.make_anew(),
            // A file that may have taken half a line must not take another one.
            None | Some(Err(_)) => self.unwritten.journal = true,
        }
        if self.journal.lost() > lost && lost == 0 {
            tracing::warn!(
                "too many records for a server that is away: the oldest go, and are counted"
            );
        }
        self.tidy();
        id
    }

    /// The tasks in the middle of which the agent ended, as far as the server has not been told.
    pub fn interrupted(&self) -> impl Iterator<Item = &TaskName> {
        self.journal.unacknowledged().filter_map(|record| match (&record.subject, &record.fact) {
            (Subject::Step { task, .. }, Fact::Ended { outcome: Outcome::Interrupted, .. }) => {
                Some(task)
            }
            _ => None,
        })
    }

    /// What the server has not acknowledged, oldest first.
    pub fn unacknowledged(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.journal.unacknowledged()
    }

    /// One of them.
    pub fn unacknowledged_record(&self, id: RecordId) -> Option<&Record> {
        self.journal.get(id)
    }

    /// How many records were dropped that the server does not know of.
    pub fn lost(&self) -> u64 {
        self.journal.lost()
    }

    /// The server knows that so many were dropped.
    pub fn told_lost(&mut self, records: u64) {
        self.journal.told_lost(records);
        self.unwritten.journal = true;
    }

    /// Forgets records that are safe with the server.
    pub fn acknowledge(&mut self, newest: RecordId) {
        if let Some(line) = self.journal.acknowledge(newest) {
            let line = journal::line(&line);
            match self.file.as_mut().map(|file| files::append_soon(file, &line)) {
                Some(Ok(())) => self.file_size += line.len() as u64,
                None | Some(Err(_)) => self.unwritten.journal = true,
            }
        }
        self.tidy();
    }

    /// Whether something is only in memory, so that [`Store::write`] is worth another try.
    pub fn is_behind(&self) -> bool {
        let Unwritten { identity, snapshot, settings, journal, run } = self.unwritten;
        identity || snapshot || settings || journal || run
    }

    /// Writes what is only in memory. Says once that it cannot be, and once that it can again.
    pub fn write(&mut self) {
        let mut written = self.try_write();
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.make_anew();
            written = self.try_write();
        }
        match written {
            Ok(()) if std::mem::take(&mut self.warned) => {
                tracing::info!(dir = %self.dir.display(), "state can be written again");
            }
            Ok(()) => {}
            Err(error) => {
                if !std::mem::replace(&mut self.warned, true) {
                    let dir = self.dir.display();
                    tracing::warn!(
                        %dir, %error,
                        "state cannot be written: it is kept in memory, where a restart loses it; \
                         look at the disk"
                    );
                }
            }
        }
    }

    /// Somebody removed the directory, or what is in it: all of it is to be written again.
    fn make_anew(&mut self) {
        if !self.warned {
            tracing::warn!(dir = %self.dir.display(), "state was removed; it is written anew");
        }
        let snapshot = self.held.is_some();
        self.unwritten =
            Unwritten { identity: true, snapshot, settings: true, journal: true, run: true };
        self.file = None;
        // Only then can it be locked again. A disk that does not take it says so in a moment.
        self.lock = None;
        let made = files::private_dir(&self.dir);
        self.lock = made.and_then(|()| files::lock(&self.dir.join("lock"))).ok().flatten();
    }

    /// Sets numbers apart for the next records, many at a time.
    fn set_numbers_apart(&mut self) {
        if self.journal.next() >= self.identity.unused {
            self.identity.unused = RecordId(self.journal.next().0.saturating_add(SET_APART));
            self.unwritten.identity = true;
        }
    }

    /// Rewrites the journal when most of its file is of no use any more.
    fn tidy(&mut self) {
        // A record is several times larger on disk than in memory.
        let useful = 8 * self.journal.weight() as u64;
        self.unwritten.journal |= self.file_size > WORTH_REWRITING + useful;
        if self.is_behind() {
            self.write();
        }
    }

    fn try_write(&mut self) -> io::Result<()> {
        let Self { dir, unwritten, .. } = self;
        if unwritten.identity {
            files::replace(&dir.join("identity.json"), &to_json(&self.identity)?)?;
            unwritten.identity = false;
        }
        if unwritten.run {
            files::replace(&dir.join("run"), self.run.as_bytes())?;
            unwritten.run = false;
        }
        if unwritten.settings {
            files::replace(&dir.join("settings.json"), &to_json(&self.settings)?)?;
            unwritten.settings = false;
        }
        if let Some(held) = self.held.as_deref().filter(|_| unwritten.snapshot) {
            files::replace(&dir.join("snapshot.json"), &to_json(held)?)?;
            unwritten.snapshot = false;
        }
        if unwritten.journal {
            let path = dir.join("journal");
            let content = self.journal.to_bytes();
            self.file = None;
            files::replace(&path, &content)?;
            self.file = Some(files::open_to_append(&path)?);
            self.file_size = content.len() as u64;
            unwritten.journal = false;
        }
        Ok(())
    }
}

/// Takes hold of the directory. One whose agent was killed is free in a moment: a child that it was
/// about to start holds what it held until it has become another program.
fn lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    for _ in 0..TRIES {
        let lock = files::lock(path)?;
        if lock.is_some() {
            return Ok(lock);
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    Ok(None)
}

fn to_json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}

/// Reads a file of JSON; one that cannot be read is put aside.
fn load<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let content = read_or_set_aside(path)?;
    match serde_json::from_slice(&content) {
        Ok(value) => Some(value),
        Err(error) => {
            set_aside(path, &error.to_string());
            None
        }
    }
}

/// Reads the journal, or begins one; either way it repeats no number that may have been used.
fn load_journal(path: &Path, unused: RecordId) -> Journal {
    let content = read_or_set_aside(path);
    let mut journal = match content.as_deref().map(Journal::parse) {
        None => Journal::starting_at(unused),
        Some(Some((journal, Condition::Sound | Condition::CutOff))) => journal,
        Some(Some((journal, Condition::Damaged))) => {
            set_aside(path, "some of its records cannot be read");
            journal
        }
        Some(None) => {
            set_aside(path, "not even its first line can be read");
            Journal::starting_at(unused)
        }
    };
    journal.skip_to(unused);
    journal
}

fn read_or_set_aside(path: &Path) -> Option<Vec<u8>> {
    files::read(path).unwrap_or_else(|error| {
        set_aside(path, &error.to_string());
        None
    })
}

fn set_aside(path: &Path, problem: &str) {
    let file = path.display();
    match files::quarantine(path) {
        Ok(aside) => {
            let aside = aside.display();
            tracing::warn!(%file, problem, %aside, "a state file is damaged; it is made anew");
        }
        Err(error) => {
            tracing::warn!(%file, problem, %error, "a damaged state file cannot be moved")
        }
    }
}

fn random() -> Result<u64, StoreError> {
    getrandom::u64().map_err(|error| StoreError::Random { reason: error.to_string() })
}

/// Whether the disk is at fault, rather than somebody's rights.
fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | ReadOnlyFilesystem | QuotaExceeded)
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
