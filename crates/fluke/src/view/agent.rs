//! One agent: what is wrong and why first, then everything else.

mod services;

use fluke_model::api::{Agent, AgentDetail, AgentStep, AgentTask};
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

/// How many lines of a command's output are shown: its end.
const OUTPUT: usize = 12;

/// `fluke describe agent`
pub fn describe(detail: &AgentDetail, style: Style, now: Timestamp) -> String {
    let mut report = Report::new(style);
    tell_standing(&mut report, detail, now);
    for (task, step) in problems(detail) {
        tell_problem(&mut report, detail, task, step, now);
    }
    services::tell_problems(&mut report, detail);
    tell_facts(&mut report, detail, now);
    tell_tasks(&mut report, detail, now);
    services::tell(&mut report, detail);
    tell_events(&mut report, detail, now);
    report.finish()
}

/// In words, how it stands; and where no task is to blame, why and what to do.
fn tell_standing(report: &mut Report, detail: &AgentDetail, now: Timestamp) {
    let agent = &detail.agent;
    let has_nothing = agent.tasks.total == 0 && detail.service_details.is_empty();
    let told = match agent.status {
        Status::InSync if has_nothing => "- no task matches its labels".into(),
        Status::InSync => calm(detail, now),
        Status::Unknown => "- not everything has been checked yet".into(),
        Status::Offline => format!("since {}", exactly(agent.last_seen, now)),
        Status::Failed if agent.error.is_some() => "- nothing can be asked of it".into(),
        Status::Drifted | Status::Applying | Status::Failed => wrong(detail),
    };
    let status = agent.status.as_str().replace('_', " ");
    let name = agent.name.as_str();
    report.line(
        0,
        &[
            (name, Paint::Bold),
            ("is", Paint::Plain),
            (&status, agent.status.into()),
            (&told, Paint::Plain),
        ],
    );
    if let Some(error) = &agent.error {
        report.beside("why", error, Paint::Plain);
        report.beside("next", "it keeps what it had until a commit comes that fits", Paint::Plain);
        report.beside("do", "match fewer tasks, or make them smaller", Paint::Plain);
    }
    match agent.status {
        Status::Offline => {
            report.beside("next", OFFLINE, Paint::Plain);
            report.beside(
                "do",
                "on that host: systemctl status fluke-agent; journalctl -u fluke-agent -n 50",
                Paint::Cyan,
            );
        }
        Status::InSync if has_nothing => {
            report.beside("do", "fluke get tasks   shows them; `fluke describe task NAME` says which labels it wants", Paint::Plain);
        }
        _ => {}
    }
}

const OFFLINE: &str = "it looks after itself with what it knows; when it returns it is checked, and put right as its policies say";

/// `3 tasks and 1 service`
fn holdings(detail: &AgentDetail) -> String {
    let (tasks, services) = (detail.agent.tasks.total as usize, detail.service_details.len());
    match (tasks, services) {
        (tasks, 0) => count(tasks, "task"),
        (0, services) => count(services, "service"),
        _ => format!("{} and {}", count(tasks, "task"), count(services, "service")),
    }
}

/// `- 3 tasks, checked 3s ago`
fn calm(detail: &AgentDetail, now: Timestamp) -> String {
    let steps = detail.task_details.iter().flat_map(|task| &task.steps);
    let checked = steps.filter_map(|step| step.last_checked).max();
    let checked = checked.map_or(String::new(), |time| format!(", checked {}", ago(time, now)));
    format!("- {}{checked}, nothing to do", holdings(detail))
}

/// `- certs and runtimes, 2 of 14 tasks`
fn wrong(detail: &AgentDetail) -> String {
    let tasks = detail.task_details.iter();
    let tasks = tasks
        .filter(|task| task.steps.iter().any(|step| step.status.is_drifted()))
        .map(|task| task.name.as_str());
    let names: Vec<&str> = tasks.chain(services::wrong(detail)).collect();
    let total = holdings(detail);
    let broken = services::broken(detail);
    match (names.len(), broken.is_empty()) {
        (0, true) => format!("- {total}"),
        (0, false) => format!("- {}", some(&broken)),
        (number, true) => format!("- {}, {number} of {total}", some(&names)),
        (number, false) => {
            format!("- {}, {number} of {total}, and {}", some(&names), some(&broken))
        }
    }
}

/// A few names, and how many more there are.
pub fn some(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => one.to_string(),
        [one, two] => format!("{one} and {two}"),
        [one, two, three] => format!("{one}, {two} and {three}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more", rest.len()),
    }
}

