//! How one agent looks from outside: API types made from the machine, and nothing decided.

use std::collections::BTreeMap;

use fluke_model::api::{Agent, AgentDetail, AgentStep, AgentTask, DriftEntry, TaskCounts};
use fluke_model::id::{Hash256, StepAddress, TaskName};
use fluke_model::message::NetworkReport;
use fluke_model::policy::Policy;
use fluke_model::snapshot::StepIndex;
use fluke_model::status::Status;
use fluke_model::verdict::Verdict;

use super::board::{Board, StepState};
use super::{Machine, Phase};

/// A fleet in numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Agents.
    pub by_status: BTreeMap<Status, u64>,
    /// Agents whose stream is open.
    pub connected: u64,
    /// All that agents are held to, containers included.
    pub steps: u64,
    /// Steps and containers that are not as they should be.
    pub drifted: BTreeMap<Policy, u64>,
}

impl Machine {
    /// The agent at a glance.
    pub fn view(&self) -> Agent {
        let tasks = self.board.as_ref().map(count).unwrap_or_default();
        Agent {
            name: self.name.clone(),
            labels: self.hello.labels.clone(),
            connected: self.session.is_some(),
            status: self.status(),
            version: self.hello.version.clone(),
            node_type: self.hello.node_type,
            connected_since: self.session.as_ref().map(|session| session.since),
            last_seen: self.last_seen,
            commit: self.board.as_ref().map(|board| board.commit.clone()),
            snapshot: self.board.as_ref().map(|board| board.snapshot.hash()),
            tasks,
            services: self.service_counts(),
            error: self.error().map(str::to_string),
        }
    }

    /// How the agent stands.
    pub fn status(&self) -> Status {
        match (&self.session, &self.board) {
            (None, _) => Status::Offline,
            (Some(_), None) => Status::Unknown,
            (Some(_), Some(_)) if self.error().is_some() => Status::Failed,
            // Steps may follow that nobody knows of yet.
            (Some(_), Some(_)) if matches!(self.phase, Phase::Applying { .. }) => Status::Applying,
            (Some(_), Some(board)) => {
                let steps = Status::of_steps(board.steps.iter().map(StepState::status));
                Status::of(self.service_statuses().chain([steps]))
            }
        }
    }

    /// Counts the agent in.
    pub fn count_in(&self, census: &mut Census) {
        *census.by_status.entry(self.status()).or_default() += 1;
        census.connected += u64::from(self.session.is_some());
        let Some(board) = &self.board else { return };
        self.count_services_in(census);
        census.steps += board.steps.len() as u64;
        for (position, task) in board.snapshot.tasks().iter().enumerate() {
            let drifted = board.states(position).filter(|state| state.status().is_drifted());
            match drifted.count() {
                0 => {}
                count => *census.drifted.entry(task.policy).or_default() += count as u64,
            }
        }
    }

    /// Everything about the agent but its events.
    pub fn detail(&self) -> AgentDetail {
        AgentDetail {
            agent: self.view(),
            executors: self.hello.executors.clone(),
            task_details: self.board.as_ref().map(tasks).unwrap_or_default(),
            service_details: self.service_details(),
            network: self.network_parts(),
            events: Vec::new(),
            events_error: None,
        }
    }

    /// What is drifted now.
    pub fn drift(&self) -> Vec<DriftEntry> {
        self.drift_after(None)
    }

    /// The same; only what comes behind `after`, if it is given: a task or a service, and the step.
    pub fn drift_after(&self, after: Option<(&str, &StepAddress)>) -> Vec<DriftEntry> {
        let Some(board) = &self.board else { return Vec::new() };
        let among_services = after.filter(|(_, step)| is_of_services(step));
        let start = match after {
            None => 0,
            // Steps come first.
            Some(_) if among_services.is_some() => u32::MAX,
            Some((task, step)) => behind(board, task, step),
        };
        let drifted = board.snapshot.steps().filter_map(|(index, task, step)| {
            let state = &board.steps[index.0 as usize];
            let status = state.status();
            (index.0 >= start && status.is_drifted()).then(|| DriftEntry {
                agent: self.name.clone(),
                task: Some(task.name.clone()),
                service: None,
                step: step.address.clone(),
                policy: task.policy,
                status,
                reason: state.reason(),
                since: state.since,
                task_hash: task_hash(board, index),
            })
        });
        drifted.chain(self.service_drift(among_services)).collect()
    }

