//! Manual reconciles: who asked for what, and how far it has come.

mod known;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluke_model::api::{
    InvalidRequest, ReconcileAccepted, ReconcileAgent, ReconcileProgress, ReconcileRequest,
    ReconcileScope, ReconcileState, ReconcileTarget, SeenDrift,
};
use fluke_model::event::{Event, EventKind};
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, Hash256, ServiceName, StepAddress, TaskName};
use fluke_model::time::Timestamp;

use crate::changes::{Change, Changes};
use crate::events::EventSink;
use crate::reconcile::{Progress, Request, What};
use crate::registry::{OrderError, Registry};
use crate::source::Desired;
use known::Known;

/// How many are remembered; the oldest finished ones go first.
const REMEMBERED: usize = 256;
/// How much all of them may come to before finished ones are forgotten for it, in bytes.
const MEMORY: usize = 64 << 20;

/// Manual reconciles under way, and the last ones that ended.
pub struct Reconciles {
    registry: Arc<Registry>,
    events: Arc<dyn EventSink>,
    changes: Changes,
    counter: AtomicU64,
    known: Mutex<VecDeque<Known>>,
}

/// Why a manual reconcile was not begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// What was asked for does not go together.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// No agent of that name was ever connected.
    #[error("no agent `{0}` is known; `fluke get agents` lists those that are")]
    UnknownAgent(String),
    /// The agent is known and away.
    #[error(
        "the agent `{0}` is not connected; it is checked when it returns, and put right as its policies say"
    )]
    AgentOffline(String),
    /// The commit in force has no such task.
    #[error("no task `{0}` is in the commit in force; `fluke get tasks` lists those that are")]
    UnknownTask(String),
    /// The commit in force has no such service.
    #[error(
        "no service `{0}` is in the commit in force; `fluke get services` lists those that are"
    )]
    UnknownService(String),
    /// The task is not for that agent.
    #[error("the task `{task}` is not for the agent `{agent}`: its selector does not match")]
    NotForAgent {
        /// Which task.
        task: TaskName,
        /// Which agent.
        agent: AgentName,
    },
    /// Nothing of the service is for that agent.
    #[error(
        "nothing of the service `{service}` should run on `{agent}`; `fluke describe service {service}` tells where it should"
    )]
    NotOnAgent {
        /// Which service.
        service: ServiceName,
        /// Which agent.
        agent: AgentName,
    },
    /// What was approved is no longer what would be put right.
    #[error(
        "what is drifted of the task `{task}` on `{agent}` is no longer what was seen, so nothing was done; now: {now}"
    )]
    SeenOtherwise {
        /// Which task.
        task: TaskName,
        /// Which agent.
        agent: AgentName,
        /// What is drifted, in words.
        now: String,
    },
    /// The task would do something else by now.
    #[error(
        "the task `{task}`, as it is for `{agent}`, was changed in Git since it was seen, so nothing was done; look at what it does now, and approve that"
    )]
    TaskChanged {
        /// Which task.
        task: TaskName,
        /// Which agent.
        agent: AgentName,
    },
}

/// Whom a reconcile concerns, and what of them.
struct Concerned {
    agents: Vec<AgentName>,
    what: What,
    /// Where the request names one agent: that one.
    only: Option<AgentName>,
}

impl Concerned {
    fn all(agents: Vec<AgentName>, what: What) -> Self {
        Self { agents, what, only: None }
    }

    fn one(agent: AgentName, what: What) -> Self {
        Self { agents: vec![agent.clone()], what, only: Some(agent) }
    }
}

impl Reconciles {
    /// How many are under way.
    pub fn open(&self) -> usize {
        self.known().iter().filter(|known| !known.progress().done).count()
    }

    /// Knows of none yet.
    pub fn new(registry: Arc<Registry>, events: Arc<dyn EventSink>, changes: Changes) -> Self {
        Self { registry, events, changes, counter: AtomicU64::new(1), known: Mutex::default() }
    }

