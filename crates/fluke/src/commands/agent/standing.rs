//! How the agent of this host stands with its server, written down for those who ask on the host:
//! `status.json` in its state directory.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use fluke_agent::AgentStatus;
use fluke_agent::host::files;
use serde::{Deserialize, Serialize};

/// Whether an agent has a session, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The agent's process.
    pub pid: u32,
    /// With its server.
    pub state: State,
    /// The server's version, or why there is no session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// How an agent stands with its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Looks for it.
    Connecting,
    /// Has a session.
    Connected,
    /// Will try again.
    Unreachable,
    /// Was turned away, and will try again.
    Refused,
}

impl Standing {
    /// What was last written in `state_dir`.
    pub fn read(state_dir: &Path) -> Option<Self> {
        let text = std::fs::read(file(state_dir)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn of(status: &AgentStatus) -> Option<Self> {
        let (state, detail) = match status {
            AgentStatus::Connecting => (State::Connecting, ""),
            AgentStatus::Connected { server_version } => (State::Connected, &**server_version),
            AgentStatus::Unreachable { reason, .. } => (State::Unreachable, &**reason),
            AgentStatus::Lost { reason } => (State::Unreachable, &**reason),
            AgentStatus::Refused { reason, .. } => (State::Refused, &**reason),
            AgentStatus::Checking { .. }
            | AgentStatus::Applying { .. }
            | AgentStatus::Idle
            | AgentStatus::Stopping => return None,
        };
        Some(Self { pid: std::process::id(), state, detail: detail.to_owned() })
    }
}

/// Writes standings down as they change.
pub struct Noted {
    file: PathBuf,
    last: RefCell<Option<Standing>>,
}

impl Noted {
    pub fn new(state_dir: &Path) -> Self {
        Self { file: file(state_dir), last: RefCell::new(None) }
    }

    /// Attempts that follow a failure are none of interest: why it failed is.
    pub fn note(&self, status: &AgentStatus) {
        let Some(standing) = Standing::of(status) else { return };
        let mut last = self.last.borrow_mut();
        let is_retry = standing.state == State::Connecting && last.is_some();
        if is_retry || last.as_ref() == Some(&standing) {
            return;
        }
        // For people who look; the agent itself needs none of it.
        if let Ok(text) = serde_json::to_vec(&standing) {
            let _ = files::replace(&self.file, &text);
        }
        *last = Some(standing);
    }
}

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("status.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_written_is_why_there_is_no_session_and_not_that_one_is_sought() {
        let dir = tempfile::tempdir().expect("a directory");
        let noted = Noted::new(dir.path());
        let read = || Standing::read(dir.path()).map(|it| (it.state, it.detail));
        assert_eq!(read(), None);
        noted.note(&AgentStatus::Connecting);
        assert_eq!(read(), Some((State::Connecting, String::new())));
        let retry = Duration::from_secs(1);
        noted.note(&AgentStatus::Refused { reason: "a wrong token".into(), retry });
        noted.note(&AgentStatus::Connecting);
        assert_eq!(read(), Some((State::Refused, "a wrong token".into())));
        noted.note(&AgentStatus::Connected { server_version: "0.1.0".into() });
        noted.note(&AgentStatus::Idle);
        assert_eq!(read(), Some((State::Connected, "0.1.0".into())));
    }
}
