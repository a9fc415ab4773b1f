//! What the server reads the time from.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use fluke_model::time::Timestamp;
use tokio::time::{Instant, sleep_until};

use crate::reconcile::Now;

/// Where the time comes from: the runtime's own clock to measure by, and one that people read,
/// which may jump and which a simulation sets as it likes.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The one on the wall shows what `wall` says.
    pub fn showing(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(wall))
    }

    /// Reads both; only the doing side calls this.
    pub fn read(&self) -> Now {
        Now { instant: Instant::now().into_std(), wall: (self.0)() }
    }
}

impl Default for Clock {
    /// The system's.
    fn default() -> Self {
        Self::showing(|| SystemTime::now().into())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Sleeps until `instant`; for ever if there is none. Cancel-safe.
pub(crate) async fn until(instant: Option<impl Into<Instant>>) {
    match instant {
        Some(instant) => sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}
