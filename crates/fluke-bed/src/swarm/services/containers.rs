//! The containers of a simulated host: those that a story gives it, or those that its snapshot
//! wants. Pure.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use fluke_model::directory::Subnet;
use fluke_model::id::{AgentName, Hash256, ServiceName};
use fluke_model::message::{ServicesReport, Subject, ToServer};
use fluke_model::policy::Policy;
use fluke_model::service::{
    ContainerSpec, DeploymentId, DeploymentReport, Health, Phase, Replica, SnapshotService,
};
use fluke_model::snapshot::Snapshot;
use fluke_model::verdict::{Drift, Verdict};
use fluke_model::volume::{Volume, Volumes};

/// The containers of a host.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    all: Vec<Container>,
    /// Those of numbered replicas, which stay.
    volumes: Volumes,
    said: Said,
}

/// One of them, or the lack of one.
#[derive(Debug)]
struct Container {
    report: DeploymentReport,
    /// Where it is whenever it runs: the last byte.
    place: u8,
    is_stateful: bool,
    has_health: bool,
    /// Whether nothing is done about it before somebody asks.
    waits: bool,
    /// Whether the server knows how it is.
    is_said: bool,
}

/// What was said in this session.
#[derive(Debug, Default)]
struct Said {
    anything: bool,
    gone: Vec<DeploymentId>,
    volumes: usize,
}

/// A container is made, or made again.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) service: ServiceName,
    pub(crate) replica: Replica,
    /// Why.
    pub(crate) reason: String,
}

impl Made {
    /// What a record of it is about.
    pub(crate) fn subject(&self) -> Subject {
        let part = self.replica.part(&self.service);
        Subject::Service { service: Some(self.service.clone()), part }
    }

    /// Whether it is the same container.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.service == other.service && self.replica == other.replica
    }
}

/// What befalls a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// Its process ends.
    Death,
    /// It says that it is not well; only those do that are asked.
    Illness,
}

impl Containers {
    /// A new session has heard nothing.
    pub(crate) fn reconnects(&mut self) {
        self.said = Said::default();
    }

