//! What the lane is told: not a queue but what holds now, so that nothing piles up.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluke_model::directory::{Claim, Edit, Names, Peers, Placements, Routes, Table};
use fluke_model::id::{InstructionId, ServiceName, SessionId};
use fluke_model::message::{DirectoryEdit, Holdings, Section};
use fluke_model::policy::Trigger;
use fluke_model::service::DeploymentId;
use serde::Serialize;
use tokio::sync::Notify;

use crate::state::Held;

/// More than any host has; what is said beyond it is said again.
const MOST_RELEASED: usize = 10_000;
/// More than any server asks for at once.
const MOST_ASKED: usize = 256;

/// Somebody asked for services to be put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// To be named in the answer.
    pub instruction: InstructionId,
    /// Only this one.
    pub service: Option<ServiceName>,
    /// Why.
    pub trigger: Trigger,
}

/// Tables that the server keeps up to date here; none of which nothing was ever heard.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// What is called what.
    pub names: Option<Arc<Names>>,
    /// What comes in goes where.
    pub routes: Option<Arc<Routes>>,
    /// Who is in the mesh.
    pub peers: Option<Arc<Peers>>,
    /// Which replica is where.
    pub placements: Option<Arc<Placements>>,
}

impl Tables {
    /// Their hashes.
    pub fn holdings(&self) -> Holdings {
        Holdings {
            names: self.names.as_ref().map(|table| table.hash()),
            routes: self.routes.as_ref().map(|table| table.hash()),
            peers: self.peers.as_ref().map(|table| table.hash()),
            placements: self.placements.as_ref().map(|table| table.hash()),
        }
    }

    /// Whether nothing was heard between the two.
    pub fn is_same(&self, other: &Self) -> bool {
        fn same<T>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
            match (one, other) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (None, None) => true,
                _ => false,
            }
        }
        let Self { names, routes, peers, placements } = self;
        same(names, &other.names)
            && same(routes, &other.routes)
            && same(peers, &other.peers)
            && same(placements, &other.placements)
    }
}

/// Everything that holds now.
#[derive(Debug, Clone, Default)]
pub struct Word {
    /// What the host should be.
    pub held: Option<Arc<Held>>,
    /// Whether it is of the same commit as what was taken before: only replicas have moved.
    pub is_moved: bool,
    /// What hosts know of each other.
    pub tables: Tables,
    /// What the server ruled.
    pub subnet: Option<Claim>,
    /// The session there is.
    pub session: Option<SessionId>,
    /// Deployments that nothing leads to any more; those that were not taken yet.
    pub released: BTreeSet<DeploymentId>,
    /// What was asked for and not taken yet, in the order of asking.
    pub settles: Vec<Settle>,
    /// Whether nothing new is to be begun.
    pub is_ending: bool,
    /// Whether it was taken as it is.
    is_read: bool,
}

/// Where the lane finds what it is told.
#[derive(Debug, Default)]
pub struct Inbox {
    word: Mutex<Word>,
    news: Notify,
}

impl Inbox {
    /// One with what was kept.
    pub fn new(held: Option<Arc<Held>>, tables: Tables) -> Self {
        let word = Word { held, tables, ..Word::default() };
        Self { word: Mutex::new(word), news: Notify::new() }
    }

    /// Takes a new snapshot, in which only replicas have moved or which another commit is behind.
    pub fn hold(&self, held: Arc<Held>, is_moved: bool) {
        self.tell(|word| {
            word.held = Some(held);
            word.is_moved &= is_moved;
        });
    }

    /// Does what an edit says; where it does not fit, says which table is needed whole.
    pub fn edit(&self, edit: DirectoryEdit) -> Option<Section> {
        self.tell(|word| {
            let tables = &mut word.tables;
            match edit {
                DirectoryEdit::Names(edit) => {
                    apply(&mut tables.names, edit).then_some(Section::Names)
                }
                DirectoryEdit::Routes(edit) => {
                    apply(&mut tables.routes, edit).then_some(Section::Routes)
                }
                DirectoryEdit::Peers(edit) => {
                    apply(&mut tables.peers, edit).then_some(Section::Peers)
                }
                DirectoryEdit::Placements(edit) => {
                    apply(&mut tables.placements, edit).then_some(Section::Placements)
                }
            }
        })
    }

    /// The server ruled.
    pub fn grant(&self, claim: Claim) {
        self.tell(|word| word.subnet = Some(claim));
    }

    /// Nothing leads to these any more.
    pub fn release(&self, deployments: Vec<DeploymentId>) {
        self.tell(|word| {
            word.released.extend(deployments);
            while word.released.len() > MOST_RELEASED {
                word.released.pop_first();
            }
        });
    }

    /// Somebody asked; false if too many wait already, and this one is not taken.
    pub fn settle(&self, settle: Settle) -> bool {
        self.tell(|word| {
            let room = word.settles.len() < MOST_ASKED;
            if room {
                word.settles.push(settle);
            }
            room
        })
    }

