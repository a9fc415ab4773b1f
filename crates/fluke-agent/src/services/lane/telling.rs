//! What the lane tells the server: what is new, and whoever waits for something.

use std::time::Instant;

use fluke_model::message::{MeshReport, ToServer};

use super::{Lane, Settling, saying};
use crate::services::plan::Plan;

impl Lane {
    pub(super) async fn say_how_containers_are(&mut self) {
        if self.session.is_none() {
            return;
        }
        // Where others are comes first: whoever hears only what is here would make up for the rest.
        if self.said.placements()
            && let Some(placements) = self.inbox.tables().placements
        {
            self.scribe.say(ToServer::Placements(placements.as_ref().clone())).await;
        }
        if let Some(report) = self.said.deployments(&self.reports, self.volumes.as_ref()) {
            self.scribe.say(ToServer::Services(report)).await;
        }
    }

    pub(super) async fn say_how_sections_are(&mut self) {
        let (Some(sections), Some(_)) = (&mut self.sections, self.session) else { return };
        let network = self.said.network(sections.report());
        let reached = sections.identity().map(|(public_key, endpoints)| MeshReport {
            public_key,
            endpoints,
            claim: self.claim,
        });
        let mesh = reached.and_then(|report| self.said.mesh(report));
        if let Some(mesh) = mesh {
            self.scribe.say(ToServer::Mesh(mesh)).await;
        }
        if let Some(network) = network {
            self.scribe.say(ToServer::Network(network)).await;
        }
    }

    /// Tells who asked, if somebody did, how it ended.
    pub(super) async fn answer_with(&mut self, problem: Option<String>) {
        if let Some(Settling { settle, .. }) = self.settling.take() {
            let instruction = settle.instruction;
            self.scribe.say(ToServer::Settled { instruction, problem }).await;
        }
    }

    /// Tells who asked, once there is something to tell.
    pub(super) async fn answer_who_asked(&mut self, plan: &Plan) {
        let Some(settling) = &self.settling else { return };
        let is_over = settling.until <= Instant::now();
        let late = || Some("it is not done after five minutes; it goes on".to_owned());
        let answer = saying::settled(plan, &self.asked());
        let problem = match answer {
            Some(problem) => problem.or(plan.network_problem.clone()),
            None if is_over => late(),
            None => return,
        };
        self.answer_with(problem).await;
    }
}
