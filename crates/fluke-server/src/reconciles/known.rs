//! One manual reconcile that is remembered. Pure: what one agent says costs the same, however many
//! others there are.

use fluke_model::api::{ReconcileAgent, ReconcileProgress, ReconcileState, ReconcileStep};
use fluke_model::id::AgentName;

use crate::reconcile::Progress;

/// How much of a step's output is kept here, in bytes: its tail. The events have all of it.
const OUTPUT: usize = 4 * 1024;

/// A reconcile, and what would take long to count.
#[derive(Debug)]
pub struct Known {
    /// Its agents are in the order of their names.
    progress: ReconcileProgress,
    /// How many agents are not through yet.
    open: usize,
    /// How many agents failed.
    failed: usize,
    /// About how much memory it takes, in bytes.
    weight: usize,
}

impl Known {
    /// Takes it as it stands.
    pub fn new(mut progress: ReconcileProgress) -> Self {
        progress.agents.sort_by(|a, b| a.name.cmp(&b.name));
        let count = |is: fn(ReconcileState) -> bool| {
            progress.agents.iter().filter(|it| is(it.state)).count()
        };
        let (open, failed) = (count(is_open), count(has_failed));
        let weight = size_of::<Self>() + progress.agents.iter().map(weight_of_agent).sum::<usize>();
        let mut known = Self { progress, open, failed, weight };
        known.conclude();
        known
    }

    /// How far it has come.
    pub fn progress(&self) -> &ReconcileProgress {
        &self.progress
    }

    /// About how much memory it takes, in bytes.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// How far it has come; if it weighs more than `most`, without what its steps printed.
    pub fn told(&self, most: usize) -> ReconcileProgress {
        if self.weight <= most {
            return self.progress.clone();
        }
        let ReconcileProgress { id, scope, name, agent, by, done, failed, started, agents } =
            &self.progress;
        let step = |step: &ReconcileStep| ReconcileStep {
            task: step.task.clone(),
            service: step.service.clone(),
            step: step.step.clone(),
            outcome: step.outcome,
            output: None,
        };
        let told = |agent: &ReconcileAgent| ReconcileAgent {
            name: agent.name.clone(),
            state: agent.state,
            steps: agent.steps.iter().map(step).collect(),
            error: agent.error.clone(),
        };
        ReconcileProgress {
            id: id.clone(),
            scope: *scope,
            name: name.clone(),
            agent: agent.clone(),
            by: by.clone(),
            done: *done,
            failed: *failed,
            started: *started,
            agents: agents.iter().map(told).collect(),
        }
    }

    /// Takes what an agent's machine says; true if that was the last thing to come.
    pub fn note(&mut self, agent: &AgentName, progress: Progress) -> bool {
        self.change(agent, |agent| match progress {
            Progress::Checking => agent.state = ReconcileState::Checking,
            Progress::Applying => agent.state = ReconcileState::Applying,
            Progress::Step(step) => note_step(&mut agent.steps, step),
            Progress::Ended { error } => {
                agent.state = match error {
                    None => ReconcileState::Done,
                    Some(_) => ReconcileState::Failed,
                };
                agent.error = error;
            }
        })
    }

    /// Notes that an agent is away; true if that was the last thing to come.
    pub fn note_offline(&mut self, agent: &AgentName) -> bool {
        self.change(agent, |agent| agent.state = ReconcileState::Offline)
    }

    fn change(&mut self, name: &AgentName, change: impl FnOnce(&mut ReconcileAgent)) -> bool {
        let agents = &mut self.progress.agents;
        let Ok(at) = agents.binary_search_by(|agent| agent.name.cmp(name)) else { return false };
        let agent = &mut agents[at];
        let (state, weight) = (agent.state, weight_of_agent(agent));
        change(agent);
        let becomes = |is: fn(ReconcileState) -> bool, count: usize| {
            count + usize::from(is(agent.state)) - usize::from(is(state))
        };
        (self.open, self.failed) = (becomes(is_open, self.open), becomes(has_failed, self.failed));
        self.weight = self.weight + weight_of_agent(agent) - weight;
        let was_done = self.progress.done;
        self.conclude();
        self.progress.done && !was_done
    }

    fn conclude(&mut self) {
        (self.progress.done, self.progress.failed) = (self.open == 0, self.failed > 0);
    }
}

fn note_step(steps: &mut Vec<ReconcileStep>, mut step: ReconcileStep) {
    step.output = step.output.map(tail);
    let same = |known: &&mut ReconcileStep| {
        (&known.task, &known.service, &known.step) == (&step.task, &step.service, &step.step)
    };
    // Steps end in the order in which they begin.
    match steps.iter_mut().rev().find(same) {
        Some(known) => *known = step,
        None => steps.push(step),
    }
}

fn is_open(state: ReconcileState) -> bool {
    !matches!(state, ReconcileState::Done | ReconcileState::Failed | ReconcileState::Offline)
}

fn has_failed(state: ReconcileState) -> bool {
    state == ReconcileState::Failed
}

/// Names are shared, and count for nothing.
fn weight_of_agent(agent: &ReconcileAgent) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let step = |step: &ReconcileStep| size_of::<ReconcileStep>() + text(&step.output);
    let steps: usize = agent.steps.iter().map(step).sum();
    size_of::<ReconcileAgent>() + steps + text(&agent.error)
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

#[cfg(test)]
mod tests;
