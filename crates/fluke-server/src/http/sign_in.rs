//! `/sign-in`: an API token is exchanged for a session of the browser.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri, header};

use super::ui;

/// Sends a browser to the form, and back afterwards to where it wanted to go.
pub(super) fn ask(wanted: &Uri) -> Response {
    let wanted = wanted.path_and_query().map_or("/", |wanted| wanted.as_str());
    let next: String = form_urlencoded::byte_serialize(wanted.as_bytes()).collect();
    let location = [(header::LOCATION, format!("/sign-in?next={next}"))];
    (StatusCode::SEE_OTHER, location).into_response()
}

pub(super) async fn form() -> Response {
    ui::sign_in(StatusCode::OK, &[])
}
