//! How each container of a host stands against what it should be: told once when it drifts, and
//! once when that is over. The agent decides what is done about it, by the same policies.

use std::collections::BTreeSet;

use fluke_model::api::{DriftEntry, DriftMark};
use fluke_model::event::{Event, EventKind};
use fluke_model::gather::Gather;
use fluke_model::id::{ServiceName, StepAddress};
use fluke_model::message::{Fact, NetworkReport, Record, Subject};
use fluke_model::policy::{Finding, Policy, Trigger};
use fluke_model::service::{DeploymentId, DeploymentReport, Health, Phase, Replica};
use fluke_model::status::StepStatus;
use fluke_model::time::Timestamp;
use fluke_model::verdict::Verdict;

use super::board::{ApplyMark, StepState};
use super::deciding::turn;
use super::view::Census;
use super::{Effect, Machine, Now};
use crate::alert::{Owner, RemediationStatus};

/// One replica of one service on this host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub service: ServiceName,
    pub replica: Replica,
}

impl Place {
    fn part(&self) -> StepAddress {
        self.replica.part(&self.service)
    }
}

/// What is known of the deployment that a place should have.
#[derive(Debug)]
pub(super) struct Standing {
    id: DeploymentId,
    pub state: StepState,
    /// Whether the last try since it drifted put it right; none while nothing was tried.
    tried: Option<bool>,
    /// Whether what was done about it came to nothing.
    has_failed: bool,
}

/// What people were told of a service on this host.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// That it has drifted.
    drift: bool,
    /// That it could not be put right.
    failure: bool,
}

impl Standing {
    fn new(id: DeploymentId) -> Self {
        Self { id, state: StepState::default(), tried: None, has_failed: false }
    }

    fn take(&mut self, report: &DeploymentReport, now: Timestamp) {
        let why = || report.note.as_deref().unwrap_or(report.phase.as_str());
        let mark = match (&report.verdict, report.phase) {
            (Verdict::Satisfied | Verdict::Error { .. }, _) => ApplyMark::None,
            (_, Phase::Failed) => ApplyMark::Failed(why().into()),
            (_, Phase::Pulling | Phase::Starting) => ApplyMark::Applying,
            _ => ApplyMark::None,
        };
        // One that was put right by nobody, and became unwell, was not failed by anybody either.
        let was_tried = self.tried.is_some() || report.health != Health::Unhealthy;
        self.has_failed = was_tried && matches!(mark, ApplyMark::Failed(_));
        self.state.last_checked = Some(now);
        self.state.update(now, |state| {
            state.verdict = Some(report.verdict.clone());
            state.apply = mark;
        });
    }

    fn is_drifted(&self) -> bool {
        self.state.finding() == Finding::Drifted
    }
}

impl Machine {
    /// Judges these services anew, by what was reported of them. `is_first`: in this session.
    pub(super) fn judge_services(
        &mut self,
        named: &BTreeSet<ServiceName>,
        is_first: bool,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let (Some(board), Some(services)) = (&self.board, &mut self.services) else { return };
        let mut turned = Vec::new();
        for name in named {
            let Some((_, service)) = board.of_services().service(name) else { continue };
            for (replica, id) in service.deployments(&self.name) {
                let Some(report) = services.deployments.get(&id) else { continue };
                let place = Place { service: name.clone(), replica };
                let standing =
                    services.standings.entry(place.clone()).or_insert_with(|| Standing::new(id));
                let before = standing.state.finding();
                standing.take(report, now.wall);
                // What was put right did not go away by itself; the end of the apply was told.
                let is_told = |kind: &EventKind| {
                    *kind == EventKind::DriftResolved && standing.tried == Some(true)
                };
                let kind = turn(before, standing.state.finding()).filter(|kind| !is_told(kind));
                let trigger = match before {
                    _ if is_first => Trigger::Connect,
                    Finding::Unknown if board.is_moved => Trigger::Placement,
                    Finding::Unknown => Trigger::Commit,
                    _ => Trigger::Watch,
                };
                turned.extend(kind.map(|kind| (kind, place, trigger, standing.state.reason())));
            }
        }
        for (kind, place, trigger, reason) in turned {
            let event = Event {
                trigger: Some(trigger.as_str().into()),
                output: reason,
                ..self.service_event(kind, &place, now)
            };
            effects.push(Effect::Record(event));
        }
        named.iter().for_each(|name| self.tell_of_service(name, now, effects));
    }