    /// Whether there is any, or was.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.volumes.is_empty()
    }

    /// These are all that there are now; so a story says.
    pub(crate) fn are(&mut self, deployments: Vec<DeploymentReport>) {
        self.all = deployments.into_iter().map(Container::told).collect();
        self.said = Said::default();
    }

    /// What is new; all of it for the first time in a session.
    pub(crate) fn says(&mut self) -> Option<ToServer> {
        let whole = !std::mem::replace(&mut self.said.anything, true);
        let news = self.all.iter_mut().filter_map(|it| {
            let is_known = std::mem::replace(&mut it.is_said, true);
            (whole || !is_known).then(|| it.report.clone())
        });
        let deployments: Vec<_> = news.collect();
        let gone = std::mem::take(&mut self.said.gone);
        // None is ever removed: more of them is all that can be new.
        let known = std::mem::replace(&mut self.said.volumes, self.volumes.len());
        let volumes = (whole || known != self.volumes.len()).then(|| self.volumes.clone());
        let is_news = whole || !deployments.is_empty() || !gone.is_empty() || volumes.is_some();
        let gone = if whole { Vec::new() } else { gone };
        is_news.then_some(ToServer::Services(ServicesReport {
            whole,
            deployments,
            gone,
            volumes,
            unseen: false,
        }))
    }

    /// The snapshot wants these. What it wants no more goes when nothing leads to it, or at once
    /// where another one needs its volumes.
    pub(crate) fn should_be(&mut self, snapshot: &Snapshot, host: &AgentName) {
        let wanted = snapshot.services().iter().flat_map(|service| {
            let each = service.deployments(host);
            each.map(move |(replica, id)| (service, replica, id))
        });
        let wanted: Vec<_> = wanted.collect();
        let ids: BTreeSet<_> = wanted.iter().map(|(_, _, id)| *id).collect();
        self.retire(|it| !ids.contains(&it.report.id));
        for (service, replica, id) in wanted {
            let Some(spec) = &service.container else { continue };
            if self.all.iter().all(|it| it.report.id != id) {
                let place = self.place_of(&service.name, replica);
                self.all.push(Container::missing(service, spec, replica, id, place));
            }
            if let Replica::Number(_) = replica {
                let volume = |name: &_| Volume {
                    service: service.name.clone(),
                    replica,
                    name: fluke_model::id::VolumeName::clone(name),
                };
                self.volumes.extend(spec.volumes.keys().map(volume));
            }
        }
    }

    fn retire(&mut self, is_over: impl Fn(&Container) -> bool) {
        let Self { all, said, .. } = self;
        all.retain_mut(|it| {
            let is_over = is_over(it);
            let goes = is_over && (it.report.phase != Phase::Retiring);
            if goes && (!it.report.serves || it.is_stateful) {
                said.gone.push(it.report.id);
                return false;
            }
            if goes {
                it.report.phase = Phase::Retiring;
                it.report.verdict = Verdict::Satisfied;
                (it.report.note, it.is_said) = (None, false);
            }
            true
        });
    }

    /// The first free place from where its name leads, so that versions take turns; as agents do it.
    fn place_of(&self, service: &ServiceName, replica: Replica) -> u8 {
        let [start, ..] = *Hash256::of(format!("{service} {replica:?}").as_bytes()).as_bytes();
        let is_free = |place: &u8| self.all.iter().all(|it| it.place != *place);
        let places = (0..253u16).map(|step| 2 + ((u16::from(start) + step) % 253) as u8);
        places.into_iter().find(is_free).unwrap_or(2)
    }

    /// What is not as it should be and is to be made so, of one service or of all: unasked, only
    /// where nobody has to ask first.
    pub(crate) fn due(&self, is_asked: bool, only: Option<&ServiceName>) -> Vec<Made> {
        let is_due = |it: &&Container| it.is_due(is_asked, only);
        let made = |it: &Container| Made {
            service: it.report.service.clone(),
            replica: it.report.replica,
            reason: it.drift().unwrap_or_default().to_owned(),
        };
        self.all.iter().filter(is_due).map(made).collect()
    }

    /// Makes it so. Whom each replaces serves no more.
    pub(crate) fn make(
        &mut self,
        is_asked: bool,
        only: Option<&ServiceName>,
        subnet: Option<Subnet>,
    ) {
        let mut made = Vec::new();
        for it in self.all.iter_mut().filter(|it| it.is_due(is_asked, only)) {
            it.runs(subnet);
            made.push((it.report.service.clone(), it.report.replica));
        }
        let is_replaced = |it: &&mut Container| {
            it.report.phase == Phase::Retiring
                && made.iter().any(|(of, at)| *of == it.report.service && *at == it.report.replica)
        };
        for it in self.all.iter_mut().filter(is_replaced) {
            it.is_said &= !std::mem::take(&mut it.report.serves);
        }
    }

    /// Something befalls one that runs: of this service, or whose turn it is. Says where it was.
    pub(crate) fn suffer(
        &mut self,
        mishap: Mishap,
        only: Option<&ServiceName>,
        turn: u64,
    ) -> Option<(ServiceName, Ipv4Addr)> {
        let is_hit = |it: &&mut Container| {
            it.report.phase == Phase::Running
                && only.is_none_or(|only| *only == it.report.service)
                && (mishap == Mishap::Death || it.has_health)
        };
        let mut hit: Vec<_> = self.all.iter_mut().filter(is_hit).collect();
        let count = hit.len() as u64;
        let it = hit.get_mut((turn.checked_rem(count)?) as usize)?;
        let was = it.report.address;
        it.suffers(mishap);
        Some((it.report.service.clone(), was?))
    }

    /// Somebody holds one down: it is not started before somebody asks.
    pub(crate) fn hold_down(&mut self, service: &ServiceName, waits: bool) {
        let of_it = self.all.iter_mut().filter(|it| it.report.service == *service);
        of_it.for_each(|it| it.waits = waits);
    }

    /// Where one of a service is that serves.
    pub(crate) fn serves_at(&self, service: &ServiceName) -> Option<Ipv4Addr> {
        let mut of_it = self.all.iter().filter(|it| it.report.service == *service);
        of_it.find(|it| it.report.serves)?.report.address
    }

    /// The host has another subnet: so have all that run.
    pub(crate) fn move_to(&mut self, subnet: Subnet) {
        for it in &mut self.all {
            let moved = it.report.address.map(|_| subnet.address(it.place));
            it.is_said &= moved == it.report.address;
            it.report.address = moved;
        }
    }

    /// Nothing leads to these any more.
    pub(crate) fn let_go(&mut self, released: &[DeploymentId]) {
        let Self { all, said, .. } = self;
        all.retain(|it| {
            let goes = it.report.phase == Phase::Retiring && released.contains(&it.report.id);
            if goes {
                said.gone.push(it.report.id);
            }
            !goes
        });
    }
}

