//! What a round of checks says, what is decided on it, and who is told.

use std::collections::BTreeSet;

use fluke_model::event::EventKind;
use fluke_model::gather::Gather;
use fluke_model::message::Checked;
use fluke_model::policy::{self, Decision, Finding};
use fluke_model::snapshot::StepIndex;

use super::board::{Board, StepState};
use super::request::ended;
use super::{ApplyingTask, Cycle, Effect, Machine, Now, Phase, indices, tasks_in};
use crate::alert::{Owner, RemediationStatus};

impl Machine {
    pub(super) fn checked(&mut self, checked: Checked, now: Now, effects: &mut Vec<Effect>) {
        let (Phase::Checking { instruction, .. }, Some(board)) = (&self.phase, &self.board) else {
            return;
        };
        // An answer to a check that a newer snapshot has replaced says nothing any more.
        if *instruction != checked.instruction || board.snapshot.hash() != checked.snapshot {
            return;
        }
        let Phase::Checking { cycle, .. } = std::mem::replace(&mut self.phase, Phase::Resting)
        else {
            return;
        };
        self.take_verdicts(checked, &cycle, now, effects);
        self.decide(cycle, now, effects);
    }

    fn take_verdicts(
        &mut self,
        checked: Checked,
        cycle: &Cycle,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let Some(board) = &mut self.board else { return };
        for index in indices(&board.snapshot, &cycle.scope) {
            if let Some(state) = board.step_mut(index) {
                state.last_checked = Some(now.wall);
                // An agent does one thing at a time: one that answers a check applies nothing.
                state.update(now.wall, StepState::stop_applying);
            }
        }
        let mut turned = Vec::new();
        for report in checked.changes {
            let Some(state) = board.step_mut(report.step) else { continue };
            let before = state.finding();
            state.update(now.wall, |state| state.verdict = Some(report.verdict));
            let turn = turn(before, state.finding());
            turned.extend(turn.map(|kind| (report.step, kind, state.reason())));
        }
        for (index, kind, reason) in turned {
            let mut event = self.step_event(kind, index, &cycle.trigger, now);
            event.output = reason;
            effects.push(Effect::Record(event));
        }
    }

    fn decide(&mut self, cycle: Cycle, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &mut self.board else { return };
        let manual = cycle.trigger.is_manual();
        let mut due = Vec::new();
        let mut tasks = Vec::new();
        let mut told = Vec::new();
        for task in tasks_in(&board.snapshot, &cycle.scope) {
            let policy = board.snapshot.tasks()[task].policy;
            pause_after_relapse(board, task, now);
            let paused = board.tasks[task].retry.is_some();
            let decision = policy::decide(policy, manual, paused, board.findings(task));
            told.push((task, decision.clone()));
            if let Decision::Apply(positions) = decision {
                let first = board.snapshot.steps_of(task).next().map_or(0, |index| index.0);
                let open = positions.iter().map(|at| StepIndex(first + *at as u32));
                let open: BTreeSet<_> = open.gather();
                due.extend(open.iter().copied());
                tasks.push(ApplyingTask { task, open, failed: false });
            }
        }
        told.into_iter().for_each(|(task, decision)| self.tell(task, &decision, now, effects));
        if let Some(request) = &cycle.request
            && let Some(why) = self.not_approved(request, &due)
        {
            effects.push(ended(request.clone(), Some(why)));
            return;
        }
        match due.is_empty() {
            true => self.end_request(cycle.request, effects),
            false => self.apply(cycle, due, tasks, now, effects),
        }
    }

    /// Tells people of a drift once, and of its going away by itself.
    fn tell(&mut self, task: usize, decision: &Decision, now: Now, effects: &mut Vec<Effect>) {
        let status = match decision {
            Decision::Nothing => return self.tell_of_peace(task, now, effects),
            Decision::AwaitHuman | Decision::Blocked => RemediationStatus::PendingManual,
            Decision::Apply(_) | Decision::HoldOff => RemediationStatus::InProgress,
        };
        let Some(board) = &mut self.board else { return };
        let alerts = board.snapshot.tasks()[task].policy.alerts();
        if alerts && !std::mem::replace(&mut board.tasks[task].drift_told, true) {
            effects.extend(self.drifted(task, status, now).map(Effect::Alert));
        }
    }

    fn tell_of_peace(&mut self, task: usize, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &mut self.board else { return };
        if board.findings(task).any(|(finding, _)| finding != Finding::Satisfied) {
            return;
        }
        if board.tasks[task].make_peace(now.instant).drift_told {
            let of = Owner::Task(board.snapshot.tasks()[task].name.clone());
            effects.push(Effect::Alert(self.resolved(of, now)));
        }
    }
}

/// Leaves a task alone for a while that drifts again whenever it was put right.
fn pause_after_relapse(board: &mut Board, task: usize, now: Now) {
    if !board.is_drifted(task) {
        return;
    }
    let remediates = board.snapshot.tasks()[task].policy.remediates();
    let state = &mut board.tasks[task];
    if let Some(pause) = state.relapses.found_drifted(now.instant).filter(|_| remediates) {
        state.retry = Some((now.instant + pause, now.wall.after(pause)));
    }
}

/// The event, if any, that a check's new answer is.
pub(super) fn turn(before: Finding, after: Finding) -> Option<EventKind> {
    match (before, after) {
        (Finding::Error, Finding::Error) | (Finding::Drifted, Finding::Drifted) => None,
        (_, Finding::Error) => Some(EventKind::CheckFailed),
        (_, Finding::Drifted) => Some(EventKind::DriftDetected),
        (Finding::Drifted, Finding::Satisfied) => Some(EventKind::DriftResolved),
        (Finding::Error, Finding::Satisfied) => Some(EventKind::CheckRecovered),
        _ => None,
    }
}
