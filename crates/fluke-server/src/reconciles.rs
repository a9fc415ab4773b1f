//! Manual reconciles: who asked for what, and how far it has come.

mod known;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluke_model::api::{
    InvalidRequest, ReconcileAccepted, ReconcileAgent, ReconcileProgress, ReconcileRequest,
    ReconcileState, ReconcileTarget, SeenDrift,
};
use fluke_model::event::{Event, EventKind};
use fluke_model::id::{AgentName, Hash256, StepAddress, TaskName};
use fluke_model::time::Timestamp;

use crate::changes::{Change, Changes};
use crate::events::EventSink;
use crate::reconcile::{Approval, Progress, Request};
use crate::registry::{OrderError, Registry};
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
    #[error("the agent `{0}` is not connected; it is brought up to date when it returns")]
    AgentOffline(String),
    /// The commit in force has no such task.
    #[error("no task `{0}` is in the commit in force; `fluke get tasks` lists those that are")]
    UnknownTask(String),
    /// The task is not for that agent.
    #[error("the task `{task}` is not for the agent `{agent}`: its selector does not match")]
    NotForAgent {
        /// Which task.
        task: TaskName,
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
#[derive(Default)]
struct Concerned {
    agents: Vec<AgentName>,
    task: Option<TaskName>,
    /// Where the request names one agent: that one.
    only: Option<AgentName>,
    /// What may be applied, if only what was seen may.
    approved: Option<Approval>,
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

    /// Hands the request to every agent that it concerns, and answers at once. `is_task` tells
    /// which tasks the commit in force has.
    pub fn start(
        &self,
        request: &ReconcileRequest,
        by: String,
        is_task: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> Result<ReconcileAccepted, StartError> {
        let Concerned { agents, task, only, approved } = self.concerned(request, is_task)?;
        let id = format!("{:x}-{}", now.0, self.counter.fetch_add(1, Ordering::Relaxed));
        let mut event = Event::new(EventKind::ReconcileRequested, now);
        event.by = Some(by.clone());
        event.trigger = Some("manual".into());
        event.task = task.clone();
        event.agent = only.clone();
        self.events.record(event);
        let known = Known::new(ReconcileProgress {
            id: id.clone(),
            scope: request.scope,
            name: request.name.clone(),
            agent: only.filter(|_| task.is_some()),
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
            let (task, approved) = (task.clone(), approved.clone());
            let order = Request { id: id.clone(), by: by.clone(), task, approved };
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
        is_task: impl Fn(&str) -> bool,
    ) -> Result<Concerned, StartError> {
        let known_task = |name: &str| match TaskName::new(name) {
            Ok(task) if is_task(name) => Ok(task),
            _ => Err(StartError::UnknownTask(name.into())),
        };
        match request.target()? {
            ReconcileTarget::All => {
                Ok(Concerned { agents: self.registry.names(), ..Concerned::default() })
            }
            ReconcileTarget::Agent(name) => {
                let agent = self.connected(name)?;
                let (agents, only) = (vec![agent.clone()], Some(agent));
                Ok(Concerned { agents, only, ..Concerned::default() })
            }
            ReconcileTarget::Task(name) => {
                let task = known_task(name)?;
                let agents = self.registry.task_status(&task).into_iter().map(|agent| agent.name);
                Ok(Concerned { agents: agents.collect(), task: Some(task), ..Concerned::default() })
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
                let (agents, only) = (vec![agent.clone()], Some(agent));
                Ok(Concerned { agents, task: Some(task), only, approved })
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
        list.iter().map(|it| (&it.step, it.reason.as_deref())).collect()
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
    event.by = Some(progress.by.clone());
    event.trigger = Some("manual".into());
    event.duration_ms = Some(now.since(progress.started).as_millis() as u64);
    event.output = Some(counts.join(", "));
    event
}

#[cfg(test)]
mod tests;
