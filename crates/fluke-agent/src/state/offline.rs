//! What the agent does on its own account while the server is away.
//!
//! It goes on looking, every `poll_interval`, and repairs what its policy lets it repair without
//! telling anybody. It waits one interval before the first look at everything: a server that restarts
//! is back long before that. What the host itself says has changed it looks at at once, as soon as
//! it knows that nobody else will.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluke_model::id::TaskName;
use fluke_model::policy::{self, Decision, Finding, Policy, Relapses};
use fluke_model::snapshot::{Snapshot, StepIndex};
use fluke_model::verdict::Verdict;

use super::processing::Report;

/// The agent's own account. Time is monotonic: a clock that jumps changes nothing.
#[derive(Debug)]
pub struct Offline {
    interval: Duration,
    /// None while the server is there.
    next_look: Option<Instant>,
    /// The server was there and left, or an attempt to reach it failed.
    alone: bool,
    accounts: BTreeMap<TaskName, Account>,
}

/// How a task fared of late.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    /// Failed repairs in a row.
    failures: u32,
    /// When the next try is due.
    retry: Option<Instant>,
    relapses: Relapses,
}

impl Offline {
    /// An agent that has just started, and knows this interval from before.
    pub fn new(interval: Duration, now: Instant) -> Self {
        let next_look = Some(now + interval);
        Self { interval, next_look, alone: false, accounts: BTreeMap::new() }
    }

    /// In the middle of these tasks the agent ended, of their own doing for all it knows: they are left
    /// alone for a while, the longer the more often it did.
    pub fn leave_alone<'a>(&mut self, tasks: impl Iterator<Item = &'a TaskName>, now: Instant) {
        tasks.for_each(|task| self.account(task).failed(now));
    }

    fn account(&mut self, task: &TaskName) -> &mut Account {
        self.accounts.entry(task.clone()).or_default()
    }

    /// The server is there: it decides.
    pub fn connected(&mut self, interval: Duration, now: Instant) {
        self.interval = interval;
        self.next_look = None;
        self.alone = false;
        self.settle_accounts(now);
    }

    /// The server is gone.
    pub fn lost(&mut self, now: Instant) {
        if self.next_look.is_none() {
            self.next_look = Some(now + self.interval);
            self.settle_accounts(now);
        }
        self.alone = true;
    }

    /// Keeps only what is to be left alone still: a connection that comes and goes is no reason to
    /// try it sooner.
    fn settle_accounts(&mut self, now: Instant) {
        self.accounts.retain(|_, account| account.retry.is_some_and(|due| now < due));
    }

    /// The server could not be reached.
    pub fn unreached(&mut self) {
        self.alone = true;
    }

    /// Whether the agent knows that nobody but itself will act on what the host says has changed.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// Everything was looked at, and with it every task whose next try was due.
    pub fn looked(&mut self, now: Instant) {
        for account in self.accounts.values_mut() {
            // Also of tasks that are not for the agent alone to repair, or are gone.
            account.retry.take_if(|due| *due <= now);
        }
        if let Some(next) = &mut self.next_look {
            *next = now + self.interval;
        }
    }

    /// When to look next; never while the server is there.
    pub fn next_look(&self) -> Option<Instant> {
        let retries = self.accounts.values().filter_map(|account| account.retry);
        self.next_look.map(|look| retries.fold(look, Instant::min))
    }

    /// The steps to put right, from what the checks said of those that were looked at.
    pub fn repairs(
        &mut self,
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
            let found: Vec<Finding> = steps.iter().map(|step| findings[step.0 as usize]).collect();
            if found.iter().all(|finding| *finding == Finding::Unknown) {
                continue;
            }
            let paused = self.account(&task.name).found(&found, now);
            let found = found.into_iter().zip(task.steps.iter().map(|step| step.on_failure));
            if let Decision::Apply(positions) = policy::decide(task.policy, false, paused, found) {
                due.extend(positions.into_iter().map(|position| steps[position]));
            }
        }
        due
    }

    /// A repair has ended, the agent's own or one that the server asked for; what failed is left
    /// alone for a while.
    pub fn learn(&mut self, report: &Report, now: Instant) {
        let mut by_task: BTreeMap<&TaskName, bool> = BTreeMap::new();
        for (step, outcome) in &report.outcomes {
            if let Some((task, _)) = report.held.name_of(*step) {
                *by_task.entry(task).or_default() |= outcome.is_failure();
            }
        }
        for (task, failed) in by_task {
            let account = self.account(task);
            if failed { account.failed(now) } else { account.is_well(now) }
        }
    }
}

impl Account {
    fn is_well(&mut self, now: Instant) {
        self.relapses.found_well(now);
        (self.failures, self.retry) = (0, None);
    }

    fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.retry = Some(now + policy::pause_after(self.failures));
    }

    /// Takes what was found; tells whether the task is to be left alone.
    fn found(&mut self, found: &[Finding], now: Instant) -> bool {
        if self.retry.is_some_and(|due| due <= now) {
            // This is the try that was due.
            self.retry = None;
        }
        if found.contains(&Finding::Drifted) {
            if let Some(pause) = self.relapses.found_drifted(now) {
                self.retry = Some(now + pause);
            }
        } else if found.iter().all(|finding| *finding == Finding::Satisfied) {
            self.is_well(now);
        }
        self.retry.is_some()
    }
}

#[cfg(test)]
mod tests;
