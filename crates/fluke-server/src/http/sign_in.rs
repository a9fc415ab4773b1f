//! `/sign-in`, `/sign-out`: an API token is exchanged for a session of the browser.
//!
//! All of it works without JavaScript: a form, and redirects.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use fluke_model::api;
use fluke_model::time::Timestamp;
use http::{HeaderMap, StatusCode, Uri, header};

use super::api::read_body;
use super::auth::{self, Access, Caller, Refusal, Visitor, authorise};
use super::origin::{is_loopback, sent_to};
use super::problem::Problem;
use super::session::{self, Session};
use super::{App, json, query, ui};

const MAX_FORM: usize = 8 << 10;

/// Sends a browser to the form, and back afterwards to where it wanted to go.
pub(super) fn ask(wanted: &Uri) -> Response {
    let wanted = wanted.path_and_query().map_or("/", |wanted| wanted.as_str());
    let next: String = form_urlencoded::byte_serialize(wanted.as_bytes()).collect();
    see_other(&format!("/sign-in?next={next}")).into_response()
}

fn see_other(location: &str) -> impl IntoResponse + use<> {
    (StatusCode::SEE_OTHER, [(header::LOCATION, location.to_string())])
}

pub(super) async fn form(
    State(app): State<App>,
    Extension(visitor): Extension<Arc<Visitor>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let query = uri.query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let next = pairs.find(|(name, _)| name == "next").map(|(_, value)| value.into_owned());
    let next = local(next.as_deref().unwrap_or_default());
    if visitor.signed_in.is_some() {
        return see_other(next).into_response();
    }
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return come_again(&uri);
    }
    // Browsers say this to servers that they trust to be who they are: https, or this machine.
    let is_trusted = headers.contains_key("sec-fetch-site");
    let host = sent_to(&headers, &uri).unwrap_or_default();
    let page = Page { next, is_plain: !is_trusted && !is_loopback(host), ..Page::default() };
    page.show(&app, StatusCode::OK)
}

/// Whoever follows a link from elsewhere comes without their cookie; from here they have it.
fn come_again(uri: &Uri) -> Response {
    let here = uri.path_and_query().map_or("/sign-in", |here| here.as_str());
    ui::page(StatusCode::OK, "again.html", &[], &[("here", here)])
}

/// What `sign-in.html` is filled with.
#[derive(Default)]
struct Page<'a> {
    error: Option<&'a str>,
    name: &'a str,
    next: &'a str,
    /// Came over http from another machine: a browser would not keep the cookie.
    is_plain: bool,
}

impl Page<'_> {
    fn show(&self, app: &App, status: StatusCode) -> Response {
        let has_tokens = !app.api_tokens.valid().is_empty();
        let socket = app.place.socket.as_ref().map(|path| path.display().to_string());
        let sections = [
            ("form", has_tokens),
            ("read-only", !has_tokens),
            ("socket", socket.is_some()),
            ("error", self.error.is_some()),
            ("plain-http", has_tokens && self.is_plain),
        ];
        let blanks = [
            ("error", self.error.unwrap_or_default()),
            ("name", self.name),
            ("next", self.next),
            ("socket", socket.as_deref().unwrap_or_default()),
        ];
        ui::page(status, "sign-in.html", &sections, &blanks)
    }
}

/// What the form sends.
#[derive(Default)]
struct Form {
    token: String,
    name: String,
    next: String,
}

impl Form {
    async fn read(headers: &HeaderMap, body: Body) -> Result<Self, Problem> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        const WANTED: &str = "application/x-www-form-urlencoded";
        if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case(WANTED)) {
            return Err(Problem::media_type(WANTED));
        }
        let bytes = read_body(body, MAX_FORM).await?;
        let mut form = Self::default();
        for (name, value) in form_urlencoded::parse(&bytes) {
            match &*name {
                "token" => form.token = value.into_owned(),
                "name" => form.name = value.into_owned(),
                "next" => form.next = value.into_owned(),
                // A form may have grown since.
                _ => {}
            }
        }
        Ok(form)
    }
}

