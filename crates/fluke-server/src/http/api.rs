//! `/api/v1`: what is known, and the one thing that can be asked for.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use fluke_model::api::{
    AgentDetail, Events, ReconcileProgress, ReconcileRequest, ReconcileScope, Source, TaskAgent,
    TaskView, Tasks,
};
use fluke_model::id::TaskName;
use fluke_model::status::Status;
use fluke_model::task::Task;
use fluke_model::time::Timestamp;
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri, header};

use super::auth::Caller;
use super::overview::{Asked, Overview, Overviews};
use super::problem::Problem;
use super::query::TaskFilter;
use super::{App, json, query};
use crate::events::{EventCounts, EventQuery, StoreError};
use crate::reconciles::StartError;
use crate::registry::page;
use crate::source::Desired;

/// How many events an agent's page shows.
const RECENT: usize = 20;
const MAX_BODY: usize = 256 << 10;
/// For a body to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(15);

pub(super) async fn agents(State(app): State<App>, asked: Asked) -> Result<Response, Problem> {
    let filter = query::agents(&asked.uri)?;
    let list = move |app: &App| Overview::json(&app.registry.list(&filter));
    Overviews::answer(app, asked, Box::new(list)).await
}

pub(super) async fn agent(
    State(app): State<App>,
    Named(name): Named,
    uri: Uri,
) -> Result<Json<AgentDetail>, Problem> {
    query::nothing(&uri)?;
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

pub(super) fn unknown_agent(app: &App, name: &str) -> Problem {
    let names = app.registry.names();
    Problem::unknown("agent", name, names.iter().map(|name| name.as_str()))
}

pub(super) async fn tasks(State(app): State<App>, asked: Asked) -> Result<Response, Problem> {
    let filter = query::tasks(&asked.uri)?;
    in_force(&app)?;
    let list = move |app: &App| Overview::json(&list_tasks(app, &*in_force(app)?, &filter));
    Overviews::answer(app, asked, Box::new(list)).await
}

fn list_tasks(app: &App, desired: &Desired, filter: &TaskFilter) -> Tasks {
    let after = filter.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let behind = desired.model.tasks.range::<TaskName, _>((after, Bound::Unbounded));
    let is_named = |name: &TaskName| {
        filter.name.as_ref().is_none_or(|part| name.as_str().contains(part.as_str()))
    };
    let named = behind.filter(|(name, _)| is_named(name));
    // Without a status to look for, only what is on the page is looked into.
    let candidates = if filter.status.is_some() { None } else { filter.limit.map(|it| it + 1) };
    let named: Vec<&Arc<Task>> =
        named.map(|(_, task)| task).take(candidates.unwrap_or(usize::MAX)).collect();
    let wanted: HashSet<&TaskName> = named.iter().map(|task| &task.name).collect();
    let mut agents = app.registry.task_statuses(|task| wanted.contains(task));
    let views = named
        .into_iter()
        .map(|task| view(app, task, agents.remove(&task.name).unwrap_or_default()));
    let views = views.filter(|view| filter.status.is_none_or(|status| status == view.status));
    let (mut tasks, next) = page(views, filter.limit, |task| task.name.clone());
    if !filter.agents {
        tasks.iter_mut().for_each(|task| task.agents.clear());
    }
    Tasks { tasks, next }
}

pub(super) async fn task(
    State(app): State<App>,
    Named(name): Named,
    asked: Asked,
) -> Result<Response, Problem> {
    query::nothing(&asked.uri)?;
    in_force(&app)?;
    let look = move |app: &App| {
        let desired = in_force(app)?;
        let task = desired.model.tasks.get(name.as_str());
        let task = task.ok_or_else(|| unknown_task(&desired, &name))?;
        Overview::json(&view(app, task, app.registry.task_status(&task.name)))
    };
    Overviews::answer(app, asked, Box::new(look)).await
}

fn unknown_task(desired: &Desired, name: &str) -> Problem {
    Problem::unknown("task", name, desired.model.tasks.keys().map(|name| name.as_str()))
}

fn unknown_service(desired: &Desired, name: &str) -> Problem {
    Problem::unknown("service", name, desired.model.services.keys().map(|name| name.as_str()))
}

fn view(app: &App, task: &Task, agents: Vec<TaskAgent>) -> TaskView {
    let mut counts = BTreeMap::new();
    agents.iter().for_each(|agent| *counts.entry(agent.status).or_insert(0) += 1);
    TaskView {
        name: task.name.clone(),
        description: task.description.clone(),
        policy: task.policy.unwrap_or(app.default_policy),
        selector: task.selector.clone(),
        defined: task.defined.to_string(),
        steps: task.steps.to_vec(),
        status: sum(&counts),
        counts,
        agents,
    }
}

/// The worst of those that are connected: one host that is away must not hide what failed on others.
fn sum(counts: &BTreeMap<Status, u32>) -> Status {
    let connected = counts.keys().copied().filter(|status| *status != Status::Offline);
    match counts.keys().all(|status| *status == Status::Offline) && !counts.is_empty() {
        true => Status::Offline,
        false => Status::of(connected),
    }
}

/// What Git says; before the first good commit, why it says nothing yet.
pub(super) fn in_force(app: &App) -> Result<Arc<Desired>, Problem> {
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

pub(super) async fn drift(State(app): State<App>, asked: Asked) -> Result<Response, Problem> {
    let filter = query::drift(&asked.uri)?;
    let list = move |app: &App| Overview::json(&app.registry.drift_list(&filter));
    Overviews::answer(app, asked, Box::new(list)).await
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

pub(super) async fn source(State(app): State<App>, uri: Uri) -> Result<Json<Source>, Problem> {
    query::nothing(&uri)?;
    Ok(Json(app.source.borrow().clone()))
}

pub(super) async fn reconcile(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query::nothing(&uri)?;
    let request: ReconcileRequest = read_json(&headers, body).await?;
    let desired = app.desired.borrow().clone();
    if matches!(request.scope, ReconcileScope::Task | ReconcileScope::Service) {
        in_force(&app)?;
    }
    let by = caller.describe(request.by.as_deref());
    let now = Timestamp::from(SystemTime::now());
    let accepted = app.reconciles.start(&request, by, desired.as_deref(), now);
    let accepted = accepted.map_err(|error| refusal(&app, desired.as_deref(), &error))?;
    let location = [(header::LOCATION, format!("/api/v1/reconcile/{}", accepted.id))];
    Ok((location, json(StatusCode::ACCEPTED, &accepted)).into_response())
}

fn refusal(app: &App, desired: Option<&Desired>, error: &StartError) -> Problem {
    use StartError::*;
    match (error, desired) {
        (UnknownAgent(name), _) => unknown_agent(app, name),
        (UnknownTask(name), Some(desired)) => unknown_task(desired, name),
        (UnknownService(name), Some(desired)) => unknown_service(desired, name),
        (AgentOffline(_) | NotForAgent { .. } | NotOnAgent { .. }, _) => {
            Problem::conflict(error.to_string())
        }
        (SeenOtherwise { .. } | TaskChanged { .. }, _) => {
            Problem::seen_otherwise(error.to_string())
        }
        (Invalid(_) | UnknownTask(_) | UnknownService(_), _) => {
            Problem::bad_request(error.to_string())
        }
    }
}

pub(super) async fn progress(
    State(app): State<App>,
    Named(id): Named,
    uri: Uri,
) -> Result<Json<ReconcileProgress>, Problem> {
    query::nothing(&uri)?;
    let progress = app.reconciles.progress(&id);
    progress.map(Json).ok_or_else(|| Problem::unknown("reconcile", &id, []))
}

/// The last part of a path.
pub(super) struct Named(pub(super) String);

impl FromRequestParts<App> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Path(name) = Path::from_request_parts(parts, app)
            .await
            .map_err(|_| Problem::bad_request("the path is no UTF-8 text once its `%` are read"))?;
        Ok(Self(name))
    }
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

/// All of a body, if it is within `limit` and arrives in time.
pub(super) async fn read_body(body: Body, limit: usize) -> Result<Bytes, Problem> {
    let Ok(read) = tokio::time::timeout(BODY_WITHIN, to_bytes(body, limit)).await else {
        return Err(Problem::too_slow(BODY_WITHIN.as_secs()));
    };
    read.map_err(|error| {
        let error: &(dyn std::error::Error + 'static) = &error;
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        match causes.any(|cause| cause.to_string().contains("length limit exceeded")) {
            true => Problem::too_large(limit),
            false => Problem::bad_request("the body broke off"),
        }
    })
}
