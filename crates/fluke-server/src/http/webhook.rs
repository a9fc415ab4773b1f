//! `POST /webhooks/git`: somebody pushed.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::api::read_body;
use super::problem::Problem;
use super::{App, json};
use crate::webhook::{self, WebhookError};

const MAX_BODY: usize = 1 << 20;

/// What the sender is told; forges show it beside the delivery.
#[derive(Serialize)]
struct Receipt {
    polling: bool,
    detail: String,
}

pub(super) async fn receive(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let Some(secret) = &app.webhook_secret else {
        return Err(Problem::not_configured(
            "pushes are not taken: set webhook_secret in the git block of the server's config",
        ));
    };
    let body = read_body(body, MAX_BODY).await?;
    let push = match webhook::verify(&headers, &body, secret) {
        Ok(push) => push,
        Err(WebhookError::NotAPush) => {
            let detail = "not a push; nothing to do".into();
            return Ok(json(StatusCode::OK, &Receipt { polling: false, detail }));
        }
        Err(error @ WebhookError::Unauthorized) => {
            return Err(Problem::unauthorized(error.to_string()));
        }
        Err(error) => return Err(Problem::bad_request(error.to_string())),
    };
    let tracked = app.source.borrow().branch.clone();
    if tracked.as_deref() != Some(push.branch.as_str()) {
        let tracked = tracked.unwrap_or_else(|| "no branch".into());
        let detail = format!("a push to {}; {tracked} is tracked", push.branch);
        return Ok(json(StatusCode::OK, &Receipt { polling: false, detail }));
    }
    (app.poll_now)();
    let detail = format!("a push to {}; the repository is read now", push.branch);
    Ok(json(StatusCode::ACCEPTED, &Receipt { polling: true, detail }))
}
