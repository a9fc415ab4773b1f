//! What is known of the source, and what is worth telling about it. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use fluke_model::api;
use fluke_model::diagnostic::Diagnostic;
use fluke_model::event::{Event, EventKind};
use fluke_model::id::CommitId;
use fluke_model::time::Timestamp;

/// The first pause after a failure; it doubles up to the poll interval.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How often a commit is looked for that a webhook announced and that is not there yet.
const AWAITED_TRIES: u32 = 5;
/// How many commits are remembered, to notice a branch that is set back.
const REMEMBERED: usize = 256;

/// What is known of the source.
pub(super) struct Track {
    status: api::Source,
    poll_interval: Duration,
    /// Failures since the last answer.
    failures: u32,
    /// What a webhook announced, and how often it was looked for in vain.
    awaited: Option<(CommitId, u32)>,
    /// Commits that were in force, newest last.
    past: VecDeque<CommitId>,
}

impl Track {
    pub(super) fn new(url: String, branch: Option<String>, poll_interval: Duration) -> Self {
        let status = api::Source {
            url,
            branch,
            commit: None,
            commit_since: None,
            last_seen: None,
            rejected: false,
            diagnostics: Vec::new(),
            last_poll: None,
            next_poll: None,
            error: None,
        };
        let past = VecDeque::new();
        Self { status, poll_interval, failures: 0, awaited: None, past }
    }

    pub(super) fn status(&self) -> &api::Source {
        &self.status
    }

    /// Whether `commit` was judged already: good or bad, it is not read again.
    pub(super) fn knows(&self, commit: &CommitId) -> bool {
        self.status.last_seen.as_ref() == Some(commit)
    }

    /// Whether any commit was judged yet.
    pub(super) fn has_seen_any(&self) -> bool {
        self.status.last_seen.is_some()
    }

    /// A webhook says that this commit is there.
    pub(super) fn announced(&mut self, commit: CommitId) {
        self.awaited = Some((commit, 0));
    }

    /// The source answered; says so if it did not before.
    pub(super) fn answered(&mut self, now: Timestamp) -> Option<Event> {
        let recovered = self.status.error.take().is_some();
        self.failures = 0;
        self.status.last_poll = Some(now);
        recovered.then(|| Event {
            commit: self.status.commit.clone(),
            ..Event::new(EventKind::SourceRecovered, now)
        })
    }

    /// The source did not answer; says so once per outage.
    pub(super) fn failed(&mut self, error: String, now: Timestamp) -> Option<Event> {
        self.failures = self.failures.saturating_add(1);
        let first = self.status.error.replace(error.clone()).is_none();
        first.then(|| Event {
            commit: self.status.commit.clone(),
            output: Some(error),
            ..Event::new(EventKind::SourceUnreachable, now)
        })
    }

    /// `commit` is good and in force from now on.
    pub(super) fn accepted(
        &mut self,
        commit: &CommitId,
        parents: &[CommitId],
        warnings: Vec<Diagnostic>,
        now: Timestamp,
    ) -> Event {
        let output = self.place(commit, parents);
        self.status.commit = Some(commit.clone());
        self.status.commit_since = Some(now);
        self.seen(commit, false, warnings);
        self.past.retain(|past| past != commit);
        self.past.push_back(commit.clone());
        if self.past.len() > REMEMBERED {
            self.past.pop_front();
        }
        Event {
            commit: Some(commit.clone()),
            output,
            diagnostics: self.status.diagnostics.clone(),
            ..Event::new(EventKind::CommitAccepted, now)
        }
    }

    /// `commit` is bad; what was in force stays.
    pub(super) fn rejected(
        &mut self,
        commit: &CommitId,
        diagnostics: Vec<Diagnostic>,
        now: Timestamp,
    ) -> Event {
        let output = match &self.status.commit {
            Some(good) => format!("{} stays in force", good.short()),
            None => "no commit is in force yet".to_string(),
        };
        self.seen(commit, true, diagnostics.clone());
        Event {
            commit: Some(commit.clone()),
            output: Some(output),
            diagnostics,
            ..Event::new(EventKind::CommitRejected, now)
        }
    }

    fn seen(&mut self, commit: &CommitId, rejected: bool, diagnostics: Vec<Diagnostic>) {
        self.status.last_seen = Some(commit.clone());
        self.status.rejected = rejected;
        self.status.diagnostics = diagnostics;
    }

    /// How `commit` stands to the one in force. With only the newest commit at hand a longer
    /// push cannot be told from a rewritten branch, so both ids are always named.
    fn place(&self, commit: &CommitId, parents: &[CommitId]) -> Option<String> {
        // A folder has no history, only what it holds now.
        self.status.branch.as_ref()?;
        let old = self.status.commit.as_ref().filter(|old| *old != commit)?;
        let (new, old_id) = (commit.short(), old.short());
        Some(if self.past.contains(commit) {
            format!("the branch was set back from {old_id} to {new}, which was in force before")
        } else if parents.contains(old) {
            format!("{new} follows {old_id}")
        } else {
            format!("{new} replaces {old_id}: several commits at once, or a force-push")
        })
    }

    /// The pause until the next look, which a source that is watched does not wait for.
    pub(super) fn pause(&mut self, now: Timestamp, watched: bool) -> Duration {
        let pause = match (self.failures, self.still_awaited()) {
            (0, None) => self.poll_interval,
            (0, Some(tries)) => self.growing(tries),
            (failures, _) => self.growing(failures - 1),
        };
        self.status.next_poll = (!watched).then(|| now.after(pause));
        pause
    }

    fn growing(&self, tries: u32) -> Duration {
        FIRST_PAUSE.saturating_mul(2u32.saturating_pow(tries)).min(self.poll_interval)
    }

    /// Git servers may announce a push a moment before they serve it.
    fn still_awaited(&mut self) -> Option<u32> {
        let (commit, tries) = self.awaited.take()?;
        if self.knows(&commit) || tries >= AWAITED_TRIES {
            return None;
        }
        self.awaited = Some((commit, tries + 1));
        Some(tries)
    }
}

#[cfg(test)]
mod tests;
