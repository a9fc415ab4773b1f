//! An apply from its instruction to its end: what the agent's records say, and what comes of it.

use std::collections::BTreeSet;

use fluke_model::event::{Event, EventKind};
use fluke_model::id::InstructionId;
use fluke_model::message::{Fact, Record, RecordId, Subject, ToAgent};
use fluke_model::policy;
use fluke_model::snapshot::StepIndex;
use fluke_model::verdict::{Drift, Outcome, Output, Verdict};

use super::board::{ApplyMark, StepState};
use super::request::progress;
use super::{ApplyingTask, Cycle, Effect, Machine, Now, Phase, Progress};
use crate::alert::Owner;

impl Machine {
    pub(super) fn apply(
        &mut self,
        cycle: Cycle,
        due: Vec<StepIndex>,
        tasks: Vec<ApplyingTask>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let (Some(board), Some(session)) = (&mut self.board, &mut self.session) else { return };
        for index in &due {
            if let Some(state) = board.step_mut(*index) {
                state.update(now.wall, |state| state.apply = ApplyMark::Applying);
            }
        }
        let instruction = session.instruct();
        effects.push(Effect::Send(ToAgent::Apply {
            instruction,
            snapshot: board.snapshot.hash(),
            steps: due,
            trigger: cycle.trigger.clone(),
        }));
        if let Some(request) = &cycle.request {
            effects.push(progress(request, Progress::Applying));
        }
        self.phase = Phase::Applying { instruction, cycle, tasks };
    }

    pub(super) fn recorded(&mut self, record: Record, now: Now, effects: &mut Vec<Effect>) {
        effects.push(Effect::Send(ToAgent::Ack { record: record.id }));
        // An agent repeats what was not acknowledged; what is known already is not told twice.
        if record.id <= self.newest_record {
            return;
        }
        let second_end = self.is_second_end(&record);
        self.newest_record = record.id;
        if second_end {
            return;
        }
        match &record.fact {
            Fact::Began { .. } => {
                self.close_under_way(|began| began.takes_turns_with(&record.subject), now, effects);
                self.under_way.push(record.clone());
            }
            Fact::Ended { .. } => self.under_way.retain(|began| !are_one(began, &record)),
            Fact::PassedOver { .. } => {}
        }
        effects.push(Effect::Record(self.record_event(&record)));
        self.progress_of(&record, effects);
        self.note_in_phase(&record);
        self.note_service(&record);
        self.note_failure_of_old(&record, now, effects);
        let Some(board) = &mut self.board else { return };
        if board.snapshot.hash() != record.snapshot {
            return;
        }
        let Some(index) = record.subject.index() else { return };
        let Some(state) = board.step_mut(index) else { return };
        state.update(now.wall, |state| take_fact(state, &record));
    }

    /// Whether an agent that was killed ends an apply that is not under way, though it speaks of
    /// nothing else in between: it had told how it ended, and had not been able to write that down.
    fn is_second_end(&self, record: &Record) -> bool {
        matches!(record.fact, Fact::Ended { outcome: Outcome::Interrupted, .. })
            && self.newest_record > RecordId(0)
            && !self.under_way.iter().any(|began| are_one(began, record))
    }

    /// Ends applies that their agent has lost the memory of, so that every one has an end: it was
    /// killed, and had not been able to write down that they had begun.
    pub(super) fn close_under_way(
        &mut self,
        which: impl Fn(&Subject) -> bool,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let lost = self.under_way.extract_if(.., |began| which(&began.subject));
        for began in lost.collect::<Vec<_>>() {
            self.close(began, now, effects);
        }
    }

    fn close(&mut self, began: Record, now: Now, effects: &mut Vec<Effect>) {
        let said = "the agent ended in the middle of this apply, and could not write down that it \
                    had begun; whether it was done, the next check tells";
        let output = Output::from_text(said);
        let fact = Fact::Ended { outcome: Outcome::Interrupted, duration_ms: 0, output };
        let ended = Record { at: now.wall, fact, ..began };
        effects.push(Effect::Record(self.record_event(&ended)));
        self.note_failure_of_old(&ended, now, effects);
    }

    fn note_in_phase(&mut self, record: &Record) {
        let Phase::Applying { instruction, tasks, .. } = &mut self.phase else { return };
        let (Some(board), Some(of)) = (&self.board, record.instruction) else { return };
        let Some(index) = record.subject.index() else { return };
        let Some((position, _)) = board.snapshot.step(index) else { return };
        if *instruction != of || board.snapshot.hash() != record.snapshot {
            return;
        }
        if let Some(task) = tasks.iter_mut().find(|task| task.task == position) {
            match &record.fact {
                Fact::Began { .. } => {}
                Fact::Ended { outcome, .. } | Fact::PassedOver { outcome, .. } => {
                    task.open.remove(&index);
                    task.failed |= outcome.is_failure();
                }
            }
        }
    }

    pub(super) fn finished(&mut self, of: InstructionId, now: Now, effects: &mut Vec<Effect>) {
        match &self.phase {
            Phase::Applying { instruction, .. } if *instruction == of => {}
            _ => return,
        }
        let Phase::Applying { cycle, tasks, .. } =
            std::mem::replace(&mut self.phase, Phase::Resting)
        else {
            return;
        };
        for task in tasks {
            self.settle(task, now, effects);
        }
        self.end_request(cycle.request, effects);
        self.adopt_newer(now, effects);
    }