    /// Hands the request to every agent that it concerns, and answers at once. `desired` is the
    /// commit in force.
    pub fn start(
        &self,
        request: &ReconcileRequest,
        by: String,
        desired: Option<&Desired>,
        now: Timestamp,
    ) -> Result<ReconcileAccepted, StartError> {
        let Concerned { agents, what, only } = self.concerned(request, desired)?;
        let id = format!("{:x}-{}", now.0, self.counter.fetch_add(1, Ordering::Relaxed));
        let mut event = about(&what, Event::new(EventKind::ReconcileRequested, now));
        event.by = Some(by.clone());
        event.trigger = Some("manual".into());
        event.agent = only.clone();
        self.events.record(event);
        let known = Known::new(ReconcileProgress {
            id: id.clone(),
            scope: request.scope,
            name: request.name.clone(),
            agent: only.filter(|_| what != What::Host),
            by: by.clone(),
            done: false,
            failed: false,
            started: now,
            agents: agents.iter().cloned().map(waiting).collect(),
        });
        if known.progress().done {
            self.events.record(finish_event(known.progress(), now));
        }
        self.remember(known);
        self.changes.tell(Change::Reconcile(id.clone()));
        let mut refused = Vec::new();
        for agent in agents {
            let order = Request { id: id.clone(), by: by.clone(), what: what.clone() };
            if let Err(error) = self.registry.order(agent.as_str(), order) {
                refused.push((agent, error));
            }
        }
        if !refused.is_empty() {
            self.advance(&id, now, |known| {
                refused
                    .into_iter()
                    .fold(false, |over, (agent, error)| over | refuse(known, &agent, error))
            });
        }
        Ok(ReconcileAccepted { id })
    }

    fn concerned(
        &self,
        request: &ReconcileRequest,
        desired: Option<&Desired>,
    ) -> Result<Concerned, StartError> {
        let model = desired.map(|desired| &desired.model);
        let known_task = |name: &str| {
            let task = model.and_then(|model| model.tasks.get_key_value(name));
            task.map(|(name, _)| name.clone()).ok_or(StartError::UnknownTask(name.into()))
        };
        let known_service = |name: &str| {
            let service = model.and_then(|model| model.services.get_key_value(name));
            service.map(|(name, _)| name.clone()).ok_or(StartError::UnknownService(name.into()))
        };
        match request.target()? {
            ReconcileTarget::All => Ok(Concerned::all(self.registry.names(), What::Host)),
            ReconcileTarget::Agent(name) => Ok(Concerned::one(self.connected(name)?, What::Host)),
            ReconcileTarget::Service(name) => {
                let service = known_service(name)?;
                let agents = self.registry.hosts_of(&service);
                Ok(Concerned::all(agents, What::Service(service)))
            }
            ReconcileTarget::ServiceOn { service, agent } => {
                let (service, agent) = (known_service(service)?, self.connected(agent)?);
                match self.registry.has_service(&agent, &service) {
                    true => Ok(Concerned::one(agent, What::Service(service))),
                    false => Err(StartError::NotOnAgent { service, agent }),
                }
            }
            ReconcileTarget::Task(name) => {
                let name = known_task(name)?;
                let agents = self.registry.task_status(&name).into_iter().map(|agent| agent.name);
                Ok(Concerned::all(agents.collect(), What::Task { name, approved: None }))
            }
            ReconcileTarget::TaskOn { task, agent, seen } => {
                let (task, agent) = (known_task(task)?, self.connected(agent)?);
                let Some((drift, approval)) = self.registry.task_drift(&agent, &task) else {
                    return Err(StartError::NotForAgent { task, agent });
                };
                if let Some(seen) = seen.filter(|seen| !are_same(seen, &drift)) {
                    tracing::debug!(%task, %agent, ?seen, ?drift, "an approval is of the past");
                    return Err(StartError::SeenOtherwise { task, agent, now: in_words(&drift) });
                }
                if seen.is_some_and(|seen| !are_of(seen, approval.task())) {
                    return Err(StartError::TaskChanged { task, agent });
                }
                let approved = seen.map(|_| approval);
                Ok(Concerned::one(agent, What::Task { name: task, approved }))
            }
        }
    }

    /// The name of an agent that is there to be asked.
    fn connected(&self, name: &str) -> Result<AgentName, StartError> {
        match self.registry.view(name) {
            None => Err(StartError::UnknownAgent(name.into())),
            Some(agent) if !agent.connected => Err(StartError::AgentOffline(name.into())),
            Some(agent) => Ok(agent.name),
        }
    }

    /// Takes what a machine says of a request that it was handed.
    pub fn note(&self, id: &str, agent: &AgentName, progress: Progress, now: Timestamp) {
        self.advance(id, now, |known| known.note(agent, progress));
    }

