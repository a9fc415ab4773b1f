//! What is known of each step and task of one host, against the snapshot it is held to.

use std::sync::Arc;
use std::time::Instant;

use fluke_model::id::CommitId;
use fluke_model::policy::{Finding, Relapses};
use fluke_model::snapshot::{Snapshot, SnapshotTask, StepIndex};
use fluke_model::status::{Status, StepStatus};
use fluke_model::task::OnFailure;
use fluke_model::time::Timestamp;
use fluke_model::verdict::Verdict;

use super::Wanted;

/// One host's snapshot and how far the host is from it.
#[derive(Debug, Clone)]
pub struct Board {
    /// The newest commit that says so.
    pub commit: CommitId,
    /// What the host should be.
    pub snapshot: Arc<Snapshot>,
    /// By [`StepIndex`].
    pub steps: Vec<StepState>,
    /// By position in the snapshot.
    pub tasks: Vec<TaskState>,
    /// What the host should be once the apply that is under way has ended.
    pub newer: Option<Wanted>,
    /// Whether the newest word is of the same commit as the one before: only replicas have moved.
    pub is_moved: bool,
}

/// What is known of one step.
#[derive(Debug, Clone, Default)]
pub struct StepState {
    /// What its check last said.
    pub verdict: Option<Verdict>,
    /// What applying it came to, until a check agrees.
    pub apply: ApplyMark,
    /// Since when its status is what it is.
    pub since: Option<Timestamp>,
    /// When its check last ran.
    pub last_checked: Option<Timestamp>,
    /// When it was last applied.
    pub last_applied: Option<Timestamp>,
}

/// What applying a step came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ApplyMark {
    /// Not tried since it was last in sync.
    #[default]
    None,
    /// Under way.
    Applying,
    /// It failed.
    Failed(Box<str>),
    /// It ran without error, and the check still says no.
    StillDrifted,
}

/// What is known of one task.
#[derive(Debug, Clone, Default)]
pub struct TaskState {
    /// Failed applies in a row.
    pub failures: u32,
    /// When the next try is due: on the monotonic clock to act by, on the wall clock to show.
    pub retry: Option<(Instant, Timestamp)>,
    /// The current drift was told.
    pub drift_told: bool,
    /// The current failure streak was told.
    pub failure_told: bool,
    /// Whether what is put right stays so.
    pub relapses: Relapses,
}

impl TaskState {
    /// The task is as it should be; what it was before.
    pub fn make_peace(&mut self, now: Instant) -> Self {
        let mut relapses = self.relapses;
        relapses.found_well(now);
        std::mem::replace(self, Self { relapses, ..Self::default() })
    }
}

impl StepState {
    /// How the step stands.
    pub fn status(&self) -> StepStatus {
        match (&self.apply, &self.verdict) {
            (ApplyMark::Applying, _) => StepStatus::Applying,
            (_, None) => StepStatus::Unknown,
            (_, Some(Verdict::Satisfied)) => StepStatus::InSync,
            (_, Some(Verdict::Error { .. })) | (ApplyMark::Failed(_), _) => StepStatus::Failed,
            (ApplyMark::StillDrifted, _) => StepStatus::AppliedButDrifted,
            (ApplyMark::None, Some(Verdict::Drifted(_))) => StepStatus::Drifted,
        }
    }

    /// What [`fluke_model::policy::decide`] needs to know of it.
    pub fn finding(&self) -> Finding {
        self.verdict.as_ref().map_or(Finding::Unknown, Finding::from)
    }

    /// Why it is not in sync.
    pub fn reason(&self) -> Option<String> {
        let drift = match &self.verdict {
            Some(Verdict::Drifted(drift)) => Some(drift.reason.as_str()),
            Some(Verdict::Error { reason }) => Some(reason.as_str()),
            Some(Verdict::Satisfied) | None => None,
        };
        match &self.apply {
            ApplyMark::Failed(why) => Some(why.to_string()),
            ApplyMark::StillDrifted => Some(format!(
                "applied without error, but its check still fails ({}): the check or the command is wrong",
                drift.unwrap_or("no reason given")
            )),
            ApplyMark::None | ApplyMark::Applying => drift.map(str::to_string),
        }
    }

    /// Nothing is under way any more, whatever came of it.
    pub fn stop_applying(&mut self) {
        if self.apply == ApplyMark::Applying {
            self.apply = ApplyMark::None;
        }
    }

