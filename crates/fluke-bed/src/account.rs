//! What a story that fails tells.

use std::fmt::Write as _;

use fluke_model::api;
use fluke_model::event::Event;
use fluke_model::id::CommitId;

use crate::agent::UNIT;
use crate::bed::Inner;

/// How many events are told.
const EVENTS: usize = 60;

impl Inner {
    /// How everything stands: agents, drift, and what happened, a line each.
    pub(crate) fn account(&self) -> String {
        let mut text = String::from("--- agents\n");
        let short = |commit: &Option<CommitId>| {
            commit.as_ref().map_or("-".into(), |commit| commit.as_str()[..7].to_string())
        };
        for agent in self.agents() {
            let plays = if self.is_in_play(agent.name.as_str()) { "" } else { " (not in play)" };
            let (name, status) = (&agent.name, agent.status.as_str());
            let _ = writeln!(text, "{name}: {status} at {}{plays}", short(&agent.commit));
        }
        let _ = writeln!(text, "newest commit: {}", &self.repository.head().as_str()[..7]);
        let drift = self.server.get().map(|server| server.get::<api::DriftList>("/api/v1/drift"));
        for entry in drift.and_then(Result::ok).map_or(Vec::new(), |list| list.drift) {
            let (reason, of) = (entry.reason.as_deref().unwrap_or("-"), entry.owner());
            let of = of.unwrap_or("-");
            let _ = writeln!(text, "drift: {} {of}/{}: {reason}", entry.agent, entry.step);
        }
        text += "--- events, oldest first\n";
        let events = self.events(None);
        let from = events.len().saturating_sub(EVENTS);
        events[from..].iter().for_each(|event| text += &(line(event) + "\n"));
        text
    }

    /// What helps to find out why a story failed: logs of the server and of every agent.
    pub(crate) fn last_words(&self) -> String {
        let mut text = String::new();
        if let Some(server) = self.server.get() {
            let _ = writeln!(text, "--- the server's log\n{}", server.log_tail(40));
        }
        for (name, _) in self.site.hosts() {
            let journal = ["journalctl", "--no-pager", "--output=short-precise", "-n", "30", "-u"];
            let told = self.site.exec(&name, &[&journal[..], &[UNIT]].concat(), "");
            let told = match told {
                Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
                Err(error) => error.to_string(),
            };
            let _ = writeln!(text, "--- {name}: {UNIT}\n{told}");
        }
        text
    }
}

/// An error with all its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let _ = write!(text, ": {next}");
        cause = next.source();
    }
    text
}

fn line(event: &Event) -> String {
    let place = match (&event.task, &event.step) {
        (Some(task), Some(step)) => format!("{task}/{step}"),
        (Some(task), None) => task.to_string(),
        _ => String::new(),
    };
    let parts = [
        event.time.to_string(),
        event.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
        place,
        event.kind.as_str().to_string(),
        event.outcome.map(|outcome| outcome.as_str().to_string()).unwrap_or_default(),
        event.trigger.clone().unwrap_or_default(),
        event.output.as_deref().and_then(|text| text.lines().next()).unwrap_or("").to_string(),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}
