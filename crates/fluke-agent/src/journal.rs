//! What happened and is not yet safe with the server, as values and as bytes.
//!
//! Pure: [`crate::store`] does the writing. The file is a line of JSON with where the count stands,
//! and one line for each record behind it, or for how far the server has acknowledged them; it grows
//! by lines and is rewritten as a whole when most of it is no longer needed. A last line that a crash cut off is dropped, which is sound: nothing
//! is done before its record is written.

use std::collections::VecDeque;

use fluke_model::id::{CommitId, Hash256, InstructionId};
use fluke_model::message::{Fact, Record, RecordId, Subject};
use fluke_model::policy::Trigger;
use fluke_model::time::Timestamp;
use fluke_model::verdict::{Outcome, Output};
use serde::{Deserialize, Serialize};

/// How many records are kept for a server that is away.
pub const MAX_RECORDS: usize = 10_000;
/// How much output they may hold together.
pub const MAX_BYTES: usize = 32 * 1024 * 1024;

/// A record without its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// What it was done for.
    pub instruction: Option<InstructionId>,
    /// Under which snapshot.
    pub snapshot: Hash256,
    /// Under which commit.
    pub commit: CommitId,
    /// What it is about.
    pub subject: Subject,
    /// Why.
    pub trigger: Trigger,
    /// What.
    pub fact: Fact,
}

/// Records that the server has not acknowledged, and the applies that are under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    next: RecordId,
    /// In order.
    records: VecDeque<Record>,
    /// The records with which the applies under way began: one of a step at most, and one of each
    /// part of services.
    open: Vec<Record>,
    bytes: usize,
    lost: u64,
}

/// The first line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    next: RecordId,
    open: Vec<Record>,
    /// Records that were dropped, and the server does not know of.
    #[serde(default)]
    lost: u64,
}

/// A line that says: up to here everything is safe with the server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Acknowledged {
    acknowledged: RecordId,
}

/// How a journal was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Whole.
    Sound,
    /// Its last line was cut off, as a crash does.
    CutOff,
    /// Something in it cannot be read.
    Damaged,
}

impl Journal {
    /// An empty one that counts from `next` on.
    pub fn starting_at(next: RecordId) -> Self {
        Self { next, records: VecDeque::new(), open: Vec::new(), bytes: 0, lost: 0 }
    }

    /// Takes a record down.
    pub fn add(&mut self, entry: Entry) -> &Record {
        let Entry { at, instruction, snapshot, commit, subject, trigger, fact } = entry;
        let id = self.next;
        let record = Record { id, at, instruction, snapshot, commit, subject, trigger, fact };
        self.put(record);
        self.records.back().expect("it was just put there")
    }

    fn put(&mut self, record: Record) {
        match record.fact {
            Fact::Began { .. } => {
                self.open.retain(|open| !open.subject.takes_turns_with(&record.subject));
                self.open.push(record.clone());
            }
            Fact::Ended { .. } => {
                self.open.retain(|open| !open.subject.takes_turns_with(&record.subject));
            }
            Fact::PassedOver { .. } => {}
        }
        self.next = RecordId(record.id.0.saturating_add(1));
        self.bytes += weight(&record);
        self.records.push_back(record);
        while self.records.len() > MAX_RECORDS || (self.bytes > MAX_BYTES && self.records.len() > 1)
        {
            self.forget_first();
            self.lost += 1;
        }
    }

    fn forget_first(&mut self) {
        if let Some(record) = self.records.pop_front() {
            self.bytes -= weight(&record);
        }
    }

    /// Forgets what is safe with the server; the line is to be remembered, if there is one.
    pub fn acknowledge(&mut self, newest: RecordId) -> Option<Acknowledged> {
        let mut forgotten = None;
        while let Some(first) = self.records.front().filter(|record| record.id <= newest) {
            forgotten = Some(Acknowledged { acknowledged: first.id });
            self.forget_first();
        }
        forgotten
    }

