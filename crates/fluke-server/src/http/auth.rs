//! Who may do what: one function for every route.

mod pass;

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use axum::Extension;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use fluke_model::event::{Event, EventKind};
use fluke_model::secret::SecretDigest;
use fluke_model::time::Timestamp;
use http::{HeaderMap, HeaderValue, header};

use super::App;
use super::crowd::Shows;
use super::origin::{Origin, is_safe_name, origin, sent_to};
use super::problem::Problem;
use super::serve::Connection;
use super::session::{self, is_visible};
use super::sign_in;
use crate::events::EventSink;
pub(super) use pass::Pass;
use pass::{SignedIn, signed_in};

/// What a route asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing; the route looks after itself.
    Open,
    /// Comes from one of this server's own pages, whoever sits before it.
    OwnPage,
    /// May look, and is shown the way to sign in otherwise.
    Page,
    /// May look.
    Read,
    /// May change something.
    Change,
}

/// How a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Over the network.
    Tcp,
    /// Through the local socket, whose file mode has decided already.
    Socket {
        /// Who is at the other end, as the kernel says.
        uid: Option<u32>,
    },
}

/// Who a request was let in as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Nobody in particular.
    Anonymous,
    /// Through the local socket.
    Socket {
        /// As the kernel says.
        uid: Option<u32>,
    },
    /// With the API token of this number, counted from 1 in the order of the config.
    Token(usize),
    /// Signed in.
    Browser {
        /// With the API token of this number.
        token: usize,
        /// As they said when they signed in.
        name: Option<String>,
    },
}

impl Caller {
    /// How a change names its cause: what the caller says, and how they came in.
    pub fn describe(&self, claimed: Option<&str>) -> String {
        let (way, name) = match self {
            Self::Anonymous => ("unauthenticated".into(), None),
            Self::Socket { uid: Some(uid) } => (format!("via socket (uid {uid})"), None),
            Self::Socket { uid: None } => ("via socket".into(), None),
            Self::Token(number) => (format!("via api token #{number}"), None),
            Self::Browser { token, name } => {
                (format!("via api token #{token} (browser)"), name.as_deref())
            }
        };
        let claimed = name.or(claimed).unwrap_or_default();
        let claimed: String = claimed.chars().filter(|c| is_visible(*c)).take(128).collect();
        match claimed.trim() {
            "" => format!("somebody {way}"),
            claimed => format!("{claimed} {way}"),
        }
    }
}

/// The API tokens that are valid now, kept as hashes; can be replaced while the server runs.
#[derive(Debug, Default)]
pub struct ApiTokens(RwLock<Arc<[SecretDigest]>>);

impl ApiTokens {
    /// Trusts the holders of these; with none, the network may look and not touch.
    pub fn new<T: AsRef<str>>(tokens: impl IntoIterator<Item = T>) -> Self {
        Self(RwLock::new(hashes(tokens)))
    }

    /// From now on trusts these and no others.
    pub fn replace<T: AsRef<str>>(&self, tokens: impl IntoIterator<Item = T>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = hashes(tokens);
    }

    /// Whether there are any: then the network must show one.
    pub fn are_asked_for(&self) -> bool {
        !self.valid().is_empty()
    }

    /// Those that are valid now.
    pub(super) fn valid(&self) -> Arc<[SecretDigest]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn hashes<T: AsRef<str>>(tokens: impl IntoIterator<Item = T>) -> Arc<[SecretDigest]> {
    tokens.into_iter().map(|token| SecretDigest::of(token.as_ref())).collect()
}

/// Why a caller is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A web page of somebody else asked, or one that does not prove to be ours.
    CrossSite,
    /// A name that somebody else may have made to lead here.
    StrangeName,
    /// The network may look only.
    ReadOnly,
    /// No token was given.
    NoToken,
    /// The token is not valid.
    WrongToken,
}

impl Refusal {
    fn problem(self) -> Problem {
        match self {
            Self::CrossSite => Problem::forbidden(
                "requests from a browser are taken from this server's own pages only",
            ),
            Self::StrangeName => Problem::misdirected(
                "a web page could have made this name lead here, and nothing else is asked of \
                 callers: use the server's address or its host's name, or add this name to \
                 http_names in the server's config, or set api_tokens or tls there",
            ),
            Self::ReadOnly => Problem::forbidden(
                "this port serves reads only: changes go through the local socket on the server's \
                 host, or set api_tokens in the server's config and send one as a bearer token",
            ),
            Self::NoToken => Problem::unauthorized(
                "send one of the server's api_tokens as `Authorization: Bearer <token>` \
                 (the command line reads FLUKE_API_TOKEN), or sign in with it at /sign-in",
            )
            .asking_for_bearer(),
            Self::WrongToken => Problem::unauthorized(
                "the bearer token is not among the server's api_tokens; it may have been replaced",
            )
            .asking_for_bearer(),
        }
    }
}

