//! The HTTP side: API, live stream, health, metrics, webhook; over TCP and the local socket.
//!
//! Every route stands in `ROUTES` with what it asks of its caller; there is no other way to
//! be served, and one function ([`auth::authorise`]) decides over all of them.

mod api;
pub mod auth;
mod compress;
pub(crate) mod crowd;
mod forget;
mod health;
mod idle;
mod metrics;
mod openapi;
mod origin;
mod outgoing;
mod overview;
mod problem;
mod query;
mod room;
mod serve;
mod services;
mod session;
mod sign_in;
mod socket;
mod stall;
mod stream;
mod template;
mod ui;
mod webhook;

use std::net::IpAddr;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use fluke_model::api as model;
use fluke_model::policy::Policy;
use futures_util::FutureExt;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::alert::Alerter;
use crate::changes::Changes;
use crate::complaints::Complaints;
use crate::events::EventLog;
use crate::meter::Meter;
use crate::reconciles::Reconciles;
use crate::registry::Registry;
use crate::services::desk::Desk;
use crate::source::{Desired, Polls};
use crate::strikes::Strikes;
use crate::webhook::Push;
use auth::{Access, ApiTokens, Peer, Visitor};
use crowd::{Crowd, Held, Holding};
use metrics::Answers;
use openapi::calls;
use outgoing::UnderWay;
use overview::Overviews;
use problem::Problem;
use room::Room;
use serve::Connection;
use session::Ended;
use stream::hub::Hub;
use stream::world::World;

pub use serve::{serve_http, serve_socket};
pub use socket::{LocalSocket, SocketError};

/// Requests over the network that are answered at the same time, streams aside.
const MAX_REQUESTS: usize = 512;
/// The same of the local socket, of requests and of streams.
const MAX_LOCAL: usize = 128;
/// Pushes that are read at the same time: anybody may send a body, and a large one.
const MAX_WEBHOOKS: usize = 32;
/// Forms of people who sign in that are read at the same time.
const MAX_FORMS: usize = 64;
/// Calls with wrong tokens that wait for their answer: they must not take the others' places.
const MAX_WAITING: usize = 128;
/// Live streams over the network at the same time.
const MAX_STREAMS: usize = 1024;
/// Of path and query together.
const MAX_URI: usize = 8 << 10;
/// Of all headers together.
const MAX_HEADERS: usize = 16 << 10;
/// For one answer to begin.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Everything that is served, and everybody who is asked for it.
pub struct Parts {
    /// Who is connected, and how they stand.
    pub registry: Arc<Registry>,
    /// Manual reconciles.
    pub reconciles: Arc<Reconciles>,
    /// What Git says.
    pub desired: watch::Receiver<Option<Arc<Desired>>>,
    /// What is known of services.
    pub desk: Desk,
    /// What is known of the repository.
    pub source: watch::Receiver<model::Source>,
    /// Tells the source of a push; says whether it looks at the repository now.
    pub pushed: Arc<dyn Fn(&Push) -> bool + Send + Sync>,
    /// What happened.
    pub events: Arc<EventLog>,
    /// What changes.
    pub changes: Changes,
    /// Whom drift is told to, if anybody.
    pub alerter: Option<Arc<Alerter>>,
    /// Who may come in over the network.
    pub api_tokens: Arc<ApiTokens>,
    /// Who showed wrong tokens.
    pub strikes: Strikes,
    /// What pushes are signed with.
    pub webhook_secret: Option<String>,
    /// For tasks that name no policy.
    pub default_policy: Policy,
    /// What sessions measure.
    pub meter: Arc<Meter>,
    /// How often the repository was looked at.
    pub polls: Arc<Polls>,
    /// Where all of it is served.
    pub place: Place,
    /// For how long clients are waited for.
    pub patience: Patience,
}

/// For how long clients are waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// That do not read on.
    pub stall: Duration,
    /// That have nothing to ask.
    pub idle: Duration,
    /// So many connections there may be, per listener, until those that are idle have to go.
    pub connections: usize,
}

impl Patience {
    /// Unless said otherwise.
    pub const USUAL: Self =
        Self { stall: Duration::from_secs(30), idle: Duration::from_secs(60), connections: 2048 };
}

