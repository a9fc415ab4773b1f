//! `GET stream`: every change, as server-sent events.
//!
//! A message's `event` is `agent`, `event`, `source` or `reconcile`, and its data what the API
//! says of that thing now. Only events have an id, to resume by. `lagged` means: changes were
//! missed and the stream ends; fetch everything anew and connect again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use fluke_model::event::{Event, EventId};
use fluke_model::id::AgentName;
use futures_util::stream::{Stream, unfold};
use http::HeaderMap;
use serde::Serialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::App;
use super::crowd::{Held, Holding};
use super::problem::Problem;
use super::serve::Connection;
use crate::changes::Change;
use crate::events::{EventQuery, StoreError};

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How soon a browser connects again.
const RECONNECT: Duration = Duration::from_secs(2);
/// More than this is not caught up with: the listener is better off afresh.
const MOST_MISSED: usize = 1000;

pub(super) async fn serve(
    State(app): State<App>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Ok(place) = app.0.streams.clone().try_acquire_owned() else {
        return Err(Problem::unavailable("too many streams are open; close one, or poll"));
    };
    let held = connection.from.map(|from| app.0.crowd.hold(from, Holding::Stream, Instant::now()));
    if let Some(None) = held {
        let detail = "too many streams are open from your address; close one, or poll";
        return Err(Problem::unavailable(detail));
    }
    let resume = last_event_id(&headers)?;
    // Listens before it looks back, so that nothing falls in between.
    let changes = app.changes.listen();
    let start = match resume {
        None => Start::Afresh(app.events.last_id()),
        Some(after) => {
            missed(&app, after).await.map_err(|error| Problem::unavailable(error.to_string()))?
        }
    };
    let closing = connection.closing;
    let listener = Listener::new(app, start, changes, closing, (place, held.flatten()));
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    // Proxies in between must not collect messages before they pass them on.
    let unbuffered = [("x-accel-buffering", "no")];
    Ok((unbuffered, Sse::new(listener.messages()).keep_alive(keep_alive)).into_response())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    match value.to_str().ok().map(str::trim) {
        Some("") => Ok(None),
        Some(text) if text.parse::<u64>().is_ok() => Ok(text.parse().ok().map(EventId)),
        _ => Err(Problem::bad_request("`Last-Event-ID` is not the id of an event")),
    }
}

/// Where a stream begins.
enum Start {
    /// With what comes now; the last event was this one.
    Afresh(EventId),
    /// With events that were missed, oldest first.
    Resumed(EventId, VecDeque<Arc<Event>>),
    /// Not at all: too much was missed.
    TooLate,
}

async fn missed(app: &App, after: EventId) -> Result<Start, StoreError> {
    let query = EventQuery { after: Some(after), limit: MOST_MISSED, ..EventQuery::default() };
    let page = app.events.query(&query).await?;
    Ok(match page.next {
        Some(_) => Start::TooLate,
        None => Start::Resumed(after, page.events.into_iter().rev().collect()),
    })
}

/// One of all streams that may be open, and one of those of its address.
type Place = (OwnedSemaphorePermit, Option<Held>);

/// One open stream.
struct Listener {
    app: App,
    changes: Receiver<Change>,
    closing: watch::Receiver<bool>,
    /// To be sent before anything new.
    ready: VecDeque<Message>,
    /// The newest event sent or skipped.
    last: EventId,
    ended: bool,
    _place: Place,
}

impl Listener {
    fn new(
        app: App,
        start: Start,
        changes: Receiver<Change>,
        closing: watch::Receiver<bool>,
        place: Place,
    ) -> Self {
        let (ready, last, ended) = match start {
            Start::Afresh(last) => (VecDeque::from([opening(last)]), last, false),
            Start::TooLate => (VecDeque::from([lagged(app.events.last_id())]), EventId(0), true),
            Start::Resumed(after, events) => {
                let last = events.back().map_or(after, |event| event.id);
                let missed = events.iter().map(|event| of_event(event));
                (std::iter::once(opening(after)).chain(missed).collect(), last, false)
            }
        };
        Self { app, changes, closing, ready, last, ended, _place: place }
    }

    fn messages(self) -> impl Stream<Item = Result<Message, Infallible>> {
        unfold(self, |mut listener| async move {
            let message = listener.next().await?;
            Some((Ok(message), listener))
        })
    }

    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            if self.ended {
                return None;
            }
            // Both are safe to cancel.
            let change = tokio::select! {
                change = self.changes.recv() => change,
                _ = self.closing.wait_for(|closing| *closing) => return None,
            };
            match change {
                Ok(change) => {
                    let message = self.message(change);
                    self.ready.extend(message);
                }
                Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(_)) => {
                    self.ended = true;
                    self.ready.push_back(lagged(self.app.events.last_id()));
                }
            }
        }
    }

    fn message(&mut self, change: Change) -> Option<Message> {
        match change {
            // Known already from looking back.
            Change::Event(event) if event.id <= self.last => None,
            Change::Event(event) => {
                self.last = event.id;
                Some(of_event(&event))
            }
            Change::Agent(name) => Some(match self.app.registry.agent(name.as_str()) {
                Some(detail) => message("agent", &detail.agent),
                None => message("agent", &Gone { name, gone: true }),
            }),
            Change::Source => Some(message("source", &*self.app.source.borrow())),
            Change::Reconcile(id) => {
                self.app.reconciles.progress(&id).map(|progress| message("reconcile", &progress))
            }
        }
    }
}

/// An agent that is no longer known.
#[derive(Serialize)]
struct Gone {
    name: AgentName,
    gone: bool,
}

#[derive(Serialize)]
struct Lagged {
    detail: &'static str,
}

/// Carries no data, so no listener sees it; but a browser takes note of the id.
fn opening(last: EventId) -> Message {
    Message::default().id(last.to_string()).retry(RECONNECT)
}

fn of_event(event: &Event) -> Message {
    message("event", event).id(event.id.to_string())
}

/// Carries the newest id: whoever connects again after it has nothing to catch up with.
fn lagged(newest: EventId) -> Message {
    let detail = "changes were missed; fetch everything anew and connect again";
    message("lagged", &Lagged { detail }).id(newest.to_string())
}

fn message(kind: &str, data: &impl Serialize) -> Message {
    // Plain data always has a JSON; a message without data would be passed over.
    Message::default().event(kind).data(serde_json::to_string(data).unwrap_or_default())
}
