//! What a simulated host says of services: it has the containers that a story gives it, and a proxy
//! that has loaded whatever it was told. Pure.

use fluke_model::directory::{Edit, Route, RouteKey, Routes, Table};
use fluke_model::id::ServiceName;
use fluke_model::message::{NetworkReport, Section, SectionReport, ServicesReport, ToServer};
use fluke_model::service::{DeploymentReport, Health, Phase};
use fluke_model::verdict::Verdict;

/// The containers of a host, and its proxy's routes.
#[derive(Debug, Default)]
pub(super) struct Containers {
    /// None until a story gives it any: such a host says nothing of services.
    deployments: Option<Vec<DeploymentReport>>,
    routes: Routes,
}

impl Containers {
    /// What a new session begins with.
    pub(super) fn report(&self) -> Option<ToServer> {
        let deployments = self.deployments.clone()?;
        let report = ServicesReport { whole: true, deployments, ..ServicesReport::default() };
        Some(ToServer::Services(report))
    }

    /// These are all that there are now.
    pub(super) fn are(&mut self, deployments: Vec<DeploymentReport>) -> Option<ToServer> {
        self.deployments = Some(deployments);
        self.report()
    }

    /// Makes what is not as it should be, of one service or of all, as it should be; says what that
    /// was, and how it differed.
    pub(super) fn settle(&mut self, only: Option<&ServiceName>) -> Vec<(DeploymentReport, String)> {
        let covered = |it: &DeploymentReport| {
            it.phase != Phase::Retiring && only.is_none_or(|only| *only == it.service)
        };
        let mut made = Vec::new();
        for it in self.deployments.iter_mut().flatten().filter(|it| covered(it)) {
            let Verdict::Drifted(drift) = &it.verdict else { continue };
            let reason = drift.reason.clone();
            (it.verdict, it.phase, it.serves, it.note) =
                (Verdict::Satisfied, Phase::Running, true, None);
            if it.health == Health::Unhealthy {
                it.health = Health::Healthy;
            }
            made.push((it.clone(), reason));
        }
        made
    }

    /// The proxy is told other routes, and has them at once.
    pub(super) fn load(&mut self, edit: Edit<RouteKey, Route>) -> ToServer {
        if self.routes.apply(edit).is_err() {
            return ToServer::Resend(Section::Routes);
        }
        let section = |hash| SectionReport { hash, problem: None };
        let nothing = section(Table::<RouteKey, Route>::default().hash());
        ToServer::Network(NetworkReport {
            names: nothing.clone(),
            routes: Some(section(self.routes.hash())),
            mesh: nothing,
        })
    }
}
