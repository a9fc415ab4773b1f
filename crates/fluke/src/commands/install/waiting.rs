//! Waits until what was started does its work, and tells why if it does not.

use std::time::{Duration, Instant};

use fluke_agent::store::Store;
use fluke_model::api;

use crate::cli::Part;
use crate::client::address::{DEFAULT_SOCKET, Server};
use crate::client::{Access, Client};
use crate::commands::agent::{Standing, State};
use crate::commands::update::main_process;
use crate::failure::Failure;
use crate::program::Program;

/// How long a service may take to be of use.
const PATIENCE: Duration = Duration::from_secs(45);
const LOOK: Duration = Duration::from_millis(100);
/// How much of the journal is shown.
const LINES: &str = "15";

/// What a service says of itself.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// It does its work; so it says.
    Works(String),
    /// Not yet.
    Waits(String),
    /// Somebody has to do something first.
    Stuck(String),
}

/// Waits; returns what to tell.
pub async fn until_it_works(part: Part) -> Result<String, Failure> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let found = match part {
            Part::Server => server().await,
            Part::Agent => agent().await,
        };
        let why = match found {
            Found::Works(told) => return Ok(told),
            Found::Waits(why) if Instant::now() < patience => {
                tracing::debug!(why, "waiting");
                tokio::time::sleep(LOOK).await;
                continue;
            }
            Found::Waits(why) | Found::Stuck(why) => why,
        };
        return Err(failure(part, &why).await);
    }
}

/// Ready is a server that has a commit.
async fn server() -> Found {
    let client = Client::new(Server::Unix(DEFAULT_SOCKET.into()), Access::default());
    let source = match client {
        Ok(client) => client.get::<api::Source>(&["source"]).await,
        Err(error) => return Found::Waits(error.to_string()),
    };
    match source {
        Err(error) => Found::Waits(error.to_string()),
        Ok(source) => judge(&source),
    }
}

fn judge(source: &api::Source) -> Found {
    match (&source.commit, &source.error) {
        (Some(commit), _) => {
            Found::Works(format!("the server runs, with commit {} in force", commit.short()))
        }
        (None, Some(error)) => Found::Stuck(format!("it cannot read {}: {error}", source.url)),
        (None, None) if source.rejected => Found::Stuck(format!(
            "the newest commit of {} is rejected: `fluke get source` shows why",
            source.url
        )),
        (None, None) => Found::Waits(format!("it has read no commit of {} yet", source.url)),
    }
}

/// Of use is an agent that has a session.
async fn agent() -> Found {
    let state = Part::Agent.state();
    let process = main_process(Part::Agent.unit()).await;
    let Some(standing) = Standing::read(&state) else {
        return Found::Waits("it has not tried to reach its server yet".into());
    };
    if process != Some(standing.pid) || Store::inhabitant(&state) != process {
        return Found::Waits("it is being started".into());
    }
    match standing.state {
        State::Connected => {
            Found::Works(format!("the agent is connected to a server {}", standing.detail))
        }
        State::Refused => Found::Stuck(standing.detail),
        State::Connecting | State::Unreachable => Found::Waits(standing.detail),
    }
}

/// It was installed and stays: what is wrong may well be elsewhere.
async fn failure(part: Part, why: &str) -> Failure {
    let unit = part.unit();
    let arguments = ["--unit", unit, "--lines", LINES, "--no-pager", "--output", "cat"];
    let journal = Program::new("journalctl", &arguments).output().await.unwrap_or_default();
    let journal: String = journal.lines().map(|line| format!("\n    {line}")).collect();
    let what = format!("the {} is installed, but does not do its work yet: {why}", part.name());
    let last = if journal.is_empty() { String::new() } else { format!("; its log:{journal}") };
    Failure::new(what).help(format!(
        "it goes on trying; change {} if need be and run `systemctl restart {unit}`{last}",
        part.config().display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(commit: Option<&str>, error: Option<&str>, rejected: bool) -> api::Source {
        let mut source: api::Source = serde_json::from_value(serde_json::json!({
            "url": "u", "branch": "main", "commit": commit, "commit_since": null,
            "last_seen": null, "rejected": rejected, "diagnostics": [], "last_poll": null,
            "next_poll": null, "error": error
        }))
        .expect("a source");
        source.rejected = rejected;
        source
    }

    #[test]
    fn a_server_works_with_a_commit_and_is_stuck_without_a_repository() {
        let works = judge(&source(Some("0123456789abcdef0123456789abcdef01234567"), None, true));
        assert!(matches!(works, Found::Works(_)), "an older commit is in force: {works:?}");
        assert!(matches!(judge(&source(None, Some("no route"), false)), Found::Stuck(_)));
        assert!(matches!(judge(&source(None, None, true)), Found::Stuck(_)));
        assert!(matches!(judge(&source(None, None, false)), Found::Waits(_)));
    }
}
