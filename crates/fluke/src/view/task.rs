//! One task: how it stands and where, then its definition.

use fluke_model::api::{DriftEntry, TaskView};
use fluke_model::label::{Operator, Selector};
use fluke_model::status::Status;
use fluke_model::task::{ExecutorSpec, OnFailure, Step, UnitState};
use fluke_model::time::Timestamp;

use super::fleet;
use crate::colour::Paint;
use crate::report::{Report, count};
use crate::sanitise;
use crate::screen::Style;
use crate::table::{Column, Table};
use crate::when::ago;

/// `fluke describe task`; `drift` is what is drifted now, of this task or any.
pub fn describe(task: &TaskView, drift: &[DriftEntry], style: Style, now: Timestamp) -> String {
    let mut report = Report::new(style);
    tell_standing(&mut report, task);
    tell_agents(&mut report, task, drift, now);
    report.heading("Definition");
    report.fields(
        2,
        &[
            ("description", task.description.clone().unwrap_or_else(|| "none".into())),
            ("defined", task.defined.clone()),
            ("policy", task.policy.as_str().to_string()),
            ("selector", selector(&task.selector)),
        ],
    );
    for step in &task.steps {
        tell_step(&mut report, step);
    }
    report.finish()
}

fn tell_standing(report: &mut Report, task: &TaskView) {
    let in_sync = task.agents.iter().filter(|agent| agent.status == Status::InSync).count();
    if task.agents.is_empty() {
        let pieces = [(task.name.as_str(), Paint::Bold), ("matches no known agent", Paint::Yellow)];
        return report.line(0, &pieces);
    }
    let where_ = format!("- in sync on {in_sync} of {}", count(task.agents.len(), "agent"));
    report.line(
        0,
        &[
            (task.name.as_str(), Paint::Bold),
            ("is", Paint::Plain),
            (&task.status.as_str().replace('_', " "), task.status.into()),
            (&where_, Paint::Plain),
        ],
    );
}

fn tell_agents(report: &mut Report, task: &TaskView, drift: &[DriftEntry], now: Timestamp) {
    let mut table = Table::new(&[
        Column::cut("AGENT", 0, 12),
        Column::new("STATUS"),
        Column::cut("STEP", 1, 12),
        Column::new("SINCE"),
        Column::cut("REASON", 2, 16),
    ]);
    for agent in &task.agents {
        let mut drifted = drift
            .iter()
            .filter(|entry| entry.task == task.name && entry.agent == agent.name)
            .peekable();
        if drifted.peek().is_none() {
            table.row([agent.name.as_str().into(), fleet::status(agent.status)]);
        }
        for (at, entry) in drifted.enumerate() {
            let first = at == 0;
            table.row([
                if first { agent.name.as_str() } else { "" }.into(),
                if first { fleet::status(agent.status) } else { "".into() },
                entry.step.to_string().into(),
                entry.since.map_or("-".into(), |since| ago(since, now)).into(),
                sanitise::first_line(entry.reason.as_deref().unwrap_or("-")).into(),
            ]);
        }
    }
    if !table.is_empty() {
        report.heading("Agents");
        report.table(2, &table);
    }
}

fn selector(selector: &Selector) -> String {
    let pairs = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
    let conditions = selector.match_expressions.iter().map(|requirement| {
        let values: Vec<&str> = requirement.values.iter().map(|value| value.as_str()).collect();
        let (key, values) = (&requirement.key, values.join(", "));
        match requirement.operator {
            Operator::In => format!("{key} in ({values})"),
            Operator::NotIn => format!("{key} not in ({values})"),
            Operator::Exists => format!("{key} exists"),
            Operator::NotExists => format!("{key} does not exist"),
        }
    });
    let all: Vec<String> = pairs.chain(conditions).collect();
    if all.is_empty() { "every host".into() } else { all.join(", ") }
}

fn tell_step(report: &mut Report, step: &Step) {
    report.heading(&step.address.to_string());
    let mut fields = spec_fields(&step.spec);
    if let Some(timeout) = step.timeout {
        fields.push(("timeout", humantime::format_duration(timeout).to_string()));
    }
    if step.on_failure == OnFailure::Continue {
        fields.push(("on_failure", "continue".into()));
    }
    // Scripts keep their lines: they are what somebody came to read.
    let is_script = |text: &str| text.trim_end().contains('\n');
    let widest = fields.iter().filter(|(_, text)| !is_script(text)).map(|(name, _)| name.len());
    let widest = widest.max().unwrap_or(0);
    for (name, text) in &fields {
        match is_script(text) {
            true => {
                report.line(2, &[(name, Paint::Dim)]);
                report.quote(4, text, Paint::Plain);
            }
            false => report.fields(2, &[(format!("{name:<widest$}").as_str(), text)]),
        }
    }
}

fn spec_fields(spec: &ExecutorSpec) -> Vec<(&'static str, String)> {
    match spec {
        ExecutorSpec::Shell(shell) => {
            let mut fields =
                vec![("check", shell.check.clone()), ("command", shell.command.clone())];
            fields.extend(shell.working_dir.clone().map(|dir| ("working_dir", dir)));
            fields.extend(shell.run_as.clone().map(|user| ("run_as", user)));
            fields.extend(shell.env.iter().map(|(name, value)| ("env", format!("{name}={value}"))));
            fields
        }
        ExecutorSpec::Mise(mise) => {
            let mut fields = vec![
                ("working_dir", mise.working_dir.clone()),
                ("check_task", mise.check_task.clone()),
                ("apply_task", mise.apply_task.clone()),
            ];
            fields.extend(
                mise.git.as_ref().map(|git| ("git", format!("{} ({})", git.url, git.branch))),
            );
            fields
        }
        ExecutorSpec::Systemd(systemd) => vec![
            ("unit", systemd.unit.clone()),
            ("state", unit_state(systemd.state).to_string()),
            ("enabled", systemd.enabled.to_string()),
        ],
        ExecutorSpec::Unknown => {
            vec![("kind", "not known to this version of fluke".to_string())]
        }
    }
}

fn unit_state(state: UnitState) -> &'static str {
    match state {
        UnitState::Running => "running",
        UnitState::Stopped => "stopped",
    }
}
