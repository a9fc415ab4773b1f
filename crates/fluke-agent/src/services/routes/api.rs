//! Traefik's API: what it has loaded, and where it listens.

use std::collections::BTreeSet;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use fluke_model::gather::Gather;
use serde::Deserialize;

use super::loaded::Loaded;
use crate::services::plain;

/// It answers from memory.
const LIMIT: Duration = Duration::from_secs(2);
/// How long whoever asks for a page may wait before nobody is thought to answer.
const PAGE: Duration = Duration::from_secs(4);
/// More than ten thousand routes take.
const MOST: usize = 64 << 20;

/// Why Traefik did not say.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Nobody is there.
    #[error("Traefik does not listen at {address}: {why}")]
    Absent {
        /// Where it should.
        address: SocketAddrV4,
        /// Why not.
        why: String,
    },
    /// Somebody is, and does not answer, or not in time.
    #[error("Traefik does not answer at {address}: {why}")]
    Silent {
        /// Where it should.
        address: SocketAddrV4,
        /// Why not.
        why: String,
    },
    /// Somebody answers who is not Traefik, or not one that is known.
    #[error("the answer of Traefik at {address} is not understood: {why}; version 3 is needed")]
    Garbled {
        /// Where.
        address: SocketAddrV4,
        /// Why.
        why: String,
    },
}

/// Asks one or another Traefik of this host.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
}

impl Api {
    /// One that asks nobody yet.
    pub fn new() -> Result<Self, reqwest::Error> {
        let redirect = reqwest::redirect::Policy::none();
        Ok(Self { http: plain::client().redirect(redirect).timeout(LIMIT).build()? })
    }

    /// What is loaded.
    pub async fn loaded(&self, address: SocketAddrV4) -> Result<Loaded, ApiError> {
        let answer = self.get(address, "rawdata").await?;
        let garbled =
            |error: serde_json::Error| ApiError::Garbled { address, why: error.to_string() };
        Loaded::read(&answer).map_err(garbled)
    }

    /// The names of what it listens by.
    pub async fn entry_points(&self, address: SocketAddrV4) -> Result<BTreeSet<String>, ApiError> {
        #[derive(Deserialize)]
        struct EntryPoint {
            name: String,
        }
        let answer = self.get(address, "entrypoints").await?;
        let garbled =
            |error: serde_json::Error| ApiError::Garbled { address, why: error.to_string() };
        let all: Vec<EntryPoint> = serde_json::from_slice(&answer).map_err(garbled)?;
        Ok(all.into_iter().map(|it| it.name).gather())
    }

    /// Whether anybody who asks for a page gets an answer, whatever it is.
    pub async fn is_answered(&self, at: SocketAddr) -> bool {
        self.http.get(format!("http://{at}/")).timeout(PAGE).send().await.is_ok()
    }

    async fn get(&self, address: SocketAddrV4, what: &str) -> Result<Vec<u8>, ApiError> {
        let silent = |error: reqwest::Error| {
            let why = words(&error);
            // Who has too much to do lets others wait at the door as well.
            match error.is_connect() && !error.is_timeout() {
                true => ApiError::Absent { address, why },
                false => ApiError::Silent { address, why },
            }
        };
        // Every entry point comes, however many there are.
        let url = format!("http://{address}/api/{what}?per_page=100000");
        let answer = self.http.get(url).send().await.map_err(silent)?;
        let mut answer = answer.error_for_status().map_err(silent)?;
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(silent)? {
            body.extend_from_slice(&part);
            if body.len() > MOST {
                let why = format!("it is longer than {} MiB", MOST >> 20);
                return Err(ApiError::Garbled { address, why });
            }
        }
        Ok(body)
    }
}

/// The last cause says it.
fn words(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
