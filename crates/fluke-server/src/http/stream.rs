//! `GET stream`: every change, as server-sent events.
//!
//! A message's `event` is `agent`, `event`, `source` or `reconcile`, and its data what the API
//! says of that thing now. Only events have an id, to resume by. `lagged` means: changes were
//! missed and the stream ends; fetch everything anew and connect again.
//!
//! Messages are made in one place ([`hub`]) and shared. A listener that does not read holds up
//! nobody: it falls behind, learns that it did, and is gone.

pub(super) mod hub;
mod message;
mod pace;
pub(super) mod ring;

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use fluke_model::event::EventId;
use futures_util::stream::{Stream, unfold};
use http::{HeaderMap, Uri, header};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::auth::Pass;
use super::crowd::{Held, Holding};
use super::problem::Problem;
use super::serve::Connection;
use super::{App, query};
use crate::events::{EventQuery, StoreError};
use hub::{Joined, Listening, MOST_MISSED, Place, Topic};
use message::{Messages, PING, lagged, opening};
use ring::At;

/// So many states go into one piece, when many are sent at once.
const TOGETHER: usize = 64;

pub(super) async fn serve(
    State(app): State<App>,
    Extension(connection): Extension<Connection>,
    Extension(pass): Extension<Pass>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query::nothing(&uri)?;
    let resume = last_event_id(&headers)?;
    let Ok(seat) = app.room(connection.peer).streams.clone().try_acquire_owned() else {
        return Err(Problem::busy("too many streams are open; close one, or poll"));
    };
    let Ok(held) = app.hold(connection.from, Holding::Stream) else {
        let detail = "too many streams are open from your address; close one, or poll";
        return Err(Problem::busy(detail));
    };
    let seat = (seat, held);
    if let Some(after) = resume.filter(|after| *after <= app.events.last_id()) {
        // It may have been learnt of otherwise, a moment before the hub did.
        app.0.hub.reaches(after).await;
    }
    // Joins before it looks back, so that nothing falls in between.
    let (listening, joined) = app.0.hub.join(resume);
    let (first, ended) = match (joined, resume) {
        (Joined::TooLate, _) => (VecDeque::from([lagged(app.events.last_id())]), true),
        (Joined::At { place, .. }, None) => (VecDeque::from([opening(place.last)]), false),
        (Joined::At { place, changed }, Some(after)) => {
            let missed = missed(&app, after, place, &changed).await;
            match missed.map_err(|error| Problem::unavailable(error.to_string()))? {
                Some(missed) => (missed, false),
                None => (VecDeque::from([lagged(app.events.last_id())]), true),
            }
        }
    };
    let closing = connection.closing;
    let listener = Listener { app, pass, listening, closing, ready: first, ended, _seat: seat };
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        // Proxies in between must not collect messages before they pass them on.
        ("x-accel-buffering", "no"),
    ];
    let body = Body::from_stream(listener.messages());
    Ok((headers, Extension(Seated), body).into_response())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    match value.to_str().ok().map(str::trim) {
        Some("") => Ok(None),
        Some(text) if text.parse::<u64>().is_ok() => Ok(text.parse().ok().map(EventId)),
        _ => Err(Problem::bad_request("`Last-Event-ID` is not the id of an event")),
    }
}

/// What happened between `after` and `place`; none if it is too much. States come first: they have
/// no id, and whoever breaks off among the events that follow has them all.
async fn missed(
    app: &App,
    after: EventId,
    place: Place,
    changed: &[Topic],
) -> Result<Option<VecDeque<Bytes>>, StoreError> {
    let query = EventQuery { after: Some(after), limit: MOST_MISSED, ..EventQuery::default() };
    let page = app.events.query(&query).await?;
    if page.next.is_some() {
        return Ok(None);
    }
    let mut pieces = VecDeque::from([opening(after)]);
    for topics in changed.chunks(TOGETHER) {
        let mut messages = Messages::default();
        topics.iter().for_each(|topic| app.0.world.render(topic, &mut messages));
        pieces.push_back(messages.into_bytes());
    }
    let mut messages = Messages::default();
    // Newer ones come by themselves.
    let events = page.events.iter().rev().filter(|event| event.id <= place.last);
    events.for_each(|event| messages.add_event(event));
    pieces.push_back(messages.into_bytes());
    Ok(Some(pieces))
}

/// One of all streams that may be open, and one of those of its address.
type Seat = (OwnedSemaphorePermit, Option<Held>);

/// Marks an answer that has a seat, and takes no other place while it lasts.
#[derive(Clone)]
pub(super) struct Seated;

/// One open stream.
struct Listener {
    app: App,
    pass: Pass,
    listening: Listening,
    closing: watch::Receiver<bool>,
    /// To be sent before anything new.
    ready: VecDeque<Bytes>,
    ended: bool,
    _seat: Seat,
}

impl Listener {
    fn messages(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(self, |mut listener| async move {
            let bytes = listener.next().await?;
            // Whoever was signed out meanwhile is told nothing more.
            listener.pass.holds(&listener.app).then_some((Ok(bytes), listener))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            if self.ended {
                return None;
            }
            match self.listening.take() {
                At::Frame(bytes) => return Some(bytes),
                At::Gone => {
                    self.ended = true;
                    self.ready.push_back(lagged(self.listening.last()));
                    continue;
                }
                At::End => {}
            }
            // All are safe to cancel.
            tokio::select! {
                more = self.listening.more() => {
                    if !more {
                        return None;
                    }
                }
                _ = self.closing.wait_for(|closing| *closing) => return None,
                // Whoever is asked for nothing in between is taken for somebody who does not read.
                () = tokio::time::sleep(self.app.patience.stall / 2) => return Some(PING),
            }
        }
    }
}
