//! Push webhooks: whether one is genuine, and what it says.
//!
//! Pure. GitHub, Gitea, Forgejo and their kin sign the body with the shared secret; GitLab sends
//! the secret itself.

use fluke_model::id::CommitId;
use fluke_model::secret::SecretDigest;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use serde::Deserialize;
use sha2::Sha256;

/// The largest body that is looked at.
pub const MAX_BODY: usize = 1024 * 1024;

/// A genuine webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Webhook {
    /// Something was pushed.
    Push(Push),
    /// Somebody tries out whether we are there.
    Ping,
    /// Genuine, and of no concern: another event, or a tag.
    Ignored {
        /// What it was about.
        what: String,
    },
}

/// A branch has a new newest commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// Without `refs/heads/`.
    pub branch: String,
    /// None where the branch was deleted, or the sender does not say.
    pub commit: Option<CommitId>,
}

/// Why a webhook is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// Nothing to check it against.
    #[error("webhooks are not set up here: set `webhook_secret` in the server's `git` block")]
    NoSecret,
    /// Not signed at all.
    #[error(
        "the webhook is not signed: give it the same secret as `webhook_secret`, as a GitHub, \
         Gitea, Forgejo or GitLab webhook"
    )]
    Unsigned,
    /// Signed with another secret, or changed on the way.
    #[error("the webhook's signature is wrong: its secret and `webhook_secret` differ")]
    Forged,
    /// More than [`MAX_BODY`].
    #[error("the webhook's body has {0} bytes; at most 1 MiB is read")]
    TooLarge(usize),
    /// Genuine, and not to be understood.
    #[error("the push cannot be read: {0}; send it as JSON (content type application/json)")]
    Malformed(String),
}

impl WebhookError {
    /// The HTTP status that says so.
    pub fn status(&self) -> http::StatusCode {
        use http::StatusCode;
        match self {
            Self::NoSecret => StatusCode::NOT_FOUND,
            Self::Unsigned | Self::Forged => StatusCode::UNAUTHORIZED,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Checks that whoever sent this knows `secret`, and reads it only then.
pub fn verify(
    headers: &HeaderMap,
    body: &[u8],
    secret: Option<&str>,
) -> Result<Webhook, WebhookError> {
    let secret = secret.filter(|secret| !secret.is_empty()).ok_or(WebhookError::NoSecret)?;
    if body.len() > MAX_BODY {
        return Err(WebhookError::TooLarge(body.len()));
    }
    check_signature(headers, body, secret)?;
    match event(headers) {
        Some("push" | "Push Hook") => read_push(body),
        Some("ping") => Ok(Webhook::Ping),
        Some(other) => Ok(Webhook::Ignored { what: format!("a `{}` event", other.escape_debug()) }),
        None => Err(WebhookError::Malformed("no header names the event".to_string())),
    }
}

/// In the order of trust: a body that is signed is worth more than a token that is sent along.
fn check_signature(headers: &HeaderMap, body: &[u8], secret: &str) -> Result<(), WebhookError> {
    let signature = text(headers, "x-hub-signature-256")
        .map(|value| value.strip_prefix("sha256=").unwrap_or(""))
        .or_else(|| text(headers, "x-forgejo-signature"))
        .or_else(|| text(headers, "x-gitea-signature"));
    let genuine = match (signature, text(headers, "x-gitlab-token")) {
        (Some(signature), _) => signed_by(secret, body, signature),
        (None, Some(token)) => SecretDigest::of(secret).matches(token),
        (None, None) => return Err(WebhookError::Unsigned),
    };
    if genuine { Ok(()) } else { Err(WebhookError::Forged) }
}

fn signed_by(secret: &str, body: &[u8], signature: &str) -> bool {
    let Some(signature) = from_hex(signature) else { return false };
    mac(secret, body).is_some_and(|mac| mac.verify_slice(&signature).is_ok())
}

fn mac(secret: &str, content: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    mac.update(content);
    Some(mac)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    match text.len() {
        64 => text.as_bytes().chunks_exact(2).map(pair).collect(),
        _ => None,
    }
}

fn event(headers: &HeaderMap) -> Option<&str> {
    ["x-github-event", "x-forgejo-event", "x-gitea-event", "x-gitlab-event"]
        .iter()
        .find_map(|name| text(headers, name))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// What all of them call it.
#[derive(Deserialize)]
struct PushBody {
    r#ref: String,
    after: Option<String>,
}

fn read_push(body: &[u8]) -> Result<Webhook, WebhookError> {
    let body: PushBody =
        serde_json::from_slice(body).map_err(|error| WebhookError::Malformed(error.to_string()))?;
    let Some(branch) = body.r#ref.strip_prefix("refs/heads/") else {
        return Ok(Webhook::Ignored { what: format!("`{}`", body.r#ref.escape_debug()) });
    };
    let commit = body.after.map(read_commit).transpose()?.flatten();
    Ok(Webhook::Push(Push { branch: branch.to_string(), commit }))
}

/// None for the id that stands for no commit.
fn read_commit(id: String) -> Result<Option<CommitId>, WebhookError> {
    let is_id = matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_id {
        return Err(WebhookError::Malformed("`after` is not a commit id".to_string()));
    }
    let is_none = id.bytes().all(|byte| byte == b'0');
    Ok((!is_none).then(|| CommitId::new(id.to_ascii_lowercase())))
}

#[cfg(test)]
mod tests;
