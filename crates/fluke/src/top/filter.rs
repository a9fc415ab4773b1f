//! What is typed behind `/`: words that must all be true of an agent.

use fluke_model::api::Agent;
use fluke_model::status::Status;

/// Words that must all be true.
pub struct Filter<'a>(Vec<Word<'a>>);

enum Word<'a> {
    /// A status, by its name.
    Status(Status),
    /// A label with a value.
    Label(&'a str, &'a str),
    /// A part of a name.
    Part(String),
}

impl<'a> Filter<'a> {
    /// Reads `web env=prod failed`.
    pub fn parse(text: &'a str) -> Self {
        Self(text.split_whitespace().map(word).collect())
    }

    /// Whether everything is true of the agent.
    pub fn lets_through(&self, agent: &Agent) -> bool {
        self.0.iter().all(|word| match word {
            Word::Status(status) => agent.status == *status,
            Word::Label(key, value) => agent
                .labels
                .0
                .iter()
                .any(|(k, v)| k.as_str() == *key && v.as_str().starts_with(value)),
            Word::Part(part) => agent.name.as_str().to_lowercase().contains(part),
        })
    }
}

fn word(text: &str) -> Word<'_> {
    use Status::*;
    let statuses = [InSync, Drifted, Applying, Failed, Unknown, Offline];
    if let Some(status) = statuses.into_iter().find(|status| status.as_str() == text) {
        return Word::Status(status);
    }
    match text.split_once('=') {
        Some((key, value)) => Word::Label(key, value),
        None => Word::Part(text.to_lowercase()),
    }
}
