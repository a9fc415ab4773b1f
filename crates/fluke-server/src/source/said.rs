//! Which commit is the newest that says of a host what it is held to.
//!
//! Most commits say nothing new of most hosts. Nobody is woken for those: the commit is noted where
//! it stands who was told what.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluke_model::id::CommitId;
use fluke_model::label::Labels;
use tokio::sync::Notify;

/// What a host is held to, until a commit says otherwise: then it is over, and stays with the last
/// commit that said so.
#[derive(Debug, Clone)]
pub struct Said(Arc<Word>);

#[derive(Debug)]
struct Word {
    /// The host's.
    to: Labels,
    by: Mutex<CommitId>,
    is_over: AtomicBool,
    over: Notify,
}

impl Said {
    /// The newest commit that says so.
    pub fn by(&self) -> MutexGuard<'_, CommitId> {
        self.0.by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a commit says otherwise. Cancel-safe.
    pub async fn over(&self) {
        // Asked for first: what ends between the two is noticed.
        let over = self.0.over.notified();
        if !self.0.is_over.load(Ordering::Acquire) {
            over.await;
        }
    }

    fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.over.notify_waiters();
    }

    fn is_listened_to(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// What was said by one commit, or by those before it in the same way.
#[derive(Debug, Default)]
pub(super) struct Words {
    all: Vec<Said>,
    is_over: bool,
}

impl Words {
    /// Says it to a host with these labels by `commit`, which these are the words of.
    pub(super) fn say(&mut self, to: &Labels, commit: &CommitId) -> Said {
        let (to, by) = (to.clone(), Mutex::new(commit.clone()));
        let (is_over, over) = (AtomicBool::new(self.is_over), Notify::new());
        let said = Said(Arc::new(Word { to, by, is_over, over }));
        if self.all.len() == self.all.capacity() {
            self.all.retain(Said::is_listened_to);
        }
        self.all.extend((!self.is_over).then(|| said.clone()));
        said
    }

    /// Those that somebody goes by and that `commit` says again.
    pub(super) fn again(&self, commit: &CommitId, is_same: impl Fn(&Labels) -> bool) -> Self {
        let is_again = |said: &&Said| said.is_listened_to() && is_same(&said.0.to);
        let all: Vec<Said> = self.all.iter().filter(is_again).cloned().collect();
        all.iter().for_each(|said| said.by().clone_from(commit));
        Self { all, is_over: false }
    }

    /// These were the words of `commit`: whoever goes by one that was not said again learns that.
    pub(super) fn end(&mut self, commit: &CommitId) {
        self.is_over = true;
        let over = self.all.drain(..).filter(|said| *said.by() == *commit);
        over.for_each(|said| said.end());
    }
}
