//! The lists: agents, drift, tasks, events.

use std::collections::BTreeSet;

use fluke_model::api::{Agent, Agents, DriftEntry, Events, TaskCounts, TaskView};
use fluke_model::event::Event;
use fluke_model::gather::Gather;
use fluke_model::id::TaskName;
use fluke_model::status::{Status, StepStatus};
use fluke_model::time::Timestamp;

use crate::colour::Paint;
use crate::report::count;
use crate::sanitise;
use crate::table::{Cell, Column, Table};
use crate::when::{ago, took};

/// What is wrong comes first, what is well last; the smaller the worse.
pub fn urgency(status: Status) -> u8 {
    match status {
        Status::Failed => 0,
        Status::Drifted => 1,
        Status::Applying => 2,
        Status::Offline => 3,
        Status::Unknown => 4,
        Status::InSync => 5,
    }
}

/// The same of steps.
pub fn step_urgency(status: StepStatus) -> u8 {
    match status {
        StepStatus::Failed => 0,
        StepStatus::AppliedButDrifted => 1,
        StepStatus::Drifted => 2,
        StepStatus::Applying => 3,
        StepStatus::Unknown => 4,
        StepStatus::InSync => 5,
    }
}

/// Sorts agents, those that stand alike as they were: by name.
pub fn worst_agents_first(agents: &mut [Agent]) {
    agents.sort_by_key(|agent| urgency(agent.status));
}

/// Sorts tasks by the worst of their agents; those without agents come last.
pub fn worst_tasks_first(tasks: &mut [TaskView]) {
    let worst = |task: &TaskView| task.agents.iter().map(|agent| urgency(agent.status)).min();
    tasks.sort_by_key(|task| worst(task).unwrap_or(u8::MAX));
}

/// Sorts drift, what stands alike as it was: by agent, task or service, and step.
pub fn worst_drift_first(drift: &mut [DriftEntry]) {
    drift.sort_by_key(|entry| step_urgency(entry.status));
}

const AGENTS: [Column; 10] = [
    Column::name("NAME", 0, 16),
    Column::new("STATUS"),
    Column::new("TASKS"),
    Column::cut("SERVICES", 3, 8),
    Column::cut("DRIFTED", 2, 7),
    Column::cut("FAILED", 2, 6),
    Column::cut("COMMIT", 5, 9),
    Column::cut("VERSION", 6, 7),
    Column::cut("LABELS", 4, 12),
    Column::cut("SEEN", 1, 8),
];

/// `fluke get agents`
pub fn agents(list: &[Agent], now: Timestamp) -> Table {
    let mut list = list.to_vec();
    worst_agents_first(&mut list);
    let shown = Shown::of(&list);
    let mut table = Table::new(&shown.columns());
    for agent in &list {
        table.row(shown.fields(agent_row(agent, now)));
    }
    table
}

/// Which columns of agents are shown: that of services only where there are any.
struct Shown {
    services: bool,
}

impl Shown {
    /// Where services are among the columns.
    const SERVICES: usize = 3;

    fn of(list: &[Agent]) -> Self {
        Self { services: list.iter().any(|agent| agent.services.is_some()) }
    }

    fn columns(&self) -> Vec<Column> {
        self.fields(AGENTS).collect()
    }

    fn fields<T>(&self, all: [T; 10]) -> impl Iterator<Item = T> {
        let services = self.services;
        let fields = all.into_iter().enumerate();
        fields.filter(move |(at, _)| services || *at != Self::SERVICES).map(|(_, field)| field)
    }
}

/// Those that are not as they were, for who reads line by line.
pub fn changed_agents(old: &[Agent], new: &[Agent], now: Timestamp) -> Table {
    let shown = Shown { services: Shown::of(old).services || Shown::of(new).services };
    let mut table = Table::untitled(&shown.columns());
    let unchanged = |agent: &Agent| {
        let before = old.binary_search_by(|before| before.name.cmp(&agent.name)).ok();
        // Being heard again is no news.
        before.is_some_and(|at| Agent { last_seen: agent.last_seen, ..old[at].clone() } == *agent)
    };
    for agent in new.iter().filter(|agent| !unchanged(agent)) {
        table.row(shown.fields(agent_row(agent, now)));
    }
    let gone =
        |before: &&Agent| new.binary_search_by(|agent| agent.name.cmp(&before.name)).is_err();
    for agent in old.iter().filter(gone) {
        table.row([agent.name.as_str().into(), GONE.into()]);
    }
    table
}

