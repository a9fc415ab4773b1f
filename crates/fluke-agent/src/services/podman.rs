//! Podman, by its REST socket: no process is started, and one connection is kept.
//!
//! Says what Podman says. What it means is for [`super::observe`], what is done about it for
//! [`super::plan`].

mod answer;
pub mod create;
mod events;
mod pull;
mod silence;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fluke_model::gather::Gather;
use fluke_model::volume::{Volume, Volumes};
use reqwest::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::plain;

pub use answer::{
    Condition, Details, Finding, Healthcheck, Listed, LocalImage, Network, NetworkSubnet, Store,
};
pub use create::{Made, create_body};
pub use events::{Actor, Event, Events};
pub use pull::{Progress, Pull};
pub use silence::Silence;

/// Where Podman listens for root.
pub const SOCKET: &str = "/run/podman/podman.sock";

/// Understood by Podman 4 and 5.
const VERSION: &str = "v4.0.0";

/// For calls that only look.
const LOOK: Duration = Duration::from_secs(20);
/// For calls that change something; stopping a container has its own time on top.
pub const CHANGE: Duration = Duration::from_secs(60);

/// Why Podman did not do it.
#[derive(Debug, thiserror::Error)]
pub enum PodmanError {
    /// Nobody listens.
    #[error("Podman does not answer at {}: {why}", socket.display())]
    Unreachable {
        /// Where it should.
        socket: PathBuf,
        /// Why not.
        why: Silence,
    },
    /// It said no.
    #[error("Podman would not {what}: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// In its words.
        why: String,
        /// Its status.
        status: u16,
    },
    /// It took too long.
    #[error("Podman took more than {} s to {what}; it may still do it", limit.as_secs())]
    TimedOut {
        /// What was asked.
        what: String,
        /// How long it had.
        limit: Duration,
    },
    /// It answered in a way that is not known.
    #[error("Podman's answer to the request to {what} is not understood: {why}")]
    Garbled {
        /// What was asked.
        what: String,
        /// Why.
        why: String,
    },
}

impl PodmanError {
    /// Whether what it was about is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether it is Podman's word on what it was asked about, and on nothing else.
    pub fn is_an_answer(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Garbled { .. })
    }

    /// Whether there was no answer in time.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }
}

/// A connection to Podman.
#[derive(Debug, Clone)]
pub struct Podman {
    http: reqwest::Client,
    socket: PathBuf,
}

impl Podman {
    /// At this socket, which need not be there yet.
    pub fn at(socket: &Path) -> Result<Self, PodmanError> {
        // No more than one can have died unnoticed: the next try after it is on a fresh one.
        let http = plain::client().unix_socket(socket).pool_max_idle_per_host(1).build();
        let unreachable = |error: reqwest::Error| PodmanError::Unreachable {
            socket: socket.into(),
            why: Silence::of(&error),
        };
        Ok(Self { http: http.map_err(unreachable)?, socket: socket.into() })
    }

    /// Whether it answers anybody.
    pub async fn is_there(&self, limit: Duration) -> bool {
        self.call(Method::GET, "say something", "_ping", NOTHING, limit).await.is_ok()
    }

    /// Where Podman keeps what it knows.
    pub async fn store(&self) -> Result<Store, PodmanError> {
        self.get::<answer::Info>("tell where its storage is", "info").await.map(Store::from)
    }

    /// Every container there is, whoever's it is.
    pub async fn list(&self) -> Result<Vec<Listed>, PodmanError> {
        self.get("list containers", "containers/json?all=true").await
    }

    /// One container in all detail.
    pub async fn inspect(&self, id: &str) -> Result<Details, PodmanError> {
        self.get(&format!("inspect {}", short(id)), &format!("containers/{id}/json")).await
    }

    /// Makes a container; see [`create_body`]. Its id.
    pub async fn create(&self, body: &Made) -> Result<String, PodmanError> {
        #[derive(serde::Deserialize)]
        struct Created {
            #[serde(rename = "Id")]
            id: String,
        }
        let what = format!("create {}", body.name());
        let answer =
            self.call(Method::POST, &what, "containers/create", Some(body), CHANGE).await?;
        Ok(self.read::<Created>(&what, answer, CHANGE).await?.id)
    }

    /// Starts a container, or leaves it running.
    pub async fn start(&self, id: &str) -> Result<(), PodmanError> {
        self.post(&format!("start {}", short(id)), &format!("containers/{id}/start"), CHANGE).await
    }

