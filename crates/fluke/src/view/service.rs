//! Services: in a list, and one of them with all that belongs to it.

mod definition;

use fluke_model::api::{DeploymentView, RouteView, ServiceView};
use fluke_model::id::{AgentName, ServiceName};
use fluke_model::policy::Policy;
use fluke_model::service::{Health, Phase};
use fluke_model::status::Status;

use super::fleet::{self, GONE};
use crate::colour::Paint;
use crate::report::{Report, count};
use crate::sanitise;
use crate::screen::Style;
use crate::table::{Cell, Column, Table};

/// Where to look when no host is found for something.
pub const HOSTS: &str = "fluke get agents   shows the labels of each, and who is connected";

/// How many things that are wrong are told in words.
const PROBLEMS: usize = 5;

const SERVICES: [Column; 6] = [
    Column::name("NAME", 0, 16),
    Column::new("STATUS"),
    Column::new("SERVING"),
    Column::cut("FAILED", 2, 6),
    Column::cut("IMAGE", 1, 24),
    Column::cut("REACHED AT", 3, 20),
];

/// What is wrong first, then those that a host is away of or that nobody gets in to; those that
/// stand alike as they were: by name.
pub fn worst_first(services: &mut [ServiceView]) {
    services.sort_by_key(|service| {
        let is_well = service.counts.serving >= service.counts.wanted && has_way_in(service);
        (fleet::urgency(service.status), is_well)
    });
}

/// `fluke get services`
pub fn list(services: &[ServiceView]) -> Table {
    let mut services = services.to_vec();
    worst_first(&mut services);
    let mut table = Table::new(&SERVICES);
    services.iter().for_each(|service| table.row(row(service)));
    table
}

/// Those that are not as they were.
pub fn changed(old: &[ServiceView], new: &[ServiceView]) -> Table {
    let mut table = Table::untitled(&SERVICES);
    let find = |list: &[ServiceView], name: &ServiceName| {
        list.binary_search_by(|service| service.name.cmp(name)).ok()
    };
    let is_other = |it: &&ServiceView| find(old, &it.name).is_none_or(|at| old[at] != **it);
    new.iter().filter(is_other).for_each(|service| table.row(row(service)));
    for service in old.iter().filter(|service| find(new, &service.name).is_none()) {
        table.row([service.name.as_str().into(), GONE.into()]);
    }
    table
}

fn row(service: &ServiceView) -> [Cell; 6] {
    let counts = service.counts;
    let failed = match counts.failed {
        0 => Cell::painted("0", Paint::Dim),
        some => Cell::painted(some.to_string(), Paint::Red),
    };
    let serving = format!("{}/{}", counts.serving, counts.wanted);
    [
        service.name.as_str().into(),
        fleet::status(service.status),
        match counts.serving {
            serves if serves >= counts.wanted => serving.into(),
            0 => Cell::painted(serving, Paint::Red),
            _ => Cell::painted(serving, Paint::Yellow),
        },
        failed,
        sanitise::line(&service.image).into(),
        reached_at(service),
    ]
}

fn reached_at(service: &ServiceView) -> Cell {
    let ways = match service.routes.is_empty() {
        true => sanitise::line(&service.hostname),
        false => sanitise::line(&entrances(service)),
    };
    match service.routes.first() {
        Some(route) if route.proxies == 0 => {
            Cell::painted(format!("no proxy: {ways}"), Paint::Yellow)
        }
        Some(_) if !has_way_in(service) => {
            Cell::painted(format!("not loaded: {ways}"), Paint::Yellow)
        }
        _ => ways.into(),
    }
}

/// All the ways in from outside.
fn entrances(service: &ServiceView) -> String {
    service.routes.iter().map(entrance).collect::<Vec<_>>().join(", ")
}

fn loaded_by(route: &RouteView) -> String {
    let proxies = match route.proxies {
        1 => "1 proxy".to_string(),
        all => format!("{all} proxies"),
    };
    format!("loaded by {} of {proxies}", route.loaded)
}

/// Whether any proxy leads there, as far as one is needed.
fn has_way_in(service: &ServiceView) -> bool {
    service.routes.iter().all(|route| route.loaded > 0 || !is_given_up(route))
}

/// Whether there is no proxy, or one that is not waited for any more.
fn is_given_up(route: &RouteView) -> bool {
    route.proxies == 0 || !route.behind.is_empty()
}

/// Where the world finds it.
fn entrance(route: &RouteView) -> String {
    let way = way_in(route.domain.as_deref(), route.external, &route.protocol);
    way.unwrap_or_else(|| route.port.to_string())
}

