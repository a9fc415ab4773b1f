//! What is known of the agents, for those who ask for all of them, some of them, or a page.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError};
use std::vec::IntoIter;

use fluke_model::api::{self, DriftMark, SeenDrift};
use fluke_model::id::{AgentName, ServiceName, TaskName};
use fluke_model::label::{LabelFilter, Selector};
use fluke_model::policy::Policy;
use fluke_model::service::ServiceExecutor;
use fluke_model::status::Status;

use super::{Registry, Seat};
use crate::reconcile::{Approval, Census, Machine};

/// How many seats are looked up at once.
const TOGETHER: usize = 128;

/// Which agents are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentFilter {
    /// Only those that stand so.
    pub status: Option<Status>,
    /// Only those for which all of these hold.
    pub labels: Vec<LabelFilter>,
    /// Only those whose name contains this.
    pub name: Option<String>,
    /// Only those behind this name.
    pub after: Option<AgentName>,
    /// At most so many.
    pub limit: Option<usize>,
}

impl AgentFilter {
    fn matches(&self, agent: &Machine) -> bool {
        let named = |part: &String| agent.name().as_str().contains(part.as_str());
        self.name.as_ref().is_none_or(named)
            && self.labels.iter().all(|label| label.matches(&agent.hello().labels))
            && self.status.is_none_or(|status| status == agent.status())
    }
}

/// Which drift is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriftFilter {
    /// Only of this agent.
    pub agent: Option<AgentName>,
    /// Only of this task.
    pub task: Option<TaskName>,
    /// Only of this service.
    pub service: Option<ServiceName>,
    /// Only under this policy.
    pub policy: Option<Policy>,
    /// Only what comes behind this.
    pub after: Option<DriftMark>,
    /// At most so many.
    pub limit: Option<usize>,
}

impl DriftFilter {
    fn matches(&self, entry: &api::DriftEntry) -> bool {
        self.task.as_ref().is_none_or(|task| entry.task.as_ref() == Some(task))
            && self.service.as_ref().is_none_or(|service| entry.service.as_ref() == Some(service))
            && self.policy.is_none_or(|policy| policy == entry.policy)
    }
}

/// The first `limit` of `items`, and where the next page begins, if there is one.
pub(crate) fn page<T, Mark>(
    mut items: impl Iterator<Item = T>,
    limit: Option<usize>,
    mark: impl Fn(&T) -> Mark,
) -> (Vec<T>, Option<Mark>) {
    let Some(limit) = limit else { return (items.collect(), None) };
    let page: Vec<T> = items.by_ref().take(limit).collect();
    let next = items.next().and_then(|_| page.last().map(mark));
    (page, next)
}

impl Registry {
    /// Every known agent, by name.
    pub fn agents(&self) -> Vec<api::Agent> {
        self.list(&AgentFilter::default()).agents
    }

    /// Those that are asked for, by name.
    pub fn list(&self, filter: &AgentFilter) -> api::Agents {
        let after = filter.after.as_ref().map(|after| after.as_str());
        let seats = self.seats_from(after.map_or(Bound::Unbounded, Bound::Excluded));
        let views = seats.filter_map(|seat| {
            let inner = seat.lock();
            filter.matches(&inner.machine).then(|| inner.machine.view())
        });
        let (agents, next) = page(views, filter.limit, |agent| agent.name.clone());
        api::Agents { agents, next }
    }

    /// Those that are connected, that a selector matches, and that run no containers.
    pub fn idle(&self, selector: &Selector) -> Vec<AgentName> {
        let is_idle = |seat: Arc<Seat>| {
            let inner = seat.lock();
            let hello = inner.machine.hello();
            let runs =
                ServiceExecutor::among(&hello.executors).contains(&ServiceExecutor::Container);
            let is_it = inner.holder.is_some() && !runs && selector.matches(&hello.labels);
            is_it.then(|| hello.name.clone())
        };
        self.seats_from(Bound::Unbounded).filter_map(is_idle).collect()
    }

    /// Everybody, counted in one pass.
    pub fn census(&self) -> Census {
        self.seats_from(Bound::Unbounded).fold(Census::default(), |mut census, seat| {
            seat.lock().machine.count_in(&mut census);
            census
        })
    }

    /// One agent, at a glance.
    pub fn view(&self, name: &str) -> Option<api::Agent> {
        Some(self.find(name)?.lock().machine.view())
    }

    /// One agent; its events are left empty.
    pub fn agent(&self, name: &str) -> Option<api::AgentDetail> {
        Some(self.find(name)?.lock().machine.detail())
    }

    /// Everything that is drifted now, by agent.
    pub fn drift(&self) -> Vec<api::DriftEntry> {
        self.drift_list(&DriftFilter::default()).drift
    }

