//! From a model to the snapshot of every host.

mod shelf;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Model, Snapshot, SnapshotTask};
use crate::gather::Gather;
use crate::id::{Hash256, ServiceName};
use crate::label::{Labels, Selector};
use crate::policy::Policy;
use crate::service::{Replica, Service, ServiceHashes, SnapshotService};
use crate::task::Task;
use shelf::{Index, Offer, Shelf};

/// So many snapshots are remembered in any case, and twice as many as are in use.
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
    /// Which compiler this is.
    itself: Arc<()>,
    /// What is other for hosts than the one before had it.
    news: News,
}

/// What one model says otherwise than another.
#[derive(Debug, Default)]
struct News {
    /// The other one's compiler.
    before: Arc<()>,
    tasks: Index<OfferedTask>,
    services: Index<OfferedService>,
}

impl News {
    fn concerns(&self, labels: &Labels) -> bool {
        self.tasks.concerns(labels) || self.services.concerns(labels)
    }
}

/// What a snapshot is made for: the labels, and the numbered replicas, which most hosts have none of.
type Key = (Labels, Placed);

/// Snapshots that were asked for. Those that nobody uses go before there are too many.
#[derive(Debug, Clone)]
struct Made {
    all: HashMap<Arc<Key>, Arc<Snapshot>>,
    /// So many until it is looked which are in use.
    room: usize,
}

impl Default for Made {
    fn default() -> Self {
        Self { all: HashMap::new(), room: REMEMBERED }
    }
}

impl Made {
    fn keep(&mut self, key: Key, snapshot: Arc<Snapshot>) {
        if self.all.len() >= self.room {
            self.all.retain(|_, snapshot| Arc::strong_count(snapshot) > 1);
            self.room = REMEMBERED.max(2 * self.all.len());
        }
        self.all.insert(Arc::new(key), snapshot);
    }
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
    /// As every matching host has it. Who has numbers of it shares all but the replicas.
    resolved: Arc<SnapshotService>,
    hash: Hash256,
    hashes: ServiceHashes,
}

impl OfferedService {
    fn is_numbered(&self) -> bool {
        self.service.replicas.is_some()
    }

    /// Of one that every matching host has.
    fn own(&self) -> Option<(Hash256, Arc<SnapshotService>)> {
        (!self.is_numbered()).then(|| (self.hash, self.resolved.clone()))
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
        let numbered = SnapshotService { replicas, ..(*self.resolved).clone() };
        (self.hashes.each(&numbered.replicas), Arc::new(numbered))
    }
}

impl Offer for OfferedService {
    type Of = Service;

    fn new(service: &Arc<Service>, default_policy: Policy) -> Self {
        let resolved = SnapshotService::new(service, default_policy, vec![Replica::Own]);
        let hashes = ServiceHashes::of(&resolved);
        let hash = hashes.each(&resolved.replicas);
        Self { service: service.clone(), resolved: Arc::new(resolved), hash, hashes }
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
        self.hash == other.hash
            && self.service.selector == other.service.selector
            && self.service.replicas == other.service.replicas
    }
}

impl Compiler {
    /// Prepares `model` for a server with this default policy.
    pub fn new(model: &Model, default_policy: Policy) -> Self {
        let (tasks, services, made) = Default::default();
        let (itself, news) = Default::default();
        Self { tasks, services, default_policy, made, itself, news }.follow(model)
    }

    /// The same for a model that follows on this one: what is the very same value is not resolved
    /// and hashed again, and snapshots that somebody holds stay what they are unless something
    /// changed that concerns them.
    pub fn follow(&self, model: &Model) -> Self {
        let policy = self.default_policy;
        let (tasks, touched_tasks) = self.tasks.follow(model.tasks.values(), policy);
        let (services, touched_services) = self.services.follow(model.services.values(), policy);
        let news =
            News { before: self.itself.clone(), tasks: touched_tasks, services: touched_services };
        let made = Mutex::new(self.made_apart_from(&news));
        Self { tasks, services, default_policy: policy, made, itself: Arc::default(), news }
    }

    /// Whether a host with these labels, whatever its replicas, is for certain what it was for
    /// `before`: this one follows on that, and nothing that concerns it is new.
    pub fn says_the_same_as(&self, before: &Self, labels: &Labels) -> bool {
        Arc::ptr_eq(&self.news.before, &before.itself) && !self.news.concerns(labels)
    }

    /// Snapshots that are in use and hold nothing that is new.
    fn made_apart_from(&self, news: &News) -> Made {
        // Copied as a whole, which hashes nothing anew.
        let mut made = self.made().clone();
        // Once more by the copy.
        let is_in_use = |snapshot: &Arc<Snapshot>| Arc::strong_count(snapshot) > 2;
        made.all.retain(|key, made| is_in_use(made) && !news.concerns(&key.0));
        made
    }

    /// What a host with these labels should be, numbered replicas aside.
    pub fn snapshot(&self, labels: &Labels) -> Arc<Snapshot> {
        let key = (labels.clone(), Placed::new());
        if let Some(made) = self.made().all.get(&key) {
            return made.clone();
        }
        let tasks = self.tasks.matching(labels);
        let tasks = tasks.map(|found| (found.hash, found.resolved.clone())).collect();
        let services: Vec<_> =
            self.services.matching(labels).filter_map(|found| found.own()).collect();
        let snapshot = match Snapshot::from_hashed(tasks) {
            snapshot if services.is_empty() => snapshot,
            snapshot => snapshot.with_hashed_services(services),
        };
        let snapshot = Arc::new(snapshot);
        self.made().keep(key, snapshot.clone());
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
        let key = (labels.clone(), placed.gather::<Placed>());
        if let Some(made) = self.made().all.get(&key) {
            return made.clone();
        }
        let plain = self.snapshot(labels);
        let hashes = plain.service_hashes().iter().copied();
        let mut services: Vec<_> = hashes.zip(plain.services().iter().cloned()).collect();
        services.extend(numbered.iter().map(|(found, numbers)| found.numbered(numbers)));
        let snapshot = Arc::new(Snapshot::clone(&plain).with_hashed_services(services));
        self.made().keep(key, snapshot.clone());
        snapshot
    }

    /// Whether what such a host should be depends on where replicas are placed.
    pub fn has_numbered(&self, labels: &Labels) -> bool {
        self.services.matching(labels).any(|found| found.is_numbered())
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        // Maps of finished values are sound whatever happened to the thread that held them.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