/// Where a server is to be found.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// Whether the network is spoken to with TLS.
    pub tls: bool,
    /// Names that are this host's own, or are said to lead to it.
    pub names: Vec<String>,
    /// The local socket's file.
    pub socket: Option<PathBuf>,
    /// Where people find the pages.
    pub page_url: Option<String>,
}

/// [`Parts`] as every request shares them, with what is counted on the way.
#[derive(Clone)]
pub struct App(Arc<Shared>);

struct Shared {
    parts: Parts,
    network: Room,
    local: Room,
    overviews: Overviews,
    webhooks: Semaphore,
    forms: Semaphore,
    waiting: Semaphore,
    complaints: Complaints,
    /// What every address has taken.
    crowd: Crowd,
    /// Sessions that were signed out.
    ended: Ended,
    world: World,
    hub: Hub,
    answers: Answers,
    /// Every connection holds one.
    connections: Arc<()>,
    started: SystemTime,
}

impl App {
    /// Ready to be served. Must be called within a runtime: it begins to follow changes.
    pub fn new(parts: Parts) -> Self {
        let world = World {
            registry: parts.registry.clone(),
            reconciles: parts.reconciles.clone(),
            source: parts.source.clone(),
            services: parts.desk.clone(),
            default_policy: parts.default_policy,
            events: parts.events.clone(),
        };
        Self(Arc::new(Shared {
            hub: Hub::start(world.clone(), &parts.changes),
            world,
            parts,
            network: Room::new(MAX_REQUESTS, MAX_STREAMS),
            local: Room::new(MAX_LOCAL, MAX_LOCAL),
            overviews: Overviews::default(),
            webhooks: Semaphore::new(MAX_WEBHOOKS),
            forms: Semaphore::new(MAX_FORMS),
            waiting: Semaphore::new(MAX_WAITING),
            complaints: Complaints::default(),
            crowd: Crowd::default(),
            ended: Ended::default(),
            answers: Answers::default(),
            connections: Arc::default(),
            started: SystemTime::now(),
        }))
    }

    /// What those share who came in the same way.
    fn room(&self, peer: Peer) -> &Room {
        match peer {
            Peer::Tcp => &self.0.network,
            Peer::Socket { .. } => &self.0.local,
        }
    }

    /// One of what an address may hold, if there is one left; the local socket is no address.
    fn hold(&self, from: Option<IpAddr>, what: Holding) -> Result<Option<Held>, TooMuch> {
        let hold = |from| self.0.crowd.hold(from, what, Instant::now()).ok_or(TooMuch);
        from.map(hold).transpose()
    }

    /// A place to read a body that anybody may send, among those and of that address.
    fn read_of<'a>(
        &self,
        from: Option<IpAddr>,
        places: &'a Semaphore,
    ) -> Result<(SemaphorePermit<'a>, Option<Held>), TooMuch> {
        let place = places.try_acquire().map_err(|_| TooMuch)?;
        Ok((place, self.hold(from, Holding::Body)?))
    }

    /// How many connections are open.
    fn connections(&self) -> usize {
        Arc::strong_count(&self.0.connections) - 1
    }
}

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0.parts
    }
}

/// There is no place left.
#[derive(Debug)]
struct TooMuch;

