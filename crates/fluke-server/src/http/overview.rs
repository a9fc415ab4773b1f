//! Answers that take a look at the whole fleet: beside a few others at most, not on the threads on
//! which everybody else is answered, and once for all who ask for the same.
//!
//! Whoever asks for what waits for its place already gets that, and sees all that had happened when
//! they asked: it is not made yet. Once it is being made, the next one who asks begins anew.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use http::request::Parts;
use http::{Uri, header};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::problem::Problem;
use super::{App, compress};

/// Answers made at the same time.
pub(super) const PLACES: usize = 4;
/// With more than these, those that nobody waits for any more are looked for.
const MANY: usize = 1024;

/// Where they are made.
pub(super) struct Overviews {
    pub places: Arc<Semaphore>,
    /// Those that wait for a place.
    waiting: Mutex<HashMap<Asked, WeakShared<Making>>>,
}

type Making = BoxFuture<'static, Result<Overview, Problem>>;
/// How one is made.
type Make = Box<dyn FnOnce(&App) -> Result<Overview, Problem> + Send>;

/// What is asked for, and in which form; the same of two is answered the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub uri: Uri,
    takes_gzip: bool,
}

/// An answer that can be given more than once.
#[derive(Debug, Clone)]
pub(super) struct Overview {
    kind: &'static str,
    body: Bytes,
    is_gzip: bool,
}

impl Overviews {
    /// What `make` makes of the fleet, or somebody else who asked for the same a moment ago.
    pub async fn answer(app: App, asked: Asked, make: Make) -> Result<Response, Problem> {
        join(app, asked, make).await.map(IntoResponse::into_response)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Asked, WeakShared<Making>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait for each answer that waits for a place.
    #[cfg(test)]
    pub fn crowds(&self) -> Vec<usize> {
        let crowds = self.waiting();
        let crowds = crowds.values().filter_map(WeakShared::upgrade);
        // Without the one that is looked through here.
        crowds.filter_map(|making| making.strong_count()).map(|count| count - 1).collect()
    }
}

impl Default for Overviews {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(PLACES)), waiting: Mutex::default() }
    }
}

fn join(app: App, asked: Asked, make: Make) -> Shared<Making> {
    let shared = app.clone();
    let mut waiting = shared.0.overviews.waiting();
    if let Some(making) = waiting.get(&asked).and_then(WeakShared::upgrade) {
        return making;
    }
    if waiting.len() > MANY {
        waiting.retain(|_, making| making.upgrade().is_some());
    }
    let making = making(app, asked.clone(), make).boxed().shared();
    waiting.extend(making.downgrade().map(|making| (asked, making)));
    making
}

async fn making(app: App, asked: Asked, make: Make) -> Result<Overview, Problem> {
    let place = app.0.overviews.places.clone().acquire_owned().await;
    app.0.overviews.waiting().remove(&asked);
    let made = tokio::task::spawn_blocking(move || {
        // Kept until it is done, though nobody may wait for it any more.
        let _place = place;
        make(&app).map(|made| if asked.takes_gzip { made.compressed() } else { made })
    });
    // What fails there has failed here.
    made.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

impl Overview {
    /// A value as JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_vec(value).map_err(|error| {
            tracing::error!("an answer could not be written as JSON: {error}");
            Problem::internal()
        })?;
        Ok(Self { kind: compress::JSON, body: body.into(), is_gzip: false })
    }

    /// Text of some kind.
    pub fn text(kind: &'static str, text: String) -> Self {
        Self { kind, body: text.into(), is_gzip: false }
    }

    fn compressed(self) -> Self {
        match compress::if_worth_it(self.kind, &self.body) {
            Some(body) => Self { body, is_gzip: true, ..self },
            None => self,
        }
    }
}

impl IntoResponse for Overview {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, self.kind)];
        let coding = self.is_gzip.then_some(compress::CODING);
        (kind, coding, self.body).into_response()
    }
}

impl<State: Sync> FromRequestParts<State> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &State) -> Result<Self, Infallible> {
        let takes_gzip = compress::is_asked_for(&parts.headers);
        Ok(Self { uri: parts.uri.clone(), takes_gzip })
    }
}
