//! One task: where it is wrong and why, then its definition.

use std::collections::BTreeMap;

use fluke_model::api::{DriftEntry, TaskAgent, TaskView};
use fluke_model::id::{AgentName, StepAddress};
use fluke_model::label::{Operator, Selector};
use fluke_model::status::{Status, StepStatus};
use fluke_model::task::{ExecutorSpec, OnFailure, Step, UnitState};
use fluke_model::time::Timestamp;

use super::agent::some;
use super::fleet;
use crate::colour::Paint;
use crate::report::{Report, count};
use crate::sanitise;
use crate::screen::Style;
use crate::table::{Column, Table};
use crate::when::{ago, exactly};

/// How many different problems are told in words.
const PROBLEMS: usize = 5;

/// `fluke describe task`; `drift` is what is drifted now, of this task or any.
pub fn describe(task: &TaskView, drift: &[DriftEntry], style: Style, now: Timestamp) -> String {
    let is_of_it = |entry: &&DriftEntry| entry.task.as_ref() == Some(&task.name);
    let drift: Vec<&DriftEntry> = drift.iter().filter(is_of_it).collect();
    let mut report = Report::new(style);
    tell_standing(&mut report, task);
    for problem in problems(&drift) {
        tell_problem(&mut report, task, &problem, now);
    }
    tell_offline(&mut report, task);
    tell_agents(&mut report, task, &drift, now);
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

/// In words, how it stands.
fn tell_standing(report: &mut Report, task: &TaskView) {
    let name = task.name.as_str();
    let total = task.agents.len();
    let wrong = task.agents.iter().filter(|agent| agent.status != Status::InSync).count();
    if total == 0 {
        report.line(0, &[(name, Paint::Bold), ("matches no known agent", Paint::Yellow)]);
        let wants = format!("its selector is: {}", selector(&task.selector));
        report.beside("why", &wants, Paint::Plain);
        report.beside("do", "fluke get agents   shows the labels of each", Paint::Plain);
        return;
    }
    if wrong == 0 {
        let on = format!("in sync on {}", all_of(total));
        report.line(0, &[(name, Paint::Bold), ("is", Paint::Plain), (&on, Paint::Green)]);
        return;
    }
    let on = format!("on {wrong} of {}", count(total, "agent"));
    let pieces = [(name, Paint::Bold), ("is", Paint::Plain), ("not in sync", Paint::Yellow)];
    report.line(0, &[&pieces[..], &[(&on, Paint::Plain)]].concat());
}

fn all_of(total: usize) -> String {
    match total {
        1 => "its one agent".into(),
        _ => format!("all of its {total} agents"),
    }
}

/// The same thing wrong for the same reason, wherever that is.
struct Problem<'a> {
    step: &'a StepAddress,
    status: StepStatus,
    reason: &'a str,
    since: Option<Timestamp>,
    agents: Vec<&'a str>,
}

/// The worst first, then what most agents have.
fn problems<'a>(drift: &[&'a DriftEntry]) -> Vec<Problem<'a>> {
    let mut problems: BTreeMap<_, Problem<'a>> = BTreeMap::new();
    for entry in drift {
        let reason = entry.reason.as_deref().unwrap_or("no reason was given");
        let key = (fleet::step_urgency(entry.status), &entry.step, reason);
        let problem = problems.entry(key).or_insert_with(|| Problem {
            step: &entry.step,
            status: entry.status,
            reason,
            since: entry.since,
            agents: Vec::new(),
        });
        problem.agents.push(entry.agent.as_str());
        problem.since = [problem.since, entry.since].into_iter().flatten().min();
    }
    let mut problems: Vec<Problem<'a>> = problems.into_values().collect();
    problems.sort_by_key(|problem| {
        (fleet::step_urgency(problem.status), std::cmp::Reverse(problem.agents.len()))
    });
    problems.truncate(PROBLEMS);
    problems
}

fn tell_problem(report: &mut Report, task: &TaskView, problem: &Problem<'_>, now: Timestamp) {
    let since =
        problem.since.map_or(String::new(), |since| format!("since {}", exactly(since, now)));
    report.gap();
    report.line(
        0,
        &[
            (&problem.step.to_string(), Paint::Bold),
            ("is", Paint::Plain),
            (&problem.status.as_str().replace('_', " "), problem.status.into()),
            (&format!("on {}", some(&problem.agents)), Paint::Plain),
            (&since, Paint::Plain),
        ],
    );
    report.beside("why", problem.reason, Paint::Plain);
    let one = problem.agents.first().copied().unwrap_or_default();
    let everywhere = format!("fluke reconcile task {}", task.name);
    let (next, command) = match problem.status {
        StepStatus::Applying => ("it is being put right now".to_string(), None),
        StepStatus::AppliedButDrifted => (
            "its command ended well and its check still says no: one of the two is wrong".into(),
            Some("mend it in Git; both are shown below".into()),
        ),
        StepStatus::Drifted if !task.policy.remediates() => (
            format!("it waits for you: its policy is `{}`", task.policy.as_str()),
            Some(match problem.agents.len() {
                1 => format!("{everywhere} --agent {one}"),
                _ => format!("{everywhere}\n{everywhere} --agent {one}   to begin with one"),
            }),
        ),
        StepStatus::Drifted => ("it is put right when its turn comes".into(), Some(everywhere)),
        _ => (
            "it is tried again, with pauses that grow to ten minutes".into(),
            Some(format!(
                "fluke describe agent {one}   shows what it printed\n{everywhere}   tries again now"
            )),
        ),
    };
    report.beside("next", &next, Paint::Plain);
    if let Some(command) = command {
        report.beside("do", &command, Paint::Cyan);
    }
}

fn tell_offline(report: &mut Report, task: &TaskView) {
    let away = task.agents.iter().filter(|agent| agent.status == Status::Offline);
    let away: Vec<&str> = away.map(|agent| agent.name.as_str()).collect();
    if !away.is_empty() {
        report.gap();
        let told = format!("offline: {}", some(&away));
        report.line(0, &[(&told, Paint::DimRed)]);
        let next = match task.policy.remediates() {
            true => "checked and put right on return".to_owned(),
            false => format!("checked on return; its policy is `{}`", task.policy.as_str()),
        };
        report.beside("next", &next, Paint::Plain);
    }
}

fn tell_agents(report: &mut Report, task: &TaskView, drift: &[&DriftEntry], now: Timestamp) {
    let mut table = Table::new(&[
        Column::name("AGENT", 0, 12),
        Column::new("STATUS"),
        Column::name("STEP", 1, 12),
        Column::cut("SINCE", 3, 8),
        Column::below("REASON", 2, 28),
    ]);
    let mut by_agent: BTreeMap<&AgentName, Vec<&DriftEntry>> = BTreeMap::new();
    for &entry in drift {
        by_agent.entry(&entry.agent).or_default().push(entry);
    }
    let mut agents: Vec<&TaskAgent> = task.agents.iter().collect();
    agents.sort_by_key(|agent| fleet::urgency(agent.status));
    for agent in agents {
        let drifted = by_agent.get(&agent.name).map_or(&[][..], Vec::as_slice);
        if drifted.is_empty() {
            table.row([agent.name.as_str().into(), fleet::status(agent.status)]);
        }
        for (at, entry) in drifted.iter().enumerate() {
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

/// In words, whom it is for.
pub fn selector(selector: &Selector) -> String {
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
