//! Somebody asks this agent to be put right: what for, how far that is, and how it ends.

use fluke_model::api::ReconcileStep;
use fluke_model::id::{InstructionId, ServiceName, TaskName};
use fluke_model::message::{Fact, Record, Scope};

use super::approval::Approval;
use super::board::Board;
use super::{Effect, Machine, Phase};

/// How many manual reconciles may wait for one agent, or for its services.
pub(super) const MAX_REQUESTS: usize = 64;
/// How many steps are named to somebody who asked and did not get what they wanted.
const NAMED_WRONG: usize = 20;

/// A manual reconcile, as far as one agent is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which one.
    pub id: String,
    /// Who asked.
    pub by: String,
    /// For what.
    pub what: What,
}

/// What is to be put right of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// All of it: its tasks, then its services.
    Host,
    /// One task.
    Task {
        /// Which one.
        name: TaskName,
        /// Only what whoever asked saw of it, if they said what they saw.
        approved: Option<Approval>,
    },
    /// One service.
    Service(ServiceName),
}

impl What {
    /// Only what was seen may be applied, if that is so.
    pub(super) fn approved(&self) -> Option<&Approval> {
        match self {
            Self::Task { approved, .. } => approved.as_ref(),
            Self::Host | Self::Service(_) => None,
        }
    }

    /// Whether it is about this task.
    pub(super) fn covers_task(&self, task: &TaskName) -> bool {
        match self {
            Self::Host => true,
            Self::Task { name, .. } => name == task,
            Self::Service(_) => false,
        }
    }

    /// Whether it is about this service.
    pub(super) fn covers_service(&self, service: &ServiceName) -> bool {
        match self {
            Self::Host => true,
            Self::Task { .. } => false,
            Self::Service(name) => name == service,
        }
    }

    /// The steps that are to be checked. Services are looked at by their host.
    pub(super) fn scope(&self, board: &Board) -> Scope {
        match self {
            Self::Host => Scope::All,
            Self::Task { name, .. } => Scope::Steps(
                board
                    .snapshot
                    .task(name)
                    .map_or_else(Vec::new, |(at, _)| board.snapshot.steps_of(at).collect()),
            ),
            Self::Service(_) => Scope::Steps(Vec::new()),
        }
    }
}

/// How far a manual reconcile has come on this agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Checks run.
    Checking,
    /// Steps are being applied.
    Applying,
    /// A step began or ended.
    Step(ReconcileStep),
    /// It is over.
    Ended {
        /// Set where something is not as it should be.
        error: Option<String>,
    },
}

impl Machine {
    /// Takes a manual reconcile, which the next step begins or queues; false if too many wait.
    pub fn ask(&mut self, request: Request) -> bool {
        let settling = self.services.as_ref().map_or(0, |services| services.settling());
        let room = self.waiting.requests.len() + settling < MAX_REQUESTS;
        if room {
            self.waiting.requests.push_back(request);
        }
        room
    }

    /// Tells whoever asked how it ended: well only if everything in scope is as it should be.
    pub(super) fn end_request(&mut self, request: Option<Request>, effects: &mut Vec<Effect>) {
        let (Some(request), Some(board)) = (request, &self.board) else { return };
        let mut wrong: Vec<String> = board
            .snapshot
            .steps()
            .filter(|(_, task, _)| request.what.covers_task(&task.name))
            .filter_map(|(index, task, step)| {
                let state = &board.steps[index.0 as usize];
                let reason = state.reason()?;
                Some(format!("{}/{}: {reason}", task.name, step.address))
            })
            .collect();
        if let Some(more @ 1..) = wrong.len().checked_sub(NAMED_WRONG) {
            wrong.truncate(NAMED_WRONG);
            wrong.push(format!("and {more} more; `fluke get drift` lists all"));
        }
        let wrong = (!wrong.is_empty()).then(|| wrong.join("\n"));
        self.end_with_services(request, wrong, effects);
    }

    /// Tells whoever waits for it what was done.
    pub(super) fn progress_of(&self, record: &Record, effects: &mut Vec<Effect>) {
        let Some(request) = record.instruction.and_then(|of| self.asked_for(of)) else { return };
        let (outcome, output) = match &record.fact {
            Fact::Began { .. } => (None, None),
            Fact::Ended { outcome, output, .. } => (Some(*outcome), Some(output.text())),
            Fact::PassedOver { outcome, reason } => (Some(*outcome), Some(reason.clone())),
        };
        let (task, service, step) = record.subject.names();
        let (task, service) = (task.cloned(), service.cloned());
        let step = ReconcileStep { task, service, step: step.clone(), outcome, output };
        effects.push(progress(request, Progress::Step(step)));
    }

    /// The request for which an instruction was given, while it is under way.
    fn asked_for(&self, of: InstructionId) -> Option<&Request> {
        match &self.phase {
            Phase::Applying { instruction, cycle, .. } if *instruction == of => {
                cycle.request.as_ref()
            }
            _ => self.services.as_ref()?.asked_for(of),
        }
    }
}

pub(super) fn progress(request: &Request, progress: Progress) -> Effect {
    Effect::Progress { id: request.id.clone(), progress }
}

pub(super) fn ended(request: Request, error: Option<String>) -> Effect {
    Effect::Progress { id: request.id, progress: Progress::Ended { error } }
}
