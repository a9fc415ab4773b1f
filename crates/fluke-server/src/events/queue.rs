//! Events that wait for the store: bounded in number and in bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use fluke_model::diagnostic::Diagnostic;
use fluke_model::event::Event;

use super::QueueBounds;

pub(super) struct Queue {
    bounds: QueueBounds,
    /// Handed to the store, which has not said yet that it took them.
    under_way: Vec<Arc<Event>>,
    waiting: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Dropped and not told yet.
    lost: u64,
}

impl Queue {
    pub fn new(bounds: QueueBounds) -> Self {
        Self { bounds, under_way: Vec::new(), waiting: VecDeque::new(), bytes: 0, lost: 0 }
    }

    pub fn len(&self) -> usize {
        self.under_way.len() + self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `event`, drops from the front what is too much, and says how many that were.
    pub fn push(&mut self, event: Arc<Event>) -> u64 {
        self.bytes += event_bytes(&event);
        self.waiting.push_back(event);
        let mut dropped = 0;
        while self.len() > self.bounds.events || self.bytes > self.bounds.bytes {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.bytes -= event_bytes(&oldest);
            dropped += 1;
        }
        self.lost += dropped;
        dropped
    }

    /// The oldest events, at least one of them: the same again until [`Self::written`] is said.
    pub fn batch(&mut self, most: QueueBounds) -> Vec<Arc<Event>> {
        if self.under_way.is_empty() {
            let mut bytes = 0;
            let fits = self.waiting.iter().take(most.events).take_while(|event| {
                let is_first = bytes == 0;
                bytes += event_bytes(event);
                is_first || bytes <= most.bytes
            });
            let count = fits.count();
            self.under_way = self.waiting.drain(..count).collect();
        }
        self.under_way.clone()
    }

    /// The store has the last batch. Returns how many events were lost since this was asked last.
    pub fn written(&mut self) -> u64 {
        self.bytes -= self.under_way.drain(..).map(|event| event_bytes(&event)).sum::<usize>();
        std::mem::take(&mut self.lost)
    }

    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.waiting.iter().rev().chain(self.under_way.iter().rev())
    }
}

/// About how much memory `event` takes.
pub(super) fn event_bytes(event: &Event) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    size_of::<Event>()
        + text(&event.output)
        + text(&event.by)
        + event.diagnostics.iter().map(diagnostic_bytes).sum::<usize>()
}

/// About how much memory `diagnostic` takes.
pub(super) fn diagnostic_bytes(diagnostic: &Diagnostic) -> usize {
    size_of::<Diagnostic>()
        + diagnostic.message.len()
        + diagnostic.help.as_ref().map_or(0, String::len)
        + diagnostic.file.len()
        + diagnostic.source.iter().map(|line| size_of::<String>() + line.len()).sum::<usize>()
}
