//! Errors as RFC 9457 problem details: one shape for everything that is refused.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderValue};
use http::{Method, StatusCode, Uri};
use schemars::JsonSchema;
use serde::Serialize;

macro_rules! sorts {
    ($($(#[doc = $doc:literal])* $name:ident: $status:ident, $id:literal, $title:literal;)*) => {
        /// The sorts of problems that there are, for programs to tell apart.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Sort { $($(#[doc = $doc])* $name,)* }

        impl Sort {
            /// All of them.
            #[cfg(test)]
            pub const ALL: &[Sort] = &[$(Self::$name,)*];

            /// What an answer of this sort has.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// What `type` ends in.
            pub fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// In a few words, the same for all of a sort.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

sorts! {
    /// Something in the request is wrong.
    BadRequest: BAD_REQUEST, "bad-request", "The request is not right";
    /// No or no valid credentials.
    Unauthorized: UNAUTHORIZED, "unauthorized", "Credentials are needed";
    /// Not for this caller.
    Forbidden: FORBIDDEN, "forbidden", "This is not allowed";
    /// Something that was named does not exist.
    UnknownName: NOT_FOUND, "unknown-name", "Nothing of that name is known";
    /// The path leads nowhere.
    NoSuchPath: NOT_FOUND, "no-such-path", "Nothing is served at this path";
    /// It is not switched on.
    NotConfigured: NOT_FOUND, "not-configured", "This is not configured";
    /// The path is right and the method is not.
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method-not-allowed", "The method is not right";
    /// The request did not come to its end.
    TooSlow: REQUEST_TIMEOUT, "too-slow", "The request took too long to arrive";
    /// It cannot be done as things stand.
    Conflict: CONFLICT, "conflict", "It cannot be done as things stand";
    /// What the caller approved of is no longer what there is.
    SeenOtherwise: CONFLICT, "seen-otherwise", "It is no longer as it was seen";
    /// More than is read.
    TooLarge: PAYLOAD_TOO_LARGE, "too-large", "The body is too large";
    /// The address is longer than is looked at.
    UriTooLong: URI_TOO_LONG, "uri-too-long", "The address is too long";
    /// The body came in another form than is understood.
    MediaType: UNSUPPORTED_MEDIA_TYPE, "media-type", "The body's type is not right";
    /// Sent to a name that is not known to be this server's.
    Misdirected: MISDIRECTED_REQUEST, "misdirected", "This name is not known to be this server's";
    /// One address asks for more than its share.
    TooManyRequests: TOO_MANY_REQUESTS, "too-many-requests", "This is too much at once";
    /// More headers than are looked at.
    HeadersTooLarge: REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-large", "The headers are too large";
    /// The server failed.
    Internal: INTERNAL_SERVER_ERROR, "internal", "The server failed";
    /// There is too much to do.
    Busy: SERVICE_UNAVAILABLE, "busy", "There is too much to do";
    /// It would be possible later.
    Unavailable: SERVICE_UNAVAILABLE, "unavailable", "This is not possible now";
}

/// Why a request was not done, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    sort: Sort,
    detail: String,
    suggestions: Vec<String>,
    header: Option<(&'static str, &'static str)>,
}

/// Why a request was not done, and what to do about it (RFC 9457).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct Details<'a> {
    /// Names the sort of problem, for programs: `urn:fluke:problem:…`.
    r#type: String,
    /// The sort, in a few words.
    title: &'a str,
    /// The same as the answer's.
    status: u16,
    /// What is wrong here, and what to do about it.
    detail: &'a str,
    /// The path that was asked for.
    instance: Cow<'a, str>,
    /// What may have been meant, best first.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    suggestions: &'a [String],
}

impl Problem {
    fn new(sort: Sort, detail: impl Into<String>) -> Self {
        Self { sort, detail: detail.into(), suggestions: Vec::new(), header: None }
    }

    fn with_header(self, name: &'static str, value: &'static str) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// Names what may have been meant.
    pub fn suggesting(self, suggestions: Vec<String>) -> Self {
        Self { suggestions, ..self }
    }

    /// Something in the request is wrong.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(Sort::BadRequest, detail)
    }

    /// No or no valid credentials.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(Sort::Unauthorized, detail)
    }

    /// Names the scheme that credentials are given in.
    pub fn asking_for_bearer(self) -> Self {
        self.with_header("www-authenticate", "Bearer realm=\"fluke\"")
    }

    /// Not for this caller.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(Sort::Forbidden, detail)
    }

    /// Sent to a name that is not known to be this server's.
    pub fn misdirected(detail: impl Into<String>) -> Self {
        Self::new(Sort::Misdirected, detail)
    }

    /// Something that was named does not exist; `known` is what does.
    pub fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let near = nearest(name, known);
        let mut detail = format!("no {what} `{}` is known", shown(name));
        if let Some(first) = near.first() {
            detail.push_str(&format!("; did you mean `{first}`?"));
        }
        Self::new(Sort::UnknownName, detail).suggesting(near)
    }

    /// The path leads nowhere; `known` is where paths lead.
    pub fn no_such_path<'a>(path: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let near = nearest(path, known);
        let mut detail = format!("nothing is served at `{}`", shown(path));
        if !near.is_empty() {
            detail.push_str(&format!("; near it: {}", near.join(", ")));
        }
        Self::new(Sort::NoSuchPath, detail).suggesting(near)
    }

    /// It is not switched on.
    pub fn not_configured(detail: impl Into<String>) -> Self {
        Self::new(Sort::NotConfigured, detail)
    }

    /// The path is right and the method is not.
    pub fn method(method: &Method, uri: &Uri) -> Self {
        let detail = format!(
            "{} is not possible on `{}`; the Allow header names what is",
            shown(method.as_str()),
            shown(uri.path())
        );
        Self::new(Sort::MethodNotAllowed, detail)
    }

    /// The request did not come to its end within `seconds`.
    pub fn too_slow(seconds: u64) -> Self {
        Self::new(Sort::TooSlow, format!("the body did not arrive within {seconds} s"))
            .with_header("connection", "close")
    }

    /// It cannot be done as things stand.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(Sort::Conflict, detail)
    }

    /// What the caller approved of is no longer what there is.
    pub fn seen_otherwise(detail: impl Into<String>) -> Self {
        Self::new(Sort::SeenOtherwise, detail)
    }

    /// More than is read.
    pub fn too_large(limit: usize) -> Self {
        Self::new(Sort::TooLarge, format!("the body may have at most {limit} bytes"))
    }

    /// The address is longer than is looked at.
    pub fn uri_too_long(limit: usize) -> Self {
        let detail = format!("path and query may have at most {limit} bytes together");
        Self::new(Sort::UriTooLong, detail)
    }

    /// The body came in another form than is understood.
    pub fn media_type(wanted: &'static str) -> Self {
        Self::new(Sort::MediaType, format!("send the body as `content-type: {wanted}`"))
    }

    /// More headers than are looked at.
    pub fn headers_too_large(limit: usize) -> Self {
        let detail = format!("all headers together may have at most {limit} bytes");
        Self::new(Sort::HeadersTooLarge, detail)
    }

    /// The server failed.
    pub fn internal() -> Self {
        let detail = "fluke itself failed on this request; its log says more. Please report it";
        Self::new(Sort::Internal, detail)
    }

    /// One address asks for more than its share.
    pub fn too_many_requests() -> Self {
        let detail = "there are too many requests from your address; wait a second, then ask less";
        Self::new(Sort::TooManyRequests, detail).with_header("retry-after", "1")
    }

    /// There is too much to do.
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(Sort::Busy, detail).with_header("retry-after", "1")
    }

    /// It would be possible later.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(Sort::Unavailable, detail).with_header("retry-after", "1")
    }

    /// What sort of problem it is.
    pub fn sort(&self) -> Sort {
        self.sort
    }

    /// What is wrong.
    #[cfg(test)]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The answer to a request for `path`.
    pub fn answer(&self, path: &str) -> Response {
        let body = Details {
            r#type: format!("urn:fluke:problem:{}", self.sort.id()),
            title: self.sort.title(),
            status: self.sort.status().as_u16(),
            detail: &self.detail,
            instance: shown(path).into(),
            suggestions: &self.suggestions,
        };
        let json = serde_json::to_vec(&body).unwrap_or_default();
        let kind = (header::CONTENT_TYPE, "application/problem+json");
        let mut response = (self.sort.status(), [kind], json).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl IntoResponse for Problem {
    /// To be completed by [`Problem::answer`], where the request's path is known.
    fn into_response(self) -> Response {
        let mut response = self.sort.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// What is like `wanted` enough to have been meant, best first.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    const LONGEST: usize = 256;
    const LIKE_ENOUGH: f64 = 0.8;
    if wanted.len() > LONGEST {
        return Vec::new();
    }
    let score = |name: &'a str| (strsim::jaro_winkler(wanted, name), name);
    let scored = known.into_iter().map(score);
    likeliest(scored.filter(|(score, _)| *score >= LIKE_ENOUGH).collect())
}

/// Apart, so that there is one sort for whatever names come from.
fn likeliest(mut scored: Vec<(f64, &str)>) -> Vec<String> {
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, name)| name.to_string()).collect()
}

/// As much of a stranger's text as is worth repeating.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(200)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        let known = ["web-01", "web-02", "db-01"];
        assert_eq!(nearest("web-1", known).first().map(String::as_str), Some("web-01"));
        assert_eq!(nearest("zzz", known), Vec::<String>::new());
        assert_eq!(nearest(&"w".repeat(100_000), known), Vec::<String>::new());
    }

    #[test]
    fn a_problem_says_what_and_what_to_do() {
        let problem = Problem::unknown("agent", "web-1", ["web-01"]);
        assert_eq!(problem.detail, "no agent `web-1` is known; did you mean `web-01`?");
        let response = problem.answer("/api/v1/agents/web-1");
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }

    #[test]
    fn the_reference_names_every_sort() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/reference/api.md");
        let page = std::fs::read_to_string(page).expect("the reference");
        for sort in Sort::ALL {
            let row = format!("| `{}` | {} |", sort.id(), sort.status().as_u16());
            assert!(page.contains(&row), "docs/src/reference/api.md has no row `{row} …`");
        }
    }
}
