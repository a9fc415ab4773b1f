//! Stand-in.

use http::HeaderMap;

/// A push.
pub struct Push {
    /// Which branch.
    pub branch: String,
    /// Its new tip.
    pub commit: Option<String>,
}

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Wrong.
    #[error("the signature is wrong")]
    Unauthorized,
    /// Unreadable.
    #[error("unreadable")]
    Malformed,
    /// Not a push.
    #[error("not a push")]
    NotAPush,
}

/// Checks.
pub fn verify(headers: &HeaderMap, body: &[u8], secret: &str) -> Result<Push, WebhookError> {
    if headers.get("x-gitlab-token").map(|value| value.as_bytes()) != Some(secret.as_bytes()) {
        return Err(WebhookError::Unauthorized);
    }
    let value: serde_json::Value =
        serde_json::from_slice(body).map_err(|_| WebhookError::Malformed)?;
    let branch = value["ref"].as_str().and_then(|name| name.strip_prefix("refs/heads/"));
    let branch = branch.ok_or(WebhookError::NotAPush)?.to_string();
    Ok(Push { branch, commit: None })
}