/// One thing that is served.
pub(crate) struct Route {
    pub path: &'static str,
    pub method: MethodFilter,
    pub access: Access,
    handler: fn(MethodFilter) -> MethodRouter<App>,
    /// What it says of itself in the OpenAPI document; pages for people say nothing.
    about: Option<fn(&mut openapi::Call<'_>)>,
}

impl Route {
    const fn says(mut self, about: fn(&mut openapi::Call<'_>)) -> Self {
        self.about = Some(about);
        self
    }
}

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const DELETE: MethodFilter = MethodFilter::DELETE;

const fn route(
    method: MethodFilter,
    path: &'static str,
    access: Access,
    handler: fn(MethodFilter) -> MethodRouter<App>,
) -> Route {
    Route { path, method, access, handler, about: None }
}

/// All there is. Names of agents, tasks and services may contain `/`, hence `{*name}`.
pub(crate) const ROUTES: &[Route] = &[
    route(GET, "/", Access::Page, |method| on(method, ui::shell)),
    route(GET, "/agents/{*name}", Access::Page, |method| on(method, ui::shell)),
    route(GET, "/tasks", Access::Page, |method| on(method, ui::shell)),
    route(GET, "/tasks/{*name}", Access::Page, |method| on(method, ui::shell)),
    route(GET, "/services", Access::Page, |method| on(method, ui::shell)),
    route(GET, "/services/{*name}", Access::Page, |method| on(method, ui::shell)),
    route(GET, "/drift", Access::Page, |method| on(method, ui::shell)),
    route(GET, "/events", Access::Page, |method| on(method, ui::shell)),
    route(GET, "/source", Access::Page, |method| on(method, ui::shell)),
    route(GET, "/assets/{version}/{file}", Access::Open, |method| on(method, ui::asset)),
    route(GET, "/sign-in", Access::Open, |method| on(method, sign_in::form)),
    route(POST, "/sign-in", Access::OwnPage, |method| on(method, sign_in::enter)),
    route(POST, "/sign-out", Access::OwnPage, |method| on(method, sign_in::leave)),
    route(GET, "/api/v1/session", Access::Open, |method| on(method, sign_in::session))
        .says(calls::session),
    route(GET, "/favicon.ico", Access::Open, |method| on(method, ui::favicon)),
    route(GET, health::ALIVE, Access::Open, |method| on(method, health::alive))
        .says(calls::healthz),
    route(GET, "/readyz", Access::Open, |method| on(method, health::ready)).says(calls::readyz),
    route(GET, "/metrics", Access::Read, |method| on(method, metrics::serve)).says(calls::metrics),
    route(POST, "/webhooks/git", Access::Open, |method| on(method, webhook::receive))
        .says(calls::webhook),
    route(GET, "/api/v1/openapi.json", Access::Open, |method| on(method, openapi::serve))
        .says(calls::openapi),
    route(GET, "/api/v1/agents", Access::Read, |method| on(method, api::agents))
        .says(calls::agents),
    route(GET, "/api/v1/agents/{*name}", Access::Read, |method| on(method, api::agent))
        .says(calls::agent),
    route(DELETE, "/api/v1/agents/{*name}", Access::Change, |method| on(method, forget::agent))
        .says(calls::forget_agent),
    route(GET, "/api/v1/tasks", Access::Read, |method| on(method, api::tasks)).says(calls::tasks),
    route(GET, "/api/v1/tasks/{*name}", Access::Read, |method| on(method, api::task))
        .says(calls::task),
    route(GET, "/api/v1/services", Access::Read, |method| on(method, services::list))
        .says(calls::services),
    route(GET, "/api/v1/services/{*name}", Access::Read, |method| on(method, services::one))
        .says(calls::service),
    route(GET, "/api/v1/drift", Access::Read, |method| on(method, api::drift)).says(calls::drift),
    route(GET, "/api/v1/events", Access::Read, |method| on(method, api::events))
        .says(calls::events),
    route(GET, "/api/v1/source", Access::Read, |method| on(method, api::source))
        .says(calls::source),
    route(POST, "/api/v1/reconcile", Access::Change, |method| on(method, api::reconcile))
        .says(calls::reconcile),
    route(GET, "/api/v1/reconcile/{id}", Access::Read, |method| on(method, api::progress))
        .says(calls::progress),
    route(GET, "/api/v1/stream", Access::Read, |method| on(method, stream::serve))
        .says(calls::stream),
];

/// Puts [`ROUTES`] together, each behind its guard and all behind the same bounds.
fn router(app: App) -> Router {
    let guarded = |router: Router<App>, route: &Route| {
        let guard = from_fn_with_state((app.clone(), route.access), auth::guard);
        router.route(route.path, (route.handler)(route.method).route_layer(guard))
    };
    ROUTES
        .iter()
        .fold(Router::new(), guarded)
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), bounded))
        .layer(from_fn_with_state(app.clone(), finished))
        .with_state(app)
}