/// What a request has to show for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown<'a> {
    /// Nothing, or nothing that is worth anything.
    Nothing,
    /// A token, right or wrong.
    Bearer(&'a str),
    /// A session that was found to be good, and the number of its token.
    Session {
        /// Counted from 1.
        token: usize,
        /// Of the person.
        name: Option<String>,
    },
}

/// All that is decided by.
#[derive(Debug)]
pub struct Asked<'a> {
    /// What the route asks.
    pub access: Access,
    /// How the caller came.
    pub peer: Peer,
    /// What they show.
    pub shown: Shown<'a>,
    /// Whose page they are.
    pub origin: Origin,
    /// Whether the name that they called may be one that a web page made to lead here.
    pub strange_name: bool,
}

impl Asked<'_> {
    /// The same, as one of this server's own pages would ask, unless another is known to: a page
    /// that looks need not say whose it is, and has to when it changes something.
    pub fn from_own_page(self) -> Self {
        match self.origin {
            Origin::Foreign => self,
            Origin::Own | Origin::Typed | Origin::Unsaid => Self { origin: Origin::Own, ..self },
        }
    }
}

/// Decides over every request.
pub fn authorise(asked: Asked<'_>, valid: &[SecretDigest]) -> Result<Caller, Refusal> {
    let Asked { access, peer, shown, origin, strange_name } = asked;
    match (access, origin) {
        (Access::Open, _) | (Access::OwnPage, Origin::Own) => return Ok(Caller::Anonymous),
        (Access::OwnPage, _) => return Err(Refusal::CrossSite),
        (Access::Change, Origin::Foreign | Origin::Typed) => return Err(Refusal::CrossSite),
        _ => {}
    }
    // Without a credential, the name is all there is to tell a page of ours from a stranger's.
    let asks_nothing = valid.is_empty() || matches!(peer, Peer::Socket { .. });
    if asks_nothing && strange_name {
        return Err(Refusal::StrangeName);
    }
    // A bearer token is nothing that a browser adds by itself; everything else is.
    let by_itself = !matches!(shown, Shown::Bearer(_)) || asks_nothing;
    if access == Access::Read && origin == Origin::Foreign && by_itself {
        return Err(Refusal::CrossSite);
    }
    match (peer, shown) {
        (Peer::Socket { uid }, _) => Ok(Caller::Socket { uid }),
        (Peer::Tcp, _) if valid.is_empty() && access == Access::Change => Err(Refusal::ReadOnly),
        (Peer::Tcp, _) if valid.is_empty() => Ok(Caller::Anonymous),
        (Peer::Tcp, Shown::Nothing) => Err(Refusal::NoToken),
        (Peer::Tcp, Shown::Bearer(token)) => match position(valid, token) {
            Some(at) => Ok(Caller::Token(at + 1)),
            None => Err(Refusal::WrongToken),
        },
        (Peer::Tcp, Shown::Session { .. }) if access == Access::Change && origin != Origin::Own => {
            Err(Refusal::CrossSite)
        }
        (Peer::Tcp, Shown::Session { token, name }) => Ok(Caller::Browser { token, name }),
    }
}

/// Takes the same time whichever token it is.
pub(super) fn position(valid: &[SecretDigest], token: &str) -> Option<usize> {
    let presented = SecretDigest::of(token);
    let mut found = None;
    for (at, digest) in valid.iter().enumerate() {
        if digest.same(&presented) && found.is_none() {
            found = Some(at);
        }
    }
    found
}

/// The token of `Authorization: Bearer …`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whoever makes a request, and the tokens that are valid at this moment: looked at once, so that
/// all that is decided of one request is decided by the same.
#[derive(Debug)]
pub(super) struct Visitor {
    pub valid: Arc<[SecretDigest]>,
    pub signed_in: Option<SignedIn>,
    pub now: Timestamp,
}

impl Visitor {
    pub fn of(app: &App, headers: &HeaderMap) -> Self {
        let (valid, now) = (app.api_tokens.valid(), Timestamp::from(SystemTime::now()));
        let signed_in = signed_in(headers, &valid, &app.0.ended, now);
        Self { valid, signed_in, now }
    }

