//! What came of a change, and what follows from that for the next try.

use std::time::Instant;

use fluke_model::service::DeploymentId;
use fluke_model::verdict::Outcome;

use super::doing::ChangeError;
use super::look::Seen;
use super::round::end;
use super::{Account, Lane};
use crate::services::plan::{Change, Container, Network, State, THE_NETWORK, Why, ended};
use crate::services::podman::PodmanError;
use crate::session::told;

/// What Podman says at length of a container that it does not know any more.
const GONE_MEANWHILE: &str = "somebody removed it in this moment; it is made anew";

/// A change that was made and not looked at yet.
pub(super) struct Made {
    pub change: Change,
    /// What it was made to.
    pub container: Option<String>,
    pub began: Instant,
    /// Why, and under which snapshot.
    pub account: Account,
}

impl Lane {
    /// An address or a name that somebody else has is not tried again.
    pub(super) fn learn_from(&mut self, error: &ChangeError, change: &Change) {
        let id = match change {
            Change::Deploy { deployment, .. } => Some(deployment.id),
            Change::Start { origin, .. } => origin.deployment,
            _ => None,
        };
        if let Some(id) = id.filter(|_| error.is_address_taken()) {
            self.unusable.extend(self.addresses.take_back(id));
            self.misplaced.insert(id);
        }
        self.refused.extend(error.taken_name().map(str::to_owned));
    }

    /// A change that failed is left alone for a while, and holds up nothing else.
    pub(super) async fn failed(
        &mut self,
        change: &Change,
        error: &ChangeError,
        began: Instant,
        account: &Account,
    ) {
        let now = Instant::now();
        let why = match change {
            Change::Start { .. } if error.is_not_found() => GONE_MEANWHILE.to_owned(),
            _ => told(error),
        };
        tracing::warn!(why, "a change failed");
        // However long it took to fail was no steady time.
        match change {
            Change::Deploy { deployment, .. } => self.set_back(deployment.id, error, &why, now),
            // Somebody removed it in this moment: the next look tells.
            Change::Start { .. } if error.is_not_found() => {}
            Change::Start { origin, .. } => {
                origin.deployment.into_iter().for_each(|id| self.set_back(id, error, &why, now));
            }
            Change::Remove { container, .. } | Change::Stop { container, .. } => {
                // It may be gone all the same, and is not to come back at once.
                self.did_not_work_out(change);
                self.containers.gave_up(container.clone(), why.clone(), now);
            }
            Change::MakeNetwork { .. } => {
                self.containers.gave_up(THE_NETWORK.into(), why.clone(), now);
            }
        }
        let fact = end(Outcome::Failure, began, why);
        self.record(change, account, fact).await;
    }

    /// A deployment could not be made or started, or nobody said whether it was.
    fn set_back(&mut self, id: DeploymentId, error: &ChangeError, why: &str, now: Instant) {
        match error.is_an_answer() {
            true => self.deployments.gave_up(id, why.to_owned(), now),
            false => self.deployments.was_unheard(id, why.to_owned(), now),
        }
    }

    /// Looks whether what was made is so.
    pub(super) async fn verify(&mut self, made: Option<Made>, seen: Result<&Seen, &PodmanError>) {
        let Some(Made { change, container, began, account }) = made else { return };
        let now = Instant::now();
        if let Change::Deploy { deployment, ahead: false, .. } = &change {
            self.deployments.done(deployment.id, now);
        }
        if let Change::Start { origin, unwell, .. } = &change
            && let Some(id) = origin.deployment
        {
            if unwell.is_some() {
                // The time that it took to end was no steady time either.
                self.deployments.did_not_last(&id, now);
            }
            self.deployments.done(id, now);
        }
        self.did_not_work_out(&change);
        let found = seen.map(|seen| {
            let found = seen.containers.iter().find(|it| Some(&it.id) == container.as_ref());
            (found, &seen.network)
        });
        let (outcome, text) = judge(&change, found);
        if outcome == Outcome::AppliedButDrifted
            && let Change::Remove { .. } | Change::MakeNetwork { .. } = change
            && let Some(object) = change.object()
        {
            self.containers.gave_up(object.to_owned(), text.clone(), now);
        }
        let fact = end(outcome, began, text);
        self.record(&change, &account, fact).await;
    }

    /// What did not become well is not tried again at once, and not by itself where what serves would
    /// have to be stopped for it.
    pub(super) fn did_not_work_out(&mut self, change: &Change) {
        let (Change::Remove { origin, why: Why::Unwell(why), .. }
        | Change::Stop { origin, why: Why::Unwell(why), .. }) = change
        else {
            return;
        };
        let Some(id) = origin.deployment else { return };
        let wanted = self.desired.as_ref().and_then(|desired| desired.deployment(id));
        match wanted.is_some_and(|wanted| wanted.spec.is_stateful()) {
            true => self.deployments.gave_up_for_good(id, why.clone(), Instant::now()),
            false => self.deployments.gave_up(id, why.clone(), Instant::now()),
        }
    }
}

/// How a change ended, from what was found after it.
fn judge(
    change: &Change,
    found: Result<(Option<&Container>, &Network), &PodmanError>,
) -> (Outcome, String) {
    let (found, network) = match found {
        Ok(found) => found,
        Err(error) => {
            let why = told(error);
            return (Outcome::Failure, format!("whether it was done could not be told: {why}"));
        }
    };
    match (change, found.map(|it| it.state)) {
        (Change::Remove { why: Why::Unwell(why), .. }, None) => {
            (Outcome::Failure, format!("{why}; it was removed, and what was there before serves"))
        }
        (Change::Deploy { .. } | Change::Start { .. }, Some(State::Running)) => {
            (Outcome::Success, String::new())
        }
        (Change::Deploy { ahead: true, .. }, Some(State::Created)) => {
            (Outcome::Success, "it is made; it is started when its predecessor has ended".into())
        }
        (Change::Deploy { .. } | Change::Start { .. }, _) => {
            let how = found.and_then(ended).map_or_else(String::new, |how| format!(": {how}"));
            (Outcome::AppliedButDrifted, format!("it was started, and did not go on running{how}"))
        }
        (Change::Remove { .. }, Some(_)) => {
            (Outcome::AppliedButDrifted, "it was removed, and is still there".into())
        }
        (Change::MakeNetwork { .. }, _) => match network {
            Network::Ready => (Outcome::Success, String::new()),
            Network::Missing => {
                (Outcome::AppliedButDrifted, "it was made, and is not there".into())
            }
            Network::Other(how) => {
                (Outcome::AppliedButDrifted, format!("it was made, and is another: {how}"))
            }
            Network::Untold => {
                let why = "Podman does not say what it is";
                (Outcome::Failure, format!("whether it was done could not be told: {why}"))
            }
        },
        (Change::Remove { .. } | Change::Stop { .. }, _) => (Outcome::Success, String::new()),
    }
}

#[cfg(test)]
mod tests;
