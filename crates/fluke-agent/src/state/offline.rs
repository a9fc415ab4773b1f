//! What the agent does on its own account while the server is away.
//!
//! It goes on looking, every `poll_interval`, and repairs what its policy lets it repair without
//! telling anybody. It waits one interval before the first look: a server that restarts is back
//! long before that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluke_model::id::TaskName;
use fluke_model::policy::{self, Decision, Finding, Policy};
use fluke_model::snapshot::{Snapshot, StepIndex};
use fluke_model::verdict::Verdict;

use super::processing::Report;

/// The agent's own account. Time is monotonic: a clock that jumps changes nothing.
#[derive(Debug)]
pub struct Offline {
    interval: Duration,
    /// None while the server is there.
    next_look: Option<Instant>,
    failing: BTreeMap<TaskName, Streak>,
}

/// Failures in a row.
#[derive(Debug, Clone, Copy)]
struct Streak {
    failures: u32,
    retry: Instant,
}

impl Offline {
    /// An agent that has just started, and knows this interval from before.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next_look: Some(now + interval), failing: BTreeMap::new() }
    }

    /// The server is there: it decides.
    pub fn connected(&mut self, interval: Duration) {
        self.interval = interval;
        self.next_look = None;
        self.failing.clear();
    }

    /// The server is gone.
    pub fn lost(&mut self, now: Instant) {
        self.next_look.get_or_insert(now + self.interval);
    }

    /// Everything was looked at.
    pub fn looked(&mut self, now: Instant) {
        if let Some(next) = &mut self.next_look {
            *next = now + self.interval;
        }
    }

    /// When to look next; never while the server is there.
    pub fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// The steps to put right, from what the checks said of all of them.
    pub fn repairs(
        &self,
        snapshot: &Snapshot,
        verdicts: &[(StepIndex, Verdict)],
        now: Instant,
    ) -> Vec<StepIndex> {
        if self.next_look.is_none() {
            return Vec::new();
        }
        let mut findings = vec![Finding::Unknown; snapshot.step_count()];
        for (step, verdict) in verdicts {
            if let Some(finding) = findings.get_mut(step.0 as usize) {
                *finding = verdict.into();
            }
        }
        let mut due = Vec::new();
        for (position, task) in snapshot.tasks().iter().enumerate() {
            // Repairs of the other policies are told to somebody, and there is nobody to tell.
            if task.policy != Policy::Remediate {
                continue;
            }
            let steps: Vec<StepIndex> = snapshot.steps_of(position).collect();
            let paused = self.failing.get(&task.name).is_some_and(|streak| now < streak.retry);
            let found = steps.iter().map(|step| findings[step.0 as usize]);
            let found = found.zip(task.steps.iter().map(|step| step.on_failure));
            if let Decision::Apply(positions) = policy::decide(task.policy, false, paused, found) {
                due.extend(positions.into_iter().map(|position| steps[position]));
            }
        }
        due
    }

    /// A repair has ended; what failed is left alone for a while.
    pub fn learn(&mut self, report: &Report, now: Instant) {
        let mut by_task: BTreeMap<&TaskName, bool> = BTreeMap::new();
        for (step, outcome) in &report.outcomes {
            if let Some((task, _)) = report.held.name_of(*step) {
                *by_task.entry(task).or_default() |= outcome.is_failure();
            }
        }
        for (task, failed) in by_task {
            if !failed {
                self.failing.remove(task);
                continue;
            }
            let streak =
                self.failing.entry(task.clone()).or_insert(Streak { failures: 0, retry: now });
            streak.failures = streak.failures.saturating_add(1);
            streak.retry = now + policy::pause_after(streak.failures);
        }
    }
}

#[cfg(test)]
mod tests;
