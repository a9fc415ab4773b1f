//! What replicas wait for, and what is odd about their volumes, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, VolumeName};
use fluke_model::service::{DeploymentReport, Replica, Service};
use fluke_model::time::as_written;
use fluke_model::volume::Volume;

use super::Idle;
use crate::services::book::Book;
use crate::services::host::{HostView, Presence};
use crate::services::view::View;

/// How many replicas are told of one by one.
const FEW: usize = 8;

/// Why nothing has a place yet.
const SETTLES: &str =
    "this server has just started, and gives agents five seconds to say what they run";
const NO_HOST: &str = "none that runs services and matches the selector is connected";

/// Who has volumes of which replica of a service.
pub(super) type Owners<'a> = BTreeMap<u32, BTreeMap<&'a AgentName, Vec<&'a VolumeName>>>;

/// Of the volumes that the service asks for.
pub(super) fn owners<'a>(view: &'a View, service: &'a Service) -> Owners<'a> {
    let mut owners = Owners::new();
    for (name, host) in view.hosts.of(&service.name) {
        for (number, volumes) in host.volumes_of(service) {
            owners.entry(number).or_default().insert(name, volumes.collect());
        }
    }
    owners
}

/// What no replica can say of itself, since there is none; `placed` are those that there are.
pub(super) fn waiting(
    book: &Book,
    service: &Service,
    placed: &BTreeSet<Replica>,
    owners: &Owners<'_>,
    idle: &Idle<'_>,
) -> Vec<String> {
    let view = book.view();
    let but = || but(view, service, idle);
    let Some(count) = service.replicas else {
        let nobody = || format!("no host that runs services matches its selector{}", but());
        return placed.is_empty().then(nobody).into_iter().collect();
    };
    let kept = kept_from_their_volumes(view, service);
    let (mut whys, mut nowhere, mut more) = (Vec::new(), Vec::new(), 0);
    for number in (0..count).filter(|number| !placed.contains(&Replica::Number(*number))) {
        let at = kept.get(&number).copied();
        let volumes = at.and_then(|(host, _)| owners.get(&number)?.get(host));
        match at.zip(volumes) {
            None => nowhere.push(number),
            Some(_) if whys.len() == FEW => more += 1,
            Some(((host, view), volumes)) => {
                whys.push(waits_for_volumes(service, number, (host, view), volumes));
            }
        }
    }
    if more > 0 {
        whys.push(format!("{more} more wait for volumes on hosts that do not match the selector"));
    }
    let is_one = |host: &HostView| {
        host.presence.is_connected() && host.is_matched_by(service) && host.takes_replicas()
    };
    let settles = book.is_settling() && view.hosts.values().any(is_one);
    let wait = wait(&nowhere).map(|wait| match settles {
        true => format!("{wait}: {SETTLES}"),
        false => format!("{wait} for a host: {NO_HOST}{}", but()),
    });
    whys.extend(wait);
    whys
}

/// Who matches and is no host for it all the same.
fn but(view: &View, service: &Service, idle: &Idle<'_>) -> String {
    let matching = |is: &dyn Fn(&HostView) -> bool| -> Vec<&str> {
        let is_one = |host: &HostView| host.presence.is_connected() && host.is_matched_by(service);
        let hosts = view.hosts.iter().filter(|(_, host)| is_one(host) && is(host));
        hosts.map(|(name, _)| name.as_str()).take(FEW).collect()
    };
    let refusing = matching(&|host| !host.allows_replicas());
    let without_subnet = matching(&|host| host.is_without_subnet);
    let arrives = |host: &HostView| matches!(host.presence, Presence::Arriving { .. });
    let arriving = matching(&|host| host.takes_replicas() && arrives(host));
    let mut idle = idle(&service.selector);
    idle.retain(|name| !view.hosts.contains_key(name));
    let idle: Vec<&str> = idle.iter().map(AgentName::as_str).take(FEW).collect();
    let mut but = String::new();
    if !arriving.is_empty() {
        let names = arriving.join(", ");
        but += &format!("; but for these, which have not said yet what runs there: {names}");
    }
    if !refusing.is_empty() {
        let names = refusing.join(", ");
        but += "; the `allow` of these, which match, does not list both `container` and `mesh`: ";
        but += &names;
    }
    if !without_subnet.is_empty() {
        but +=
            &format!("; no subnet is left for these, which match: {}", without_subnet.join(", "));
    }
    if !idle.is_empty() {
        but +=
            &format!("; these match, and their agents do not run containers: {}", idle.join(", "));
    }
    but
}

