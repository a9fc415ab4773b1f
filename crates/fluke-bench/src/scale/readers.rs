//! People and programs who look at a server meanwhile: live streams, and calls every second.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::ACCEPT_ENCODING;
use reqwest::{Certificate, Client};
use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval};

use crate::row::Trouble;
use crate::stage::Stage;

/// A server gives one address so many places; readers come from more than one.
const FROM_ONE_ADDRESS: usize = 200;
/// How often one that polls asks.
const EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);
/// Streams over which nothing came for so long have told what there was to tell.
const SILENCE: Duration = Duration::from_secs(2);
/// How often it is looked whether something came: far less than it takes.
const LOOK: Duration = Duration::from_millis(10);

/// Readers of a server's API; dropped, they leave. They have threads of their own, as they would
/// elsewhere: none of them waits for an agent of the swarm.
pub struct Readers {
    _runtime: Runtime,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    streams: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    calls: Mutex<Vec<f64>>,
}

impl Seen {
    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

impl Readers {
    /// Opens so many live streams, and lets so many others ask for a page of agents every second.
    pub fn come(stage: &Stage, streams: usize, polls: usize) -> Result<Self, Trouble> {
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("look at the API", error);
        let ca = std::fs::read(stage.server().ca_file()).map_err(|error| failed(&error))?;
        // Somebody may have been first, with the same one: there is no other.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ca = Certificate::from_pem(&ca).map_err(|error| failed(&error))?;
        let clients: Result<Vec<_>, _> =
            (0..(streams + polls).div_ceil(FROM_ONE_ADDRESS)).map(|at| client(&ca, at)).collect();
        let clients = clients.map_err(|error| failed(&error))?;
        let base = format!("https://{}/api/v1", stage.server().http());
        let seen = Arc::new(Seen::default());
        let runtime = Runtime::new().map_err(|error| failed(&error))?;
        for number in 0..streams {
            let client = clients[number / FROM_ONE_ADDRESS].clone();
            runtime.spawn(follow(client, format!("{base}/stream"), seen.clone()));
        }
        for number in streams..streams + polls {
            let client = clients[number / FROM_ONE_ADDRESS].clone();
            runtime.spawn(poll(client, format!("{base}/agents?limit=100"), seen.clone(), number));
        }
        let readers = Self { _runtime: runtime, seen };
        let began = Instant::now();
        while readers.seen.streams.load(Ordering::Relaxed) < streams as u64 {
            if began.elapsed() > PATIENCE {
                return Err(failed(&format!("{:?}", readers.seen.streams)));
            }
            std::thread::sleep(LOOK);
        }
        Ok(readers)
    }

    /// How many seconds each call took, since this was asked last.
    pub fn calls(&self) -> Vec<f64> {
        std::mem::take(&mut *self.seen.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many calls and streams came to nothing.
    pub fn refused(&self) -> u64 {
        self.seen.refused.load(Ordering::Relaxed)
    }

    /// How many streams the server ended.
    pub fn lost(&self) -> u64 {
        self.seen.lost.load(Ordering::Relaxed)
    }

    /// How many bytes all streams have read.
    pub fn bytes(&self) -> u64 {
        self.seen.bytes.load(Ordering::Relaxed)
    }

    /// Waits until no stream is told anything more; how many seconds after `began` the last of it
    /// came.
    pub fn are_told(&self, began: Instant) -> f64 {
        let (mut bytes, mut last) = (self.bytes(), Instant::now());
        while last.elapsed() < SILENCE {
            std::thread::sleep(LOOK);
            let now = self.bytes();
            if std::mem::replace(&mut bytes, now) != now {
                last = Instant::now();
            }
        }
        last.duration_since(began).as_secs_f64()
    }
}

/// A client with an address of its own. Each stream needs a connection of its own in HTTP/1.1,
/// as from programs of their own.
fn client(ca: &Certificate, at: usize) -> reqwest::Result<Client> {
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 7, 1 + at as u8));
    Client::builder().http1_only().local_address(from).tls_certs_only([ca.clone()]).build()
}

/// Takes what browsers take.
async fn follow(client: Client, url: String, seen: Arc<Seen>) {
    let Ok(mut answer) = client.get(url).header(ACCEPT_ENCODING, "gzip").send().await else {
        return seen.refuse();
    };
    if !answer.status().is_success() {
        return seen.refuse();
    }
    seen.streams.fetch_add(1, Ordering::Relaxed);
    while let Ok(Some(chunk)) = answer.chunk().await {
        seen.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
    }
    seen.lost.fetch_add(1, Ordering::Relaxed);
}

async fn poll(client: Client, url: String, seen: Arc<Seen>, number: usize) {
    tokio::time::sleep(EVERY.mul_f64(number as f64 % 100.0 / 100.0)).await;
    let mut rounds = interval(EVERY);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let began = Instant::now();
        match client.get(&url).send().await {
            Ok(answer) if answer.status().is_success() => {
                let read = answer.bytes().await;
                let took = began.elapsed().as_secs_f64();
                let mut calls = seen.calls.lock().unwrap_or_else(PoisonError::into_inner);
                calls.extend(read.is_ok().then_some(took));
            }
            _ => seen.refuse(),
        }
    }
}
