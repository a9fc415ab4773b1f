//! Why nobody answers at Podman's socket, and what to do about it.

use std::error::Error;
use std::io;

/// Why nobody answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// It is not there.
    #[error("there is no socket; install Podman, then `systemctl enable --now podman.socket`")]
    NoSocket,
    /// It is there, and nobody is behind it.
    #[error("nobody listens; `systemctl enable --now podman.socket`")]
    NobodyListens,
    /// It is not for us.
    #[error("the agent may not open it; run it as root")]
    NotAllowed,
    /// Anything else, in the system's words.
    #[error("{0}; `systemctl status podman.socket podman.service` tells more")]
    Other(String),
}

impl Silence {
    /// What is at the bottom of an error.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut cause = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::NotFound) => Self::NoSocket,
            Some(io::ErrorKind::ConnectionRefused) => Self::NobodyListens,
            Some(io::ErrorKind::PermissionDenied) => Self::NotAllowed,
            _ => Self::Other(cause.to_string()),
        }
    }
}
