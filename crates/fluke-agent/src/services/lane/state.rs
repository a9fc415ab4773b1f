//! IDLE and PROCESSING, as values that are moved. Pure.
//!
//! ```text
//!  Idle ─▶ Processing ─▶ Change, Processing ─▶ … ─▶ Leaving ─▶ (report) ─▶ Idle
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::id::InstructionId;
use fluke_model::policy::Trigger;

use crate::services::plan::Change;
use crate::state::Held;

/// How long changes may go on without a look at what else there is.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Why something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// What it is done for; none when the agent acts on its own.
    pub instruction: Option<InstructionId>,
    /// Why.
    pub trigger: Trigger,
}

/// Nothing is under way.
#[derive(Debug, PartialEq, Eq)]
pub struct Idle(());

/// Changes are under way, from one snapshot.
#[derive(Debug)]
pub struct Processing {
    held: Arc<Held>,
    cause: Cause,
    until: Instant,
}

/// Nothing is left to be done, or its time is over. Only a report leads from here to [`Idle`].
#[derive(Debug)]
pub struct Leaving(());

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// One change; then look again.
    Change(Change, Processing),
    /// Nothing.
    Home(Leaving),
}

impl Idle {
    /// An agent that has just started.
    pub fn new() -> Self {
        Self(())
    }

    /// Takes up what `held` says.
    pub fn begin(self, held: Arc<Held>, cause: Cause, now: Instant) -> Processing {
        Processing { held, cause, until: now + LIMIT }
    }
}

impl Processing {
    /// What should be.
    pub fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Why anything is done.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The first of what is to be done, if there is time for it.
    pub fn next(self, changes: Vec<Change>, now: Instant) -> Next {
        match changes.into_iter().next() {
            Some(change) if now < self.until => Next::Change(change, self),
            _ => Next::Home(Leaving(())),
        }
    }

    /// Goes no further.
    pub fn give_up(self) -> Leaving {
        Leaving(())
    }
}

impl Leaving {
    /// The report is with the server, or with whoever keeps it for the server.
    pub fn reported(self) -> Idle {
        Idle(())
    }
}

#[cfg(test)]
mod tests {
    use fluke_model::id::CommitId;
    use fluke_model::snapshot::Snapshot;

    use super::*;

    fn processing(now: Instant) -> Processing {
        let commit = CommitId::new("c1");
        let held = Arc::new(Held { commit, snapshot: Arc::new(Snapshot::default()) });
        let cause = Cause { instruction: None, trigger: Trigger::Watch };
        Idle::new().begin(held, cause, now)
    }

    #[test]
    fn one_change_at_a_time_until_nothing_is_left() {
        let now = Instant::now();
        let changes = vec![Change::MakeNetwork { replaces: false }];
        let Next::Change(_, rest) = processing(now).next(changes, now) else {
            panic!("there is something to do");
        };
        let Next::Home(leaving) = rest.next(Vec::new(), now) else { panic!("nothing is left") };
        assert_eq!(leaving.reported(), Idle::new());
    }

    #[test]
    fn after_five_minutes_it_is_time_to_report() {
        let now = Instant::now();
        let changes = vec![Change::MakeNetwork { replaces: false }];
        let next = processing(now).next(changes, now + LIMIT);
        assert!(matches!(next, Next::Home(_)));
    }
}
