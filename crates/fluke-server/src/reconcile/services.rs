//! What one agent says of its services, and what is asked of it for them. How they are kept is the
//! agent's own affair; what all of them come to is the desk's.

use std::collections::BTreeMap;

use fluke_model::api::{AgentDeployment, AgentService, NetworkPart, TaskCounts};
use fluke_model::bounds::Excess;
use fluke_model::deployments::Deployments;
use fluke_model::gather::Gather;
use fluke_model::id::{InstructionId, ServiceName};
use fluke_model::message::{NetworkReport, SectionReport, ServicesReport, ToAgent};
use fluke_model::policy::Trigger;
use fluke_model::service::{
    DeploymentReport, Health, Phase, Replica, ServiceExecutor, SnapshotService,
};
use fluke_model::status::Status;
use fluke_model::time::Timestamp;
use fluke_model::verdict::Verdict;

use super::board::Board;
use super::request::{ended, progress};
use super::standing::{Place, Standing, Told};
use super::{Effect, Machine, Now, Progress, Request, What};

/// What is known of an agent's services.
#[derive(Debug, Default)]
pub(super) struct Services {
    pub(super) deployments: Deployments,
    pub(super) standings: BTreeMap<Place, Standing>,
    /// Those that people were told of, until they are told that it is over.
    pub(super) told: BTreeMap<ServiceName, Told>,
    pub(super) network: Option<NetworkReport>,
    /// Which parts of the network are not as they should be, and since when.
    pub(super) broken: BTreeMap<&'static str, Timestamp>,
    /// Whether the agent spoke of them in this session.
    has_spoken: bool,
    /// Those who asked for services to be put right, and what else was wrong.
    settling: Vec<(InstructionId, Request, Option<String>)>,
}

impl Machine {
    fn services_mut(&mut self) -> &mut Services {
        self.services.get_or_insert_default()
    }

    /// Accepts what the agent says, unless there would be too much to be known of it.
    pub fn accepts(&self, report: &ServicesReport) -> Result<(), Excess> {
        self.services.as_ref().map_or(Ok(()), |services| services.deployments.accept(report))
    }

    pub(super) fn services_reported(
        &mut self,
        report: ServicesReport,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let services = self.services_mut();
        let is_first = !std::mem::replace(&mut services.has_spoken, true);
        let named = report.deployments.iter().map(|it| it.service.clone()).gather();
        services.deployments.take(report);
        self.judge_services(&named, is_first, now, effects);
    }

    pub(super) fn network_reported(&mut self, report: NetworkReport, now: Now) {
        let services = self.services_mut();
        for part in NetworkReport::PARTS {
            match report.part(part).is_some_and(|section| section.problem.is_some()) {
                true => drop(services.broken.entry(part).or_insert(now.wall)),
                false => drop(services.broken.remove(part)),
            }
        }
        services.network = Some(report);
    }

    /// Whether something of this service should run here, on an agent that runs any.
    pub fn keeps_service(&self, service: &ServiceName) -> bool {
        self.keeps_services() && self.has_service(service)
    }

    /// Whether something of this service should run here.
    pub fn has_service(&self, service: &ServiceName) -> bool {
        self.board.as_ref().is_some_and(|board| has_service(board, service))
    }

    /// Ends what somebody asked for: of a service, or of a whole host that has any, once its agent
    /// says how that went.
    pub(super) fn end_with_services(
        &mut self,
        request: Request,
        wrong: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        let has_any = self.keeps_services()
            && self.board.as_ref().is_some_and(|board| !board.of_services().services().is_empty());
        let (is_due, service) = match &request.what {
            What::Host => (has_any, None),
            What::Task { .. } => (false, None),
            What::Service(name) => (true, Some(name.clone())),
        };
        let (true, Some(session)) = (is_due, &mut self.session) else {
            effects.push(ended(request, wrong));
            return;
        };
        let instruction = session.instruct();
        let trigger = Trigger::Manual { by: request.by.clone() };
        effects.push(Effect::Send(ToAgent::Settle { instruction, service, trigger }));
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
        let services = self.board.iter().flat_map(|board| board.of_services().services());
        services.map(|service| (&**service, self.service_status(service)))
    }

    fn service_status(&self, service: &SnapshotService) -> Status {
        let of = |replica: &Replica| {
            let place = Place { service: service.name.clone(), replica: *replica };
            let standing = self.services.as_ref()?.standings.get(&place)?;
            Some(standing.state.status())
        };
        Status::of_steps(service.replicas.iter().map(|replica| of(replica).unwrap_or_default()))
    }

