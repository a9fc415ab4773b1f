//! What one agent says of its services, and what is asked of it for them. How they are kept is the
//! agent's own affair; what all of them come to is the desk's.

use std::collections::BTreeMap;

use fluke_model::api::{AgentDeployment, AgentService, NetworkPart, TaskCounts};
use fluke_model::id::InstructionId;
use fluke_model::message::{NetworkReport, SectionReport, ServicesReport, ToAgent};
use fluke_model::policy::Trigger;
use fluke_model::service::{
    DeploymentId, DeploymentReport, Health, Phase, Replica, SnapshotService,
};
use fluke_model::status::Status;

use super::{Effect, Machine, Progress, Request, ended, progress};

/// What is known of an agent's services.
#[derive(Debug, Default)]
pub(super) struct Services {
    deployments: BTreeMap<DeploymentId, DeploymentReport>,
    network: Option<NetworkReport>,
    /// Whether the agent spoke of them in this session: one that does not runs none.
    has_spoken: bool,
    /// Those who asked for services to be put right, and what else was wrong.
    settling: Vec<(InstructionId, Request, Option<String>)>,
}

impl Machine {
    fn services_mut(&mut self) -> &mut Services {
        self.services.get_or_insert_default()
    }

    pub(super) fn services_reported(&mut self, report: ServicesReport) {
        let services = self.services_mut();
        services.has_spoken = true;
        if report.whole {
            services.deployments.clear();
        }
        report.gone.iter().for_each(|id| drop(services.deployments.remove(id)));
        services.deployments.extend(report.deployments.into_iter().map(|it| (it.id, it)));
    }

    pub(super) fn network_reported(&mut self, report: NetworkReport) {
        self.services_mut().network = Some(report);
    }

    /// Ends what somebody asked for; of a whole host, once its services are right as well.
    pub(super) fn end_with_services(
        &mut self,
        request: Request,
        wrong: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        let has_services =
            self.board.as_ref().is_some_and(|board| !board.snapshot.services().is_empty());
        let can_tell = self.services.as_ref().is_some_and(|services| services.has_spoken);
        let (true, Some(session)) =
            (request.task.is_none() && has_services && can_tell, &mut self.session)
        else {
            effects.push(ended(request, wrong));
            return;
        };
        let instruction = session.instruct();
        let trigger = Trigger::Manual { by: request.by.clone() };
        effects.push(Effect::Send(ToAgent::Settle { instruction, service: None, trigger }));
        effects.push(progress(&request, Progress::Applying));
        self.services_mut().settling.push((instruction, request, wrong));
    }

    pub(super) fn settled(
        &mut self,
        of: InstructionId,
        problem: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(services) = &mut self.services else { return };
        let is_it = |(instruction, ..): &mut (InstructionId, _, _)| *instruction == of;
        for (_, request, wrong) in services.settling.extract_if(.., is_it) {
            let wrong: Vec<String> = wrong.into_iter().chain(problem.clone()).collect();
            effects.push(ended(request, (!wrong.is_empty()).then(|| wrong.join("\n"))));
        }
    }

    /// The connection is over; gives back those who wait in vain.
    pub(super) fn services_left(&mut self) -> Vec<Request> {
        let Some(services) = &mut self.services else { return Vec::new() };
        services.has_spoken = false;
        services.settling.drain(..).map(|(_, request, _)| request).collect()
    }

    /// How each service stands here.
    fn each_service(&self) -> impl Iterator<Item = (&SnapshotService, Status)> {
        let services = self.board.iter().flat_map(|board| board.snapshot.services());
        services.map(|service| (&**service, self.service_status(service)))
    }

    fn service_status(&self, service: &SnapshotService) -> Status {
        let known = self.services.as_ref().map(|services| &services.deployments);
        let wanted = service.deployments(&self.name).map(|(_, id)| {
            let report = known.and_then(|known| known.get(&id));
            report.map_or(Status::Unknown, |it| status_of(it.phase, it.health))
        });
        Status::of(wanted)
    }

    /// How services and what they need stand, one by one.
    pub(super) fn service_statuses(&self) -> impl Iterator<Item = Status> {
        let parts = self.network_parts();
        let broken = parts.into_iter().filter(|part| part.problem.is_some());
        self.each_service().map(|(_, status)| status).chain(broken.map(|_| Status::Failed))
    }

    pub(super) fn service_counts(&self) -> Option<TaskCounts> {
        let mut counts = TaskCounts::default();
        for (_, status) in self.each_service() {
            counts.total += 1;
            match status {
                Status::InSync => counts.in_sync += 1,
                Status::Drifted | Status::Applying => counts.drifted += 1,
                Status::Failed => counts.failed += 1,
                Status::Unknown | Status::Offline => {}
            }
        }
        (counts.total > 0).then_some(counts)
    }

    pub(super) fn service_details(&self) -> Vec<AgentService> {
        let known = self.services.as_ref().map(|services| &services.deployments);
        let detail = |(service, status): (&SnapshotService, Status)| AgentService {
            name: service.name.clone(),
            policy: service.policy,
            status,
            deployments: known
                .into_iter()
                .flat_map(|known| known.values())
                .filter(|it| it.service == service.name)
                .map(deployment)
                .collect(),
        };
        self.each_service().map(detail).collect()
    }

    pub(super) fn network_parts(&self) -> Vec<NetworkPart> {
        let network = self.services.as_ref().and_then(|services| services.network.as_ref());
        let Some(NetworkReport { names, routes, mesh }) = network else { return Vec::new() };
        let part = |part: &str, report: &SectionReport| NetworkPart {
            part: part.to_string(),
            problem: report.problem.clone(),
        };
        let routes = routes.as_ref().map(|routes| part("routes", routes));
        [part("names", names)].into_iter().chain(routes).chain([part("mesh", mesh)]).collect()
    }
}

/// How a deployment that should be there stands.
pub fn status_of(phase: Phase, health: Health) -> Status {
    match (phase, health) {
        (Phase::Failed, _) | (Phase::Running, Health::Unhealthy) => Status::Failed,
        (Phase::Running, Health::None | Health::Healthy) => Status::InSync,
        (Phase::Running, Health::Starting)
        | (Phase::Pulling | Phase::Starting | Phase::Retiring, _) => Status::Applying,
        (Phase::Missing | Phase::Stopped, _) => Status::Drifted,
    }
}

fn deployment(it: &DeploymentReport) -> AgentDeployment {
    AgentDeployment {
        replica: match it.replica {
            Replica::Own => None,
            Replica::Number(number) => Some(number),
        },
        status: status_of(it.phase, it.health),
        phase: it.phase,
        health: it.health,
        image: it.image.clone(),
        container: it.container.clone(),
        address: it.address,
        note: it.note.clone(),
    }
}
