//! From a model to the snapshot of every host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Model, Snapshot, SnapshotTask};
use crate::id::{Hash256, LabelKey, LabelValue};
use crate::label::Labels;
use crate::parallel::in_parallel;
use crate::policy::Policy;
use crate::task::Task;

/// How many label sets' snapshots are remembered; more are compiled anew when asked for.
const REMEMBERED: usize = 16_384;

/// When more than one in so many tasks changed, the index is made anew.
const MANY: usize = 8;

/// Compiles snapshots from one model: tasks are resolved and hashed once, hosts with the same
/// labels share one snapshot, and a host looks only at tasks that can concern it.
#[derive(Debug)]
pub struct Compiler {
    /// By name.
    tasks: Vec<Arc<Candidate>>,
    index: Index,
    default_policy: Policy,
    made: Mutex<HashMap<Labels, Arc<Snapshot>>>,
}

/// A task with what hosts get of it.
#[derive(Debug)]
struct Candidate {
    task: Arc<Task>,
    hash: Hash256,
    resolved: Arc<SnapshotTask>,
}

impl Candidate {
    fn new(task: &Arc<Task>, default_policy: Policy) -> Self {
        let resolved = Arc::new(SnapshotTask::new(task, default_policy));
        Self { hash: resolved.hash(), task: task.clone(), resolved }
    }

    /// Whether every host gets the same of both.
    fn is_same_for_hosts(&self, other: &Self) -> bool {
        self.hash == other.hash && self.task.selector == other.task.selector
    }
}

impl Compiler {
    /// Prepares `model` for a server with this default policy.
    pub fn new(model: &Model, default_policy: Policy) -> Self {
        let (tasks, index, made) = (Vec::new(), Index::default(), Mutex::default());
        Self { tasks, index, default_policy, made }.follow(model)
    }

    /// The same for a model that follows on this one: tasks that are the very same values are
    /// not resolved and hashed again, and snapshots that somebody holds stay what they are unless
    /// a task changed that concerns them.
    pub fn follow(&self, model: &Model) -> Self {
        let Merged { same, gone, new } = self.merge(model);
        let new = in_parallel(&new, |task| Arc::new(Candidate::new(task, self.default_policy)));
        let is_among = |others: &[Arc<Candidate>], one: &Candidate| {
            let at = others.binary_search_by(|other| other.task.name.cmp(&one.task.name));
            at.is_ok_and(|at| others[at].is_same_for_hosts(one))
        };
        let mut touched = Index::default();
        gone.iter().filter(|one| !is_among(&new, one)).for_each(|one| touched.add(one));
        new.iter().filter(|one| !is_among(&gone, one)).for_each(|one| touched.add(one));
        let index = self.index.changed(&same, &gone, &new);
        let mut tasks = same;
        tasks.extend(new);
        // Two runs that are sorted already.
        tasks.sort_by(|a, b| a.task.name.cmp(&b.task.name));
        let made = Mutex::new(self.made_apart_from(&touched));
        Self { tasks, index, default_policy: self.default_policy, made }
    }

