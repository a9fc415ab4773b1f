//! What the lane tells the server, of what is new.

use fluke_model::message::{MeshReport, ToServer};

use super::Lane;

impl Lane {
    pub(super) async fn say_how_containers_are(&mut self) {
        let (Some(reports), Some(_)) = (&self.reports, self.session) else { return };
        // Where others are comes first: whoever hears only what is here would make up for the rest.
        if self.said.placements()
            && let Some(placements) = self.inbox.tables().placements
        {
            self.scribe.say(ToServer::Placements(placements.as_ref().clone())).await;
        }
        let news = self.said.deployments(reports, self.volumes.as_ref(), self.has_looked);
        if let Some(report) = news {
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
}
