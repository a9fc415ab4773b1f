//! From a model to the snapshot of every host.

mod shelf;

use crate::gather::Gather;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Model, Snapshot, SnapshotTask};
use crate::id::{Hash256, ServiceName};
use crate::label::{Labels, Selector};
use crate::policy::Policy;
use crate::service::{Replica, Service, SnapshotService};
use crate::task::Task;
use shelf::{Index, Offer, Shelf};

/// So many snapshots of each kind are remembered in any case, and twice as many as are in use.
const REMEMBERED: usize = 16_384;

/// The numbered replicas of each service that are one host's.
pub type Placed = BTreeMap<ServiceName, BTreeSet<u32>>;

/// Compiles snapshots from one model: tasks and services are resolved and hashed once, hosts with
/// the same labels and the same replicas share one snapshot, and a host looks only at what can
/// concern it.
#[derive(Debug)]
pub struct Compiler {
    tasks: Shelf<OfferedTask>,
    services: Shelf<OfferedService>,
    default_policy: Policy,
    made: Mutex<Made>,
}

/// Snapshots that were asked for.
#[derive(Debug, Default)]
struct Made {
    /// Without numbered replicas, which most hosts have none of.
    plain: Kept<Labels>,
    placed: Kept<(Labels, Placed)>,
}

/// Snapshots by what they were made for. Those that nobody uses go before there are too many.
#[derive(Debug)]
struct Kept<K> {
    all: HashMap<K, Arc<Snapshot>>,
    /// So many until it is looked which are in use.
    room: usize,
}

impl<K: Eq + Hash> Default for Kept<K> {
    fn default() -> Self {
        Self { all: HashMap::new(), room: REMEMBERED }
    }
}

impl<K: Eq + Hash> FromIterator<(K, Arc<Snapshot>)> for Kept<K> {
    fn from_iter<I: IntoIterator<Item = (K, Arc<Snapshot>)>>(all: I) -> Self {
        Self { all: all.into_iter().collect(), ..Self::default() }
    }
}

impl<K: Eq + Hash> Kept<K> {
    fn keep(&mut self, key: K, snapshot: Arc<Snapshot>) {
        if self.all.len() >= self.room {
            self.all.retain(|_, snapshot| is_in_use(snapshot));
            self.room = REMEMBERED.max(2 * self.all.len());
        }
        self.all.insert(key, snapshot);
    }
}

fn is_in_use(snapshot: &Arc<Snapshot>) -> bool {
    Arc::strong_count(snapshot) > 1
}

/// A task with what hosts get of it.
#[derive(Debug)]
struct OfferedTask {
    task: Arc<Task>,
    hash: Hash256,
    resolved: Arc<SnapshotTask>,
}

impl Offer for OfferedTask {
    type Of = Task;

    fn new(task: &Arc<Task>, default_policy: Policy) -> Self {
        let resolved = Arc::new(SnapshotTask::new(task, default_policy));
        Self { hash: resolved.hash(), task: task.clone(), resolved }
    }

    fn of(&self) -> &Arc<Task> {
        &self.task
    }

    fn name(task: &Task) -> &str {
        task.name.as_str()
    }

    fn selector(&self) -> &Selector {
        &self.task.selector
    }

    fn is_same_for_hosts(&self, other: &Self) -> bool {
        self.hash == other.hash && self.task.selector == other.task.selector
    }
}

/// A service with what hosts get of it.
#[derive(Debug)]
struct OfferedService {
    service: Arc<Service>,
    default_policy: Policy,
    /// Of one that every matching host has.
    own: Option<(Hash256, Arc<SnapshotService>)>,
}

impl OfferedService {
    fn resolve(
        service: &Service,
        default_policy: Policy,
        replicas: Vec<Replica>,
    ) -> (Hash256, Arc<SnapshotService>) {
        let resolved = Arc::new(SnapshotService::new(service, default_policy, replicas));
        (resolved.hash(), resolved)
    }

    /// Those of a host's numbers that there are.
    fn numbers(&self, placed: &Placed) -> Option<BTreeSet<u32>> {
        let count = self.service.replicas?;
        let given = placed.get(&self.service.name)?;
        let numbers: BTreeSet<u32> = given.range(..count).copied().gather();
        (!numbers.is_empty()).then_some(numbers)
    }

    fn numbered(&self, numbers: &BTreeSet<u32>) -> (Hash256, Arc<SnapshotService>) {
        let replicas = numbers.iter().copied().map(Replica::Number).collect();
        Self::resolve(&self.service, self.default_policy, replicas)
    }
}

impl Offer for OfferedService {
    type Of = Service;