    /// What becomes of the tasks known here with `model`; all by name.
    fn merge<'m>(&self, model: &'m Model) -> Merged<'m> {
        let mut merged = Merged { same: Vec::new(), gone: Vec::new(), new: Vec::new() };
        merged.same.reserve(self.tasks.len());
        let mut known = self.tasks.iter().peekable();
        for task in model.tasks.values() {
            while let Some(gone) = known.next_if(|known| known.task.name < task.name) {
                merged.gone.push(gone.clone());
            }
            match known.next_if(|known| known.task.name == task.name) {
                Some(same) if Arc::ptr_eq(&same.task, task) => merged.same.push(same.clone()),
                other => {
                    merged.gone.extend(other.cloned());
                    merged.new.push(task);
                }
            }
        }
        merged.gone.extend(known.cloned());
        merged
    }

    /// Snapshots that are in use and hold nothing that was touched.
    fn made_apart_from(&self, touched: &Index) -> HashMap<Labels, Arc<Snapshot>> {
        let stays = |(labels, snapshot): &(&Labels, &Arc<Snapshot>)| {
            Arc::strong_count(snapshot) > 1 && touched.matching(labels).next().is_none()
        };
        let made = self.made();
        made.iter().filter(stays).map(|(labels, made)| (labels.clone(), made.clone())).collect()
    }

    /// What a host with these labels should be.
    pub fn snapshot(&self, labels: &Labels) -> Arc<Snapshot> {
        if let Some(made) = self.made().get(labels) {
            return made.clone();
        }
        let matching = self.index.matching(labels);
        let tasks = matching.map(|found| (found.hash, found.resolved.clone())).collect();
        let snapshot = Arc::new(Snapshot::from_hashed(tasks));
        let mut made = self.made();
        if made.len() < REMEMBERED {
            made.insert(labels.clone(), snapshot.clone());
        }
        snapshot
    }

    fn made(&self) -> MutexGuard<'_, HashMap<Labels, Arc<Snapshot>>> {
        // A map of finished values is sound whatever happened to the thread that held it.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Merged<'m> {
    same: Vec<Arc<Candidate>>,
    gone: Vec<Arc<Candidate>>,
    new: Vec<&'m Arc<Task>>,
}

/// Finds tasks by labels; the lists in it are shared with the indices of other models.
#[derive(Debug, Clone, Default)]
struct Index {
    /// Tasks by one of the pairs that they ask for.
    by_pair: HashMap<(LabelKey, LabelValue), Arc<Vec<Arc<Candidate>>>>,
    /// Tasks that ask for no pair.
    unpaired: Arc<Vec<Arc<Candidate>>>,
}

impl Index {
    /// An index of `same` and `new`, where this one is of `same` and `gone`.
    fn changed(
        &self,
        same: &[Arc<Candidate>],
        gone: &[Arc<Candidate>],
        new: &[Arc<Candidate>],
    ) -> Self {
        let few = gone.len() * MANY < same.len();
        let mut index = if few { self.clone() } else { Self::default() };
        match few {
            true => gone.iter().for_each(|candidate| index.remove(candidate)),
            false => same.iter().for_each(|candidate| index.add(candidate)),
        }
        new.iter().for_each(|candidate| index.add(candidate));
        index
    }

    fn add(&mut self, candidate: &Arc<Candidate>) {
        let list = match pair_of(candidate) {
            Some(pair) => self.by_pair.entry(pair).or_default(),
            None => &mut self.unpaired,
        };
        Arc::make_mut(list).push(candidate.clone());
    }

    fn remove(&mut self, candidate: &Arc<Candidate>) {
        let others = |list: &mut Arc<Vec<Arc<Candidate>>>| {
            Arc::make_mut(list).retain(|other| !Arc::ptr_eq(other, candidate));
            list.is_empty()
        };
        match pair_of(candidate) {
            Some(pair) => {
                if self.by_pair.get_mut(&pair).is_some_and(others) {
                    self.by_pair.remove(&pair);
                }
            }
            None => {
                others(&mut self.unpaired);
            }
        }
    }

    /// Every task that is for a host with these labels.
    fn matching(&self, labels: &Labels) -> impl Iterator<Item = &Arc<Candidate>> {
        let pairs = labels.0.iter();
        let paired =
            pairs.filter_map(|(key, value)| self.by_pair.get(&(key.clone(), value.clone())));
        let candidates = self.unpaired.iter().chain(paired.flat_map(|list| list.iter()));
        candidates.filter(|candidate| candidate.task.selector.matches(labels))
    }
}

/// The last pair by key order; any one pair is enough to find the task by.
fn pair_of(candidate: &Candidate) -> Option<(LabelKey, LabelValue)> {
    let (key, value) = candidate.task.selector.match_labels.iter().next_back()?;
    Some((key.clone(), value.clone()))
}
