//! What is done to a container for what it is like, whatever else is in its place.

use std::time::Instant;

use fluke_model::service::{DeploymentId, Health, HealthSpec};

use super::condition::{can_serve_again, keeps_volumes, may_yet_listen, time_to_be_well};
use super::place::{NOT_WELL_YET, make_way, remove, start};
use super::words::{complaining, unwell};
use super::{Change, Container, Deployment, Plan, Situation, State, Why};

/// It runs and is not well: it has its time. Then it goes if it `may`, as something else can serve,
/// and is started again if nothing can.
pub(super) fn watch_over(
    current: &Container,
    health: Option<&HealthSpec>,
    may_go: bool,
    situation: &Situation<'_>,
    plan: &mut Plan,
    changes: &mut Vec<Change>,
) -> Option<String> {
    if let Some((port, until)) = may_yet_listen(current, situation.now) {
        plan.look_by(until);
        return Some(format!("it runs, and nothing listens at port {port} yet"));
    }
    let give_up = current.asked_since.and_then(|since| Some(since + time_to_be_well(health?)));
    let is_over = current.health == Health::Unhealthy
        || give_up.is_some_and(|give_up| give_up <= situation.now);
    if !is_over {
        give_up.into_iter().for_each(|give_up| plan.look_by(give_up));
        return Some(complaining(NOT_WELL_YET, current));
    }
    let note = complaining(unwell(current), current);
    if may_go {
        changes.extend(remove(current, Why::Unwell(note.clone())));
        return Some(note);
    }
    // It has its time after every start, and may become well by itself in a pause.
    let give_up = give_up.filter(|it| *it > situation.now);
    match give_up.max(pause(current, situation)) {
        Some(until) => plan.look_by(until),
        None => changes.extend(remove(current, Why::Restarted(note.clone()))),
    }
    Some(note)
}

/// While nothing else can be had, what serves is kept well: the first of these, where none is.
pub(super) fn keep_well(
    these: &[&Container],
    situation: &Situation<'_>,
    plan: &mut Plan,
    changes: &mut Vec<Change>,
) {
    let is_ill = |it: &&Container| it.state == State::Running && it.health == Health::Unhealthy;
    if let Some(first) = these.iter().find(|it| it.is_up())
        && these.iter().filter(|it| it.is_up()).all(is_ill)
    {
        watch_over(first, first.check.as_ref(), false, situation, plan, changes);
    }
}

/// Starts one of these, if none is up, and if none may still have its volumes.
pub(super) fn serve_again(
    these: &[&Container],
    wanted: &Deployment,
    situation: &Situation<'_>,
    plan: &mut Plan,
    changes: &mut Vec<Change>,
) {
    if these.iter().any(|it| it.is_up()) {
        return;
    }
    let Some(standing) = these.iter().find(|it| can_serve_again(it)) else { return };
    let others = these.iter().filter(|it| it.id != standing.id);
    let first: Vec<_> = others.filter(|it| keeps_volumes(it, wanted)).copied().collect();
    if !first.is_empty() {
        return changes.extend(first.into_iter().filter_map(make_way));
    }
    match pause(standing, situation) {
        Some(until) => plan.look_by(until),
        None => changes.push(start(standing)),
    }
}

/// Until when one that does not stay up is left alone.
pub(super) fn pause(container: &Container, situation: &Situation<'_>) -> Option<Instant> {
    let setback = situation.setbacks.get(&container.origin.deployment?)?;
    Some(setback.until).filter(|until| *until > situation.now)
}

/// Whether nothing has led to it for long enough.
pub(super) fn is_drained(
    container: &Container,
    situation: &Situation<'_>,
    plan: &mut Plan,
) -> bool {
    let deployment: Option<DeploymentId> = container.origin.deployment;
    let Some(since) = deployment.and_then(|id| situation.released.get(&id)) else { return false };
    let end: Instant = *since + situation.drain;
    if end > situation.now {
        plan.look_by(end);
    }
    end <= situation.now
}
