//! `POST /webhooks/git`: somebody pushed.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::api::read_body;
use super::problem::Problem;
use super::serve::Connection;
use super::{App, json};
use crate::webhook::{self, MAX_BODY, Webhook, WebhookError};

/// What the sender is told; forges show it beside the delivery.
#[derive(Serialize, JsonSchema)]
pub(super) struct Receipt {
    /// Whether the repository is read now.
    polling: bool,
    /// What was understood.
    detail: String,
}

pub(super) async fn receive(
    State(app): State<App>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let Ok(_place) = app.read_of(connection.from, &app.0.webhooks) else {
        return Err(Problem::busy("too many pushes at once; send it again in a second"));
    };
    let body = read_body(body, MAX_BODY).await?;
    let webhook = webhook::verify(&headers, &body, app.webhook_secret.as_deref());
    let [polled, ignored, forged] = &app.0.answers.pushes;
    let webhook = webhook.map_err(|error| {
        forged.add_one();
        refused(error)
    })?;
    Ok(match webhook {
        Webhook::Push(push) if (app.pushed)(&push) => {
            polled.add_one();
            let detail = format!("a push to {}: the repository is read now", push.branch);
            json(StatusCode::ACCEPTED, &Receipt { polling: true, detail })
        }
        other => {
            ignored.add_one();
            nothing_to_do(match other {
                Webhook::Push(push) => format!("a push to {}, not tracked", push.branch),
                Webhook::Ping => "a ping: the secret is right".into(),
                Webhook::Ignored { what } => format!("{what}, not a push to a branch"),
            })
        }
    })
}

fn nothing_to_do(detail: String) -> Response {
    json(StatusCode::OK, &Receipt { polling: false, detail })
}

fn refused(error: WebhookError) -> Problem {
    let detail = error.to_string();
    match error {
        WebhookError::NoSecret => Problem::not_configured(detail),
        WebhookError::Unsigned | WebhookError::Forged => Problem::unauthorized(detail),
        WebhookError::TooLarge(_) => Problem::too_large(MAX_BODY),
        WebhookError::Malformed(_) => Problem::bad_request(detail),
    }
}
