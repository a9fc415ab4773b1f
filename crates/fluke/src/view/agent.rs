//! One agent: what is wrong and why first, then everything else.

use fluke_model::api::{AgentDetail, AgentStep, AgentTask};
use fluke_model::event::{Event, EventKind};
use fluke_model::status::{Status, StepStatus};
use fluke_model::time::Timestamp;

use super::fleet;
use crate::colour::Paint;
use crate::report::{Report, count};
use crate::sanitise;
use crate::screen::Style;
use crate::table::{Cell, Column, Table};
use crate::when::{ago, exactly};

/// How many events are shown below everything else.
const EVENTS: usize = 10;

/// `fluke describe agent`
pub fn describe(detail: &AgentDetail, style: Style, now: Timestamp) -> String {
    let mut report = Report::new(style);
    let status = detail.agent.status;
    report.line(
        0,
        &[
            (detail.agent.name.as_str(), Paint::Bold),
            ("is", Paint::Plain),
            (&status.as_str().replace('_', " "), status.into()),
            (&verdict(detail, now), Paint::Plain),
        ],
    );
    if let Some(error) = &detail.agent.error {
        report.quote(2, error, Paint::Plain);
    }
    for (task, step) in problems(detail) {
        tell_problem(&mut report, detail, task, step, now);
    }
    tell_facts(&mut report, detail, now);
    tell_tasks(&mut report, detail, now);
    tell_events(&mut report, detail, now);
    report.finish()
}

fn verdict(detail: &AgentDetail, now: Timestamp) -> String {
    let tasks = detail.agent.tasks;
    match detail.agent.status {
        Status::InSync if tasks.total == 0 => "- no task matches its labels".into(),
        Status::InSync => format!("- {}, nothing to do", count(tasks.total as usize, "task")),
        Status::Unknown => "- not everything has been checked yet".into(),
        Status::Offline => format!(
            "- last heard {}; is the agent running there, and can it reach the server?",
            exactly(detail.agent.last_seen, now)
        ),
        Status::Failed if detail.agent.error.is_some() => "- nothing can be asked of it:".into(),
        Status::Drifted | Status::Applying | Status::Failed => format!(
            "- of {}, {} drifted and {} failed",
            count(tasks.total as usize, "task"),
            tasks.drifted,
            tasks.failed
        ),
    }
}

fn problems(detail: &AgentDetail) -> impl Iterator<Item = (&AgentTask, &AgentStep)> {
    let steps =
        detail.task_details.iter().flat_map(|task| task.steps.iter().map(move |step| (task, step)));
    steps.filter(|(_, step)| step.status.is_drifted())
}

fn tell_problem(
    report: &mut Report,
    detail: &AgentDetail,
    task: &AgentTask,
    step: &AgentStep,
    now: Timestamp,
) {
    report.heading(&format!("{} / {}", task.name, step.step));
    let since =
        step.since.map(|since| format!("since {}", exactly(since, now))).unwrap_or_default();
    let status = step.status.as_str().replace('_', " ");
    report.line(2, &[(&status, step.status.into()), (&since, Paint::Dim)]);
    report.quote(2, step.reason.as_deref().unwrap_or("no reason was given"), Paint::Plain);
    if let Some(diff) = &step.diff {
        report.difference(4, diff);
    }
    if let Some(event) = last_output(&detail.events, task, step) {
        let what = format!("last output, {} ({}):", exactly(event.time, now), event.kind.as_str());
        report.line(2, &[(&what, Paint::Dim)]);
        report.quote(4, event.output.as_deref().unwrap_or_default(), Paint::Plain);
    }
    let next = what_next(detail, task, step, now);
    report.line(2, &[("→", Paint::Cyan), (&next, Paint::Plain)]);
}

/// The newest output of this step that says more than its reason does.
fn last_output<'a>(events: &'a [Event], task: &AgentTask, step: &AgentStep) -> Option<&'a Event> {
    let tells = |event: &&Event| {
        event.task.as_ref() == Some(&task.name)
            && event.step.as_ref() == Some(&step.step)
            && matches!(event.kind, EventKind::ApplyFinished | EventKind::CheckFailed)
            && event.output.as_deref().is_some_and(|output| !output.trim().is_empty())
    };
    let newest = events.iter().find(tells)?;
    (newest.output.as_deref().map(str::trim) != step.reason.as_deref().map(str::trim))
        .then_some(newest)
}