    /// How services and what they need stand, one by one.
    pub(super) fn service_statuses(&self) -> impl Iterator<Item = Status> {
        let parts = self.network_parts();
        let broken = parts.into_iter().filter(|part| part.problem.is_some());
        let keeps_any = self.keeps_services();
        let services = self.each_service().map(|(_, status)| status).filter(move |_| keeps_any);
        services.chain(broken.map(|_| Status::Failed))
    }

    /// Whether the agent has anything to do with services: runs them, or says why it does not.
    fn keeps_services(&self) -> bool {
        let has_spoken = self.services.as_ref().is_some_and(|services| services.has_spoken);
        has_spoken || self.does(ServiceExecutor::Container)
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
                .map(|it| deployment(it, !self.does(ServiceExecutor::Container)))
                .collect(),
        };
        self.each_service().map(detail).collect()
    }

    pub(super) fn network_parts(&self) -> Vec<NetworkPart> {
        let network = self.services.as_ref().and_then(|services| services.network.as_ref());
        let part = |(part, executor, report): (&str, _, &SectionReport)| NetworkPart {
            part: part.to_string(),
            problem: report.problem.clone(),
            refused: !self.does(executor),
        };
        let each = network.into_iter().flat_map(|NetworkReport { names, routes, mesh }| {
            let routes = routes.as_ref().map(|it| ("routes", ServiceExecutor::Routes, it));
            let names = ("names", ServiceExecutor::Dns, names);
            [names].into_iter().chain(routes).chain([("mesh", ServiceExecutor::Mesh, mesh)])
        });
        each.map(part).chain(self.left_alone()).collect()
    }

    /// The containers that are not wanted here any more, and that the host's own config keeps.
    fn left_alone(&self) -> Option<NetworkPart> {
        let known = self.services.iter().flat_map(|services| services.deployments.values());
        let is_kept = |it: &&DeploymentReport| {
            it.phase == Phase::Retiring && matches!(it.verdict, Verdict::Error { .. })
        };
        let notes: Vec<&str> = known.filter(is_kept).filter_map(|it| it.note.as_deref()).collect();
        (!notes.is_empty()).then(|| NetworkPart {
            part: "containers".into(),
            problem: Some(notes.join("\n")),
            refused: true,
        })
    }

    /// Whether the agent does this for services.
    fn does(&self, executor: ServiceExecutor) -> bool {
        ServiceExecutor::among(&self.hello.executors).contains(&executor)
    }
}

impl Services {
    /// Whether somebody waits for this service to be put right.
    pub(super) fn is_settling(&self, service: &ServiceName) -> bool {
        self.settling.iter().any(|(_, request, _)| request.what.covers_service(service))
    }

    /// How many wait for services to be put right.
    pub(super) fn settling(&self) -> usize {
        self.settling.len()
    }

    /// Who waits for the end of this.
    pub(super) fn asked_for(&self, of: InstructionId) -> Option<&Request> {
        let mut settling = self.settling.iter();
        settling.find(|(instruction, ..)| *instruction == of).map(|(_, request, _)| request)
    }
}

/// Whether something of a service should run on this host.
pub(super) fn has_service(board: &Board, name: &ServiceName) -> bool {
    board.of_services().service(name).is_some_and(|(_, service)| !service.replicas.is_empty())
}

/// How a deployment that should be there stands.
pub fn status_of(it: &DeploymentReport) -> Status {
    match (&it.verdict, it.phase, it.health) {
        (Verdict::Error { .. }, ..)
        | (_, Phase::Failed, _)
        | (_, Phase::Running, Health::Unhealthy) => Status::Failed,
        (_, Phase::Running, Health::Starting)
        | (_, Phase::Pulling | Phase::Starting | Phase::Retiring, _) => Status::Applying,
        (Verdict::Satisfied, Phase::Running, _) => Status::InSync,
        (Verdict::Drifted(_), Phase::Running, _) | (_, Phase::Missing | Phase::Stopped, _) => {
            Status::Drifted
        }
    }
}

fn deployment(it: &DeploymentReport, refused: bool) -> AgentDeployment {
    AgentDeployment {
        replica: it.replica.number(),
        status: status_of(it),
        phase: it.phase,
        health: it.health,
        image: it.image.clone(),
        container: it.container.clone(),
        address: it.address,
        note: it.note.clone(),
        refused,
    }
}
