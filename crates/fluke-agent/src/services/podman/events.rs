//! What happens to containers and volumes, as it happens.

use std::collections::BTreeMap;

use reqwest::Response;
use serde::Deserialize;

use super::PodmanError;
use super::pull::Lines;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Event {
    /// To a `container`, or a `volume`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// `start`, `died`, `health_status`, `remove`, …
    #[serde(rename = "Action")]
    pub action: String,
    /// Which one.
    #[serde(default, rename = "Actor")]
    pub actor: Actor,
}

/// Whom something happened to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Actor {
    /// Its `name`, and the labels of a container.
    #[serde(default, rename = "Attributes")]
    pub attributes: Option<BTreeMap<String, String>>,
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