fn problems(detail: &AgentDetail) -> impl Iterator<Item = (&AgentTask, &AgentStep)> {
    let steps =
        detail.task_details.iter().flat_map(|task| task.steps.iter().map(move |step| (task, step)));
    let mut wrong: Vec<_> = steps.filter(|(_, step)| step.status.is_drifted()).collect();
    wrong.sort_by_key(|(_, step)| fleet::step_urgency(step.status));
    wrong.into_iter()
}

fn tell_problem(
    report: &mut Report,
    detail: &AgentDetail,
    task: &AgentTask,
    step: &AgentStep,
    now: Timestamp,
) {
    let since =
        step.since.map(|since| format!("since {}", exactly(since, now))).unwrap_or_default();
    let status = step.status.as_str().replace('_', " ");
    report.gap();
    report.line(
        0,
        &[
            (&format!("{} / {}", task.name, step.step), Paint::Bold),
            ("is", Paint::Plain),
            (&status, step.status.into()),
            (&since, Paint::Plain),
        ],
    );
    report.beside("why", step.reason.as_deref().unwrap_or("no reason was given"), Paint::Plain);
    if let Some(diff) = &step.diff {
        report.difference(diff);
    }
    if let Some(event) = last_output(&detail.events, task, step) {
        let outcome =
            event.outcome.map_or(String::new(), |outcome| format!(" ({})", outcome.as_str()));
        let what = format!("{} {}{outcome}:", event.kind.as_str(), ago(event.time, now));
        report.beside("last", &what, Paint::Dim);
        report.beside("", &end_of(event.output.as_deref().unwrap_or_default()), Paint::Plain);
    }
    let outlook = outlook(&detail.agent, task, step, now);
    report.beside("next", &outlook.next, Paint::Plain);
    if let Some(command) = outlook.command {
        report.beside("do", &command, Paint::Cyan);
    }
}

/// The last lines, and how many were before them.
fn end_of(output: &str) -> String {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    match lines.len().saturating_sub(OUTPUT) {
        0 => lines.join("\n"),
        before => format!("… {}\n{}", count(before, "line"), lines[before..].join("\n")),
    }
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

/// What becomes of a step that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
struct Outlook {
    /// What happens by itself.
    next: String,
    /// What puts it right now.
    command: Option<String>,
}

fn outlook(agent: &Agent, task: &AgentTask, step: &AgentStep, now: Timestamp) -> Outlook {
    let by_hand = Some(format!("fluke reconcile task {} --agent {}", task.name, agent.name));
    if !agent.connected {
        let next = "this was known last; nothing can be done before the agent is back".into();
        return Outlook { next, command: None };
    }
    let mended = Some(format!(
        "mend its check or its command in Git; both: fluke describe task {}",
        task.name
    ));
    let (next, command) = match (step.status, task.retry_at) {
        (StepStatus::Applying, _) => ("it is being put right now".into(), None),
        (StepStatus::AppliedButDrifted, Some(retry)) => (
            format!(
                "its command ended well and its check still says no; it is tried again {}",
                ago(retry, now)
            ),
            mended,
        ),
        (StepStatus::AppliedButDrifted, None) => {
            ("its command ended well and its check still says no".into(), mended)
        }
        (_, Some(retry)) if task.failures == 0 => (
            format!(
                "it drifts again whenever it was put right: it is left alone, and tried again {}",
                ago(retry, now)
            ),
            by_hand,
        ),
        (_, Some(retry)) => {
            let often = match task.failures {
                1 => String::new(),
                times => format!(" {times} times in a row"),
            };
            (format!("it failed{often}, and is tried again {}", ago(retry, now)), by_hand)
        }
        (StepStatus::Drifted, None) => match unsure_before(task, step) {
            Some(unsure) => (
                format!("it waits for {}, whose check cannot tell; mend that first", unsure.step),
                None,
            ),
            None if !task.policy.remediates() => {
                (format!("it waits for you: its policy is `{}`", task.policy.as_str()), by_hand)
            }
            None => ("it is put right when its turn comes".into(), by_hand),
        },
        (_, None) => ("it is looked at again with the next cycle".into(), by_hand),
    };
    Outlook { next, command }
}

/// A step further up whose check could not tell: nothing behind it is applied.
fn unsure_before<'a>(task: &'a AgentTask, step: &AgentStep) -> Option<&'a AgentStep> {
    let before = task.steps.iter().take_while(|other| other.step != step.step);
    before.into_iter().find(|other| other.status == StepStatus::Failed)
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
        Column::name("TASK", 0, 10),
        Column::name("STEP", 0, 10),
        Column::new("STATUS"),
        Column::cut("POLICY", 5, 10),
        Column::cut("SINCE", 2, 8),
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
        let since = format!("only those since it is away: {}", sanitise::line(error));
        report.line(2, &[(&since, Paint::Yellow)]);
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
