//! Errors as RFC 9457 problem details: one shape for everything that is refused.

use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderValue};
use http::{Method, StatusCode, Uri};
use serde::Serialize;

/// Why a request was not done, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    /// Names the sort of problem, for programs.
    sort: &'static str,
    title: &'static str,
    detail: String,
    suggestions: Vec<String>,
    header: Option<(&'static str, &'static str)>,
}

/// The JSON of a [`Problem`].
#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    suggestions: &'a [String],
}

impl Problem {
    fn new(
        status: StatusCode,
        sort: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        let detail = detail.into();
        Self { status, sort, title, detail, suggestions: Vec::new(), header: None }
    }

    fn with_header(self, name: &'static str, value: &'static str) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// Something in the request is wrong.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "The request is not right", detail)
    }

    /// No or no valid credentials.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        let title = "Credentials are needed";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", title, detail)
    }

    /// Names the scheme that credentials are given in.
    pub fn asking_for_bearer(self) -> Self {
        self.with_header("www-authenticate", "Bearer realm=\"fluke\"")
    }

    /// Not for this caller.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "This is not allowed", detail)
    }

    /// Sent to a name that is not known to be this server's.
    pub fn misdirected(detail: impl Into<String>) -> Self {
        let title = "This name is not known to be this server's";
        Self::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", title, detail)
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
        let title = "Nothing of that name is known";
        let problem = Self::new(StatusCode::NOT_FOUND, "unknown-name", title, detail);
        Self { suggestions: near, ..problem }
    }

    /// The path leads nowhere; `known` is where paths lead.
    pub fn no_such_path<'a>(path: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let near = nearest(path, known);
        let mut detail = format!("nothing is served at `{}`", shown(path));
        if !near.is_empty() {
            detail.push_str(&format!("; near it: {}", near.join(", ")));
        }
        let title = "Nothing is served at this path";
        let problem = Self::new(StatusCode::NOT_FOUND, "no-such-path", title, detail);
        Self { suggestions: near, ..problem }
    }

    /// It is not switched on.
    pub fn not_configured(detail: impl Into<String>) -> Self {
        let title = "This is not configured";
        Self::new(StatusCode::NOT_FOUND, "not-configured", title, detail)
    }

    /// The path is right and the method is not.
    pub fn method(method: &Method, uri: &Uri) -> Self {
        let detail = format!(
            "{} is not possible on `{}`; the Allow header names what is",
            shown(method.as_str()),
            shown(uri.path())
        );
        let title = "The method is not right";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", title, detail)
    }

    /// It cannot be done as things stand.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", "It cannot be done as things stand", detail)
    }

    /// More than is read.
    pub fn too_large(limit: usize) -> Self {
        let detail = format!("the body may have at most {limit} bytes");
        let title = "The body is too large";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", title, detail)
    }

    /// The body came in another form than is understood.
    pub fn media_type(wanted: &'static str) -> Self {
        let detail = format!("send the body as `content-type: {wanted}`");
        let title = "The body's type is not right";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", title, detail)
    }

    /// It would be possible later.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        let title = "This is not possible now";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", title, detail)
            .with_header("retry-after", "1")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Body {
            r#type: format!("urn:fluke:problem:{}", self.sort),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            suggestions: &self.suggestions,
        };
        let json = serde_json::to_vec(&body).unwrap_or_default();
        let kind = (header::CONTENT_TYPE, "application/problem+json");
        let mut response = (self.status, [kind], json).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
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
    let mut scored: Vec<(f64, &str)> = known.into_iter().map(score).collect();
    scored.retain(|(score, _)| *score >= LIKE_ENOUGH);
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
        let response = problem.into_response();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
}
