//! How hosts are reached, and what follows from whose subnet is whose.

use fluke_model::directory::Subnet;
use fluke_model::id::AgentName;
use fluke_model::message::MeshReport;
use fluke_model::service::DeploymentReport;
use fluke_model::time::Timestamp;

use super::{Book, Urgency};
use crate::services::host::HostView;

impl Book {
    /// Takes how a host is reached, and rules on its subnet.
    pub(super) fn is_reached(
        &mut self,
        agent: &AgentName,
        report: MeshReport,
        now: Timestamp,
    ) -> Urgency {
        let before = self.view.claims.of(agent);
        let ruling = self.view.claims.claim(agent, report.claim, now);
        self.view.hosts.change(agent, |host| {
            (host.mesh, host.has_claimed) = (Some(report), true);
        });
        self.changed.peers.insert(agent.clone());
        if before.is_none() || before != ruling.granted {
            self.has_other_subnet(agent);
        }
        if let Some((displaced, _)) = ruling.displaced {
            self.has_other_subnet(&displaced);
        }
        Urgency::Soon
    }

    /// What a host runs may be led to no more, or from now on: its subnet is another, or there is
    /// none for it.
    pub(super) fn has_other_subnet(&mut self, agent: &AgentName) {
        let is_without = self.view.claims.is_without(agent);
        let note = |host: &mut HostView| std::mem::replace(&mut host.is_without_subnet, is_without);
        let Some(was_without) = self.view.hosts.change(agent, note) else { return };
        self.changed.peers.insert(agent.clone());
        let Some(host) = self.view.hosts.get(agent) else { return };
        self.changed.unlisted.extend(host.deployments.values().map(|it| it.service.clone()));
        if was_without != is_without {
            self.touched.extend(host.services());
            self.stir(agent);
        }
        if is_without && !was_without {
            self.without_subnet.insert(agent.clone());
        }
    }

    /// Who has not said yet which subnet is its own is led to where nobody else is: no more where one
    /// was taken since, and from now on where one became free.
    pub(super) fn list_anew_who_has_no_subnet(&mut self) {
        let changed = self.view.claims.take_changed();
        if changed.is_empty() {
            return;
        }
        let is_there = |it: &&DeploymentReport| {
            it.address.and_then(Subnet::of).is_some_and(|subnet| changed.contains(&subnet))
        };
        let all = self.view.hosts.unreached().flat_map(|(_, host)| host.deployments.values());
        self.changed.unlisted.extend(all.filter(is_there).map(|it| it.service.clone()));
    }
}
