//! `DELETE agents/{name}`: somebody says that an agent will not come back.

use std::time::SystemTime;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use fluke_model::api::Forgotten;
use fluke_model::event::{Event, EventKind};
use fluke_model::id::AgentName;
use fluke_model::time::Timestamp;
use http::{StatusCode, Uri};

use super::api::{Named, unknown_agent};
use super::auth::Caller;
use super::problem::Problem;
use super::{App, json, query};
use crate::events::EventSink;

pub(super) async fn agent(
    State(app): State<App>,
    Named(name): Named,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    query::nothing(&uri)?;
    let Ok(name) = AgentName::new(&*name) else { return Err(unknown_agent(&app, &name)) };
    let was_known = app.registry.forget(&name).map_err(|error| {
        Problem::conflict(format!("{error}; `fluke uninstall agent` on its host ends it for good"))
    })?;
    let volumes = app.desk.forget(&name).await;
    if !was_known && volumes.is_none() {
        return Err(unknown_agent(&app, name.as_str()));
    }
    let volumes = volumes.unwrap_or_default();
    let mut event = Event::new(EventKind::AgentForgotten, Timestamp::from(SystemTime::now()));
    event.agent = Some(name.clone());
    event.trigger = Some("manual".into());
    event.by = Some(caller.describe(None));
    if !volumes.is_empty() {
        event.output = Some(format!("no replica waits any more for {}", volumes.join(", ")));
    }
    app.events.record(event);
    Ok(json(StatusCode::OK, &Forgotten { name, volumes }))
}