/// A way in from outside, if it is one.
fn way_in(domain: Option<&str>, external: Option<u16>, protocol: &str) -> Option<String> {
    match (domain, external) {
        (Some(domain), None) => Some(domain.to_string()),
        (domain, Some(port)) => Some(format!("{}:{port}/{protocol}", domain.unwrap_or_default())),
        (None, None) => None,
    }
}

/// What replicas wait for that are on no host, and where to look.
pub fn tell_waiting(report: &mut Report, waiting: &[String]) {
    for why in waiting {
        report.beside("why", why, Paint::Plain);
    }
    if !waiting.is_empty() {
        report.beside("do", HOSTS, Paint::Cyan);
    }
}

/// `fluke describe service`
pub fn describe(service: &ServiceView, style: Style) -> String {
    let mut report = Report::new(style);
    tell_standing(&mut report, service);
    tell_waiting(&mut report, &service.waiting);
    let mut deployments: Vec<&DeploymentView> = service.deployments.iter().collect();
    deployments.sort_by_key(|it| fleet::urgency(it.status));
    // What goes is no problem of its own: it goes, or it serves until what follows it does. One that
    // runs as it should may still have something to say, such as that nothing listens.
    let is_wrong = |it: &&&DeploymentView| {
        it.phase != Phase::Retiring && (it.status != Status::InSync || it.note.is_some())
    };
    let wrong = deployments.iter().filter(is_wrong);
    wrong.take(PROBLEMS).for_each(|it| tell_problem(&mut report, service, it));
    tell_lack_of_ways(&mut report, service);
    tell_replicas(&mut report, &deployments);
    tell_ways(&mut report, service);
    definition::tell(&mut report, service);
    report.finish()
}

/// In words, how it stands.
fn tell_standing(report: &mut Report, service: &ServiceView) {
    let name = (service.name.as_str(), Paint::Bold);
    let counts = service.counts;
    let serve = if counts.wanted == 1 { "serves" } else { "serve" };
    let serving =
        format!("{} of {} {serve}", counts.serving, count(counts.wanted as usize, "replica"));
    let how = service.status.as_str().replace('_', " ");
    let is = ("is", Paint::Plain);
    let paint = if counts.serving < counts.wanted { Paint::Yellow } else { Paint::Dim };
    report.line(0, &[name, is, (&how, service.status.into()), (&format!("({serving})"), paint)]);
}

fn tell_problem(report: &mut Report, service: &ServiceView, it: &DeploymentView) {
    report.gap();
    let which = match it.replica {
        Some(number) => format!("replica {number} on {}", it.agent),
        None => format!("the one on {}", it.agent),
    };
    let how = standing(it.status, it.phase, it.health);
    report.line(0, &[(&which, Paint::Bold), ("is", Paint::Plain), (&how, it.status.into())]);
    if let Some(note) = &it.note {
        report.beside("why", note, Paint::Plain);
    }
    let is_before = |before: &DeploymentView| {
        let is_here = (&before.agent, before.replica) == (&it.agent, it.replica);
        is_here && before.serves && before.phase == Phase::Retiring
    };
    if service.deployments.iter().any(is_before) {
        report.beside("but", "the version before it serves on", Paint::Plain);
    }
    if it.refused {
        report.beside("next", REFUSED, Paint::Plain);
    } else if it.connected {
        tell_outlook(report, it.status, service.policy, &service.name, &it.agent);
    } else {
        let agent = &it.agent;
        let since = format!("fluke describe agent {agent}   says since when, and where to look");
        report.beside("do", &since, Paint::Cyan);
    }
}

/// Why nothing comes in from outside, or not everywhere, and what to do about it.
fn tell_lack_of_ways(report: &mut Report, service: &ServiceView) {
    let Some(route) = service.routes.iter().find(|route| is_given_up(route)) else { return };
    let ways = entrances(service);
    let how = match route.proxies {
        0 => "without a proxy".to_string(),
        _ => loaded_by(route),
    };
    report.gap();
    let is = if service.routes.len() == 1 { "is" } else { "are" };
    report.line(0, &[(&ways, Paint::Bold), (is, Paint::Plain), (&how, Paint::Yellow)]);
    if route.proxies == 0 {
        report.beside("why", NO_PROXY, Paint::Plain);
        report.beside("do", MAKE_PROXY, Paint::Cyan);
    }
    route.behind.iter().for_each(|why| report.beside("why", why, Paint::Plain));
}

/// What that means.
const NO_PROXY: &str = "no proxy is connected; one whose agent is away leads where it led before, \
                        without any nothing comes in";