    /// What of it is asked for.
    pub fn drift_list(&self, filter: &DriftFilter) -> api::DriftList {
        let after = filter.after.as_ref().map(|mark| mark.agent.as_str());
        let seats: Box<dyn Iterator<Item = Arc<Seat>>> = match &filter.agent {
            Some(agent) if after.is_some_and(|after| after > agent.as_str()) => {
                Box::new(std::iter::empty())
            }
            Some(agent) => Box::new(self.find(agent.as_str()).into_iter()),
            None => Box::new(self.seats_from(after.map_or(Bound::Unbounded, Bound::Included))),
        };
        let entries = seats.flat_map(|seat| {
            let inner = seat.lock();
            let here =
                filter.after.as_ref().filter(|mark| mark.agent == inner.machine.name().as_str());
            inner.machine.drift_after(here.map(|mark| (mark.owner.as_str(), &mark.step)))
        });
        let wanted = entries.filter(|entry| filter.matches(entry));
        let (drift, next) = page(wanted, filter.limit, |entry| DriftMark::from(entry));
        api::DriftList { drift, next }
    }

    /// What is drifted of one task on one agent, and the approval of just that; none if the task
    /// is not for it.
    pub fn task_drift(
        &self,
        agent: &AgentName,
        task: &TaskName,
    ) -> Option<(Vec<SeenDrift>, Approval)> {
        let seat = self.find(agent.as_str())?;
        let inner = seat.lock();
        let approval = inner.machine.approval(task)?;
        let drift = inner.machine.drift();
        let drift =
            drift.iter().filter(|entry| entry.task.as_ref() == Some(task)).map(SeenDrift::from);
        Some((drift.collect(), approval))
    }

    /// How a task stands on every known agent that it applies to.
    pub fn task_status(&self, task: &TaskName) -> Vec<api::TaskAgent> {
        let of = |seat: Arc<Seat>| {
            let inner = seat.lock();
            let status = inner.machine.task_status(task)?;
            Some(api::TaskAgent { name: inner.machine.name().clone(), status })
        };
        self.seats_from(Bound::Unbounded).filter_map(of).collect()
    }

    /// Every known agent that should run something of a service, and runs containers at all.
    pub fn hosts_of(&self, service: &ServiceName) -> Vec<AgentName> {
        let of = |seat: Arc<Seat>| {
            let inner = seat.lock();
            inner.machine.keeps_service(service).then(|| inner.machine.name().clone())
        };
        self.seats_from(Bound::Unbounded).filter_map(of).collect()
    }

    /// Whether an agent should run something of a service.
    pub fn has_service(&self, agent: &AgentName, service: &ServiceName) -> bool {
        let seat = self.find(agent.as_str());
        seat.is_some_and(|seat| seat.lock().machine.has_service(service))
    }

    /// The same of every task that is wanted, in one go over the agents.
    pub fn task_statuses(
        &self,
        is_wanted: impl Fn(&TaskName) -> bool,
    ) -> HashMap<TaskName, Vec<api::TaskAgent>> {
        let mut tasks: HashMap<TaskName, Vec<api::TaskAgent>> = HashMap::new();
        for seat in self.seats_from(Bound::Unbounded) {
            let inner = seat.lock();
            for (task, status) in inner.machine.task_statuses() {
                if is_wanted(task) {
                    let name = inner.machine.name().clone();
                    tasks.entry(task.clone()).or_default().push(api::TaskAgent { name, status });
                }
            }
        }
        tasks
    }

    /// Every seat from there on, by name.
    fn seats_from(&self, start: Bound<&str>) -> Seats<'_> {
        let start = start.map(str::to_string);
        Seats { registry: self, start, batch: Vec::new().into_iter(), is_last: false }
    }
}

/// Seats by name, looked up a few at a time: a page is often all that is wanted, and nobody who
/// comes to the door waits until all of them were gone through.
struct Seats<'a> {
    registry: &'a Registry,
    /// Where the next ones begin.
    start: Bound<String>,
    batch: IntoIter<Arc<Seat>>,
    /// Whether there are no more behind these.
    is_last: bool,
}

impl Seats<'_> {
    fn look_up(&mut self) {
        let agents = self.registry.agents.read().unwrap_or_else(PoisonError::into_inner);
        let start = self.start.as_ref().map(String::as_str);
        let behind = agents.seats.range::<str, _>((start, Bound::Unbounded)).take(TOGETHER);
        let (names, seats): (Vec<&AgentName>, Vec<Arc<Seat>>) =
            behind.map(|(name, seat)| (name, seat.clone())).unzip();
        self.is_last = seats.len() < TOGETHER;
        if let Some(last) = names.last() {
            self.start = Bound::Excluded(last.to_string());
        }
        self.batch = seats.into_iter();
    }
}

impl Iterator for Seats<'_> {
    type Item = Arc<Seat>;

    fn next(&mut self) -> Option<Arc<Seat>> {
        if self.batch.len() == 0 && !self.is_last {
            self.look_up();
        }
        self.batch.next()
    }
}
