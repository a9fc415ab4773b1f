//! Snapshots: all that one host should be, compiled from the model, named by its hash.

mod compiler;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{Hash256, ServiceName, TaskName};
use crate::policy::Policy;
use crate::service::{Service, SnapshotService};
use crate::task::{Step, Task};

pub use compiler::{Compiler, Placed};

/// Everything that a commit says, checked and resolved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// By name.
    pub tasks: BTreeMap<TaskName, Arc<Task>>,
    /// By name.
    pub services: BTreeMap<ServiceName, Arc<Service>>,
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
#[serde(from = "Content", into = "Content")]
pub struct Snapshot {
    hash: Hash256,
    tasks: Vec<Arc<SnapshotTask>>,
    services: Vec<Arc<SnapshotService>>,
    /// For each service, the hash it stands under.
    service_hashes: Vec<Hash256>,
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
        Self {
            hash: Hash256::of(&digests),
            tasks,
            services: Vec::new(),
            service_hashes: Vec::new(),
            hashes,
            starts,
            steps,
        }
    }

    /// The same host with these services, by name.
    pub fn with_services(self, services: Vec<Arc<SnapshotService>>) -> Self {
        self.with_hashed_services(services.into_iter().map(|one| (one.hash(), one)).collect())
    }

    /// The same under hashes that are already known; as for tasks, it may be another than its own.
    pub fn with_hashed_services(
        mut self,
        mut services: Vec<(Hash256, Arc<SnapshotService>)>,
    ) -> Self {
        services.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        (self.service_hashes, self.services) = services.into_iter().unzip();
        let digests = self.hashes.iter().chain(&self.service_hashes);
        let mut digests: Vec<u8> = digests.flat_map(|hash| *hash.as_bytes()).collect();
        // A service is not a task.
        if !self.services.is_empty() {
            digests.extend((self.services.len() as u64).to_be_bytes());
        }
        self.hash = Hash256::of(&digests);
        self
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

    /// By name.
    pub fn services(&self) -> &[Arc<SnapshotService>] {
        &self.services
    }

    /// The hash that each service stands under, in their order.
    pub fn service_hashes(&self) -> &[Hash256] {
        &self.service_hashes
    }

    /// The task of this name.
    pub fn task(&self, name: &TaskName) -> Option<(usize, &Arc<SnapshotTask>)> {
        let at = self.tasks.binary_search_by(|task| task.name.cmp(name)).ok()?;
        Some((at, &self.tasks[at]))
    }

    /// The service of this name.
    pub fn service(&self, name: &ServiceName) -> Option<(usize, &Arc<SnapshotService>)> {
        let at = self.services.binary_search_by(|service| service.name.cmp(name)).ok()?;
        Some((at, &self.services[at]))
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

/// What a snapshot is kept as.
#[derive(Serialize, Deserialize)]
struct Content {
    tasks: Vec<Arc<SnapshotTask>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    services: Vec<Arc<SnapshotService>>,
}

impl From<Content> for Snapshot {
    fn from(content: Content) -> Self {
        Self::new(content.tasks).with_services(content.services)
    }
}

impl From<Snapshot> for Content {
    fn from(snapshot: Snapshot) -> Self {
        Self { tasks: snapshot.tasks, services: snapshot.services }
    }
}

#[cfg(test)]
mod tests;