impl Container {
    fn told(report: DeploymentReport) -> Self {
        let has_health = report.health != Health::None;
        Self { report, place: 0, is_stateful: false, has_health, waits: true, is_said: false }
    }

    fn missing(
        service: &SnapshotService,
        spec: &ContainerSpec,
        replica: Replica,
        id: DeploymentId,
        place: u8,
    ) -> Self {
        let waits = service.policy == Policy::AlertOnly;
        let missing = "its container is missing";
        let note = format!("{missing}; its policy is {}", service.policy.as_str());
        let report = DeploymentReport {
            id,
            service: service.name.clone(),
            replica,
            verdict: Verdict::Drifted(Drift::because(missing)),
            phase: Phase::Missing,
            health: Health::None,
            image: spec.image.clone(),
            digest: None,
            container: None,
            address: None,
            serves: false,
            note: waits.then_some(note),
        };
        let (is_stateful, has_health) = (spec.is_stateful(), spec.health.is_some());
        Self { report, place, is_stateful, has_health, waits, is_said: false }
    }

    fn drift(&self) -> Option<&str> {
        match &self.report.verdict {
            Verdict::Drifted(drift) => Some(&drift.reason),
            _ => None,
        }
    }

    fn is_due(&self, is_asked: bool, only: Option<&ServiceName>) -> bool {
        self.report.phase != Phase::Retiring
            && self.drift().is_some()
            && (is_asked || !self.waits)
            && only.is_none_or(|only| *only == self.report.service)
    }

    /// From now on all is well. A story's has its address from the story.
    fn runs(&mut self, subnet: Option<Subnet>) {
        let report = &mut self.report;
        (report.verdict, report.phase, report.serves) = (Verdict::Satisfied, Phase::Running, true);
        (report.note, self.is_said) = (None, false);
        if self.has_health {
            report.health = Health::Healthy;
        }
        if let Some(subnet) = subnet {
            let image = Hash256::of(report.image.as_bytes());
            report.digest = Some(format!("sha256:{image}"));
            report.container = Some(format!("{}-{}", report.service, report.id.short()));
            report.address = Some(subnet.address(self.place));
        }
    }

    fn suffers(&mut self, mishap: Mishap) {
        let report = &mut self.report;
        let how = match mishap {
            Mishap::Death => "its container does not run",
            Mishap::Illness => "it is not well",
        };
        (report.serves, self.is_said) = (false, false);
        report.verdict = Verdict::Drifted(Drift::because(how));
        match mishap {
            Mishap::Death => {
                (report.phase, report.health, report.address) = (Phase::Stopped, Health::None, None)
            }
            Mishap::Illness => (report.phase, report.health) = (Phase::Failed, Health::Unhealthy),
        }
    }
}