pub(super) async fn enter(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let from = auth::from(&request);
    let (parts, body) = request.into_parts();
    let form = {
        let Ok(_place) = app.read_of(from, &app.0.forms) else {
            return Err(Problem::busy("too many sign in at once; try again in a second"));
        };
        Form::read(&parts.headers, body).await?
    };
    let (name, next) = (&*form.name, local(&form.next));
    let is_plain = came_over_plain_http(&parts.headers);
    let page = Page { name, next, is_plain, error: None };
    let valid = app.api_tokens.valid();
    if valid.is_empty() {
        return Ok(page.show(&app, StatusCode::FORBIDDEN));
    }
    if is_plain {
        return Ok(page.show(&app, StatusCode::BAD_REQUEST));
    }
    let Some(at) = auth::position(&valid, form.token.trim()) else {
        let (status, error) = match auth::slow_down(&app, from).await {
            Ok(_) => {
                (StatusCode::UNAUTHORIZED, "This is not one of the API tokens of this server.")
            }
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "Too many try at once. Wait a second."),
        };
        return Ok(Page { error: Some(error), ..page }.show(&app, status));
    };
    let mut nonce = session::Nonce::default();
    getrandom::fill(&mut nonce)
        .map_err(|error| Problem::unavailable(format!("there is no randomness: {error}")))?;
    let cookie = Session::begin(name, nonce, now()).cookie(&valid[at]);
    Ok(([(header::SET_COOKIE, cookie)], see_other(next)).into_response())
}

pub(super) async fn leave(
    State(app): State<App>,
    Extension(visitor): Extension<Arc<Visitor>>,
) -> Response {
    if let Some(it) = &visitor.signed_in {
        app.0.ended.add(it.session.nonce, visitor.now);
    }
    ([(header::SET_COOKIE, session::forgotten())], see_other("/sign-in")).into_response()
}

/// `GET /api/v1/session`: what whoever asks may do here, as the guard of every route would decide.
/// Strangers learn nothing but that.
pub(super) async fn session(
    State(app): State<App>,
    Extension(visitor): Extension<Arc<Visitor>>,
    request: Request,
) -> Result<Response, Problem> {
    query::nothing(request.uri())?;
    let looks = visitor.asks(&app, Access::Read, &request);
    let changes = visitor.asks(&app, Access::Change, &request).from_own_page();
    let (looks, changes) = (authorise(looks, &visitor.valid), authorise(changes, &visitor.valid));
    if looks == Err(Refusal::WrongToken) {
        // As everywhere: this is no place to try tokens at.
        let from = auth::from(&request);
        return Err(auth::slow_down(&app, from).await.unwrap_or_else(|busy| busy));
    }
    let place = looks.is_ok().then_some(&app.place);
    let socket = place.and_then(|place| place.socket.as_ref());
    let (signed_in, name) = match looks {
        Ok(Caller::Browser { name, .. }) => (true, name),
        Ok(Caller::Token(_)) => (true, None),
        Ok(Caller::Anonymous | Caller::Socket { .. }) | Err(_) => (false, None),
    };
    let session = api::Session {
        signed_in,
        name,
        may_change: changes.is_ok(),
        tokens_configured: !visitor.valid.is_empty(),
        version: place.map(|_| env!("CARGO_PKG_VERSION").to_string()),
        socket: socket.map(|path| path.display().to_string()),
        page_url: place.and_then(|place| place.page_url.clone()),
    };
    Ok(json(StatusCode::OK, &session))
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Whether the page was on another machine and not protected, where secure cookies are not kept.
fn came_over_plain_http(headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
    let plain = origin.and_then(|origin| origin.strip_prefix("http://"));
    plain.is_some_and(|host| !is_loopback(host))
}

/// `next` if it is a page of this server, else the first page.
fn local(next: &str) -> &str {
    const LONGEST: usize = 2048;
    // Browsers read `\` as `/`, and pass over tabs and line breaks.
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_path = next.starts_with('/') && !next.starts_with("//");
    let is_door = ["/sign-in", "/sign-out"].iter().any(|door| next.starts_with(door));
    let is_local = is_plain && is_path && !is_door && next.len() <= LONGEST;
    if is_local { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        for (next, to) in [
            ("/agents/dc1/web-01?tab=events#x", "/agents/dc1/web-01?tab=events#x"),
            ("/", "/"),
            ("", "/"),
            ("https://evil.example", "/"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("\\\\evil.example", "/"),
            ("/\t/evil.example", "/"),
            ("\t//evil.example", "/"),
            (" /x", "/"),
            ("/x\r\nset-cookie: a=b", "/"),
            ("/å", "/"),
            ("javascript:alert(1)", "/"),
            ("/sign-out", "/"),
            ("/sign-in?next=/sign-in", "/"),
        ] {
            assert_eq!(local(next), to, "{next:?}");
        }
        assert_eq!(local(&format!("/{}", "x".repeat(5000))), "/");
    }

    #[test]
    fn a_cookie_that_would_be_dropped_is_foreseen() {
        for (origin, plain) in [
            ("https://fluke.example:7071", false),
            ("http://fluke.example:7071", true),
            ("http://10.0.0.1", true),
            ("http://localhost:7071", false),
            ("http://127.0.0.1:7071", false),
            ("http://[::1]:7071", false),
            ("null", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, origin.parse().expect("a header"));
            assert_eq!(came_over_plain_http(&headers), plain, "{origin}");
        }
    }
}
