//! Whether the server lives, and whether it knows what Git says.

use axum::extract::State;
use http::header;

use super::App;
use super::problem::Problem;

/// Where it is asked whether the server lives.
pub(super) const ALIVE: &str = "/healthz";

type Text = ([(header::HeaderName, &'static str); 1], String);

fn text(text: impl Into<String>) -> Text {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.into())
}

pub(super) async fn alive() -> Text {
    text("ok\n")
}

pub(super) async fn ready(State(app): State<App>) -> Result<Text, Problem> {
    if app.desired.borrow().is_some() {
        return Ok(text("ready\n"));
    }
    // Open to everybody, so it tells less than `GET source` does.
    let source = app.source.borrow();
    let why = match (&source.error, source.rejected) {
        (Some(_), _) => "the repository could not be read",
        (None, true) => "the newest commit was rejected",
        (None, false) => "the repository is being read",
    };
    Err(Problem::unavailable(format!("no commit is in force yet: {why}")))
}
