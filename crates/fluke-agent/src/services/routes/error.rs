//! Why a proxy is not as it should be, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::SupervisorError;
use super::succession::START;

/// Why routes are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum RoutesError {
    /// There is no Traefik on this host.
    #[error(
        "there is no Traefik {}; install version 3 (https://doc.traefik.io/traefik), or say where \
         it is with `program` in the agent's `proxy` block",
        given.as_ref().map_or("in PATH".into(), |it| format!("that can be run at {}", it.display()))
    )]
    NoProgram {
        /// Where it should be.
        given: Option<PathBuf>,
    },
    /// What Traefik is to read cannot be written.
    #[error("cannot write to {}: {why}; make room, or make it writable", folder.display())]
    NotWritten {
        /// Where.
        folder: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// No process can be had.
    #[error("cannot keep Traefik running: {0}")]
    Supervisor(#[from] SupervisorError),
    /// Requests to its API cannot even be made.
    #[error("cannot ask Traefik: {0}")]
    Client(#[from] reqwest::Error),
    /// Where requests come in, somebody else is.
    #[error(
        "another program of this host has port {port}, which requests come in at: `ss -lntp` shows \
         which; end it, or let another host be the proxy{}",
        goes_on(*others)
    )]
    Taken {
        /// Which.
        port: u16,
        /// Whether another one serves what it has.
        others: bool,
    },
    /// It was started, and does not come up.
    #[error(
        "Traefik does not come up within {} s: {why}; `journalctl -u {unit}` says what it said{}",
        START.as_secs(),
        goes_on(*others)
    )]
    NotUp {
        /// Its unit.
        unit: String,
        /// What is still missing.
        why: String,
        /// Whether another one serves what it has.
        others: bool,
    },
    /// It runs, and does not take what it is given.
    #[error("Traefik has not loaded its routes: {why}; `journalctl -u {unit}` says what it said")]
    NotLoaded {
        /// Its unit.
        unit: String,
        /// What is missing.
        why: String,
    },
}

fn goes_on(others: bool) -> &'static str {
    if others { "; the one before it goes on" } else { "" }
}