    fn service_event(&self, kind: EventKind, place: &Place, now: Now) -> Event {
        let (service, step) = (Some(place.service.clone()), Some(place.part()));
        let commit = self.board.as_ref().map(|board| board.newest().0.clone());
        Event { service, step, commit, ..self.event(kind, now) }
    }

    /// Tells people of a drift once, of the first failure to put it right, and of its end.
    fn tell_of_service(&mut self, name: &ServiceName, now: Now, effects: &mut Vec<Effect>) {
        let (Some(board), Some(services)) = (&self.board, &mut self.services) else { return };
        let Some((_, service)) = board.of_services().service(name) else { return };
        let is_asked_for = services.is_settling(name);
        let mut standings: Vec<&mut Standing> =
            of(name, &mut services.standings).map(|(_, standing)| standing).collect();
        let before = services.told.get(name).copied().unwrap_or_default();
        if standings.iter().any(|it| it.is_drifted()) {
            if !service.policy.alerts() {
                return;
            }
            let has_failed = standings.iter().any(|it| it.has_failed);
            let now_told = Told { drift: true, failure: before.failure || has_failed };
            services.told.insert(name.clone(), now_told);
            let policy = service.policy;
            let status = match policy.remediates() || is_asked_for {
                true => RemediationStatus::InProgress,
                false => RemediationStatus::PendingManual,
            };
            if !before.drift {
                effects.push(Effect::Alert(self.service_drifted(name, policy, status, now)));
            }
            if now_told.failure && !before.failure {
                let of = Owner::Service(name.clone());
                effects.push(Effect::Alert(self.remediated(of, false, now)));
            }
            return;
        }
        let is_known = standings.len() == service.replicas.len();
        let is_well = |it: &&mut Standing| it.state.finding() == Finding::Satisfied;
        if !is_known || !standings.iter().all(is_well) {
            return;
        }
        let was_put_right = standings.iter().any(|it| it.tried == Some(true));
        standings.iter_mut().for_each(|it| it.tried = None);
        if services.told.remove(name).is_some() {
            let of = Owner::Service(name.clone());
            let alert = match was_put_right {
                true => self.remediated(of, true, now),
                false => self.resolved(of, now),
            };
            effects.push(Effect::Alert(alert));
        }
    }

    /// Takes note of what was done to a container that has drifted.
    pub(super) fn note_service(&mut self, record: &Record) {
        let Subject::Service { service: Some(service), part } = &record.subject else { return };
        let Some(services) = &mut self.services else { return };
        let tried = match &record.fact {
            Fact::Began { .. } => false,
            Fact::Ended { outcome, .. } => !outcome.is_failure(),
            Fact::PassedOver { .. } => return,
        };
        let standing = of(service, &mut services.standings).find(|(it, _)| it.part() == *part);
        if let Some((_, standing)) = standing.filter(|(_, standing)| standing.is_drifted()) {
            standing.tried = Some(tried);
        }
    }

    /// Git says something else: what is wanted now may be known already, and its policy may be
    /// another.
    pub(super) fn judge_services_anew(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.forget_services(now, effects);
        let (Some(board), Some(_)) = (&self.board, &self.services) else { return };
        let all =
            board.of_services().services().iter().map(|service| service.name.clone()).gather();
        self.judge_services(&all, false, now, effects);
    }

    /// What is not wanted any more has no drift, as far as fluke goes.
    fn forget_services(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let (Some(board), Some(services)) = (&self.board, &mut self.services) else { return };
        let wanted = |place: &Place| {
            let (_, service) = board.of_services().service(&place.service)?;
            service.deployments(&self.name).find(|(replica, _)| *replica == place.replica)
        };
        let mut gone = Vec::new();
        services.standings.retain(|place, standing| {
            let now = wanted(place).map(|(_, id)| id);
            if now != Some(standing.id) && standing.is_drifted() {
                gone.push((place.clone(), now.is_some()));
            }
            now == Some(standing.id)
        });
        let standings = &services.standings;
        let goes_on = |name: &ServiceName| {
            standings.iter().any(|(place, it)| place.service == *name && it.is_drifted())
        };
        let over: Vec<ServiceName> =
            services.told.keys().filter(|name| !goes_on(name)).cloned().collect();
        services.told.retain(|name, _| !over.contains(name));
        for (place, is_changed) in gone {
            let why = match is_changed {
                true => "the service was changed",
                false => "the service no longer runs on this host",
            };
            let event = self.service_event(EventKind::DriftResolved, &place, now);
            effects.push(Effect::Record(Event { output: Some(why.into()), ..event }));
        }
        for name in over {
            effects.push(Effect::Alert(self.resolved(Owner::Service(name), now)));
        }
    }

