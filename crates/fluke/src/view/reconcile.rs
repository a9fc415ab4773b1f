//! A manual reconcile: how far it has come, and how it ended.

use fluke_model::api::{
    ReconcileAgent, ReconcileProgress, ReconcileScope, ReconcileState, ReconcileStep,
};
use fluke_model::time::Timestamp;

use crate::colour::Paint;
use crate::report::{Report, count};
use crate::sanitise;
use crate::screen::Style;
use crate::table::{Cell, Column, Table};
use crate::view::service::tell_waiting;
use crate::when::coarse;

/// What is drawn while it runs: one line an agent, the unfinished ones first.
pub fn progress(progress: &ReconcileProgress, style: Style, now: Timestamp) -> String {
    let mut table = Table::new(&[
        Column::cut("AGENT", 0, 12),
        Column::new("STATE"),
        Column::cut("DOING", 1, 12),
    ]);
    let mut agents: Vec<&ReconcileAgent> = progress.agents.iter().collect();
    agents.sort_by_key(|agent| is_over(agent.state));
    for agent in agents {
        table.row([
            agent.name.as_str().into(),
            Cell::painted(state(agent.state), agent.state.into()),
            doing(agent).into(),
        ]);
    }
    let over = progress.agents.iter().filter(|agent| is_over(agent.state)).count();
    let passed = coarse(now.since(progress.started));
    let text = if table.is_empty() { String::new() } else { table.render(style, 0) };
    format!("{text}{over} of {} done, {passed}\n", count(progress.agents.len(), "agent"))
}

/// How one agent's part ended, on one line; none while it runs.
pub fn finished_line(agent: &ReconcileAgent) -> Option<String> {
    is_over(agent.state)
        .then(|| format!("{}: {}, {}\n", agent.name, state(agent.state), doing(agent)))
}

/// Everything that is said at the end: what failed, with its output, what `waiting` says that no
/// agent has been asked for, and a sum.
pub fn outcome(progress: &ReconcileProgress, waiting: &[String], style: Style) -> String {
    let mut report = Report::new(style);
    for agent in &progress.agents {
        tell_failures(&mut report, agent);
    }
    tell_waiting(&mut report, waiting);
    let with = |state| progress.agents.iter().filter(|agent| agent.state == state).count();
    let applied = steps(progress)
        .filter(|step| step.outcome.is_some_and(|outcome| !outcome.is_failure()))
        .count();
    let (failed, offline) = (with(ReconcileState::Failed), with(ReconcileState::Offline));
    let mut parts = vec![format!("{} in sync", count(with(ReconcileState::Done), "agent"))];
    parts.push(format!("{} applied", count(applied, "step")));
    if failed > 0 {
        parts.push(format!("{} failed", count(failed, "agent")));
    }
    if offline > 0 {
        parts.push(format!("{} offline (checked on return)", count(offline, "agent")));
    }
    let (word, paint) = match has_failed(progress, waiting) {
        true => ("failed:", Paint::Red),
        false => ("done:", Paint::Green),
    };
    if progress.agents.is_empty() {
        parts = vec!["no connected agent was concerned".into()];
    }
    report.line(0, &[(word, paint), (&parts.join(", "), Paint::Plain)]);
    report.finish()
}

/// Whether the caller did not get what it asked for.
pub fn has_failed(progress: &ReconcileProgress, waiting: &[String]) -> bool {
    let away = |agent: &ReconcileAgent| agent.state == ReconcileState::Offline;
    let named = progress.scope == ReconcileScope::Agent;
    progress.failed || !waiting.is_empty() || (named && progress.agents.iter().any(away))
}

fn tell_failures(report: &mut Report, agent: &ReconcileAgent) {
    let has_failed =
        |step: &&ReconcileStep| step.outcome.is_some_and(|outcome| outcome.is_failure());
    let failed = || agent.steps.iter().filter(has_failed);
    for step in failed() {
        let outcome = step.outcome.map_or("", |outcome| outcome.as_str()).replace('_', " ");
        let place = format!("{}: {}", agent.name, place(step, " / "));
        report.line(0, &[(&place, Paint::Bold), (&outcome, Paint::Red)]);
        report.quote(2, step.output.as_deref().unwrap_or_default(), Paint::Plain);
    }
    let outputs = || failed().filter_map(|step| step.output.as_deref().map(str::trim));
    // What a step has said already is not said again.
    let is_told = |line: &&str| {
        outputs().any(|it| !it.is_empty() && line.trim_end().ends_with(&format!(": {it}")))
    };
    let error = agent.error.iter().flat_map(|error| error.lines()).filter(|line| !is_told(line));
    let error = error.collect::<Vec<_>>().join("\n");
    if !error.is_empty() {
        let name = format!("{}:", agent.name);
        match error.contains('\n') {
            true => {
                report.line(0, &[(&name, Paint::Bold)]);
                report.quote(2, &error, Paint::Red);
            }
            false => report.line(0, &[(&name, Paint::Bold), (&error, Paint::Red)]),
        }
    }
}

fn steps(progress: &ReconcileProgress) -> impl Iterator<Item = &ReconcileStep> {
    progress.agents.iter().flat_map(|agent| &agent.steps)
}

/// Whose step it is, and which.
fn place(step: &ReconcileStep, between: &str) -> String {
    match step.owner() {
        Some(owner) => format!("{owner}{between}{}", step.step),
        None => step.step.to_string(),
    }
}

fn is_over(state: ReconcileState) -> bool {
    matches!(state, ReconcileState::Done | ReconcileState::Failed | ReconcileState::Offline)
}

fn doing(agent: &ReconcileAgent) -> String {
    let ended = agent.steps.iter().filter(|step| step.outcome.is_some()).count();
    let running = agent.steps.iter().find(|step| step.outcome.is_none());
    match (agent.state, running, &agent.error) {
        (ReconcileState::Applying, Some(step), _) => place(step, "/"),
        (ReconcileState::Failed, _, Some(error)) => sanitise::first_line(error),
        (ReconcileState::Failed, ..) => {
            let failed =
                |step: &&ReconcileStep| step.outcome.is_some_and(|outcome| outcome.is_failure());
            let step = agent.steps.iter().find(failed);
            step.map_or("failed".into(), |step| place(step, "/"))
        }
        (ReconcileState::Done, ..) if ended == 0 => "nothing was drifted".into(),
        (ReconcileState::Done, ..) => format!("{} applied", count(ended, "step")),
        (ReconcileState::Offline, ..) => "checked when it returns".into(),
        (ReconcileState::Waiting, ..) => "waits for what it is doing".into(),
        (ReconcileState::Checking | ReconcileState::Applying, ..) => String::new(),
    }
}

fn state(state: ReconcileState) -> &'static str {
    match state {
        ReconcileState::Waiting => "waiting",
        ReconcileState::Checking => "checking",
        ReconcileState::Applying => "applying",
        ReconcileState::Done => "done",
        ReconcileState::Failed => "failed",
        ReconcileState::Offline => "offline",
    }
}
