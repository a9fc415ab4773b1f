//! When a cycle starts, why, and over which steps.

use std::collections::VecDeque;
use std::time::Duration;

use fluke_model::message::{Scope, ToAgent};
use fluke_model::policy::Trigger;
use fluke_model::time::Timestamp;

use super::board::Board;
use super::request::{ended, progress};
use super::{Cycle, Effect, Machine, Now, Phase, Progress, Request, What, indices, tasks_in};

/// How many moments of an interval polls are due at; every half second, by default.
const BEATS: u64 = 120;

impl Machine {
    /// Starts the next cycle, if the machine rests and something wants one.
    pub(super) fn begin_what_waits(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.session.is_some() && self.board.is_none() {
            // Whoever asked should not wait for a commit that may never come.
            let why = "no commit is in force yet; `fluke get source` tells why";
            let requests = self.waiting.requests.drain(..);
            effects.extend(requests.map(|request| ended(request, Some(why.into()))));
        }
        if let Some((_, why)) = &self.unsendable {
            let requests = self.waiting.requests.drain(..);
            effects.extend(requests.map(|request| ended(request, Some(why.to_string()))));
            return;
        }
        if self.session.is_none() {
            return;
        }
        self.begin_with_services(now, effects);
        while matches!(self.phase, Phase::Resting) {
            let Some(cycle) = self.next_cycle(now) else { return };
            self.begin(cycle, now, effects);
        }
    }

    /// Whoever asks for a service waits for no step: their agent keeps services beside them.
    fn begin_with_services(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &self.board else { return };
        let is_of_one = |request: &Request| matches!(request.what, What::Service(_));
        let requests = std::mem::take(&mut self.waiting.requests).into_iter();
        let (services, others): (VecDeque<_>, _) = requests.partition(is_of_one);
        self.waiting.requests = others;
        let cycles: Vec<_> = services.into_iter().map(|it| Cycle::asked_for(it, board)).collect();
        cycles.into_iter().for_each(|cycle| self.begin(cycle, now, effects));
    }

    fn next_cycle(&mut self, now: Now) -> Option<Cycle> {
        let board = self.board.as_ref()?;
        let waiting = &mut self.waiting;
        if std::mem::take(&mut waiting.connect) {
            (waiting.commit, waiting.everything) = (false, false);
            waiting.steps.clear();
            return Some(Cycle { trigger: Trigger::Connect, scope: Scope::All, request: None });
        }
        if let Some(again) = waiting.again.take() {
            return Some(again);
        }
        if std::mem::take(&mut waiting.commit) {
            let everything = std::mem::take(&mut waiting.everything);
            let scope = if everything { Scope::All } else { new_or_failing(board) };
            return Some(Cycle { trigger: Trigger::Commit, scope, request: None });
        }
        if let Some(request) = waiting.requests.pop_front() {
            return Some(Cycle::asked_for(request, board));
        }
        // What comes with time goes before what the host asks for, which may be without end.
        if self.next_poll.is_some_and(|at| at <= now.instant) {
            waiting.steps.clear();
            return Some(Cycle { trigger: Trigger::Poll, scope: Scope::All, request: None });
        }
        let due = |task: &usize| board.tasks[*task].retry.is_some_and(|(at, _)| at <= now.instant);
        let retries: Vec<_> = (0..board.tasks.len())
            .filter(due)
            .flat_map(|task| board.snapshot.steps_of(task))
            .collect();
        if !retries.is_empty() {
            let scope = Scope::Steps(retries);
            return Some(Cycle { trigger: Trigger::Retry, scope, request: None });
        }
        if waiting.steps.is_empty() {
            return None;
        }
        let scope = Scope::Steps(std::mem::take(&mut waiting.steps).into_iter().collect());
        Some(Cycle { trigger: Trigger::Watch, scope, request: None })
    }

    fn begin(&mut self, cycle: Cycle, now: Now, effects: &mut Vec<Effect>) {
        if let Some(request) = &cycle.request
            && let Some(why) = self.overtaken(request)
        {
            effects.push(ended(request.clone(), Some(why)));
            return;
        }
        let (Some(board), Some(session)) = (&mut self.board, &mut self.session) else { return };
        if matches!(cycle.scope, Scope::All) {
            let pause = spread_over(self.poll_interval, &mut self.spread);
            self.next_poll = Some(now.instant + on_the_beat(pause, self.poll_interval, now.wall));
        }
        for task in tasks_in(&board.snapshot, &cycle.scope) {
            // What is tried now need not be tried again for its own sake.
            if board.tasks[task].retry.is_some_and(|(at, _)| at <= now.instant) {
                board.tasks[task].retry = None;
            }
        }
        effects.extend(session.hold(board));
        if indices(&board.snapshot, &cycle.scope).is_empty() {
            if let Some(request) = cycle.request {
                self.end_with_services(request, None, effects);
            }
            return;
        }
        let instruction = session.instruct();
        let (snapshot, steps) = (board.snapshot.hash(), cycle.scope.clone());
        effects.push(Effect::Send(ToAgent::Check { instruction, snapshot, steps }));
        if let Some(request) = &cycle.request {
            effects.push(progress(request, Progress::Checking));
        }
        self.phase = Phase::Checking { instruction, cycle };
    }
}

impl Cycle {
    /// For somebody.
    fn asked_for(request: Request, board: &Board) -> Self {
        let scope = request.what.scope(board);
        let trigger = Trigger::Manual { by: request.by.clone() };
        Self { trigger, scope, request: Some(request) }
    }
}

/// The steps that a commit is about: never checked, or of a task that failed before.
fn new_or_failing(board: &Board) -> Scope {
    let failing = |task: usize| board.tasks[task].failures > 0;
    let steps: Vec<_> = (0..board.tasks.len())
        .flat_map(|task| board.snapshot.steps_of(task).map(move |index| (task, index)))
        .filter(|(task, index)| board.steps[index.0 as usize].verdict.is_none() || failing(*task))
        .map(|(_, index)| index)
        .collect();
    match steps.len() == board.steps.len() {
        true => Scope::All,
        false => Scope::Steps(steps),
    }
}

/// Between 85 and 100 % of the interval, another share each time, so that agents spread out
/// and none is ever late.
fn spread_over(interval: Duration, state: &mut u64) -> Duration {
    // A linear congruential step (Knuth's constants): spreading needs no better randomness.
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let share = (*state >> 40) as f64 / (1u64 << 24) as f64;
    interval.mul_f64(1.0 - 0.14 * share)
}

/// A little less than `pause`, so that it ends when many do: a server that wakes for eighty agents
/// has half the work of one that wakes eighty times.
fn on_the_beat(pause: Duration, interval: Duration, now: Timestamp) -> Duration {
    let beat = (interval.as_millis() as u64 / BEATS).max(1);
    let end = now.0.saturating_add(pause.as_millis() as u64);
    pause.saturating_sub(Duration::from_millis(end % beat))
}
