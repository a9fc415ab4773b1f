//! Answers on their way out: each holds its request's place until its body is through, and is let
//! go when nobody reads on.
//!
//! Over HTTP/2 a reader can leave one answer unread while the connection itself goes on. Such a
//! body is never asked for more, so it cannot notice by itself: somebody else watches the clock.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::crowd::Held;
use super::idle::Busy;

/// So much is handed on at once.
const PIECE: usize = 16 << 10;
/// The last piece leaves our hands before anybody has read it, and is all that is left unwatched.
const LAST: usize = 1 << 10;

/// What memory is counted in.
const MEMORY_UNIT: u64 = 64 << 10;
/// What all answers may take together, in units; one that is larger can have all of it.
pub(super) const MEMORY: u32 = 4096;

/// What a request holds until its answer is through.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// One of all requests that may be under way.
    _place: Option<OwnedSemaphorePermit>,
    /// One of those of its address.
    _held: Option<Held>,
    _memory: Option<OwnedSemaphorePermit>,
    /// Its connection is not idle.
    pub busy: Option<Busy>,
}

impl UnderWay {
    pub fn new(place: OwnedSemaphorePermit, held: Option<Held>) -> Self {
        Self { _place: Some(place), _held: held, ..Self::default() }
    }

    /// Takes the memory of an answer out of a budget; says whether there was enough left.
    pub fn takes_memory(&mut self, budget: &Arc<Semaphore>, answer: &Body) -> bool {
        let size = answer.size_hint().exact().unwrap_or_default();
        let units = size.div_ceil(MEMORY_UNIT).min(MEMORY.into());
        // Small ones are bounded by their number.
        if units <= 1 {
            return true;
        }
        let taken = budget.clone().try_acquire_many_owned(units as u32);
        self._memory = taken.ok();
        self._memory.is_some()
    }
}

/// The same body, which ends and gives back what it holds when nothing more of it is read for as
/// long as `stall`. A body that has nothing to say for a while must say so more often than that.
pub(super) fn watched(body: Body, under_way: UnderWay, stall: Duration) -> Body {
    if body.is_end_stream() {
        return body;
    }
    let open = Open { body, rest: Bytes::new(), asked: Instant::now(), under_way };
    let open = Shared(Arc::new(Mutex::new(Some(open))));
    let watcher = tokio::spawn(end_when_unread(open.clone(), stall)).abort_handle();
    Body::new(Outgoing { open, watcher })
}

/// None once it was let go.
#[derive(Clone)]
struct Shared(Arc<Mutex<Option<Open>>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Open {
    body: Body,
    /// Of the frame that is being handed on.
    rest: Bytes,
    /// When more was last asked for.
    asked: Instant,
    under_way: UnderWay,
}

async fn end_when_unread(open: Shared, stall: Duration) {
    let mut until = Instant::now() + stall;
    loop {
        sleep_until(until).await;
        let mut open = open.lock();
        let Some(asked) = open.as_ref().map(|open| open.asked) else { return };
        until = asked + stall;
        if until <= Instant::now() {
            let unread = open.take().and_then(|open| open.under_way.busy);
            unread.iter().for_each(Busy::was_unread);
            return;
        }
    }
}

struct Outgoing {
    open: Shared,
    watcher: AbortHandle,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.watcher.abort();
        *self.open.lock() = None;
    }
}

impl Open {
    /// A copy, as long as fits: a part of the whole would keep the whole in memory.
    fn piece(&mut self) -> Bytes {
        let length = match self.rest.len() {
            ..=LAST => self.rest.len(),
            more => (more - LAST).min(PIECE),
        };
        Bytes::copy_from_slice(&self.rest.split_to(length))
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut open = self.open.lock();
        let Some(open) = open.as_mut() else {
            let unread = io::Error::new(io::ErrorKind::TimedOut, "the answer was not read");
            return Poll::Ready(Some(Err(axum::Error::new(unread))));
        };
        open.asked = Instant::now();
        if open.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut open.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => open.rest = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(open.piece()))))
    }

    fn is_end_stream(&self) -> bool {
        let open = self.open.lock();
        open.as_ref().is_some_and(|open| open.rest.is_empty() && open.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let open = self.open.lock();
        let Some(open) = open.as_ref() else { return SizeHint::default() };
        let (rest, behind) = (open.rest.len() as u64, open.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(behind.lower() + rest);
        behind.upper().into_iter().for_each(|upper| hint.set_upper(upper + rest));
        hint
    }
}

#[cfg(test)]
mod tests;
