//! Approvals: what somebody saw and said yes to, and whether it still is that.

use std::collections::BTreeMap;

use fluke_model::gather::Gather;
use fluke_model::id::{Hash256, StepAddress, TaskName};
use fluke_model::snapshot::StepIndex;
use fluke_model::verdict::{Drift, Verdict};

use super::services::has_service;
use super::{Machine, Request, What};

/// One task as Git had it, and how far one host was from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Names all that the task would do.
    task: Hash256,
    /// What the check of each step said that was not as it should be.
    verdicts: BTreeMap<StepAddress, Verdict>,
}

impl Approval {
    /// Names the task as it was seen.
    pub fn task(&self) -> Hash256 {
        self.task
    }

    /// Whether a step was known to be off in this very way.
    fn covers(&self, step: &StepAddress, drift: &Drift) -> bool {
        match self.verdicts.get(step) {
            Some(Verdict::Drifted(seen)) => {
                // A beginning apply tells the reason alone.
                let is_other = |(one, other)| one != other;
                let diffs = seen.diff.as_ref().zip(drift.diff.as_ref());
                seen.reason == drift.reason && !diffs.is_some_and(is_other)
            }
            Some(Verdict::Satisfied | Verdict::Error { .. }) | None => false,
        }
    }
}

impl Machine {
    /// What somebody approves of who looks at the task now; none if it is not for this host.
    pub fn approval(&self, task: &TaskName) -> Option<Approval> {
        let board = self.board.as_ref()?;
        let (position, found) = board.snapshot.task(task)?;
        let steps = found.steps.iter().zip(board.states(position));
        let verdicts = steps
            .filter(|(_, state)| state.status().is_drifted())
            .filter_map(|(step, state)| Some((step.address.clone(), state.verdict.clone()?)))
            .gather();
        Some(Approval { task: board.snapshot.task_hashes()[position], verdicts })
    }

    /// Why a request is not begun: Git has overtaken it.
    pub(super) fn overtaken(&self, request: &Request) -> Option<String> {
        let board = self.board.as_ref()?;
        let name = match &request.what {
            What::Host => return None,
            What::Task { name, .. } => name,
            What::Service(name) => {
                return (!has_service(board, name)).then(|| {
                    let commit = board.newest().0.short();
                    format!(
                        "nothing was done: since this was asked for, the service `{name}` no \
                         longer runs on this host (commit {commit})"
                    )
                });
            }
        };
        let commit = board.commit.short();
        let Some((position, _)) = board.snapshot.task(name) else {
            return Some(format!(
                "nothing was applied: since this was asked for, the task `{name}` no longer \
                 applies to this host (commit {commit})"
            ));
        };
        let approved = request.what.approved()?;
        (approved.task != board.snapshot.task_hashes()[position]).then(|| {
            format!(
                "nothing was applied: the task `{name}` was changed in Git since this was approved \
                 (commit {commit}); look at what it does now, and approve that"
            )
        })
    }

    /// Why nothing is applied, if what the check has found is not what was approved.
    pub(super) fn not_approved(&self, request: &Request, due: &[StepIndex]) -> Option<String> {
        let approved = request.what.approved()?;
        let board = self.board.as_ref()?;
        let unseen: Vec<String> = due
            .iter()
            .filter_map(|index| Some((board.snapshot.step(*index)?.1, index.0 as usize)))
            .filter_map(|(step, at)| match &board.steps.get(at)?.verdict {
                Some(Verdict::Drifted(drift)) if approved.covers(&step.address, drift) => None,
                Some(Verdict::Drifted(drift)) => {
                    Some(format!("{} ({})", step.address, drift.reason))
                }
                _ => Some(step.address.to_string()),
            })
            .collect();
        (!unseen.is_empty()).then(|| {
            let unseen = unseen.join(", ");
            format!(
                "nothing was applied: what has drifted is no longer what was approved, now: {unseen}; \
                 look again, and approve that"
            )
        })
    }
}
