//! The services of one agent, and what they need there.

use fluke_model::api::{AgentDeployment, AgentDetail, AgentService, NetworkPart};
use fluke_model::status::Status;

use crate::colour::Paint;
use crate::report::Report;
use crate::sanitise;
use crate::table::{Column, Table};
use crate::view::{fleet, service};

/// The names of those that are not as they should be.
pub(super) fn wrong(detail: &AgentDetail) -> impl Iterator<Item = &str> {
    let services = detail.service_details.iter().filter(|service| is_wrong(service.status));
    services.map(|service| service.name.as_str())
}

/// What they need that is not as it should be.
pub(super) fn broken(detail: &AgentDetail) -> Vec<&str> {
    detail.network.iter().filter(|part| part.problem.is_some()).map(part_name).collect()
}

fn is_wrong(status: Status) -> bool {
    matches!(status, Status::Drifted | Status::Applying | Status::Failed)
}

fn part_name(part: &NetworkPart) -> &str {
    match part.part.as_str() {
        "names" => "DNS",
        "routes" => "the proxy",
        "mesh" => "the mesh",
        "containers" => "what is left of containers",
        other => other,
    }
}

/// What is not as it should be, worst first, and what becomes of it.
pub(super) fn tell_problems(report: &mut Report, detail: &AgentDetail) {
    for part in &detail.network {
        let Some(problem) = &part.problem else { continue };
        report.gap();
        let failed = ("failed", Status::Failed.into());
        report.line(0, &[(part_name(part), Paint::Bold), ("is", Paint::Plain), failed]);
        report.beside("why", problem, Paint::Plain);
        let next = match part.refused {
            true => service::REFUSED,
            false => "it is tried again, with pauses that grow",
        };
        report.beside("next", next, Paint::Plain);
        if !part.refused && detail.agent.connected {
            let by_hand = format!("fluke reconcile agent {}   tries it now", detail.agent.name);
            report.beside("do", &by_hand, Paint::Cyan);
        }
    }
    let all = detail.service_details.iter();
    let mut wrong: Vec<(&AgentService, &AgentDeployment)> = all
        .flat_map(|service| service.deployments.iter().map(move |it| (service, it)))
        .filter(|(_, it)| is_wrong(it.status))
        .collect();
    wrong.sort_by_key(|(_, it)| fleet::urgency(it.status));
    for (service, it) in wrong {
        tell_problem(report, detail, service, it);
    }
}

fn tell_problem(
    report: &mut Report,
    detail: &AgentDetail,
    service: &AgentService,
    it: &AgentDeployment,
) {
    let which = match it.replica {
        Some(number) => format!("{} / replica {number}", service.name),
        None => service.name.to_string(),
    };
    let how = service::standing(it.status, it.phase, it.health);
    report.gap();
    report.line(0, &[(&which, Paint::Bold), ("is", Paint::Plain), (&how, it.status.into())]);
    if let Some(note) = &it.note {
        report.beside("why", note, Paint::Plain);
    }
    if it.refused {
        report.beside("next", service::REFUSED, Paint::Plain);
    } else if detail.agent.connected {
        let (policy, agent) = (service.policy, &detail.agent.name);
        service::tell_outlook(report, it.status, policy, &service.name, agent);
    }
}

/// All of them, those that go included.
pub(super) fn tell(report: &mut Report, detail: &AgentDetail) {
    let mut table = Table::new(&[
        Column::name("SERVICE", 0, 12),
        Column::cut("REPLICA", 3, 7),
        Column::new("STATUS"),
        Column::new("STATE"),
        Column::cut("ADDRESS", 2, 12),
        Column::cut("IMAGE", 4, 20),
        Column::below("NOTE", 1, 28),
    ]);
    for service in &detail.service_details {
        for (at, it) in service.deployments.iter().enumerate() {
            table.row([
                if at == 0 { service.name.as_str() } else { "" }.into(),
                it.replica.map_or("-".into(), |number| number.to_string()).into(),
                fleet::status(it.status),
                service::state(it.phase, it.health).into(),
                it.address.map_or("-".into(), |address| address.to_string()).into(),
                sanitise::line(&it.image).into(),
                sanitise::first_line(it.note.as_deref().unwrap_or("")).into(),
            ]);
        }
        if service.deployments.is_empty() {
            let runs_none = !detail.executors.iter().any(|kind| kind == "container");
            let note = if runs_none { "this agent does not run containers" } else { "" };
            let mut row = vec![service.name.as_str().into(), "-".into()];
            row.extend([fleet::status(service.status), "-".into(), "-".into(), "-".into()]);
            row.push(note.into());
            table.row(row);
        }
    }
    if !table.is_empty() {
        report.heading("Services");
        report.table(2, &table);
    }
}