    /// Draws the line under one task's apply: pause or peace, told once.
    fn settle(&mut self, applied: ApplyingTask, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &mut self.board else { return };
        for index in &applied.open {
            // The agent says it is done and never spoke of this step.
            if let Some(state) = board.step_mut(*index) {
                state.update(now.wall, |state| {
                    state.apply = ApplyMark::Failed("the agent did not report how it ended".into());
                });
            }
        }
        if applied.failed || !applied.open.is_empty() {
            return self.fail(applied.task, now, effects);
        }
        let entry = &board.snapshot.tasks()[applied.task];
        let (name, policy) = (entry.name.clone(), entry.policy);
        let before = board.tasks[applied.task].make_peace(now.instant);
        if (before.drift_told || before.failure_told) && policy.alerts() {
            effects.push(Effect::Alert(self.remediated(Owner::Task(name), true, now)));
        }
    }

    /// One more failure in a row: the task is left alone for a while, and people are told of the
    /// first.
    fn fail(&mut self, task: usize, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &mut self.board else { return };
        let entry = &board.snapshot.tasks()[task];
        let (name, policy) = (entry.name.clone(), entry.policy);
        let state = &mut board.tasks[task];
        state.failures += 1;
        let pause = policy::pause_after(state.failures);
        state.retry = policy.remediates().then(|| (now.instant + pause, now.wall.after(pause)));
        if !std::mem::replace(&mut state.failure_told, true) && policy.alerts() {
            effects.push(Effect::Alert(self.remediated(Owner::Task(name), false, now)));
        }
    }

    /// The connection was lost in the middle of an apply. What has come to its end has ended; the
    /// rest is in the agent's journal.
    pub(super) fn settle_what_ended(
        &mut self,
        tasks: Vec<ApplyingTask>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        for task in tasks.into_iter().filter(|task| task.failed || task.open.is_empty()) {
            self.settle(ApplyingTask { open: BTreeSet::new(), ..task }, now, effects);
        }
    }

    /// A record of an apply that nobody waits for any more: its connection was lost, or its agent
    /// died. An apply that takes its agent or its network down every time must not be tried every
    /// time they are back. Having been interrupted once is no fault of the task's.
    fn note_failure_of_old(&mut self, record: &Record, now: Now, effects: &mut Vec<Effect>) {
        let (Some(board), Some(of)) = (&mut self.board, record.instruction) else { return };
        let Fact::Ended { outcome, .. } = &record.fact else { return };
        let is_old =
            !matches!(&self.phase, Phase::Applying { instruction, .. } if *instruction == of);
        if !is_old || !outcome.is_failure() || board.snapshot.hash() != record.snapshot {
            return;
        }
        let Some(index) = record.subject.index() else { return };
        let Some((task, _)) = board.snapshot.step(index) else { return };
        let state = &mut board.tasks[task];
        match outcome {
            Outcome::Interrupted if state.failures == 0 => state.failures = 1,
            _ => self.fail(task, now, effects),
        }
    }

    fn record_event(&self, record: &Record) -> Event {
        let (kind, outcome, duration_ms, output) = match &record.fact {
            Fact::Began { reason } => (EventKind::ApplyStarted, None, None, reason.clone()),
            Fact::Ended { outcome, duration_ms, output } => {
                (EventKind::ApplyFinished, Some(*outcome), Some(*duration_ms), output.text())
            }
            Fact::PassedOver { outcome, reason } => {
                (EventKind::ApplySkipped, Some(*outcome), None, reason.clone())
            }
        };
        let (task, service, step) = record.subject.names();
        Event {
            agent: Some(self.name.clone()),
            task: task.cloned(),
            service: service.cloned(),
            step: Some(step.clone()),
            trigger: Some(record.trigger.as_str().to_string()),
            by: record.trigger.by().map(str::to_string),
            commit: Some(record.commit.clone()),
            outcome,
            duration_ms,
            output: Some(output),
            ..Event::new(kind, record.at)
        }
    }
}

/// Whether two records are of the same apply.
fn are_one(one: &Record, other: &Record) -> bool {
    let key = |record: &Record| (record.instruction, record.snapshot);
    key(one) == key(other) && one.subject == other.subject
}

fn take_fact(state: &mut StepState, record: &Record) {
    match &record.fact {
        Fact::Began { reason } => {
            state.apply = ApplyMark::Applying;
            state.verdict = Some(Verdict::Drifted(Drift::because(reason.clone())));
        }
        Fact::Ended { outcome, output, .. } => {
            state.last_applied = Some(record.at);
            match outcome {
                Outcome::Success | Outcome::Healed => {
                    state.apply = ApplyMark::None;
                    state.verdict = Some(Verdict::Satisfied);
                }
                Outcome::AppliedButDrifted => state.apply = ApplyMark::StillDrifted,
                Outcome::Failure | Outcome::Skipped | Outcome::Interrupted => {
                    let why = last_lines(&output.text(), outcome.as_str());
                    state.apply = ApplyMark::Failed(why.into());
                }
            }
        }
        Fact::PassedOver { outcome: Outcome::Healed | Outcome::Success, .. } => {
            state.apply = ApplyMark::None;
            state.verdict = Some(Verdict::Satisfied);
        }
        Fact::PassedOver { outcome: Outcome::Skipped, .. } => state.apply = ApplyMark::None,
        Fact::PassedOver { reason, .. } => {
            state.apply = ApplyMark::None;
            state.verdict = Some(Verdict::Error { reason: reason.clone() });
        }
    }
}

/// The end of an output is where programs say what went wrong, and agents how they ended.
fn last_lines(output: &str, otherwise: &str) -> String {
    let mut lines: Vec<_> =
        output.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
    lines.reverse();
    if lines.is_empty() { otherwise.to_string() } else { lines.join(" ") }
}