    /// How one task stands here; none if it does not apply.
    pub fn task_status(&self, task: &TaskName) -> Option<Status> {
        let board = self.board.as_ref()?;
        let (position, _) = board.snapshot.task(task)?;
        Some(self.status_of(board, position))
    }

    /// How each task stands here.
    pub fn task_statuses(&self) -> impl Iterator<Item = (&TaskName, Status)> {
        self.board.iter().flat_map(|board| {
            let tasks = board.snapshot.tasks().iter().enumerate();
            tasks.map(|(position, task)| (&task.name, self.status_of(board, position)))
        })
    }

    fn status_of(&self, board: &Board, task: usize) -> Status {
        match self.session {
            Some(_) => board.task_status(task),
            None => Status::Offline,
        }
    }
}

/// Whether it is of a service, or of what services share, and of no task.
fn is_of_services(step: &StepAddress) -> bool {
    step.kind() == "container" || NetworkReport::PARTS.iter().any(|part| *part == step.to_string())
}

/// The index of the first step behind this one; a step that is gone counts as its task's last.
fn behind(board: &Board, task: &str, step: &StepAddress) -> u32 {
    let tasks = board.snapshot.tasks();
    let position = tasks.partition_point(|known| known.name.as_str() < task);
    let Some(found) = tasks.get(position) else { return u32::MAX };
    let first = board.snapshot.steps_of(position).next().map_or(0, |index| index.0);
    if found.name.as_str() != task {
        return first;
    }
    let within = found.steps.iter().position(|known| known.address == *step);
    first + within.map_or(found.steps.len(), |at| at + 1) as u32
}

fn count(board: &Board) -> TaskCounts {
    let mut counts = TaskCounts::default();
    for task in 0..board.tasks.len() {
        counts.total += 1;
        match board.task_status(task) {
            Status::InSync => counts.in_sync += 1,
            Status::Drifted | Status::Applying => counts.drifted += 1,
            Status::Failed => counts.failed += 1,
            Status::Unknown | Status::Offline => {}
        }
    }
    counts
}

fn tasks(board: &Board) -> Vec<AgentTask> {
    let task = |(position, task): (usize, &std::sync::Arc<fluke_model::snapshot::SnapshotTask>)| {
        let steps = task.steps.iter().zip(board.states(position));
        AgentTask {
            name: task.name.clone(),
            policy: task.policy,
            task_hash: board.snapshot.task_hashes().get(position).copied(),
            status: board.task_status(position),
            failures: board.tasks[position].failures,
            retry_at: board.tasks[position].retry.map(|(_, wall)| wall),
            steps: steps.map(|(step, state)| view_step(step.address.clone(), state)).collect(),
        }
    };
    board.snapshot.tasks().iter().enumerate().map(task).collect()
}

/// The hash of the task that a step is of.
fn task_hash(board: &Board, step: StepIndex) -> Option<Hash256> {
    let (task, _) = board.snapshot.step(step)?;
    board.snapshot.task_hashes().get(task).copied()
}

fn view_step(step: fluke_model::id::StepAddress, state: &StepState) -> AgentStep {
    let diff = match &state.verdict {
        Some(Verdict::Drifted(drift)) => drift.diff.clone(),
        _ => None,
    };
    AgentStep {
        step,
        status: state.status(),
        reason: state.reason(),
        diff,
        since: state.since,
        last_checked: state.last_checked,
        last_applied: state.last_applied,
    }
}
