//! While Podman does not answer: what is known stays, and it is said why.

use std::collections::BTreeMap;
use std::time::Instant;

use super::Lane;
use super::arrival::{Arrival, Sighting};
use super::desired::Desired;
use super::look::Seen;
use super::saying;
use crate::services::podman::PodmanError;
use crate::session::told;

impl Lane {
    /// Podman could not be asked.
    pub(super) fn in_the_dark(&mut self, desired: &Desired, error: &PodmanError) {
        let now = Instant::now();
        let why = told(error);
        let is_new = self.reach.marks().get(&()).is_none_or(|setback| setback.why != why);
        if is_new {
            tracing::warn!(why, "containers cannot be looked at; trying again");
        }
        self.reach.failed((), why.clone(), now);
        self.look_at = self.reach.marks().get(&()).map(|setback| setback.until);
        // Who answers again is listened to again, and not when a pause is over.
        self.watch = None;
        // Who could not be asked is not late with an answer.
        self.rounds.in_the_dark();
        self.expect_podman();
        let nothing = Seen::nothing();
        let plan = self.plan(desired, &nothing, &BTreeMap::new());
        let known = self.reports.take().unwrap_or_default();
        self.reports = Some(saying::in_the_dark(&known, &plan, &why));
    }

    /// Podman answers.
    pub(super) fn is_in_the_light(&mut self) {
        self.arrival = None;
        if !self.reach.marks().is_empty() {
            tracing::info!("Podman answers again");
            self.reach.forget_all();
        }
    }

    /// Has it told at once when there is another socket than the one that was last tried.
    pub(super) fn expect_podman(&mut self) {
        self.arrival = Some(Arrival::expected(&self.config.socket, self.sighting));
    }

    /// The same, where nobody answered.
    pub(super) fn expect_podman_if_away(&mut self) {
        if !self.reach.marks().is_empty() {
            self.expect_podman();
        }
    }

    /// Takes note of which socket is tried next.
    pub(super) fn sight_podman(&mut self) {
        self.sighting = Sighting::of(&self.config.socket);
    }
}
