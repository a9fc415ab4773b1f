//! `GET stream`: every change, as server-sent events.
//!
//! A message's `event` is `agent`, `event`, `source` or `reconcile`, and its data what the API
//! says of that thing now. Only events have an id, to resume by. `lagged` means: changes were
//! missed and the stream ends; fetch everything anew and connect again. `ping` says that the stream
//! lives, where nothing else does.
//!
//! Messages are made, and compressed, in one place ([`hub`]) and shared. A listener that does not
//! read holds up nobody: it falls behind, learns that it did, and is gone.

pub(super) mod frame;
pub(super) mod hub;
mod message;
pub(super) mod missed;
mod pace;
pub(super) mod ring;
pub(super) mod world;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

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
use super::{App, compress, query};
use crate::events::{EventQuery, StoreError};
use frame::{Coding, Frame};
use hub::{Joined, Listening, MOST_MISSED, Place};
use message::{lagged, opening, ping};
use missed::{Missed, Piece};
use ring::At;

/// How long a listener waits for the hub to come as far as the log has.
const HUB_PATIENCE: Duration = Duration::from_secs(1);

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
    if resume.is_some() {
        // It may have been learnt of otherwise, a moment before the hub did. The hub may also never
        // be told: the log goes on from what a store that comes late holds.
        let newest = app.0.hub.reaches(app.events.last_id());
        let _ = tokio::time::timeout(HUB_PATIENCE, newest).await;
    }
    // Joins before it looks back, so that nothing falls in between.
    let takes_gzip = compress::is_asked_for(&headers);
    let (listening, joined) = app.0.hub.join(resume, takes_gzip);
    let (first, missed) = match (joined, resume) {
        (Joined::TooLate, _) => (None, None),
        (Joined::At(place), None) => (Some(opening(place.last)), None),
        (Joined::At(place), Some(after)) => {
            let missed = missed(&app, after, place).await;
            let missed = missed.map_err(|error| Problem::unavailable(error.to_string()))?;
            (missed.is_some().then(|| opening(after)), missed)
        }
    };
    let ended = first.is_none();
    let ready = VecDeque::from([first.unwrap_or_else(|| lagged(listening.last()))]);
    let closing = connection.closing;
    let coding = if takes_gzip { Coding::Gzip(None) } else { Coding::Plain };
    let listener =
        Listener { app, pass, listening, coding, closing, ready, missed, ended, _seat: seat };
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::VARY.as_str(), "accept-encoding"),
        // Proxies in between must not collect messages before they pass them on.
        ("x-accel-buffering", "no"),
    ];
    let encoding = takes_gzip.then_some([(header::CONTENT_ENCODING, "gzip")]);
    let body = Body::from_stream(listener.bytes());
    Ok((headers, encoding, Extension(Seated), body).into_response())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    match value.to_str().ok().map(str::trim) {
        Some("") => Ok(None),
        Some(text) if text.parse::<u64>().is_ok() => Ok(text.parse().ok().map(EventId)),
        _ => Err(Problem::bad_request("`Last-Event-ID` is not the id of an event")),
    }
}

/// What happened between `after` and `place`; none if it is too much.
async fn missed(app: &App, after: EventId, place: Place) -> Result<Option<Missed>, StoreError> {
    let query = EventQuery { after: Some(after), limit: MOST_MISSED, ..EventQuery::default() };
    let page = app.events.query(&query).await?;
    if page.next.is_some() {
        return Ok(None);
    }
    // Newer ones come by themselves.
    let events = page.events.into_iter().rev().filter(|event| event.id <= place.last);
    Ok(Some(Missed::new(after, events.collect())))
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
    coding: Coding,
    closing: watch::Receiver<bool>,
    /// To be sent before anything new.
    ready: VecDeque<Frame>,
    /// To be told after that, and before anything new.
    missed: Option<Missed>,
    ended: bool,
    _seat: Seat,
}

impl Listener {
    fn bytes(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(Some(self), |listener| async move {
            let mut listener = listener?;
            let frame = listener.next().await;
            // Whoever was signed out meanwhile is told nothing more.
            match frame.filter(|_| listener.pass.holds(&listener.app)) {
                Some(frame) => Some((Ok(listener.coding.next(&frame)), Some(listener))),
                None => listener.coding.end().map(|bytes| (Ok(bytes), None)),
            }
        })
    }

    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            if let Some(missed) = &mut self.missed {
                match missed.next(&self.app.0.hub, &self.app.0.world) {
                    Piece::Made(frame) => return Some(frame),
                    Piece::End => self.missed = None,
                    Piece::Lost => self.falls_behind(),
                }
                continue;
            }
            match self.listening.take() {
                At::Frame(frame) => return Some(frame),
                At::Gone => {
                    self.falls_behind();
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
                () = tokio::time::sleep(self.app.patience.stall / 2) => return Some(ping()),
            }
        }
    }

    /// Tells it that it did, and nothing more.
    fn falls_behind(&mut self) {
        self.ended = true;
        self.missed = None;
        self.ready.push_back(lagged(self.listening.last()));
    }
}
