//! Those who asked for services to be put right: what that allows, what is done for whom, and what
//! each of them is told.

use std::time::Instant;

use fluke_model::id::ServiceName;
use fluke_model::message::ToServer;

use super::desired::Desired;
use super::state::{Cause, LIMIT};
use super::{Account, Lane, saying};
use crate::services::inbox::Settle;
use crate::services::plan::{Asked, Plan};

/// Something that somebody waits for.
pub(super) struct Settling {
    pub settle: Settle,
    pub until: Instant,
}

impl Settling {
    /// Whether what is done to this is done for it; what services share is part of each.
    fn covers(&self, service: Option<&ServiceName>) -> bool {
        let (Some(only), Some(service)) = (&self.settle.service, service) else { return true };
        only == service
    }

    fn cause(&self) -> Cause {
        let Settle { instruction, trigger, .. } = &self.settle;
        Cause { instruction: Some(*instruction), trigger: trigger.clone() }
    }
}

impl Lane {
    /// Somebody asks: what failed before is tried at once.
    pub(super) fn take_up(&mut self, settle: Settle, now: Instant) {
        match &settle.service {
            None => self.forgive(),
            Some(service) => self.forgive_service(service),
        }
        self.settling.push(Settling { settle, until: now + LIMIT });
    }

    fn forgive_service(&mut self, service: &ServiceName) {
        let wanted = self.desired.iter().flat_map(|desired| &desired.wanted);
        let (its, others): (Vec<_>, Vec<_>) = wanted.partition(|it| it.service == *service);
        // What nobody wants any more may have to serve again.
        self.deployments.retain(|id| others.iter().any(|other| other.id == *id));
        its.iter().for_each(|it| self.images.forget(&it.spec.image));
        self.forgive_what_is_shared();
    }

    /// What may be done whatever the policies say.
    pub(super) fn asked(&self) -> Asked {
        let each = self.settling.iter().map(|settling| settling.settle.service.clone());
        match each.collect::<Option<_>>() {
            _ if self.settling.is_empty() => Asked::Nobody,
            None => Asked::ForAll,
            Some(services) => Asked::For(services),
        }
    }

    /// For whom something is done: for the first who asked for it, or else as it was begun.
    pub(super) fn account_of(&self, service: Option<&ServiceName>, begun: &Account) -> Account {
        let mut settling = self.settling.iter();
        let asked = settling.find(|settling| settling.covers(service)).map(Settling::cause);
        Account { cause: asked.unwrap_or_else(|| begun.cause.clone()), held: begun.held.clone() }
    }

    /// Tells all who asked that it came to this.
    pub(super) async fn answer_all(&mut self, problem: &str) {
        for settling in std::mem::take(&mut self.settling) {
            self.answer(&settling, Some(problem.to_owned())).await;
        }
    }

    /// Tells each who asked how it ended, once there is something to tell; whether somebody was
    /// told that it takes too long, and nothing is done on their word any more.
    pub(super) async fn answer_who_asked(&mut self, plan: &Plan, desired: &Desired) -> bool {
        let now = Instant::now();
        let mut is_late = false;
        for settling in std::mem::take(&mut self.settling) {
            let only = settling.settle.service.as_ref();
            let problem = match saying::settled(plan, only, desired) {
                Some(problem) => problem.or_else(|| plan.network_problem.clone()),
                None if settling.until <= now => {
                    is_late = true;
                    Some(saying::unsettled(plan, only))
                }
                None => {
                    self.settling.push(settling);
                    continue;
                }
            };
            self.answer(&settling, problem).await;
        }
        is_late
    }

    async fn answer(&self, settling: &Settling, problem: Option<String>) {
        let instruction = settling.settle.instruction;
        self.scribe.say(ToServer::Settled { instruction, problem }).await;
    }
}
