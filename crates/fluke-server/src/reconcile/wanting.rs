//! What Git says of a host: taken at once, or as far as an apply that is under way lets it.

use fluke_model::event::EventKind;
use fluke_model::id::{CommitId, Hash256};
use fluke_model::message::Scope;
use fluke_model::policy::Trigger;

use super::board::Board;
use super::request::ended;
use super::{Effect, Machine, Now, Phase, Wanted};
use crate::alert::Owner;

impl Machine {
    /// Takes the newest word of Git: all of it, or, while an apply is under way, what it says of
    /// services, which do not wait for steps.
    pub(super) fn want(&mut self, wanted: Wanted, now: Now, effects: &mut Vec<Effect>) {
        let hash = wanted.snapshot.hash();
        let can_be_sent = self.unsendable.take_if(|(it, _)| *it != hash).is_some();
        match &self.phase {
            Phase::Applying { .. } => self.hold_services_to(wanted, now, effects),
            Phase::Resting | Phase::Checking { .. } => self.adopt(wanted, now, effects),
        }
        if can_be_sent {
            effects.push(Effect::Record(self.event(EventKind::CheckRecovered, now)));
        }
    }

    /// Notes a newer commit that says what the last word of Git did.
    pub fn is_held_by(&mut self, commit: &CommitId) {
        let Some(board) = &mut self.board else { return };
        let by = board.newer.as_mut().map_or(&mut board.commit, |newer| &mut newer.commit);
        if by != commit {
            by.clone_from(commit);
        }
    }

    /// An agent that applies goes on with the snapshot it began with; its services take up the
    /// newest at once.
    fn hold_services_to(&mut self, wanted: Wanted, now: Now, effects: &mut Vec<Effect>) {
        let (Some(board), Some(session)) = (&mut self.board, &mut self.session) else { return };
        let (commit, held) = board.newest();
        board.is_moved = *commit == wanted.commit && session.held == Some(held.hash());
        board.newer = Some(wanted);
        if self.unsendable.is_none() {
            effects.extend(session.hold(board));
        }
        self.judge_services_anew(now, effects);
    }

    /// Nothing is applied any more: what waited for that waits no longer.
    pub(super) fn adopt_newer(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if let Some(newer) = self.board.as_mut().and_then(|board| board.newer.take()) {
            self.adopt(newer, now, effects);
        }
    }

    fn adopt(&mut self, wanted: Wanted, now: Now, effects: &mut Vec<Effect>) {
        let Wanted { commit, snapshot } = wanted;
        match &mut self.board {
            Some(board) if board.snapshot.hash() == snapshot.hash() => {
                board.commit = commit;
                return;
            }
            Some(board) if board.is_moved_to(&commit, &snapshot) => {
                let before = std::mem::replace(&mut board.snapshot, snapshot);
                return self.replicas_moved(before.hash(), now, effects);
            }
            Some(board) => {
                let next = board.succeed(commit, snapshot);
                let before = std::mem::replace(board, next);
                self.say_what_is_gone(&before, now, effects);
            }
            None => self.board = Some(Board::new(commit, snapshot)),
        }
        self.judge_services_anew(now, effects);
        self.waiting.commit = true;
        // What was to be looked at has other numbers now, or none.
        self.waiting.everything |= !std::mem::take(&mut self.waiting.steps).is_empty();
        if let Phase::Checking { cycle, .. } = std::mem::replace(&mut self.phase, Phase::Resting) {
            // The check that was under way speaks of a snapshot that no longer counts.
            match cycle.trigger {
                Trigger::Connect => self.waiting.connect = true,
                Trigger::Poll | Trigger::Watch => self.waiting.everything = true,
                Trigger::Commit => self.waiting.everything |= matches!(cycle.scope, Scope::All),
                // Asked for again below, or failing and so of interest to the commit's cycle.
                Trigger::Manual { .. } | Trigger::Retry => {}
                // No cycle is begun for these.
                Trigger::Offline | Trigger::Placement => {}
            }
            cycle.request.into_iter().for_each(|request| self.waiting.requests.push_front(request));
        }
    }

    /// Other replicas are here than were, and all else is as it was: steps, what is known of them,
    /// and when they are tried again.
    fn replicas_moved(&mut self, before: Hash256, now: Now, effects: &mut Vec<Effect>) {
        if let (Some(board), Some(session)) = (&mut self.board, &mut self.session) {
            // It may have it already, from before its apply ended.
            if session.held != Some(board.snapshot.hash()) {
                board.is_moved = session.held == Some(before);
            }
            if self.unsendable.is_none() {
                effects.extend(session.hold(board));
            }
        }
        if let Phase::Checking { cycle, .. } = std::mem::replace(&mut self.phase, Phase::Resting) {
            // The agent gives up a check when it hears of another snapshot.
            self.waiting.again = Some(cycle);
        }
        self.judge_services_anew(now, effects);
    }

    /// Nothing can be asked of the agent before another snapshot comes; it keeps what it has.
    pub(super) fn cannot_send(&mut self, why: String, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &self.board else { return };
        self.unsendable = Some((board.of_services().hash(), why.as_str().into()));
        if let Some(session) = &mut self.session {
            session.held = None;
        }
        if let Phase::Checking { cycle, .. } = &mut self.phase {
            let request = cycle.request.take();
            self.phase = Phase::Resting;
            effects.extend(request.map(|request| ended(request, Some(why.clone()))));
        }
        let mut event = self.event(EventKind::CheckFailed, now);
        event.output = Some(why);
        effects.push(Effect::Record(event));
    }

    /// Why nothing can be asked of the agent, if that is so.
    pub fn error(&self) -> Option<&str> {
        self.unsendable.as_ref().map(|(_, why)| &**why)
    }

    /// A drift whose task is gone is over, as far as fluke goes, and is taken back if it was told.
    fn say_what_is_gone(&self, before: &Board, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &self.board else { return };
        for task in before.gone_from(board) {
            let name = &before.snapshot.tasks()[task].name;
            if before.is_drifted(task) {
                let why = match board.snapshot.task(name) {
                    Some(_) => "the task was changed",
                    None => "the task no longer applies to this host",
                };
                let mut event = self.event(EventKind::DriftResolved, now);
                event.task = Some(name.clone());
                event.output = Some(why.to_string());
                effects.push(Effect::Record(event));
            }
            if before.tasks[task].drift_told {
                effects.push(Effect::Alert(self.resolved(Owner::Task(name.clone()), now)));
            }
        }
    }
}
