//! Messages as they go over the wire.

use bytes::Bytes;
use fluke_model::api::ReconcileProgress;
use fluke_model::event::{Event, EventId};
use serde::Serialize;

use super::frame::Frame;

/// A reconcile that comes to more than this is told of without what its steps printed.
pub const LARGE: usize = 1 << 20;
/// How soon a browser connects again, in milliseconds.
const RECONNECT: u32 = 2000;

/// A sign of life: a message, since browsers keep comments to themselves.
const PING: &[u8] = b"event: ping\ndata: {}\n\n";

/// Messages, one behind the other.
#[derive(Debug, Default)]
pub struct Messages(Vec<u8>);

impl Messages {
    /// Adds one.
    pub fn add(&mut self, kind: &str, id: Option<EventId>, data: &impl Serialize) {
        if let Some(id) = id {
            self.0.extend_from_slice(format!("id: {id}\n").as_bytes());
        }
        self.0.extend_from_slice(b"event: ");
        self.0.extend_from_slice(kind.as_bytes());
        self.0.extend_from_slice(b"\ndata: ");
        // Plain data always has a JSON, and it has no line ends.
        let _ = serde_json::to_writer(&mut self.0, data);
        self.0.extend_from_slice(b"\n\n");
    }

    /// Adds an event, which has an id to resume by.
    pub fn add_event(&mut self, event: &Event) {
        self.add("event", Some(event.id), event);
    }

    /// Adds how far a reconcile has come, in a size that can be sent.
    pub fn add_reconcile(&mut self, mut progress: ReconcileProgress) {
        let start = self.0.len();
        self.add("reconcile", None, &progress);
        if self.0.len() - start > LARGE {
            self.0.truncate(start);
            let steps = progress.agents.iter_mut().flat_map(|agent| &mut agent.steps);
            steps.for_each(|step| step.output = None);
            self.add("reconcile", None, &progress);
        }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, to be shared.
    pub fn into_frame(self) -> Frame {
        Bytes::from(self.0).into()
    }
}

/// Says that the stream lives, where nothing else does.
pub fn ping() -> Frame {
    Bytes::from_static(PING).into()
}

/// Carries no data, so no listener sees it; but a browser takes note of the id.
pub fn opening(last: EventId) -> Frame {
    Bytes::from(format!("id: {last}\nretry: {RECONNECT}\n\n")).into()
}

/// The end of a stream whose listener has missed something. Carries the newest id: whoever
/// connects again after it has nothing to catch up with.
pub fn lagged(newest: EventId) -> Frame {
    #[derive(Serialize)]
    struct Lagged {
        detail: &'static str,
    }
    let detail = "changes were missed; fetch everything anew and connect again";
    let mut messages = Messages::default();
    messages.add("lagged", Some(newest), &Lagged { detail });
    messages.into_frame()
}
