//! What happened.

use fluke_model::event::Event;

/// Where events go. Never blocks, never fails.
pub trait EventSink: Send + Sync {
    /// Takes `event`; its id is set on the way.
    fn record(&self, event: Event);
}
