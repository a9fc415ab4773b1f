//! Traefik's API: what it has loaded, and where it listens.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::time::Duration;

use fluke_model::gather::Gather;
use serde::Deserialize;

use super::compile::Gate;
use super::loaded::Loaded;
use crate::services::plain;

/// It answers from memory.
const LIMIT: Duration = Duration::from_secs(2);
/// More than ten thousand routes take.
const MOST: usize = 64 << 20;

/// Why Traefik did not say.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Nobody answers, or not in time.
    #[error("Traefik does not answer at {address}: {why}")]
    Unreachable {
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
        Ok(Self { http: plain::client().timeout(LIMIT).build()? })
    }

    /// What is loaded.
    pub async fn loaded(&self, address: SocketAddrV4) -> Result<Loaded, ApiError> {
        let answer = self.get(address, "rawdata").await?;
        let garbled =
            |error: serde_json::Error| ApiError::Garbled { address, why: error.to_string() };
        Loaded::read(&answer).map_err(garbled)
    }

    /// Where it listens beside the ports for requests.
    pub async fn gates(&self, address: SocketAddrV4) -> Result<BTreeSet<Gate>, ApiError> {
        #[derive(Deserialize)]
        struct EntryPoint {
            name: String,
        }
        let answer = self.get(address, "entrypoints").await?;
        let garbled =
            |error: serde_json::Error| ApiError::Garbled { address, why: error.to_string() };
        let all: Vec<EntryPoint> = serde_json::from_slice(&answer).map_err(garbled)?;
        Ok(all.iter().filter_map(|it| Gate::parse(&it.name)).gather())
    }

    async fn get(&self, address: SocketAddrV4, what: &str) -> Result<Vec<u8>, ApiError> {
        let unreachable =
            |error: reqwest::Error| ApiError::Unreachable { address, why: words(&error) };
        // Every entry point comes, however many there are.
        let url = format!("http://{address}/api/{what}?per_page=100000");
        let answer = self.http.get(url).send().await.map_err(unreachable)?;
        let mut answer = answer.error_for_status().map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(unreachable)? {
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