    /// Whether the address of their request may make one more of its kind; the local socket always
    /// may.
    pub fn is_within_share(&self, app: &App, request: &Request) -> bool {
        let shows = self.shows(request.headers());
        from(request).is_none_or(|from| app.0.crowd.admits(from, shows, Instant::now()))
    }

    /// What they show, right or wrong.
    fn shows(&self, headers: &HeaderMap) -> Shows {
        match bearer(headers) {
            _ if self.valid.is_empty() => Shows::Nothing,
            Some(token) if position(&self.valid, token).is_some() => Shows::Token,
            Some(_) => Shows::Wrong,
            None if self.signed_in.is_some() => Shows::Session,
            None if session::shown(headers).is_none() => Shows::Nothing,
            None => Shows::Wrong,
        }
    }

    /// What their request is decided by.
    pub fn asks<'a>(&self, app: &App, access: Access, request: &'a Request) -> Asked<'a> {
        let (headers, uri) = (request.headers(), request.uri());
        let shown = match (bearer(headers), &self.signed_in) {
            (Some(token), _) => Shown::Bearer(token),
            (None, Some(SignedIn { session, number, .. })) => {
                Shown::Session { token: *number, name: session.name.clone() }
            }
            (None, None) => Shown::Nothing,
        };
        let peer = peer(request);
        // With TLS, a browser would not have accepted the certificate for a stranger's name.
        let is_proven = app.place.tls && peer == Peer::Tcp;
        let name = sent_to(headers, uri).unwrap_or_default();
        let strange_name = !is_proven && !is_safe_name(name, &app.place.names);
        Asked { access, peer, shown, origin: origin(headers, uri), strange_name }
    }
}

/// Stands in front of every route.
pub(super) async fn guard(
    State((app, access)): State<(App, Access)>,
    Extension(visitor): Extension<Arc<Visitor>>,
    mut request: Request,
    next: Next,
) -> Response {
    match authorise(visitor.asks(&app, access, &request), &visitor.valid) {
        Ok(caller) => {
            let pass = Pass::of(&caller, &visitor.valid, visitor.signed_in.as_ref());
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(pass);
            let response = next.run(request).await;
            renewed(response, &visitor)
        }
        Err(Refusal::WrongToken) => {
            slow_down(&app, from(&request)).await.unwrap_or_else(|busy| busy).into_response()
        }
        Err(Refusal::NoToken) if access == Access::Page => sign_in::ask(request.uri()),
        Err(refusal) => refusal.problem().into_response(),
    }
}

/// How a request came in; one of which it is not known is treated as coming from the network.
pub(super) fn peer(request: &Request) -> Peer {
    request.extensions().get::<Connection>().map_or(Peer::Tcp, |from| from.peer)
}

/// From where a request came, if over the network.
pub(super) fn from(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<Connection>().and_then(|from| from.from)
}

/// A session that is used gets its full life again, now and then.
fn renewed(mut response: Response, visitor: &Visitor) -> Response {
    let headers = response.headers();
    let kept_by_others = headers
        .get(header::CACHE_CONTROL)
        .is_some_and(|value| value.as_bytes().starts_with(b"public"));
    if kept_by_others || headers.contains_key(header::SET_COOKIE) {
        return response;
    }
    let signed_in = visitor.signed_in.as_ref();
    let renewed = signed_in.and_then(|it| Some((it.session.renewed(visitor.now)?, it.token)));
    if let Some((session, token)) = renewed
        && let Ok(cookie) = HeaderValue::try_from(session.cookie(&token))
    {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Lets whoever guesses tokens wait for the answer, longer each time. A right token never waits.
///
/// Errs if too many wait already.
pub(super) async fn slow_down(app: &App, from: Option<IpAddr>) -> Result<Problem, Problem> {
    let strike = app.strikes.add(from, Instant::now());
    if strike.is_notable() {
        let from = from.map_or("an unknown address".to_string(), |from| from.to_string());
        let count = strike.count;
        tracing::warn!(%from, count, "refused a call with a wrong API token");
        let now = Timestamp::from(SystemTime::now());
        let mut event = Event::new(EventKind::CallerRefused, now);
        let said =
            format!("refused a call from {from}: a wrong API token ({count} from this address)");
        event.output = Some(said);
        app.events.record(event);
    }
    let Ok(_place) = app.0.waiting.try_acquire() else {
        let detail = "too many calls with wrong tokens; try again in a second";
        return Err(Problem::busy(detail));
    };
    tokio::time::sleep(strike.wait).await;
    Ok(Refusal::WrongToken.problem())
}

#[cfg(test)]
mod tests;
