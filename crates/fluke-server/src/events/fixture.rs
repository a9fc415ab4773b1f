//! A store for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fluke_model::event::Event;
use futures_util::future::BoxFuture;

use super::memory::{MemoryBounds, MemoryStore};
use super::{EventQuery, EventStore, Page, StoreError};

/// A store that is elsewhere, and can be away.
pub(crate) struct Remote {
    pub away: AtomicBool,
    pub kept: MemoryStore,
}

impl Remote {
    pub fn new(away: bool) -> Arc<Self> {
        Arc::new(Self {
            away: AtomicBool::new(away),
            kept: MemoryStore::new(MemoryBounds::default()),
        })
    }

    fn answer(&self) -> Result<(), StoreError> {
        match self.away.load(Ordering::SeqCst) {
            true => Err(StoreError::Failed { place: "there".into(), reason: "gone".into() }),
            false => Ok(()),
        }
    }
}

impl EventStore for Remote {
    fn append<'a>(&'a self, batch: &'a [Arc<Event>]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.answer()?;
            self.kept.append(batch).await
        })
    }

    fn query<'a>(&'a self, query: &'a EventQuery) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(async move {
            self.answer()?;
            self.kept.query(query).await
        })
    }
}
