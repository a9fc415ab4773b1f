//! What is said of containers that are not as they should be.

use fluke_model::id::ServiceName;
use fluke_model::service::Health;

use super::{Change, Container, Ending, Exit, Replaces, Setback, Why};

pub(super) const EARLIER_ONE_RUNS: &str = "a container of an earlier version runs";

/// What is wrong with one that runs and is not well, without what it complains of.
pub(super) fn unwell(container: &Container) -> &'static str {
    match container.health {
        Health::Unhealthy => "it is not well",
        _ => "it did not become well in time",
    }
}

/// The same, or anything else, with what it complains of.
pub(super) fn complaining(what: &str, container: &Container) -> String {
    match &container.complaint {
        Some(complaint) => format!("{what}: {complaint}"),
        None => what.to_owned(),
    }
}

/// Who changes one that is on its way from one state to another, and why.
pub(super) fn changing(container: &Container) -> String {
    match &container.told_to_end {
        Some(Ending::Returns(why)) => format!("{why}; it is being stopped, to be started again"),
        Some(Ending::Goes(why)) => format!("{why}; it is being stopped, to be removed"),
        Some(Ending::MakesWay) | None => "somebody is changing it".into(),
    }
}

/// Why one is not tried again before somebody says so.
pub(super) fn for_somebody(setback: &Setback, service: &ServiceName) -> String {
    format!(
        "{}; the old version serves, and would have to be stopped for another try: this one is tried \
         with its next change, or by `fluke reconcile service {service}`",
        setback.why
    )
}

/// Why one is left alone for a while; with how it ended, if that is why.
pub(super) fn restless(setback: &Setback, container: &Container) -> String {
    because(setback, ended(container))
}

/// Why one goes that does not stay up. What it printed goes with it.
pub(super) fn goes(setback: &Setback, container: &Container) -> String {
    because(setback, how_it_ended(container))
}

fn because(setback: &Setback, how: Option<String>) -> String {
    let how = how.filter(|_| setback.is_restless);
    how.map_or_else(|| setback.why.clone(), |how| format!("{}; {how}", setback.why))
}

/// How a container ended, and where that is told at length. Not here: what programs print in their
/// distress may be anything, secrets included.
pub fn ended(container: &Container) -> Option<String> {
    let (how, name) = (how_it_ended(container)?, &container.name);
    Some(format!("{how}; see `podman logs {name}` there"))
}

fn how_it_ended(container: &Container) -> Option<String> {
    let Exit { code, out_of_memory } = container.exit?;
    let why = match out_of_memory {
        true => ", for want of memory",
        false => "",
    };
    Some(format!("its program ended with exit code {code}{why}"))
}

/// Whether something ends because it is not well.
pub(super) fn is_for_health(change: &Change) -> bool {
    let why = match change {
        Change::Stop { why, .. } | Change::Remove { why, .. } => why,
        Change::MakeNetwork { .. } | Change::Start { .. } | Change::Deploy { .. } => return false,
    };
    matches!(why, Why::Unwell(_) | Why::Restarted(_))
}

/// What is wrong with one that is not what it says it is.
pub(super) fn was_changed(how: &str) -> String {
    format!("its container was changed: {how}")
}

/// What is wrong that a change puts right.
pub(super) fn in_words(change: &Change) -> String {
    match change {
        Change::Remove { why, .. } | Change::Stop { why, .. } => match why {
            Why::Tampered(how) => was_changed(how),
            Why::MakesWay => EARLIER_ONE_RUNS.into(),
            Why::Restarted(why) | Why::Unwell(why) => why.clone(),
            _ => "a container of it is there that should not be".into(),
        },
        Change::MakeNetwork { .. } => "the network of containers is missing".into(),
        Change::Start { .. } => "its container does not run".into(),
        Change::Deploy { replaces, .. } => match replaces {
            Replaces::Nothing => "its container is missing".into(),
            Replaces::Version => EARLIER_ONE_RUNS.into(),
            Replaces::Values(how) => how.clone(),
        },
    }
}
