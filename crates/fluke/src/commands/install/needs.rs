//! What services need of an agent's host, and what is missing of it. Pure.

use std::path::PathBuf;

use crate::cli::Part;

/// What services need of a host, and whether it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// Where Podman should listen; none where the config refuses containers.
    pub socket: Option<PathBuf>,
    /// Whether it does.
    pub has_socket: bool,
    /// Whether the config that is there makes the host a proxy.
    pub is_proxy: bool,
    /// Whether there is a Traefik for it.
    pub has_traefik: bool,
}

impl Needs {
    /// What is missing, and what to do about it.
    pub fn notes(&self, is_proxy: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(socket) = self.socket.as_ref().filter(|_| !self.has_socket) {
            notes.push(format!(
                "services cannot run here yet: Podman does not listen at {}. Install Podman and run \
                 `systemctl enable --now podman.socket`: the agent sees it come. Tasks need none of \
                 it",
                socket.display()
            ));
        }
        if (is_proxy || self.is_proxy) && !self.has_traefik {
            notes.push(format!(
                "public traffic cannot come in here yet: there is no Traefik. Put Traefik 3 where \
                 `PATH` finds it, such as /usr/local/bin/traefik, or name it by `program` in the \
                 `proxy` block of {}; it is started once it is there",
                Part::Agent.config().display()
            ));
        }
        notes
    }
}