fn what_next(detail: &AgentDetail, task: &AgentTask, step: &AgentStep, now: Timestamp) -> String {
    let by_hand = format!("fluke reconcile agent {}", detail.agent.name);
    if !detail.agent.connected {
        return "this is what was known last; nothing can be done before the agent is back".into();
    }
    match (step.status, task.retry_at) {
        (StepStatus::Applying, _) => "is being put right now".into(),
        (StepStatus::AppliedButDrifted, _) => {
            "was applied without error, and its check still says no: the check or the command is wrong; \
             mend it in Git"
                .into()
        }
        (_, Some(retry)) => format!(
            "failed {} in a row, is tried again {}; at once with `{by_hand}`",
            count(task.failures as usize, "time"),
            ago(retry, now)
        ),
        (StepStatus::Drifted, None) if !task.policy.remediates() => format!(
            "`{}` leaves it to you: `fluke reconcile task {}`",
            task.policy.as_str(),
            task.name
        ),
        (StepStatus::Drifted, None) => format!("is put right when its turn comes; at once with `{by_hand}`"),
        (_, None) => format!("is tried again with the next cycle; at once with `{by_hand}`"),
    }
}

fn tell_facts(report: &mut Report, detail: &AgentDetail, now: Timestamp) {
    let agent = &detail.agent;
    let or_none = |text: String| if text.is_empty() { "none".into() } else { text };
    report.heading("Agent");
    report.fields(
        2,
        &[
            ("labels", or_none(agent.labels.to_string())),
            ("version", format!("{} ({})", agent.version, agent.node_type.as_str())),
            ("executors", or_none(detail.executors.join(", "))),
            (
                "connected",
                agent
                    .connected_since
                    .map_or("no".into(), |since| format!("since {}", exactly(since, now))),
            ),
            ("last heard", exactly(agent.last_seen, now)),
            ("commit", agent.commit.as_ref().map_or("none".into(), ToString::to_string)),
            ("snapshot", agent.snapshot.as_ref().map_or("none".into(), ToString::to_string)),
        ],
    );
}

fn tell_tasks(report: &mut Report, detail: &AgentDetail, now: Timestamp) {
    let mut table = Table::new(&[
        Column::cut("TASK", 0, 12),
        Column::cut("STEP", 1, 12),
        Column::new("STATUS"),
        Column::cut("POLICY", 5, 10),
        Column::new("SINCE"),
        Column::cut("CHECKED", 3, 8),
        Column::cut("APPLIED", 4, 8),
    ]);
    let when = |time: Option<Timestamp>| Cell::from(time.map_or("-".into(), |time| ago(time, now)));
    for task in &detail.task_details {
        for (at, step) in task.steps.iter().enumerate() {
            let first = at == 0;
            table.row([
                if first { task.name.as_str() } else { "" }.into(),
                step.step.to_string().into(),
                Cell::painted(step.status.as_str(), step.status.into()),
                if first { task.policy.as_str() } else { "" }.into(),
                when(step.since),
                when(step.last_checked),
                when(step.last_applied),
            ]);
        }
    }
    if !table.is_empty() {
        report.heading("Tasks");
        report.table(2, &table);
    }
}

fn tell_events(report: &mut Report, detail: &AgentDetail, now: Timestamp) {
    if detail.events.is_empty() && detail.events_error.is_none() {
        return;
    }
    report.heading("Recent events");
    if let Some(error) = &detail.events_error {
        let gap = format!("only those since it is away: {}", sanitise::line(error));
        report.line(2, &[(&gap, Paint::Yellow)]);
    }
    let shown = detail.events.len().min(EVENTS);
    report.table(2, &fleet::events(&detail.events[..shown], now));
    if detail.events.len() > shown {
        let more = format!(
            "more with `fluke get events --agent {}`",
            sanitise::line(detail.agent.name.as_str())
        );
        report.line(2, &[(&more, Paint::Dim)]);
    }
}
