//! `/api/v1`: what is known, and the one thing that can be asked for.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use fluke_model::api::{
    AgentDetail, Agents, DriftList, Events, ReconcileProgress, ReconcileRequest, ReconcileScope,
    Source, TaskView, Tasks,
};
use fluke_model::status::Status;
use fluke_model::task::Task;
use fluke_model::time::Timestamp;
use http::{HeaderMap, StatusCode, Uri, header};

use super::auth::Caller;
use super::problem::Problem;
use super::{App, json, query};
use crate::events::{EventCounts, EventQuery, StoreError};
use crate::reconciles::StartError;
use crate::source::Desired;

/// How many events an agent's page shows.
const RECENT: usize = 20;
const MAX_BODY: usize = 16 << 10;

pub(super) async fn agents(State(app): State<App>) -> Json<Agents> {
    Json(Agents { agents: app.registry.agents() })
}

pub(super) async fn agent(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<AgentDetail>, Problem> {
    let Some(mut detail) = app.registry.agent(&name) else {
        return Err(unknown_agent(&app, &name));
    };
    let agent = Some(detail.agent.name.clone());
    let query = EventQuery { agent, limit: RECENT, ..EventQuery::default() };
    let page = app.events.query(&query).await.unwrap_or_else(|error| {
        detail.events_error = Some(error.to_string());
        app.events.not_yet_stored(&query)
    });
    detail.events = Events::from(page).events;
    Ok(Json(detail))
}

fn unknown_agent(app: &App, name: &str) -> Problem {
    let names = app.registry.names();
    Problem::unknown("agent", name, names.iter().map(|name| name.as_str()))
}

pub(super) async fn tasks(State(app): State<App>) -> Result<Json<Tasks>, Problem> {
    let desired = in_force(&app)?;
    let tasks = desired.model.tasks.values().map(|task| view(&app, task)).collect();
    Ok(Json(Tasks { tasks }))
}

pub(super) async fn task(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<TaskView>, Problem> {
    let desired = in_force(&app)?;
    match desired.model.tasks.get(name.as_str()) {
        Some(task) => Ok(Json(view(&app, task))),
        None => Err(unknown_task(&desired, &name)),
    }
}

fn unknown_task(desired: &Desired, name: &str) -> Problem {
    Problem::unknown("task", name, desired.model.tasks.keys().map(|name| name.as_str()))
}

fn view(app: &App, task: &Task) -> TaskView {
    let agents = app.registry.task_status(&task.name);
    TaskView {
        name: task.name.clone(),
        description: task.description.clone(),
        policy: task.policy.unwrap_or(app.default_policy),
        selector: task.selector.clone(),
        defined: task.defined.to_string(),
        steps: task.steps.clone(),
        status: Status::of(agents.iter().map(|agent| agent.status)),
        agents,
    }
}

/// What Git says; before the first good commit, why it says nothing yet.
fn in_force(app: &App) -> Result<Arc<Desired>, Problem> {
    let desired = app.desired.borrow().clone();
    desired.ok_or_else(|| Problem::unavailable(why_nothing_is_in_force(&app.source.borrow())))
}

/// For people who wait for the first commit.
fn why_nothing_is_in_force(source: &Source) -> String {
    match source {
        Source { error: Some(error), url, .. } => {
            format!("no commit is in force yet: {url} could not be read: {error}")
        }
        Source { rejected: true, diagnostics, .. } => {
            let first = diagnostics.first().map(|first| format!(": {first}")).unwrap_or_default();
            format!("no commit is in force yet: the newest one was rejected{first}")
        }
        Source { url, .. } => format!("no commit is in force yet: {url} is being read"),
    }
}

pub(super) async fn drift(State(app): State<App>) -> Json<DriftList> {
    Json(DriftList { drift: app.registry.drift() })
}

pub(super) async fn events(State(app): State<App>, uri: Uri) -> Result<Json<Events>, Problem> {
    let query = query::events(&uri)?;
    match app.events.query(&query).await {
        Ok(page) => Ok(Json(page.into())),
        Err(error) => Err(Problem::unavailable(no_history(&error, &app.events.counts()))),
    }
}

/// The gap, for people who look for what happened.
fn no_history(error: &StoreError, counts: &EventCounts) -> String {
    let EventCounts { waiting, lost, .. } = counts;
    format!(
        "history is not to be had now: {error}. Hosts are looked after all the same; {waiting} \
         events wait in memory, {lost} were lost since the server's start"
    )
}

pub(super) async fn source(State(app): State<App>) -> Json<Source> {
    Json(app.source.borrow().clone())
}

pub(super) async fn reconcile(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let request: ReconcileRequest = read_json(&headers, body).await?;
    let desired = app.desired.borrow().clone();
    if desired.is_none() && request.scope == ReconcileScope::Task {
        in_force(&app)?;
    }
    let is_task =
        |name: &str| desired.as_ref().is_some_and(|desired| desired.model.tasks.contains_key(name));
    let by = caller.describe(request.by.as_deref());
    let now = Timestamp::from(SystemTime::now());
    let accepted = app.reconciles.start(&request, by, is_task, now).map_err(|error| {
        match (&error, &desired) {
            (StartError::UnknownAgent(name), _) => unknown_agent(&app, name),
            (StartError::UnknownTask(name), Some(desired)) => unknown_task(desired, name),
            (StartError::AgentOffline(_), _) => Problem::conflict(error.to_string()),
            _ => Problem::bad_request(error.to_string()),
        }
    })?;
    let location = [(header::LOCATION, format!("/api/v1/reconcile/{}", accepted.id))];
    Ok((location, json(StatusCode::ACCEPTED, &accepted)).into_response())
}

pub(super) async fn progress(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<ReconcileProgress>, Problem> {
    let progress = app.reconciles.progress(&id);
    progress.map(Json).ok_or_else(|| Problem::unknown("reconcile", &id, []))
}

async fn read_json<T: serde::de::DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
) -> Result<T, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        return Err(Problem::media_type("application/json"));
    }
    let bytes = read_body(body, MAX_BODY).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Problem::bad_request(format!("the body is not right: {error}")))
}

/// All of a body, if it is within `limit`.
pub(super) async fn read_body(body: Body, limit: usize) -> Result<Bytes, Problem> {
    to_bytes(body, limit).await.map_err(|error| {
        let error: &(dyn std::error::Error + 'static) = &error;
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        match causes.any(|cause| cause.to_string().contains("length limit exceeded")) {
            true => Problem::too_large(limit),
            false => Problem::bad_request("the body broke off"),
        }
    })
}