    /// Changes it and notes the time if its status changed with it. Tries that fail do not make a
    /// drift any younger.
    pub fn update(&mut self, wall: Timestamp, change: impl FnOnce(&mut Self)) {
        let before = self.status();
        change(self);
        if self.verdict == Some(Verdict::Satisfied) && self.apply != ApplyMark::Applying {
            self.apply = ApplyMark::None;
        }
        let now = self.status();
        let is_old = now == before || (now.is_drifted() && before.is_drifted());
        if !is_old || self.since.is_none() {
            self.since = Some(wall);
        }
    }
}

impl Board {
    /// Nothing known yet.
    pub fn new(commit: CommitId, snapshot: Arc<Snapshot>) -> Self {
        let steps = vec![StepState::default(); snapshot.step_count()];
        let tasks = vec![TaskState::default(); snapshot.tasks().len()];
        Self { commit, snapshot, steps, tasks, newer: None, is_moved: false }
    }

    /// The newest word of Git, and the commit that says so. Services are held to it at once; what
    /// steps are held to is older while some of them are applied.
    pub fn newest(&self) -> (&CommitId, &Arc<Snapshot>) {
        match &self.newer {
            Some(Wanted { commit, snapshot }) => (commit, snapshot),
            None => (&self.commit, &self.snapshot),
        }
    }

    /// What services are held to.
    pub fn of_services(&self) -> &Snapshot {
        self.newest().1
    }

    /// The board for a new snapshot. Tasks that did not change keep what is known of them, but
    /// are free to be tried again at once.
    pub fn succeed(&self, commit: CommitId, snapshot: Arc<Snapshot>) -> Self {
        let mut next = Self::new(commit, snapshot);
        let snapshot = next.snapshot.clone();
        for (position, task) in snapshot.tasks().iter().enumerate() {
            let Some(old) = self.position_of_same(task) else { continue };
            for (to, from) in snapshot.steps_of(position).zip(self.snapshot.steps_of(old)) {
                let state = &self.steps[from.0 as usize];
                // The end of an apply that is under way will speak of this board's snapshot: what
                // came of it, the next check tells.
                if state.apply != ApplyMark::Applying {
                    next.steps[to.0 as usize] = state.clone();
                }
            }
            next.tasks[position] = TaskState { retry: None, ..self.tasks[old].clone() };
        }
        next
    }

    /// Whether nothing but replicas is otherwise in a snapshot, of the same commit.
    pub fn is_moved_to(&self, commit: &CommitId, snapshot: &Snapshot) -> bool {
        self.commit == *commit && self.snapshot.task_hashes() == snapshot.task_hashes()
    }

    /// The tasks of this board that are not on `next`, or are changed there.
    pub fn gone_from<'a>(&'a self, next: &'a Board) -> impl Iterator<Item = usize> + 'a {
        (0..self.tasks.len())
            .filter(|position| next.position_of_same(&self.snapshot.tasks()[*position]).is_none())
    }

    fn position_of_same(&self, task: &Arc<SnapshotTask>) -> Option<usize> {
        let (position, mine) = self.snapshot.task(&task.name)?;
        (Arc::ptr_eq(mine, task) || mine == task).then_some(position)
    }

    /// One step's state.
    pub fn step_mut(&mut self, index: StepIndex) -> Option<&mut StepState> {
        self.steps.get_mut(index.0 as usize)
    }

    /// What is known of a task's steps, in declaration order.
    pub fn findings(&self, task: usize) -> impl Iterator<Item = (Finding, OnFailure)> + '_ {
        let steps = &self.snapshot.tasks()[task].steps;
        self.states(task).zip(steps.iter()).map(|(state, step)| (state.finding(), step.on_failure))
    }

    /// The states of a task's steps, in declaration order.
    pub fn states(&self, task: usize) -> impl Iterator<Item = &StepState> {
        self.snapshot.steps_of(task).map(|index| &self.steps[index.0 as usize])
    }

    /// How a task stands.
    pub fn task_status(&self, task: usize) -> Status {
        Status::of_steps(self.states(task).map(StepState::status))
    }

    /// Whether any step of the task is known not to be as it should be.
    pub fn is_drifted(&self, task: usize) -> bool {
        self.states(task).any(|state| state.finding() == Finding::Drifted)
    }

    /// The first reason of a task that is not in sync.
    pub fn reason(&self, task: usize) -> Option<String> {
        self.states(task).find_map(StepState::reason)
    }
}
