//! Containers that are told to end: what becomes of them, and of those that could not be stopped.

use std::collections::BTreeSet;
use std::time::Instant;

use fluke_model::gather::Gather;
use fluke_model::message::Fact;
use fluke_model::verdict::Outcome;

use super::doing::reason;
use super::jobs::Stopped;
use super::round::end;
use super::{Account, Lane};
use crate::services::plan::{Change, Ending, Origin, Why};
use crate::session::told;

impl Lane {
    /// Tells a container to end. It has its time for that, and nothing waits for it.
    pub(super) fn stop(&mut self, change: &Change, begun: &Account) {
        let Change::Stop { container, origin, why } = change else { return };
        let account = self.account_of(change.service(), begun);
        self.jobs.stop(container, change.clone(), account);
        self.is_told_to_end(container, origin, why);
    }

    /// Those that made way for others, and do not run again.
    pub(super) fn made_way(&self) -> BTreeSet<String> {
        let all = self.told_to_end.iter().filter(|(_, ending)| **ending == Ending::MakesWay);
        all.map(|(container, _)| container.clone()).gather()
    }

    /// What becomes of a container that has its time to end.
    fn is_told_to_end(&mut self, container: &str, origin: &Origin, why: &Why) {
        let ending = match why {
            Why::MakesWay => Ending::MakesWay,
            Why::Unwell(why) => Ending::Goes(why.clone()),
            Why::Restarted(why) => Ending::Returns(why.clone()),
            _ => return,
        };
        if let (Ending::Returns(_), Some(id)) = (&ending, origin.deployment) {
            self.deployments.did_not_last(&id, Instant::now());
        }
        self.told_to_end.insert(container.to_owned(), ending);
    }

    /// Takes note that a container has ended, or was not stopped. What it was told to end for holds
    /// until it is seen to run: Podman may stop it after all. What is tried again and again is told
    /// once.
    pub(super) fn stopped(&mut self, stopped: Stopped) {
        let container = stopped.container.clone();
        let Err(error) = &stopped.result else { return self.containers.forget(&container) };
        self.did_not_work_out(&stopped.change);
        let why = told(error);
        let is_first = !self.containers.marks().contains_key(&container);
        // Somebody removed it in this moment: the next look tells.
        let is_telling = is_first && !error.is_not_found();
        tracing::warn!(why, "a container could not be stopped");
        self.containers.gave_up(container, why, Instant::now());
        self.unstopped.extend(is_telling.then_some(stopped));
    }

    /// Tells of containers that could not be stopped.
    pub(super) async fn tell_of_stops(&mut self) {
        for Stopped { change, result, began, account, .. } in std::mem::take(&mut self.unstopped) {
            let why = result.err().map(|error| told(&error)).unwrap_or_default();
            self.record(&change, &account, Fact::Began { reason: reason(&change) }).await;
            self.record(&change, &account, end(Outcome::Failure, began, why)).await;
        }
    }
}

#[cfg(test)]
mod tests;