    /// Stops a container, or leaves it stopped: TERM, and KILL after `grace`.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<(), PodmanError> {
        let path = format!("containers/{id}/stop?timeout={}", grace.as_secs());
        let said = self.post(&format!("stop {}", short(id)), &path, CHANGE + grace).await;
        self.unless_done(said, id, |found| found.is_ok_and(|it| it.state.has_ended())).await
    }

    /// Removes a container, whatever it does; never its volumes. It may be gone already.
    pub async fn remove(&self, id: &str) -> Result<(), PodmanError> {
        let path = format!("containers/{id}?force=true&v=false&timeout=0");
        let what = format!("remove {}", short(id));
        let said = self.call(Method::DELETE, &what, &path, NOTHING, CHANGE).await.map(drop);
        self.unless_done(said, id, |found| found.is_err_and(|error| error.is_not_found())).await
    }

    /// A no counts unless it was done all the same: Podman 5 says one as well when it did what it was
    /// asked for and could not tidy up after it, as where somebody removed the container's network.
    async fn unless_done(
        &self,
        said: Result<(), PodmanError>,
        id: &str,
        is_done: impl FnOnce(Result<Details, PodmanError>) -> bool,
    ) -> Result<(), PodmanError> {
        match said {
            Err(no @ PodmanError::Refused { .. }) => match is_done(self.inspect(id).await) {
                true => {
                    tracing::debug!(%no, "it is done all the same");
                    Ok(())
                }
                false => Err(no),
            },
            said => said,
        }
    }

    /// Asks a container how it feels, has Podman count the answer, and says whether it was a good
    /// one.
    pub async fn ask_health(&self, id: &str, limit: Duration) -> Result<bool, PodmanError> {
        #[derive(serde::Deserialize)]
        struct Answer {
            #[serde(rename = "Status")]
            status: String,
        }
        let path = format!("containers/{id}/healthcheck");
        let what = format!("ask {} how it is", short(id));
        let answer = self.call(Method::GET, &what, &path, NOTHING, limit).await?;
        Ok(self.read::<Answer>(&what, answer, limit).await?.status == "healthy")
    }

    /// What a container's health command said last, if it was a complaint.
    pub async fn complaint(&self, id: &str) -> Option<Finding> {
        let found = self.inspect(id).await.ok()?;
        found.state.last_finding().filter(|it| it.exit_code != 0).cloned()
    }

    /// An image that is here; none if it is not.
    pub async fn image(&self, name: &str) -> Result<Option<LocalImage>, PodmanError> {
        let path = format!("images/{}/json", escape(name));
        match self.get(&format!("look for the image {name}"), &path).await {
            Ok(image) => Ok(Some(image)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes this name from an image, and with its last name the image itself. One that a container
    /// is made of stays, and that is an error.
    pub async fn remove_image(&self, name: &str) -> Result<(), PodmanError> {
        let what = format!("remove the image {name}");
        let path = format!("images/{}?force=false", escape(name));
        self.call(Method::DELETE, &what, &path, NOTHING, CHANGE).await.map(drop)
    }

    /// Fetches an image; with the credentials of the host's own auth file.
    pub async fn pull(&self, name: &str) -> Result<Pull, PodmanError> {
        let what = format!("pull {name}");
        let path = format!("images/pull?reference={}", escape(name));
        // Has no end that can be known; whoever waits for it sets one.
        let answer = self.send(Method::POST, &what, &path, NOTHING, None).await?;
        Ok(Pull::new(what, accepted("pull an image", answer).await?))
    }

    /// What happens to containers and volumes from now on.
    pub async fn events(&self) -> Result<Events, PodmanError> {
        let what = "tell what happens";
        let filter = escape(r#"{"type":["container","volume"]}"#);
        let path = format!("events?stream=true&filters={filter}");
        let answer = self.send(Method::GET, what, &path, NOTHING, None).await?;
        Ok(Events::new(accepted(what, answer).await?))
    }

    /// A network; none if it is not there.
    pub async fn network(&self, name: &str) -> Result<Option<Network>, PodmanError> {
        match self
            .get(&format!("look at the network {name}"), &format!("networks/{name}/json"))
            .await
        {
            Ok(network) => Ok(Some(network)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a network.
    pub async fn create_network(&self, network: &Network) -> Result<(), PodmanError> {
        let what = format!("create the network {}", network.name);
        self.call(Method::POST, &what, "networks/create", Some(network), CHANGE).await.map(drop)
    }

    /// Removes a network that no container uses.
    pub async fn remove_network(&self, name: &str) -> Result<(), PodmanError> {
        let what = format!("remove the network {name}");
        let path = format!("networks/{name}");
        self.call(Method::DELETE, &what, &path, NOTHING, CHANGE).await.map(drop)
    }

    /// Makes a volume, if it is not there.
    pub async fn create_volume(&self, volume: &Volume) -> Result<(), PodmanError> {
        let name = volume.to_string();
        let what = format!("create the volume {name}");
        match self.get::<serde_json::Value>(&what, &format!("volumes/{name}/json")).await {
            Ok(_) => return Ok(()),
            Err(error) if !error.is_not_found() => return Err(error),
            Err(_) => {}
        }
        let body = serde_json::json!({ "Name": name, "Labels": create::volume_labels(volume) });
        self.call(Method::POST, &what, "volumes/create", Some(&body), CHANGE).await.map(drop)
    }

    /// Every volume of a service, whoever made it.
    pub async fn volumes(&self) -> Result<Volumes, PodmanError> {
        #[derive(serde::Deserialize)]
        struct Listed {
            #[serde(rename = "Name")]
            name: String,
        }
        let listed: Option<Vec<Listed>> = self.get("list volumes", "volumes/json").await?;
        let volume = |it: &Listed| Volume::called(&it.name);
        Ok(listed.iter().flatten().filter_map(volume).gather())
    }

    async fn get<T: DeserializeOwned>(&self, what: &str, path: &str) -> Result<T, PodmanError> {
        let answer = self.call(Method::GET, what, path, NOTHING, LOOK).await?;
        self.read(what, answer, LOOK).await
    }

    /// What breaks off is no answer, however much of it there is.
    async fn read<T: DeserializeOwned>(
        &self,
        what: &str,
        answer: Response,
        limit: Duration,
    ) -> Result<T, PodmanError> {
        let bytes = answer.bytes().await.map_err(|error| self.silent(what, &error, Some(limit)))?;
        let garbled = |why: serde_json::Error| PodmanError::Garbled {
            what: what.into(),
            why: why.to_string(),
        };
        serde_json::from_slice(&bytes).map_err(garbled)
    }

    async fn post(&self, what: &str, path: &str, limit: Duration) -> Result<(), PodmanError> {
        self.call(Method::POST, what, path, NOTHING, limit).await.map(drop)
    }

    async fn call(
        &self,
        method: Method,
        what: &str,
        path: &str,
        body: Option<&impl Serialize>,
        limit: Duration,
    ) -> Result<Response, PodmanError> {
        accepted(what, self.send(method, what, path, body, Some(limit)).await?).await
    }

    async fn send(
        &self,
        method: Method,
        what: &str,
        path: &str,
        body: Option<&impl Serialize>,
        limit: Option<Duration>,
    ) -> Result<Response, PodmanError> {
        let address = format!("http://podman/{VERSION}/libpod/{path}");
        let request = || {
            let mut request = self.http.request(method.clone(), &address);
            if let Some(limit) = limit {
                request = request.timeout(limit);
            }
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        };
        let answer = match request().send().await {
            // What makes something new has a body; the rest can be said twice.
            Err(error) if is_hung_up(&error) && body.is_none() => request().send().await,
            answer => answer,
        };
        answer.map_err(|error| self.silent(what, &error, limit))
    }

    fn silent(&self, what: &str, error: &reqwest::Error, limit: Option<Duration>) -> PodmanError {
        match limit {
            Some(limit) if error.is_timeout() => PodmanError::TimedOut { what: what.into(), limit },
            _ => PodmanError::Unreachable { socket: self.socket.clone(), why: Silence::of(error) },
        }
    }
}

/// Whether the other end went without an answer. Podman's service ends when nobody asks for a few
/// seconds, also at the moment somebody does; the next connection starts it again.
fn is_hung_up(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_timeout() && !error.is_connect()
}

const NOTHING: Option<&()> = None;

/// The answer, if it is a yes; "it is so already" is one.
async fn accepted(what: &str, answer: Response) -> Result<Response, PodmanError> {
    #[derive(serde::Deserialize)]
    struct No {
        message: String,
    }
    let status = answer.status();
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Ok(answer);
    }
    let text = answer.text().await.unwrap_or_default();
    let why = serde_json::from_str::<No>(&text).map_or(text, |no| no.message);
    Err(PodmanError::Refused { what: what.into(), why, status: status.as_u16() })
}

/// As much of an id as Podman shows to people.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Text as part of an address.
fn escape(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:@".contains(&byte);
    let each = |byte: u8| match is_plain(byte) {
        true => (byte as char).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(each).collect()
}

#[cfg(test)]
mod tests;