    /// What the server has not acknowledged, oldest first.
    pub fn unacknowledged(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.records.iter()
    }

    /// One of them.
    pub fn get(&self, id: RecordId) -> Option<&Record> {
        self.records.get(self.records.binary_search_by_key(&id, |record| record.id).ok()?)
    }

    /// How many records were dropped that the server has not been told of.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The server knows that so many were dropped; there may be more by now.
    pub fn told_lost(&mut self, records: u64) {
        self.lost = self.lost.saturating_sub(records);
    }

    /// Ends one apply that was under way when the agent last ended; none when there is no other.
    pub fn close_open(&mut self, now: Timestamp) -> Option<&Record> {
        let began = self.open.pop()?;
        let said = "the agent ended in the middle of this apply; whether it was done, the next \
                    check tells";
        Some(self.add(Entry {
            at: now,
            instruction: began.instruction,
            snapshot: began.snapshot,
            commit: began.commit,
            subject: began.subject,
            trigger: began.trigger,
            fact: Fact::Ended {
                outcome: Outcome::Interrupted,
                duration_ms: 0,
                output: Output::from_text(said),
            },
        }))
    }

    /// The number of the next record.
    pub fn next(&self) -> RecordId {
        self.next
    }

    /// Leaves out so many numbers.
    pub fn skip_by(&mut self, numbers: u64) {
        self.next = RecordId(self.next.0.saturating_add(numbers));
    }

    /// Counts on from `id` at least: numbers that may have been used are not used again.
    pub fn skip_to(&mut self, id: RecordId) {
        self.next = self.next.max(id);
    }

    /// What all of it costs in memory, about.
    pub fn weight(&self) -> usize {
        self.bytes
    }

    /// All of it, as a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let next = self.records.front().map_or(self.next, |first| first.id);
        let mut bytes = line(&Header { next, open: self.open.clone(), lost: self.lost });
        self.records.iter().for_each(|record| bytes.extend(line(record)));
        bytes
    }

    /// Reads a file; none if not even where the count stands can be read.
    pub fn parse(bytes: &[u8]) -> Option<(Self, Condition)> {
        let (header, mut rest) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n')? + 1);
        let header: Header = serde_json::from_slice(header).ok()?;
        let mut journal = Self::starting_at(header.next);
        // The apply that was under way when the header was written may end in a line below.
        journal.open = header.open;
        let mut condition = Condition::Sound;
        while !rest.is_empty() {
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                condition = condition.worse(Condition::CutOff);
                break;
            };
            if !journal.take_line(&rest[..end]) {
                condition = Condition::Damaged;
            }
            rest = &rest[end + 1..];
        }
        journal.lost = journal.lost.saturating_add(header.lost);
        Some((journal, condition))
    }

    /// Takes a line of a file; says no to one that makes no sense.
    fn take_line(&mut self, line: &[u8]) -> bool {
        match serde_json::from_slice::<Record>(line) {
            Ok(record) if record.id >= self.next => self.put(record),
            Ok(_) => return false,
            Err(_) => match serde_json::from_slice::<Acknowledged>(line) {
                Ok(line) => drop(self.acknowledge(line.acknowledged)),
                Err(_) => return false,
            },
        }
        true
    }
}

impl Condition {
    fn worse(self, other: Self) -> Self {
        if self == Self::Damaged { self } else { other }
    }
}

/// A value as one line; JSON has no raw line breaks.
pub fn line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).expect("records are plain data");
    bytes.push(b'\n');
    bytes
}

/// What a record costs in memory, about.
fn weight(record: &Record) -> usize {
    const FIXED: usize = 512;
    FIXED
        + match &record.fact {
            Fact::Began { reason } | Fact::PassedOver { reason, .. } => reason.len(),
            Fact::Ended { output, .. } => output.tail.len(),
        }
}

#[cfg(test)]
mod tests;