    /// Changes one; `change` says whether it is over with that.
    fn advance(&self, id: &str, now: Timestamp, change: impl FnOnce(&mut Known) -> bool) {
        let mut all = self.known();
        // What is under way is among the newest.
        let Some(known) = all.iter_mut().rev().find(|known| known.progress().id == id) else {
            return;
        };
        let finished = change(known).then(|| finish_event(known.progress(), now));
        drop(all);
        self.changes.tell(Change::Reconcile(id.to_string()));
        finished.into_iter().for_each(|event| self.events.record(event));
    }

    fn remember(&self, new: Known) {
        let mut all = self.known();
        let mut weight = new.weight() + all.iter().map(Known::weight).sum::<usize>();
        while weight > MEMORY
            && let Some(oldest) = all.iter().position(|known| known.progress().done)
        {
            weight -= all.remove(oldest).map_or(0, |known| known.weight());
        }
        if all.len() >= REMEMBERED {
            let oldest = all.iter().position(|known| known.progress().done).unwrap_or(0);
            all.remove(oldest);
        }
        all.push_back(new);
    }

    /// How far a reconcile has come.
    pub fn progress(&self, id: &str) -> Option<ReconcileProgress> {
        self.told(id, usize::MAX)
    }

    /// The same; of one that comes to more than `most` bytes, without what its steps printed.
    pub fn told(&self, id: &str, most: usize) -> Option<ReconcileProgress> {
        let all = self.known();
        all.iter().find(|known| known.progress().id == id).map(|known| known.told(most))
    }

    /// The ids of all that are remembered.
    pub fn ids(&self) -> Vec<String> {
        self.known().iter().map(|known| known.progress().id.clone()).collect()
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether somebody saw what is so, in whatever order.
fn are_same(seen: &[SeenDrift], drift: &[SeenDrift]) -> bool {
    fn set(list: &[SeenDrift]) -> BTreeSet<(&StepAddress, Option<&str>)> {
        list.iter().map(|it| (&it.step, it.reason.as_deref())).gather()
    }
    set(seen) == set(drift)
}

/// Whether somebody saw the task as it is, as far as they say.
fn are_of(seen: &[SeenDrift], task: Hash256) -> bool {
    seen.iter().all(|it| it.task_hash.is_none_or(|hash| hash == task))
}

/// What is drifted, for somebody who thought that it was something else.
fn in_words(drift: &[SeenDrift]) -> String {
    let one = |it: &SeenDrift| match &it.reason {
        Some(reason) => format!("{} ({reason})", it.step),
        None => it.step.to_string(),
    };
    match drift {
        [] => "nothing".into(),
        drift => drift.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

fn waiting(name: AgentName) -> ReconcileAgent {
    ReconcileAgent { name, state: ReconcileState::Waiting, steps: Vec::new(), error: None }
}

/// Notes why an agent did not take a request; true if that was the last thing to come.
fn refuse(known: &mut Known, agent: &AgentName, error: OrderError) -> bool {
    match error {
        OrderError::Offline => known.note_offline(agent),
        OrderError::TooMany => {
            let error = Some("too many reconciles wait for this agent already".into());
            known.note(agent, Progress::Ended { error })
        }
    }
}

/// The event, with the task or the service that it is about.
fn about(what: &What, event: Event) -> Event {
    match what.clone() {
        What::Host => event,
        What::Task { name, .. } => Event { task: Some(name), ..event },
        What::Service(name) => Event { service: Some(name), ..event },
    }
}

fn finish_event(progress: &ReconcileProgress, now: Timestamp) -> Event {
    let mut counts = BTreeMap::new();
    for agent in &progress.agents {
        let state = match agent.state {
            ReconcileState::Done => "done",
            ReconcileState::Offline => "offline",
            _ => "failed",
        };
        *counts.entry(state).or_insert(0) += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(state, n)| format!("{n} {state}")).collect();
    let mut event = Event::new(EventKind::ReconcileFinished, now);
    if progress.scope == ReconcileScope::Service {
        event.service = progress.name.as_deref().and_then(|name| ServiceName::new(name).ok());
    }
    event.by = Some(progress.by.clone());
    event.trigger = Some("manual".into());
    event.duration_ms = Some(now.since(progress.started).as_millis() as u64);
    event.output = Some(counts.join(", "));
    event
}

#[cfg(test)]
mod tests;
