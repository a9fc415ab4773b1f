//! What the lane is told, and what follows from it before anything is looked at.

use std::sync::Arc;
use std::time::Instant;

use fluke_model::directory::{Claim, Subnet};
use fluke_model::id::SessionId;
use fluke_model::policy::Trigger;

use super::desired::Desired;
use super::saying::Said;
use super::state::Cause;
use super::watch::Watch;
use super::{Lane, Wake};
use crate::services::inbox::Word;
use crate::services::sections::Sections;
use crate::services::{addresses, mesh};
use crate::state::Held;

/// What is new in what the server said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// A snapshot of another commit.
    Snapshot,
    /// One of the same commit: replicas have moved.
    Moved,
    /// A session.
    Session,
    /// Anything else that containers may depend on.
    Word,
    /// Only what names, routes and mesh are made of.
    Tables,
}

impl Lane {
    /// Takes what it was told.
    pub(super) fn hear(&mut self) -> News {
        let now = Instant::now();
        let Word { held, is_moved, subnet, session, released, settles, .. } = self.inbox.take();
        let mut news = News::Tables;
        // Before those who ask: what it has to do with the service that they name is told by this.
        let snapshot = held.filter(|held| !self.holds(held)).map(|held| {
            self.forgive_for_snapshot();
            self.desired = Some(Arc::new(Desired::new(held, &self.host, &self.environment)));
            if is_moved { News::Moved } else { News::Snapshot }
        });
        if !released.is_empty() {
            news = News::Word;
            // One that is told again drains no longer for it.
            for id in released {
                self.released.entry(id).or_insert(now);
            }
        }
        if let Some(claim) = subnet.filter(|claim| self.claim != Some(*claim)) {
            news = News::Word;
            self.take_subnet(claim);
        }
        for settle in settles {
            news = News::Word;
            self.take_up(settle, now);
        }
        if self.is_now_in(session) {
            news = News::Session;
        }
        snapshot.unwrap_or(news)
    }

    /// Takes note of a session that began or ended in the middle of something: whoever is at the
    /// other end knows nothing of this host yet, and does not wait for all that is to be done.
    pub(super) async fn hear_of_session(&mut self) {
        if self.is_now_in(self.inbox.in_session()) {
            self.say_how_containers_are().await;
        }
    }

    /// Whether that is another session than before, in which nothing was said yet.
    fn is_now_in(&mut self, session: Option<SessionId>) -> bool {
        if self.session == session {
            return false;
        }
        self.session = session;
        self.said = Said::default();
        self.settling.retain(|it| Some(it.settle.instruction.session) == session);
        true
    }

    /// What was known before this came is looked at again.
    pub(super) fn doubt(&mut self, wake: Wake) {
        if let Wake::Event | Wake::Job | Wake::Socket = wake {
            self.known.doubt();
        }
        if self.watch.as_ref().is_some_and(Watch::tells_of_update) {
            self.known.doubt_details();
        }
    }

    fn holds(&self, held: &Arc<Held>) -> bool {
        self.desired.as_ref().is_some_and(|desired| Arc::ptr_eq(&desired.held, held))
    }

    /// A new snapshot tries at once what failed before, but for what only a change of itself does.
    fn forgive_for_snapshot(&mut self) {
        self.deployments.forgive();
        self.images.forget_all();
        self.forgive_what_is_shared();
    }

    /// Somebody who asks has everything tried at once.
    pub(super) fn forgive(&mut self) {
        self.forgive_for_snapshot();
        self.deployments.forget_all();
    }

    /// What is in the way of all services is in the way of each.
    pub(super) fn forgive_what_is_shared(&mut self) {
        self.containers.forget_all();
        self.reach.forget_all();
        self.refused.clear();
        self.unusable.clear();
        self.sections.iter_mut().for_each(Sections::forgive);
    }

    pub(super) fn take_subnet(&mut self, claim: Claim) {
        self.unkept.claim = true;
        if self.claim.is_none_or(|known| known.subnet != claim.subnet) {
            tracing::info!(network = %claim.subnet.network(), "this host's subnet");
            // They listen at the old one.
            self.close_sections();
            self.unusable.clear();
        }
        self.claim = Some(claim);
    }

    /// The subnet of this host, which it takes by itself where nobody gave it one.
    pub(super) fn subnet(&mut self) -> Subnet {
        match self.claim {
            Some(claim) => claim.subnet,
            None => {
                let subnet = addresses::own_choice(self.host.as_str(), mesh::clashes());
                self.take_subnet(Claim { subnet, since: (self.clock)() });
                subnet
            }
        }
    }

    /// Why something is done that nobody asked for.
    pub(super) fn cause(&self, wake: Wake, news: News) -> Cause {
        let trigger = match (wake, news) {
            _ if self.session.is_none() => Trigger::Offline,
            (_, News::Snapshot) => Trigger::Commit,
            (_, News::Moved) => Trigger::Placement,
            (_, News::Session) => Trigger::Connect,
            // Of tables it is others that changed, and the server that saw it.
            (Wake::Event | Wake::Socket | Wake::Section, _) | (Wake::Told, News::Tables) => {
                Trigger::Watch
            }
            (Wake::Safety, _) => Trigger::Poll,
            (Wake::Told | Wake::Job | Wake::Due, _) => Trigger::Retry,
        };
        Cause { instruction: None, trigger }
    }
}
