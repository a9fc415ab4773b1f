//! What is said of a place.

use fluke_model::service::{DeploymentReport, Health, Phase, Replica};
use fluke_model::verdict::{Drift, Verdict};

use super::condition::{is_well, may_yet_listen};
use super::{Container, Deployment, Image, Situation, State};

/// What is said of the deployment that is wanted.
pub(super) struct Said {
    /// How it differs from what it should be.
    pub drift: Option<String>,
    /// What it waits for.
    pub note: Option<String>,
    /// Whether it takes more than waiting: of its network, or of what is in its way.
    pub is_hopeless: bool,
}

/// How everything in one place is.
pub(super) fn report(
    wanted: Option<&Deployment>,
    current: &[&Container],
    predecessors: &[&Container],
    situation: &Situation<'_>,
    said: Said,
) -> Vec<DeploymentReport> {
    let (container, now) = (current.first().copied(), situation.now);
    let serves = wanted.zip(container).is_some_and(|(wanted, it)| is_well(it, wanted, now));
    let mut reports = Vec::new();
    reports.extend(wanted.map(|wanted| of_wanted(wanted, container, serves, situation, said)));
    let retiring = predecessors.iter().filter_map(|it| of_retiring(it, !serves, situation));
    reports.extend(retiring);
    reports
}

fn of_wanted(
    wanted: &Deployment,
    container: Option<&Container>,
    serves: bool,
    situation: &Situation<'_>,
    Said { drift, note, is_hopeless }: Said,
) -> DeploymentReport {
    DeploymentReport {
        id: wanted.id,
        service: wanted.service.clone(),
        replica: wanted.replica,
        verdict: match drift {
            None => Verdict::Satisfied,
            Some(how) => Verdict::Drifted(Drift::because(how)),
        },
        phase: phase(wanted, container, serves, is_hopeless, situation),
        health: container.map_or(Health::None, |container| container.health),
        image: wanted.spec.image.clone(),
        digest: container.and_then(|container| container.digest.clone()),
        container: container.map(|container| container.name.clone()),
        address: container.and_then(|container| container.address),
        serves,
        note,
    }
}

fn phase(
    wanted: &Deployment,
    container: Option<&Container>,
    serves: bool,
    is_hopeless: bool,
    situation: &Situation<'_>,
) -> Phase {
    let setback = situation.setbacks.get(&wanted.id);
    let has_failed = setback.is_some_and(|it| it.is_final || it.until > situation.now);
    match container.map(|container| container.state) {
        Some(State::Running) if serves => Phase::Running,
        Some(State::Running) if container.is_some_and(|it| it.health == Health::Unhealthy) => {
            Phase::Failed
        }
        Some(State::Running) => Phase::Starting,
        _ if has_failed => Phase::Failed,
        Some(_) if is_hopeless => Phase::Failed,
        Some(_) => Phase::Stopped,
        None => match situation.images.get(&wanted.spec.image) {
            Some(Image::Coming(_)) => Phase::Pulling,
            Some(Image::Failed(..)) => Phase::Failed,
            Some(Image::Present) if is_hopeless => Phase::Failed,
            _ => Phase::Missing,
        },
    }
}

/// Something that is not wanted any more, and may still serve.
fn of_retiring(
    container: &Container,
    may_serve: bool,
    situation: &Situation<'_>,
) -> Option<DeploymentReport> {
    let runs = container.state == State::Running;
    let is_ill = matches!(container.health, Health::Unhealthy | Health::Starting)
        || may_yet_listen(container, situation.now).is_some();
    Some(DeploymentReport {
        id: container.origin.deployment?,
        service: container.origin.service.clone()?,
        replica: container.origin.replica.unwrap_or(Replica::Own),
        verdict: Verdict::Satisfied,
        phase: Phase::Retiring,
        health: container.health,
        image: container.image.clone(),
        digest: container.digest.clone(),
        container: Some(container.name.clone()),
        address: container.address,
        serves: runs && !is_ill && may_serve,
        note: situation.is_held_up(&container.id).map(|setback| setback.why.clone()),
    })
}

/// Nothing may be done about it, whatever is wanted; what runs is left to people.
pub(super) fn refuse(it: &mut DeploymentReport, why: &str) {
    it.verdict = Verdict::Error { reason: why.to_owned() };
    it.note = Some(match (&it.container, it.phase) {
        (None, _) => why.to_owned(),
        (Some(name), Phase::Retiring) => {
            format!("{why}; its container {name} is not wanted here any more, and is left alone")
        }
        (Some(name), _) => format!("{why}; its container {name} is left alone"),
    });
}