/// The status of what is no longer in a list.
pub const GONE: &str = "gone";

/// The fields of one agent.
pub fn agent_row(agent: &Agent, now: Timestamp) -> [Cell; 10] {
    let (tasks, services) = (agent.tasks, agent.services.unwrap_or_default());
    let in_sync = |counts: TaskCounts| match counts.total {
        0 => Cell::painted("-", Paint::Dim),
        total => format!("{}/{total}", counts.in_sync).into(),
    };
    let painted_count = |count: u32, paint| match count {
        0 => Cell::painted("0", Paint::Dim),
        some => Cell::painted(some.to_string(), paint),
    };
    [
        agent.name.as_str().into(),
        status(agent.status),
        in_sync(tasks),
        in_sync(services),
        painted_count(tasks.drifted + services.drifted, Paint::Yellow),
        painted_count(tasks.failed + services.failed, Paint::Red),
        agent.commit.as_ref().map_or("-".into(), |commit| sanitise::line(commit.short())).into(),
        sanitise::line(&agent.version).into(),
        agent.labels.to_string().into(),
        ago(agent.last_seen, now).into(),
    ]
}

const DRIFT: [Column; 7] = [
    Column::name("AGENT", 0, 12),
    Column::name("OF", 0, 10),
    Column::name("STEP", 1, 12),
    Column::cut("POLICY", 4, 10),
    Column::new("STATUS"),
    Column::cut("SINCE", 3, 8),
    Column::below("REASON", 2, 28),
];

/// `fluke get drift`
pub fn drift(list: &[DriftEntry], now: Timestamp) -> Table {
    let mut list = list.to_vec();
    worst_drift_first(&mut list);
    let mut table = Table::new(&DRIFT);
    for entry in &list {
        table.row(drift_row(entry, now));
    }
    table
}

/// What is drifted in another way than before, and what is no longer.
pub fn changed_drift(old: &[DriftEntry], new: &[DriftEntry], now: Timestamp) -> Table {
    let mut table = Table::untitled(&DRIFT);
    let place = |entry: &DriftEntry| {
        (entry.agent.clone(), entry.task.clone(), entry.service.clone(), entry.step.clone())
    };
    let before: BTreeSet<_> = old.iter().map(|entry| (place(entry), entry.status)).gather();
    let still: BTreeSet<_> = new.iter().map(place).gather();
    for entry in new.iter().filter(|entry| !before.contains(&(place(entry), entry.status))) {
        table.row(drift_row(entry, now));
    }
    for entry in old.iter().filter(|entry| !still.contains(&place(entry))) {
        let mut row = drift_row(entry, now);
        (row[4], row[6]) = (GONE.into(), "-".into());
        table.row(row);
    }
    table
}

fn drift_row(entry: &DriftEntry, now: Timestamp) -> [Cell; 7] {
    [
        entry.agent.as_str().into(),
        entry.owner().unwrap_or("-").into(),
        entry.step.to_string().into(),
        entry.policy.as_str().into(),
        Cell::painted(entry.status.as_str(), entry.status.into()),
        entry.since.map_or("-".into(), |since| ago(since, now)).into(),
        sanitise::first_line(entry.reason.as_deref().unwrap_or("-")).into(),
    ]
}

/// What is said instead of an empty list of drift.
pub fn no_drift(agents: &Agents) -> String {
    let total = agents.agents.len();
    let with = |status| agents.agents.iter().filter(|agent| agent.status == status).count();
    if total == 0 {
        return "nothing is drifted, but no agent is known yet\n".into();
    }
    let mut text = format!("nothing is drifted: {}", count(total, "agent"));
    for (number, is) in [
        (with(Status::InSync), "in sync"),
        (with(Status::Unknown), "not checked yet"),
        (with(Status::Offline), "offline"),
    ] {
        if number > 0 {
            text.push_str(&format!(", {number} {is}"));
        }
    }
    text + "\n"
}

const TASKS: [Column; 6] = [
    Column::name("NAME", 0, 16),
    Column::cut("POLICY", 3, 10),
    Column::new("STATUS"),
    Column::new("AGENTS"),
    Column::cut("STEPS", 4, 5),
    Column::name("DEFINED", 5, 16),
];

