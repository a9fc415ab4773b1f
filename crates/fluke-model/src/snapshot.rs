//! Snapshots: all that one host should be, compiled from the model, named by its hash.

mod compiler;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Hash256, TaskName};
use crate::policy::Policy;
use crate::task::{Step, Task};

pub use compiler::Compiler;

/// Everything that a commit says, checked and resolved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// By name.
    pub tasks: BTreeMap<TaskName, Arc<Task>>,
}

/// A step's position among all steps of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepIndex(pub u32);

/// One task as one host gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotTask {
    /// The task's name.
    pub name: TaskName,
    /// The task's own, or the server's default.
    pub policy: Policy,
    /// In declaration order; never empty.
    pub steps: Arc<[Step]>,
}

impl SnapshotTask {
    /// Resolves `task` for a server with this default policy.
    pub fn new(task: &Task, default_policy: Policy) -> Self {
        Self {
            name: task.name.clone(),
            policy: task.policy.unwrap_or(default_policy),
            steps: task.steps.clone(),
        }
    }

    /// Names the content; equal content has equal hashes everywhere.
    pub fn hash(&self) -> Hash256 {
        // Maps in the model are ordered, so its JSON is canonical.
        Hash256::of(&serde_json::to_vec(self).expect("a task is plain data"))
    }
}

/// All that one host should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Arc<SnapshotTask>>", into = "Vec<Arc<SnapshotTask>>")]
pub struct Snapshot {
    hash: Hash256,
    tasks: Vec<Arc<SnapshotTask>>,
    /// For each task, the hash it stands under.
    hashes: Vec<Hash256>,
    /// For each task, the index of its first step.
    starts: Vec<u32>,
    steps: u32,
}

impl Snapshot {
    /// Puts tasks together, by name.
    pub fn new(tasks: Vec<Arc<SnapshotTask>>) -> Self {
        Self::from_hashed(tasks.into_iter().map(|task| (task.hash(), task)).collect())
    }

    /// Puts tasks together under hashes that are already known.
    ///
    /// A task may stand under another hash than its own: the one its sender gave it, where this
    /// version does not understand all of it. JSON does not keep such hashes, so a snapshot that
    /// comes back from disk has one that no server knows, and a newer agent is sent it anew.
    pub fn from_hashed(mut tasks: Vec<(Hash256, Arc<SnapshotTask>)>) -> Self {
        tasks.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let digests: Vec<u8> = tasks.iter().flat_map(|(hash, _)| *hash.as_bytes()).collect();
        let (hashes, tasks): (Vec<_>, Vec<_>) = tasks.into_iter().unzip();
        let mut steps = 0;
        let starts = tasks
            .iter()
            .map(|task| {
                let start = steps;
                steps += task.steps.len() as u32;
                start
            })
            .collect();
        Self { hash: Hash256::of(&digests), tasks, hashes, starts, steps }
    }

    /// Equal for equal content, whatever commit it came from.
    pub fn hash(&self) -> Hash256 {
        self.hash
    }

    /// By name.
    pub fn tasks(&self) -> &[Arc<SnapshotTask>] {
        &self.tasks
    }

    /// The hash that each task stands under, in their order.
    pub fn task_hashes(&self) -> &[Hash256] {
        &self.hashes
    }

    /// The task of this name.
    pub fn task(&self, name: &TaskName) -> Option<(usize, &Arc<SnapshotTask>)> {
        let at = self.tasks.binary_search_by(|task| task.name.cmp(name)).ok()?;
        Some((at, &self.tasks[at]))
    }

    /// How many steps all tasks have together.
    pub fn step_count(&self) -> usize {
        self.steps as usize
    }

    /// The indices of the steps of the `task`th task.
    pub fn steps_of(&self, task: usize) -> impl ExactSizeIterator<Item = StepIndex> + use<> {
        let start = self.starts[task];
        (start..start + self.tasks[task].steps.len() as u32).map(StepIndex)
    }

    /// Every step with its index and its task, in order.
    pub fn steps(&self) -> impl Iterator<Item = (StepIndex, &SnapshotTask, &Step)> {
        (0..self.steps).map(StepIndex).filter_map(|index| {
            let (task, step) = self.step(index)?;
            Some((index, &*self.tasks[task], step))
        })
    }

    /// The step at `index`, and the position of its task.
    pub fn step(&self, index: StepIndex) -> Option<(usize, &Step)> {
        if index.0 >= self.steps {
            return None;
        }
        let task = self.starts.partition_point(|start| *start <= index.0) - 1;
        let within = (index.0 - self.starts[task]) as usize;
        Some((task, &self.tasks[task].steps[within]))
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl From<Vec<Arc<SnapshotTask>>> for Snapshot {
    fn from(tasks: Vec<Arc<SnapshotTask>>) -> Self {
        Self::new(tasks)
    }
}

impl From<Snapshot> for Vec<Arc<SnapshotTask>> {
    fn from(snapshot: Snapshot) -> Self {
        snapshot.tasks
    }
}

#[cfg(test)]
mod tests;
