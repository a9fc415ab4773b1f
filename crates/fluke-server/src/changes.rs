//! What changed a moment ago, told to whoever watches.
//!
//! Bounded, and never waits for a listener: one that falls behind learns that it did, and
//! starts afresh from what the API says.

use std::sync::Arc;

use fluke_model::event::Event;
use fluke_model::id::{AgentName, ServiceName};
use tokio::sync::broadcast;

/// How many changes a listener may lie behind.
pub const BACKLOG: usize = 4096;

/// One thing that is no longer as it was.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// How an agent, or a task on it, stands.
    Agent(AgentName),
    /// How a service stands.
    Service(ServiceName),
    /// Something happened.
    Event(Arc<Event>),
    /// The commit in force, or what is known of the repository.
    Source,
    /// How far a manual reconcile has come, by its id.
    Reconcile(String),
}

/// Where changes are told, and listened to.
#[derive(Debug, Clone)]
pub struct Changes(broadcast::Sender<Change>);

impl Default for Changes {
    fn default() -> Self {
        Self::with_backlog(BACKLOG)
    }
}

impl Changes {
    /// With another bound than [`BACKLOG`]; at least one change is kept.
    pub fn with_backlog(backlog: usize) -> Self {
        Self(broadcast::Sender::new(backlog.max(1)))
    }

    /// Tells everybody who listens.
    pub fn tell(&self, change: Change) {
        // Nobody listening is no error.
        let _ = self.0.send(change);
    }

    /// Everything told from now on.
    pub fn listen(&self) -> broadcast::Receiver<Change> {
        self.0.subscribe()
    }
}
