//! How much is under way at the same time. The network and the local socket each have a room of
//! their own: whatever strangers do, whoever sits at the machine gets in.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::outgoing::MEMORY;

/// What everybody who comes in one way shares.
#[derive(Debug)]
pub(super) struct Room {
    /// Requests that are answered at the same time, streams aside.
    pub requests: Arc<Semaphore>,
    /// Live streams at the same time.
    pub streams: Arc<Semaphore>,
    /// For answers that are not read yet.
    pub memory: Arc<Semaphore>,
    max_streams: usize,
}

impl Room {
    pub fn new(requests: usize, streams: usize) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            requests: places(requests),
            streams: places(streams),
            memory: places(MEMORY as usize),
            max_streams: streams,
        }
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        self.max_streams - self.streams.available_permits()
    }
}