/// How a host becomes a proxy.
const MAKE_PROXY: &str = "on the host that is to be one: proxy = true in /etc/fluke/agent.hcl, then \
                        systemctl reload fluke-agent";

/// What becomes of what a host's own config refuses.
pub const REFUSED: &str = "nothing of it is touched until that host's own config allows it";

/// What becomes of one that is not as it should be, and what puts it right now.
pub fn tell_outlook(
    report: &mut Report,
    status: Status,
    policy: Policy,
    service: &ServiceName,
    agent: &AgentName,
) {
    let by_hand = format!("fluke reconcile service {service} --agent {agent}");
    let waits = || format!("it waits for you: its policy is `{}`", policy.as_str());
    let (next, command) = match status {
        Status::Failed => {
            let which = format!("--service {service} --agent {agent}");
            let events = format!("fluke get events {which}   shows what was tried");
            let next = match policy.remediates() {
                true => "it is tried again, with pauses that grow".to_string(),
                false => waits(),
            };
            (next, Some(format!("{events}\n{by_hand}   tries it now")))
        }
        Status::Drifted if !policy.remediates() => (waits(), Some(by_hand)),
        Status::Drifted => {
            ("it is put right by itself".to_string(), Some(format!("{by_hand}   does it now")))
        }
        Status::Applying => ("it is under way".to_string(), None),
        Status::InSync | Status::Unknown | Status::Offline => return,
    };
    report.beside("next", &next, Paint::Plain);
    if let Some(command) = command {
        report.beside("do", &command, Paint::Cyan);
    }
}

/// How one that is not as it should be stands. What was last known of a host that is away, or whose
/// Podman does not answer, may no longer be so.
pub fn standing(status: Status, phase: Phase, health: Health) -> String {
    match status {
        Status::Offline => "offline".to_string(),
        Status::Failed if phase == Phase::Running && health != Health::Unhealthy => {
            format!("failed (last known: {})", state(phase, health))
        }
        _ => state(phase, health),
    }
}

/// How far it is, and how it feels where somebody asks it.
pub fn state(phase: Phase, health: Health) -> String {
    match (phase, health) {
        (Phase::Running, Health::Healthy | Health::Unhealthy) => {
            format!("running, {}", health.as_str())
        }
        (phase, _) => phase.as_str().to_string(),
    }
}

fn tell_replicas(report: &mut Report, deployments: &[&DeploymentView]) {
    let mut table = Table::new(&[
        Column::cut("REPLICA", 3, 7),
        Column::name("AGENT", 0, 12),
        Column::new("STATUS"),
        Column::new("STATE"),
        Column::cut("ADDRESS", 2, 12),
        Column::cut("CONTAINER", 4, 20),
        Column::cut("IMAGE", 5, 20),
        Column::below("NOTE", 1, 28),
    ]);
    for it in deployments {
        table.row([
            it.replica.map_or("-".into(), |number| number.to_string()).into(),
            it.agent.as_str().into(),
            fleet::status(it.status),
            match (it.phase, it.serves) {
                (Phase::Retiring, true) => "retiring, serves".into(),
                _ => state(it.phase, it.health).into(),
            },
            it.address.map_or("-".into(), |address| address.to_string()).into(),
            sanitise::line(it.container.as_deref().unwrap_or("-")).into(),
            sanitise::line(&it.image).into(),
            sanitise::first_line(it.note.as_deref().unwrap_or("")).into(),
        ]);
    }
    if !table.is_empty() {
        report.heading("Replicas");
        report.table(2, &table);
    }
}

fn tell_ways(report: &mut Report, service: &ServiceView) {
    report.heading("Reached at");
    let addresses: Vec<String> = service.addresses.iter().map(|it| it.to_string()).collect();
    let leads = match addresses.is_empty() {
        true => "nowhere: nothing serves".to_string(),
        false => addresses.join(", "),
    };
    let mut fields = vec![(service.hostname.clone(), leads)];
    for route in &service.routes {
        let upstreams: Vec<String> = route.upstreams.iter().map(|it| it.to_string()).collect();
        let to = if upstreams.is_empty() { "nowhere".into() } else { upstreams.join(", ") };
        let proxies = match route.proxies {
            0 => "no proxy is connected".to_string(),
            _ => loaded_by(route),
        };
        let behind: String = route.behind.iter().map(|why| format!("; {why}")).collect();
        fields.push((entrance(route), format!("{to} ({proxies}{behind})")));
    }
    let fields: Vec<(&str, String)> =
        fields.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    report.fields(2, &fields);
}