async fn no_such_path(State(app): State<App>, request: Request) -> Response {
    let uri = request.uri();
    if uri.path().starts_with("/fluke.v1.")
        && let Some(from) = request.extensions().get::<Connection>().and_then(|from| from.from)
    {
        let why =
            "an agent calls at the port for people; its `server_url` must lead to `listen_grpc`";
        app.0.complaints.make(from, why);
    }
    if ui::is_for_people(request.headers(), uri) {
        return ui::not_found();
    }
    Problem::no_such_path(uri.path(), ROUTES.iter().map(|route| route.path)).into_response()
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::method(&method, &uri)
}

/// Bounds what a request may be, how many come from one address and how many are under way, and
/// how long each may take to begin to answer.
async fn bounded(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let visitor = Visitor::of(&app, request.headers());
    if !visitor.is_within_share(&app, &request) {
        return Problem::too_many_requests().into_response();
    }
    request.extensions_mut().insert(Arc::new(visitor));
    if let Some(problem) = beyond_bounds(&request) {
        return problem.into_response();
    }
    // Whether the server lives is said however much there is to do.
    if request.uri().path() == health::ALIVE {
        return answered(request, next).await;
    }
    let under_way = match place_for(&app, &request) {
        Ok(under_way) => under_way,
        Err(full) => return full.into_response(),
    };
    let mut response = answered(request, next).await;
    if response.extensions_mut().remove::<stream::Seated>().is_none() {
        response.extensions_mut().insert(Arc::new(under_way));
    }
    response
}

fn place_for(app: &App, request: &Request) -> Result<UnderWay, Problem> {
    let Ok(place) = app.room(auth::peer(request)).requests.clone().try_acquire_owned() else {
        return Err(Problem::busy("too many requests are under way; try again in a second"));
    };
    let Ok(held) = app.hold(auth::from(request), Holding::Request) else {
        let detail = "too many requests of your address are under way; try again in a second";
        return Err(Problem::busy(detail));
    };
    Ok(UnderWay::new(place, held))
}

/// The answer of whoever it is for, or why there is none.
async fn answered(request: Request, next: Next) -> Response {
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => {
            tracing::error!("fluke itself failed on a request; please report it");
            Problem::internal().into_response()
        }
        Err(_) => {
            let detail = format!("there was no answer within {} s", ANSWER_WITHIN.as_secs());
            Problem::unavailable(detail).into_response()
        }
    }
}

/// What is beyond even larger bounds is refused before it gets here, without a word.
fn beyond_bounds(request: &Request) -> Option<Problem> {
    let uri = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    let of = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    let headers: usize = request.headers().iter().map(of).sum();
    if uri > MAX_URI {
        return Some(Problem::uri_too_long(MAX_URI));
    }
    (headers > MAX_HEADERS).then(|| Problem::headers_too_large(MAX_HEADERS))
}

/// Counts the answer, and adds what every answer carries.
async fn finished(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_string();
    let peer = auth::peer(&request);
    let busy = request.extensions().get::<Connection>().map(|from| from.usage.begin());
    let takes_gzip = compress::is_asked_for(request.headers());
    let mut response = next.run(request).await;
    if takes_gzip {
        response = compress::compressed(response).await;
    }
    let under_way = response.extensions_mut().remove::<Arc<UnderWay>>();
    let mut under_way = under_way.and_then(Arc::into_inner).unwrap_or_default();
    under_way.busy = busy;
    if !under_way.takes_memory(&app.room(peer).memory, response.body()) {
        let detail = "large answers that are not read yet take all memory; try again in a second";
        response = Problem::busy(detail).into_response();
    }
    let problem = response.extensions_mut().remove::<Problem>();
    app.0.answers.count(response.status(), problem.as_ref().map(Problem::sort));
    if let Some(problem) = problem {
        // Whatever was added to it on its way stays.
        let (headers, body) = {
            let (parts, body) = problem.answer(&path).into_parts();
            (parts.headers, body)
        };
        *response.body_mut() = body;
        response.headers_mut().extend(headers);
    }
    for (name, value) in SECURITY_HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().entry(name).or_insert(value);
    }
    response.map(|body| outgoing::watched(body, under_way, app.patience.stall))
}

/// For answers that say nothing else: no page is made of them, and nobody keeps them.
const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// JSON, with a status.
fn json<T: serde::Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => {
            tracing::error!("an answer could not be written as JSON: {error}");
            Problem::internal().into_response()
        }
    }
}

#[cfg(test)]
mod tests;
