//! Who may do what: one function for every route.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use fluke_model::event::{Event, EventKind};
use fluke_model::secret::SecretDigest;
use fluke_model::time::Timestamp;
use http::{HeaderMap, Uri, header};

use super::App;
use super::problem::Problem;
use super::serve::Connection;
use crate::events::EventSink;

/// What a route asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing; the route looks after itself.
    Open,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl Caller {
    /// How a change names its cause: what the caller says, and how they came in.
    pub fn describe(self, claimed: Option<&str>) -> String {
        let way = match self {
            Self::Anonymous => "unauthenticated".into(),
            Self::Socket { uid: Some(uid) } => format!("via socket (uid {uid})"),
            Self::Socket { uid: None } => "via socket".into(),
            Self::Token(number) => format!("via api token #{number}"),
        };
        let visible = |c: &char| !c.is_control();
        let claimed: String =
            claimed.unwrap_or_default().chars().filter(visible).take(128).collect();
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

    fn valid(&self) -> Arc<[SecretDigest]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn hashes<T: AsRef<str>>(tokens: impl IntoIterator<Item = T>) -> Arc<[SecretDigest]> {
    tokens.into_iter().map(|token| SecretDigest::of(token.as_ref())).collect()
}

/// Why a caller is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A web page of somebody else asked.
    CrossSite,
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
                "changes from a browser are taken from this server's own pages only",
            ),
            Self::ReadOnly => Problem::forbidden(
                "this port serves reads only: changes go through the local socket on the server's \
                 host, or set api_tokens in the server's config and send one as a bearer token",
            ),
            Self::NoToken => Problem::unauthorized(
                "send one of the server's api_tokens as `Authorization: Bearer <token>` \
                 (the command line reads FLUKE_API_TOKEN)",
            )
            .asking_for_bearer(),
            Self::WrongToken => Problem::unauthorized(
                "the bearer token is not among the server's api_tokens; it may have been replaced",
            )
            .asking_for_bearer(),
        }
    }
}

/// Decides over every request: what the route asks, how the caller came, what they showed.
pub fn authorise(
    access: Access,
    peer: Peer,
    valid: &[SecretDigest],
    bearer: Option<&str>,
    cross_site: bool,
) -> Result<Caller, Refusal> {
    if access == Access::Open {
        return Ok(Caller::Anonymous);
    }
    if access == Access::Change && cross_site {
        return Err(Refusal::CrossSite);
    }
    match (peer, bearer) {
        (Peer::Socket { uid }, _) => Ok(Caller::Socket { uid }),
        (Peer::Tcp, _) if valid.is_empty() => match access {
            Access::Change => Err(Refusal::ReadOnly),
            Access::Open | Access::Read => Ok(Caller::Anonymous),
        },
        (Peer::Tcp, None) => Err(Refusal::NoToken),
        (Peer::Tcp, Some(token)) => match position(valid, token) {
            Some(at) => Ok(Caller::Token(at + 1)),
            None => Err(Refusal::WrongToken),
        },
    }
}

/// Takes the same time whichever token it is.
fn position(valid: &[SecretDigest], token: &str) -> Option<usize> {
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

/// Whether a browser says that another site's page made this request.
pub fn is_cross_site(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text("sec-fetch-site").is_some_and(|site| site != "same-origin") {
        return true;
    }
    let own = uri.authority().map(|authority| authority.as_str()).or_else(|| text("host"));
    text("origin").is_some_and(|origin| {
        let named = origin.split_once("://").map(|(_, authority)| authority);
        named.is_none() || named != own
    })
}

/// Stands in front of every route.
pub(super) async fn guard(
    State((app, access)): State<(App, Access)>,
    mut request: Request,
    next: Next,
) -> Response {
    // A request without a known origin is treated as coming from the network.
    let peer = request.extensions().get::<Connection>().map_or(Peer::Tcp, |from| from.peer);
    let cross_site = is_cross_site(request.headers(), request.uri());
    let valid = app.api_tokens.valid();
    match authorise(access, peer, &valid, bearer(request.headers()), cross_site) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(Refusal::WrongToken) => {
            let from = request.extensions().get::<Connection>().and_then(|from| from.from);
            slow_down(&app, from).await.into_response()
        }
        Err(refusal) => refusal.problem().into_response(),
    }
}

/// Lets whoever guesses tokens wait for the answer, longer each time. A right token never waits.
async fn slow_down(app: &App, from: Option<IpAddr>) -> Problem {
    let strike = app.strikes.add(from, Instant::now());
    if strike.is_notable() {
        let from = from.map_or("an unknown address".to_string(), |from| from.to_string());
        let count = strike.count;
        tracing::warn!(%from, count, "refused a call with a wrong API token");
        let now = Timestamp::from(std::time::SystemTime::now());
        let mut event = Event::new(EventKind::CallerRefused, now);
        let said =
            format!("refused a call from {from}: a wrong API token ({count} from this address)");
        event.output = Some(said);
        app.events.record(event);
    }
    let Ok(_place) = app.0.waiting.try_acquire() else {
        return Problem::unavailable("too many calls with wrong tokens; try again in a second");
    };
    tokio::time::sleep(strike.wait).await;
    Refusal::WrongToken.problem()
}

#[cfg(test)]
mod tests;