/// The replicas that belong to hosts which the selector does not match any more.
fn kept_from_their_volumes<'a>(
    view: &'a View,
    service: &Service,
) -> BTreeMap<u32, (&'a AgentName, &'a HostView)> {
    let strangers = view.hosts.of(&service.name).filter(|(_, host)| !host.is_matched_by(service));
    let given = strangers.flat_map(|(name, host)| {
        let numbers = host.given.get(&service.name).into_iter().flatten();
        numbers.map(move |number| (*number, (name, host)))
    });
    given.gather()
}

fn waits_for_volumes(
    service: &Service,
    number: u32,
    (name, host): (&AgentName, &HostView),
    volumes: &[&VolumeName],
) -> String {
    let its = its(volumes);
    let is = if volumes.len() == 1 { "is" } else { "are" };
    let them = if volumes.len() == 1 { "the volume" } else { "the volumes" };
    let called = called(service, number, volumes);
    let runs = |it: &DeploymentReport| {
        it.service == service.name && it.replica == Replica::Number(number) && it.serves
    };
    let meanwhile = match host.deployments.values().any(runs) {
        true => "; until then it goes on running there",
        false => "",
    };
    format!(
        "replica {number} waits: {its} {is} on host {name}, which does not match the selector any \
         more; remove {them} there (`podman volume rm {called}`) or label the host{meanwhile}"
    )
}

/// Who waits that has no place.
fn wait(nowhere: &[u32]) -> Option<String> {
    Some(match nowhere {
        [] => return None,
        [one] => format!("replica {one} waits"),
        some if some.len() <= FEW => {
            let numbers: Vec<String> = some.iter().map(u32::to_string).collect();
            format!("replicas {} wait", numbers.join(", "))
        }
        many => format!("{} replicas wait", many.len()),
    })
}

/// What is to be known about a replica that is on `host`, which may have been `away` for a while:
/// whether it waits for it or moves, and who else has its volumes.
pub(super) fn remark(
    service: &Service,
    replica: Replica,
    host: &AgentName,
    away: Option<Duration>,
    owners: &Owners<'_>,
) -> Option<String> {
    let Replica::Number(number) = replica else { return None };
    if service.container.volumes.is_empty() {
        return away.map(|away| moves(service.reschedule_after, away));
    }
    let owners = owners.get(&number)?;
    let pinned = owners.get(host).filter(|_| away.is_some());
    let pinned = pinned.map(|volumes| {
        let is = if volumes.len() == 1 { "is" } else { "are" };
        format!("it waits for that host, where {} {is}", its(volumes))
    });
    let doubled = owners.get(host).filter(|_| owners.len() > 1).map(|volumes| {
        let (its, called) = (its(volumes), called(service, number, volumes));
        let names: Vec<&str> = owners.keys().map(|name| name.as_str()).take(FEW).collect();
        format!(
            "{its} is on each of {}, and which is the right one only people can tell: look into \
             them, and remove the others (`podman volume rm {called}`)",
            names.join(", ")
        )
    });
    let remarks: Vec<String> = pinned.into_iter().chain(doubled).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

/// When a replica moves that its host need not be waited for.
fn moves(patience: Duration, away: Duration) -> String {
    let elsewhere = "it is started on another host that matches";
    match patience.saturating_sub(away) {
        Duration::ZERO => format!("{elsewhere} as soon as there is one"),
        left => {
            // To the second; less than one of them is not over yet.
            let left = left.as_millis().div_ceil(1000) as u64 * 1000;
            let (left, patience) = (as_written(left), as_written(patience.as_millis() as u64));
            format!("{elsewhere} in {left}, once this one was away for {patience}")
        }
    }
}

/// "its volume `data`", "its volumes `data`, `log`".
fn its(volumes: &[&VolumeName]) -> String {
    let names: Vec<String> = volumes.iter().map(|name| format!("`{name}`")).collect();
    let what = if volumes.len() == 1 { "its volume" } else { "its volumes" };
    format!("{what} {}", names.join(", "))
}

/// What they are called on a host.
fn called(service: &Service, number: u32, volumes: &[&VolumeName]) -> String {
    let name = |name: &&VolumeName| {
        let (service, replica) = (service.name.clone(), Replica::Number(number));
        Volume { service, replica, name: VolumeName::clone(name) }.to_string()
    };
    volumes.iter().map(name).collect::<Vec<_>>().join(" ")
}
