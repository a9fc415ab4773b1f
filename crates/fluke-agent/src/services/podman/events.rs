//! What happens to containers, as it happens.

use reqwest::Response;
use serde::Deserialize;

use super::PodmanError;
use super::pull::Lines;

/// Something that happened to a container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Event {
    /// `start`, `died`, `health_status`, `remove`, …
    #[serde(rename = "Action")]
    pub action: String,
    /// Of which container.
    #[serde(rename = "id")]
    pub container: String,
}

/// Events, until Podman ends.
#[derive(Debug)]
pub struct Events(Lines);

impl Events {
    pub(super) fn new(answer: Response) -> Self {
        Self(Lines::new("tell what happens".into(), answer))
    }

    /// The next one; none when Podman has ended. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Event>, PodmanError> {
        self.0.next().await
    }
}
