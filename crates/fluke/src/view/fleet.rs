//! The lists: agents, drift, tasks, events.

use fluke_model::api::{Agent, Agents, DriftEntry, DriftList, Events, TaskView, Tasks};
use fluke_model::event::Event;
use fluke_model::status::Status;
use fluke_model::time::Timestamp;

use crate::colour::Paint;
use crate::report::count;
use crate::sanitise;
use crate::table::{Cell, Column, Table};
use crate::when::{ago, took};

/// `fluke get agents`
pub fn agents(list: &Agents, now: Timestamp) -> Table {
    let mut table = Table::new(&[
        Column::cut("NAME", 0, 12),
        Column::new("STATUS"),
        Column::new("TASKS"),
        Column::cut("DRIFTED", 2, 7),
        Column::cut("FAILED", 2, 6),
        Column::cut("COMMIT", 5, 9),
        Column::cut("VERSION", 6, 7),
        Column::cut("LABELS", 4, 12),
        Column::new("SEEN"),
    ]);
    for agent in &list.agents {
        table.row(agent_row(agent, now));
    }
    table
}

fn agent_row(agent: &Agent, now: Timestamp) -> [Cell; 9] {
    let tasks = agent.tasks;
    let painted_count = |count: u32, paint| match count {
        0 => Cell::painted("0", Paint::Dim),
        some => Cell::painted(some.to_string(), paint),
    };
    [
        agent.name.as_str().into(),
        status(agent.status),
        format!("{}/{}", tasks.in_sync, tasks.total).into(),
        painted_count(tasks.drifted, Paint::Yellow),
        painted_count(tasks.failed, Paint::Red),
        agent.commit.as_ref().map_or("-".into(), |commit| sanitise::line(commit.short())).into(),
        sanitise::line(&agent.version).into(),
        agent.labels.to_string().into(),
        ago(agent.last_seen, now).into(),
    ]
}

/// `fluke get drift`
pub fn drift(list: &DriftList, now: Timestamp) -> Table {
    let mut table = Table::new(&[
        Column::cut("AGENT", 0, 12),
        Column::cut("TASK", 0, 12),
        Column::cut("STEP", 1, 12),
        Column::cut("POLICY", 4, 10),
        Column::new("STATUS"),
        Column::new("SINCE"),
        Column::cut("REASON", 2, 16),
    ]);
    for entry in &list.drift {
        table.row(drift_row(entry, now));
    }
    table
}

fn drift_row(entry: &DriftEntry, now: Timestamp) -> [Cell; 7] {
    [
        entry.agent.as_str().into(),
        entry.task.as_str().into(),
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

/// `fluke get tasks`
pub fn tasks(list: &Tasks) -> Table {
    let mut table = Table::new(&[
        Column::cut("NAME", 0, 12),
        Column::cut("POLICY", 3, 10),
        Column::new("STATUS"),
        Column::new("AGENTS"),
        Column::cut("STEPS", 4, 5),
        Column::cut("DEFINED", 5, 16),
    ]);
    for task in &list.tasks {
        table.row(task_row(task));
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

/// `fluke get events`
pub fn events(list: &[Event], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        Column::new("TIME"),
        Column::new("KIND"),
        Column::cut("AGENT", 0, 12),
        Column::cut("TASK/STEP", 1, 16),
        Column::cut("TRIGGER", 4, 8),
        Column::new("OUTCOME"),
        Column::cut("TOOK", 5, 4),
        Column::cut("OUTPUT", 6, 16),
    ]);
    for event in list {
        table.row(event_row(event, now));
    }
    table
}

fn event_row(event: &Event, now: Timestamp) -> [Cell; 8] {
    let place = match (&event.task, &event.step) {
        (Some(task), Some(step)) => format!("{task}/{step}"),
        (Some(task), None) => task.to_string(),
        _ => "-".into(),
    };
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
