//! Manual reconciles: who asked for what, and how far it has come.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluke_model::api::{
    ReconcileAccepted, ReconcileAgent, ReconcileProgress, ReconcileRequest, ReconcileScope,
    ReconcileState,
};
use fluke_model::event::{Event, EventKind};
use fluke_model::id::{AgentName, TaskName};
use fluke_model::time::Timestamp;

use crate::changes::{Change, Changes};
use crate::events::EventSink;
use crate::reconcile::{Progress, Request};
use crate::registry::{OrderError, Registry};

/// How many are remembered; the oldest finished ones go first.
const REMEMBERED: usize = 256;
/// How much of a step's output is kept here, in bytes: its tail. The events have all of it.
const OUTPUT: usize = 4 * 1024;
/// How much all of it may come to before finished ones are forgotten for it, in bytes.
const OUTPUTS: usize = 64 * 1024 * 1024;

/// Manual reconciles under way, and the last ones that ended.
pub struct Reconciles {
    registry: Arc<Registry>,
    events: Arc<dyn EventSink>,
    changes: Changes,
    counter: AtomicU64,
    known: Mutex<VecDeque<ReconcileProgress>>,
}

/// Why a manual reconcile was not begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A scope that needs a name came without one.
    #[error("the scope `{0}` needs a name")]
    NameMissing(&'static str),
    /// No agent of that name was ever connected.
    #[error("no agent `{0}` is known; `fluke get agents` lists those that are")]
    UnknownAgent(String),
    /// The agent is known and away.
    #[error("the agent `{0}` is not connected; it is brought up to date when it returns")]
    AgentOffline(String),
    /// The commit in force has no such task.
    #[error("no task `{0}` is in the commit in force; `fluke get tasks` lists those that are")]
    UnknownTask(String),
}