    /// The first reason of a service that is not as it should be.
    pub(super) fn service_reason(&self, name: &ServiceName) -> Option<String> {
        let standings = &self.services.as_ref()?.standings;
        let mut own = standings.iter().filter(|(place, _)| place.service == *name);
        own.find_map(|(_, standing)| standing.state.reason())
    }

    /// What has drifted of services: containers, then what they share. Behind the mark, if one of
    /// services is given.
    pub(super) fn service_drift(&self, after: Option<(&str, &StepAddress)>) -> Vec<DriftEntry> {
        let (Some(board), Some(services)) = (&self.board, &self.services) else {
            return Vec::new();
        };
        let is_behind = |place: &Place| match after {
            None => true,
            Some((owner, _)) if place.service.as_str() != owner => {
                owner != DriftMark::SHARED && place.service.as_str() > owner
            }
            Some((_, step)) => {
                let mut own = services.standings.keys().filter(|it| it.service == place.service);
                own.any(|it| it.part() == *step && it < place)
            }
        };
        let containers = services
            .standings
            .iter()
            .filter(|(place, standing)| standing.state.status().is_drifted() && is_behind(place));
        let entry = |(place, standing): (&Place, &Standing)| {
            let (at, service) = board.of_services().service(&place.service)?;
            Some(DriftEntry {
                agent: self.name.clone(),
                task: None,
                service: Some(place.service.clone()),
                step: place.part(),
                policy: service.policy,
                status: standing.state.status(),
                reason: standing.state.reason(),
                since: standing.state.since,
                task_hash: board.of_services().service_hashes().get(at).copied(),
            })
        };
        let shared = self.shared_drift();
        let passed = after.filter(|(owner, _)| *owner == DriftMark::SHARED);
        let seen = passed.map_or(0, |(_, step)| {
            let step = step.to_string();
            NetworkReport::PARTS.iter().position(|part| *part == step).map_or(0, |at| at + 1)
        });
        let is_left = |it: &DriftEntry| {
            NetworkReport::PARTS[seen..].iter().any(|part| *part == it.step.to_string())
        };
        containers.filter_map(entry).chain(shared.into_iter().filter(is_left)).collect()
    }

    fn shared_drift(&self) -> Vec<DriftEntry> {
        let Some(services) = &self.services else { return Vec::new() };
        let entry = |(part, since): (&&'static str, &Timestamp)| {
            let report = services.network.as_ref()?.part(part)?;
            Some(DriftEntry {
                agent: self.name.clone(),
                task: None,
                service: None,
                step: StepAddress::try_from(part.to_string()).ok()?,
                // What hosts tell each other is nobody's to leave as it is.
                policy: Policy::Remediate,
                status: StepStatus::Failed,
                reason: report.problem.clone(),
                since: Some(*since),
                task_hash: None,
            })
        };
        let broken = NetworkReport::PARTS.iter();
        broken.filter_map(|part| services.broken.get_key_value(part)).filter_map(entry).collect()
    }

    /// Counts in the containers, as the steps they are like.
    pub(super) fn count_services_in(&self, census: &mut Census) {
        let Some(board) = &self.board else { return };
        let services = board.of_services().services();
        census.steps += services.iter().map(|service| service.replicas.len() as u64).sum::<u64>();
        for (place, standing) in self.services.iter().flat_map(|services| &services.standings) {
            let policy =
                board.of_services().service(&place.service).map(|(_, service)| service.policy);
            if let Some(policy) = policy.filter(|_| standing.state.status().is_drifted()) {
                *census.drifted.entry(policy).or_default() += 1;
            }
        }
    }
}

fn of<'a>(
    service: &'a ServiceName,
    standings: &'a mut std::collections::BTreeMap<Place, Standing>,
) -> impl Iterator<Item = (&'a Place, &'a mut Standing)> {
    standings.iter_mut().filter(move |(place, _)| place.service == *service)
}