    fn new(service: &Arc<Service>, default_policy: Policy) -> Self {
        let is_own = service.replicas.is_none();
        let own = is_own.then(|| Self::resolve(service, default_policy, vec![Replica::Own]));
        Self { service: service.clone(), default_policy, own }
    }

    fn of(&self) -> &Arc<Service> {
        &self.service
    }

    fn name(service: &Service) -> &str {
        service.name.as_str()
    }

    fn selector(&self) -> &Selector {
        &self.service.selector
    }

    fn is_same_for_hosts(&self, other: &Self) -> bool {
        let (one, other) = (&self.service, &other.service);
        one.policy == other.policy
            && one.selector == other.selector
            && one.replicas == other.replicas
            && one.container == other.container
    }
}

impl Compiler {
    /// Prepares `model` for a server with this default policy.
    pub fn new(model: &Model, default_policy: Policy) -> Self {
        let (tasks, services) = (Shelf::default(), Shelf::default());
        Self { tasks, services, default_policy, made: Mutex::default() }.follow(model)
    }

    /// The same for a model that follows on this one: what is the very same value is not resolved
    /// and hashed again, and snapshots that somebody holds stay what they are unless something
    /// changed that concerns them.
    pub fn follow(&self, model: &Model) -> Self {
        let policy = self.default_policy;
        let (tasks, touched_tasks) = self.tasks.follow(model.tasks.values(), policy);
        let (services, touched_services) = self.services.follow(model.services.values(), policy);
        let made = Mutex::new(self.made_apart_from(&touched_tasks, &touched_services));
        Self { tasks, services, default_policy: policy, made }
    }

    /// Snapshots that are in use and hold nothing that was touched.
    fn made_apart_from(
        &self,
        tasks: &Index<OfferedTask>,
        services: &Index<OfferedService>,
    ) -> Made {
        let stays = |labels: &Labels, snapshot: &Arc<Snapshot>| {
            is_in_use(snapshot) && !tasks.concerns(labels) && !services.concerns(labels)
        };
        let made = self.made();
        let plain = made.plain.all.iter().filter(|(labels, made)| stays(labels, made));
        let placed = made.placed.all.iter().filter(|((labels, _), made)| stays(labels, made));
        Made {
            plain: plain.map(|(labels, made)| (labels.clone(), made.clone())).collect(),
            placed: placed.map(|(key, made)| (key.clone(), made.clone())).collect(),
        }
    }

    /// What a host with these labels should be, numbered replicas aside.
    pub fn snapshot(&self, labels: &Labels) -> Arc<Snapshot> {
        if let Some(made) = self.made().plain.all.get(labels) {
            return made.clone();
        }
        let tasks = self.tasks.matching(labels);
        let tasks = tasks.map(|found| (found.hash, found.resolved.clone())).collect();
        let services: Vec<_> =
            self.services.matching(labels).filter_map(|found| found.own.clone()).collect();
        let snapshot = match Snapshot::from_hashed(tasks) {
            snapshot if services.is_empty() => snapshot,
            snapshot => snapshot.with_hashed_services(services),
        };
        let snapshot = Arc::new(snapshot);
        self.made().plain.keep(labels.clone(), snapshot.clone());
        snapshot
    }

    /// What a host with these labels and these replicas should be. Replicas that there are not, or
    /// that are not for such a host, are passed over.
    pub fn snapshot_with(&self, labels: &Labels, placed: &Placed) -> Arc<Snapshot> {
        if placed.is_empty() {
            return self.snapshot(labels);
        }
        let matching = self.services.matching(labels);
        let numbered: Vec<_> =
            matching.filter_map(|found| Some((found, found.numbers(placed)?))).collect();
        if numbered.is_empty() {
            return self.snapshot(labels);
        }
        let placed =
            numbered.iter().map(|(it, numbers)| (it.service.name.clone(), numbers.clone()));
        let key = (labels.clone(), placed.collect::<Placed>());
        if let Some(made) = self.made().placed.all.get(&key) {
            return made.clone();
        }
        let plain = self.snapshot(labels);
        let hashes = plain.service_hashes().iter().copied();
        let mut services: Vec<_> = hashes.zip(plain.services().iter().cloned()).collect();
        services.extend(numbered.iter().map(|(found, numbers)| found.numbered(numbers)));
        let snapshot = Arc::new(Snapshot::clone(&plain).with_hashed_services(services));
        self.made().placed.keep(key, snapshot.clone());
        snapshot
    }

    /// Whether what such a host should be depends on where replicas are placed.
    pub fn has_numbered(&self, labels: &Labels) -> bool {
        self.services.matching(labels).any(|found| found.own.is_none())
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        // Maps of finished values are sound whatever happened to the thread that held them.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