impl Reconciles {
    /// How many are under way.
    pub fn open(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|progress| !progress.done).count()
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
        let (agents, task) = self.concerned(request, is_task)?;
        let id = format!("{:x}-{}", now.0, self.counter.fetch_add(1, Ordering::Relaxed));
        let (scope, name) = (request.scope, request.name.clone());
        let mut event = Event::new(EventKind::ReconcileRequested, now);
        event.by = Some(by.clone());
        event.trigger = Some("manual".into());
        event.task = task.clone();
        event.agent = agents.first().filter(|_| scope == ReconcileScope::Agent).cloned();
        self.events.record(event);
        let progress = ReconcileProgress {
            id: id.clone(),
            scope,
            name,
            by: by.clone(),
            done: agents.is_empty(),
            failed: false,
            started: now,
            agents: agents.iter().cloned().map(waiting).collect(),
        };
        if progress.done {
            self.events.record(finish_event(&progress, now));
        }
        self.remember(progress);
        for agent in agents {
            let order = Request { id: id.clone(), by: by.clone(), task: task.clone() };
            match self.registry.order(agent.as_str(), order) {
                Ok(()) => {}
                Err(OrderError::Offline) => {
                    self.advance(&id, &agent, now, |agent| agent.state = ReconcileState::Offline);
                }
                Err(OrderError::TooMany) => {
                    let error = Some("too many reconciles wait for this agent already".into());
                    self.note(&id, &agent, Progress::Ended { error }, now);
                }
            }
        }
        Ok(ReconcileAccepted { id })
    }

    fn concerned(
        &self,
        request: &ReconcileRequest,
        is_task: impl Fn(&str) -> bool,
    ) -> Result<(Vec<AgentName>, Option<TaskName>), StartError> {
        let name = |scope| request.name.clone().ok_or(StartError::NameMissing(scope));
        match request.scope {
            ReconcileScope::All => Ok((self.registry.names(), None)),
            ReconcileScope::Agent => {
                let name = name("agent")?;
                match self.registry.agent(&name) {
                    None => Err(StartError::UnknownAgent(name)),
                    Some(detail) if !detail.agent.connected => Err(StartError::AgentOffline(name)),
                    Some(detail) => Ok((vec![detail.agent.name], None)),
                }
            }
            ReconcileScope::Task => {
                let name = name("task")?;
                match TaskName::new(&name) {
                    Ok(task) if is_task(&name) => {
                        let agents = self.registry.task_status(&task);
                        Ok((agents.into_iter().map(|agent| agent.name).collect(), Some(task)))
                    }
                    _ => Err(StartError::UnknownTask(name)),
                }
            }
        }
    }

    /// Takes what a machine says of a request that it was handed.
    pub fn note(&self, id: &str, agent: &AgentName, progress: Progress, now: Timestamp) {
        self.advance(id, agent, now, |agent| match progress {
            Progress::Checking => agent.state = ReconcileState::Checking,
            Progress::Applying => agent.state = ReconcileState::Applying,
            Progress::Step(mut step) => {
                step.output = step.output.map(tail);
                let same = |known: &&mut fluke_model::api::ReconcileStep| {
                    known.task == step.task && known.step == step.step
                };
                match agent.steps.iter_mut().find(same) {
                    Some(known) => *known = step,
                    None => agent.steps.push(step),
                }
            }
            Progress::Ended { error } => {
                agent.state = match error {
                    None => ReconcileState::Done,
                    Some(_) => ReconcileState::Failed,
                };
                agent.error = error;
            }
        });
    }

    fn advance(
        &self,
        id: &str,
        name: &AgentName,
        now: Timestamp,
        change: impl FnOnce(&mut ReconcileAgent),
    ) {
        let mut known = self.known();
        let Some(progress) = known.iter_mut().find(|progress| progress.id == id) else { return };
        if let Some(agent) = progress.agents.iter_mut().find(|agent| agent.name == *name) {
            change(agent);
        }
        let was_done = progress.done;
        progress.done = progress.agents.iter().all(|agent| is_over(agent.state));
        progress.failed = progress.agents.iter().any(|agent| agent.state == ReconcileState::Failed);
        let finished = (progress.done && !was_done).then(|| progress.clone());
        drop(known);
        self.changes.tell(Change::Reconcile(id.to_string()));
        if let Some(progress) = finished {
            self.events.record(finish_event(&progress, now));
        }
    }

    fn remember(&self, progress: ReconcileProgress) {
        let mut known = self.known();
        while known.iter().map(weight).sum::<usize>() > OUTPUTS
            && let Some(oldest) = known.iter().position(|progress| progress.done)
        {
            known.remove(oldest);
        }
        if known.len() >= REMEMBERED {
            let oldest = known.iter().position(|progress| progress.done).unwrap_or(0);
            known.remove(oldest);
        }
        known.push_back(progress);
    }

    /// How far a reconcile has come.
    pub fn progress(&self, id: &str) -> Option<ReconcileProgress> {
        self.known().iter().find(|progress| progress.id == id).cloned()
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<ReconcileProgress>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn waiting(name: AgentName) -> ReconcileAgent {
    ReconcileAgent { name, state: ReconcileState::Waiting, steps: Vec::new(), error: None }
}

/// The end of an output, where programs say what went wrong.
fn tail(mut output: String) -> String {
    if output.len() > OUTPUT {
        let start = output.ceil_char_boundary(output.len() - OUTPUT);
        output.replace_range(..start, "[earlier output is in the events]\n");
        output.shrink_to_fit();
    }
    output
}

/// About how much memory its outputs take.
fn weight(progress: &ReconcileProgress) -> usize {
    let steps = progress.agents.iter().flat_map(|agent| &agent.steps);
    steps.map(|step| step.output.as_ref().map_or(0, String::len)).sum()
}

fn is_over(state: ReconcileState) -> bool {
    matches!(state, ReconcileState::Done | ReconcileState::Failed | ReconcileState::Offline)
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
mod tests {
    use super::*;

    #[test]
    fn of_an_output_the_end_is_kept() {
        assert_eq!(tail("short".into()), "short");
        let kept = tail(format!("{}é{}", "x".repeat(100), "y".repeat(OUTPUT - 1)));
        assert_eq!(kept, format!("[earlier output is in the events]\n{}", "y".repeat(OUTPUT - 1)));
    }
}