/// `fluke get tasks`
pub fn tasks(list: &[TaskView]) -> Table {
    let mut list = list.to_vec();
    worst_tasks_first(&mut list);
    let mut table = Table::new(&TASKS);
    for task in &list {
        table.row(task_row(task));
    }
    table
}

/// Those that are not as they were.
pub fn changed_tasks(old: &[TaskView], new: &[TaskView]) -> Table {
    let mut table = Table::untitled(&TASKS);
    let find =
        |list: &[TaskView], name: &TaskName| list.binary_search_by(|task| task.name.cmp(name)).ok();
    let changed = |task: &&TaskView| find(old, &task.name).is_none_or(|at| old[at] != **task);
    for task in new.iter().filter(changed) {
        table.row(task_row(task));
    }
    for task in old.iter().filter(|task| find(new, &task.name).is_none()) {
        table.row([task.name.as_str().into(), "".into(), GONE.into()]);
    }
    table
}

fn task_row(task: &TaskView) -> [Cell; 6] {
    let in_sync = task.agents.iter().filter(|agent| agent.status == Status::InSync).count();
    [
        task.name.as_str().into(),
        task.policy.as_str().into(),
        match task.agents.is_empty() {
            true => Cell::painted("no agent", Paint::Dim),
            false => status(task.status),
        },
        format!("{in_sync}/{}", task.agents.len()).into(),
        task.steps.len().to_string().into(),
        sanitise::line(&task.defined).into(),
    ]
}

/// What is left out of a list of events, if anything is.
pub fn unreadable(events: &Events) -> Option<String> {
    let count = events.unreadable;
    (count > 0).then(|| {
        format!("{count} more cannot be read by this version of the server: a newer one wrote them")
    })
}

const EVENTS: [Column; 8] = [
    Column::new("TIME"),
    Column::new("KIND"),
    Column::name("AGENT", 1, 12),
    Column::name("TASK/STEP", 2, 16),
    Column::cut("TRIGGER", 5, 8),
    Column::cut("OUTCOME", 3, 7),
    Column::cut("TOOK", 6, 4),
    Column::below("OUTPUT", 4, 28),
];

/// `fluke get events`
pub fn events(list: &[Event], now: Timestamp) -> Table {
    let mut table = Table::new(&EVENTS);
    for event in list {
        table.row(event_row(event, now));
    }
    table
}

/// Those that are newer than all before, oldest first.
pub fn new_events(old: &[Event], new: &[Event], now: Timestamp) -> Table {
    let mut table = Table::untitled(&EVENTS);
    let newest = old.first().map(|event| event.id);
    let newer: Vec<&Event> = new.iter().take_while(|event| Some(event.id) > newest).collect();
    for event in newer.into_iter().rev() {
        table.row(event_row(event, now));
    }
    table
}

/// `task/step`, or `service/part`, as far as the event is about one.
pub fn place(event: &Event) -> Option<String> {
    let whose = event.task.as_ref().map(|task| task.as_str());
    let whose = whose.or(event.service.as_ref().map(|service| service.as_str()));
    match (whose, &event.step) {
        (Some(whose), Some(step)) => Some(format!("{whose}/{step}")),
        (Some(whose), None) => Some(whose.to_string()),
        (None, Some(step)) => Some(step.to_string()),
        (None, None) => None,
    }
}

fn event_row(event: &Event, now: Timestamp) -> [Cell; 8] {
    let place = place(event).unwrap_or_else(|| "-".into());
    let by = event.by.as_deref().map(sanitise::line).map(|by| format!("({by})"));
    let trigger: Vec<String> =
        event.trigger.as_deref().map(sanitise::line).into_iter().chain(by).collect();
    [
        Cell::painted(ago(event.time, now), Paint::Dim),
        event.kind.as_str().into(),
        event.agent.as_ref().map_or("-", |agent| agent.as_str()).into(),
        place.into(),
        (if trigger.is_empty() { "-".to_string() } else { trigger.join(" ") }).into(),
        event.outcome.map_or("-".into(), |outcome| Cell::painted(outcome.as_str(), outcome.into())),
        event.duration_ms.map_or("-".into(), took).into(),
        sanitise::first_line(event.output.as_deref().unwrap_or_default()).into(),
    ]
}

/// A status in its colour.
pub fn status(status: Status) -> Cell {
    Cell::painted(status.as_str(), status.into())
}