    /// A session began, or ended.
    pub fn session(&self, session: Option<SessionId>) {
        self.tell(|word| {
            word.session = session;
            word.settles.clear();
        });
    }

    /// The session there is now.
    pub fn in_session(&self) -> Option<SessionId> {
        self.word().session
    }

    /// Nothing new is to be begun.
    pub fn end(&self) {
        self.tell(|word| word.is_ending = true);
    }

    /// Whether nothing new is to be begun.
    pub fn is_ending(&self) -> bool {
        self.word().is_ending
    }

    /// All that holds; what is only said once is taken.
    pub fn take(&self) -> Word {
        let mut word = self.word();
        let taken = word.clone();
        word.released.clear();
        word.settles.clear();
        word.is_moved = true;
        word.is_read = true;
        taken
    }

    /// Whether nothing is new since [`Inbox::take`].
    pub fn is_read(&self) -> bool {
        self.word().is_read
    }

    /// The tables as they are now.
    pub fn tables(&self) -> Tables {
        self.word().tables.clone()
    }

    /// Waits for something new. Cancel-safe.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    fn tell<T>(&self, change: impl FnOnce(&mut Word) -> T) -> T {
        let mut word = self.word();
        let told = change(&mut word);
        word.is_read = false;
        drop(word);
        self.news.notify_one();
        told
    }

    fn word(&self) -> MutexGuard<'_, Word> {
        // Nothing that is done under it leaves it half done.
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an edit did not fit, and the whole table would.
fn apply<K, V>(table: &mut Option<Arc<Table<K, V>>>, edit: Edit<K, V>) -> bool
where
    K: Ord + Clone + Serialize,
    V: Clone + PartialEq + Serialize,
{
    let mut made = table.as_deref().cloned().unwrap_or_default();
    let is_whole = edit.from.is_none();
    match made.apply(edit) {
        Ok(()) => {
            *table = Some(Arc::new(made));
            false
        }
        // It would be the same one again.
        Err(error) if is_whole => {
            tracing::warn!(%error, "this version does not understand a table; update this agent");
            false
        }
        Err(error) => {
            tracing::debug!(%error, "asking for the whole table");
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use fluke_model::directory::NameKey;
    use fluke_model::id::CommitId;

    use super::*;

    fn asks(number: u64) -> Settle {
        let instruction = InstructionId { session: SessionId(1), number };
        Settle { instruction, service: None, trigger: Trigger::Manual { by: "ann".into() } }
    }

    fn taken(inbox: &Inbox) -> Vec<u64> {
        inbox.take().settles.iter().map(|settle| settle.instruction.number).collect()
    }

    #[test]
    fn nobody_who_asks_is_forgotten_for_whoever_asks_next() {
        let inbox = Inbox::default();
        assert!(inbox.settle(asks(1)) && inbox.settle(asks(2)));
        assert_eq!(taken(&inbox), [1, 2]);
        assert_eq!(taken(&inbox), [0; 0], "each is taken once");
        assert!(inbox.settle(asks(3)));
        inbox.session(Some(SessionId(2)));
        assert_eq!(taken(&inbox), [0; 0], "whoever asked in another session waits no more");
    }

    #[test]
    fn a_commit_that_was_not_taken_yet_is_not_forgotten_for_replicas_that_move() {
        let held = Arc::new(Held { commit: CommitId::new("c1"), snapshot: Arc::default() });
        let inbox = Inbox::default();
        inbox.hold(held.clone(), false);
        inbox.hold(held.clone(), true);
        assert!(!inbox.take().is_moved);
        inbox.hold(held.clone(), true);
        assert!(inbox.take().is_moved);
        inbox.hold(held, false);
        assert!(!inbox.take().is_moved);
    }

    #[test]
    fn who_is_too_many_is_told_so() {
        let inbox = Inbox::default();
        let count = (0..2 * MOST_ASKED as u64).filter(|number| inbox.settle(asks(*number))).count();
        assert_eq!((count, taken(&inbox).len()), (MOST_ASKED, MOST_ASKED));
    }

    #[test]
    fn a_whole_table_that_is_not_understood_is_not_asked_for_again() {
        let inbox = Inbox::default();
        let shop = ServiceName::new("shop").expect("a name");
        let names: Names = NameKey::rows(&shop, []).collect();
        assert_eq!(inbox.edit(DirectoryEdit::Names(names.since(&Names::default()))), None);
        let empty = Names::default();
        let other = DirectoryEdit::Names(empty.since(&empty));
        assert_eq!(inbox.edit(other), Some(Section::Names), "it is for another table");
        let garbled = Edit { set: Vec::new(), ..names.whole() };
        assert_eq!(inbox.edit(DirectoryEdit::Names(garbled)), None);
        assert_eq!(inbox.tables().names.as_deref(), Some(&names), "it keeps what it has");
    }
}
