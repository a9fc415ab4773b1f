//! Images that are needed: whether they are here, on their way, or not to be had.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use fluke_model::gather::Gather;
use fluke_model::message::{Fact, Subject};
use fluke_model::verdict::{Outcome, Output};

use super::Lane;
use super::desired::Desired;
use super::jobs::Pulled;
use super::look::Seen;
use super::saying::Note;
use crate::services::plan::{Deployment, Image};
use crate::services::sections::Account;

impl Lane {
    /// What is known of every image that is needed.
    pub(super) fn images(&self, desired: &Desired, seen: &Seen) -> BTreeMap<String, Image> {
        let each = |image: &String| {
            if seen.present.contains(image) {
                return Image::Present;
            }
            let failed = self.images.marks().get(image);
            match (self.jobs.pull_note(image), failed) {
                (Some(note), _) => Image::Coming(note),
                (None, Some(setback)) => Image::Failed(setback.why.clone(), setback.until),
                (None, None) => Image::Absent,
            }
        };
        let images = desired.wanted.iter().map(|wanted| &wanted.spec.image);
        images.map(|image| (image.clone(), each(image))).gather()
    }

    /// Has images fetched, each for the first who asked for something that needs it.
    pub(super) fn fetch(&mut self, desired: &Desired, images: &BTreeSet<String>, begun: &Account) {
        let asked = self.asked();
        for image in images {
            let is_asked_for =
                |it: &&Deployment| it.spec.image == *image && asked.covers(&it.service);
            let account = match desired.wanted.iter().find(is_asked_for) {
                Some(it) => self.account_of(Some(&it.service), begun),
                None => begun.clone(),
            };
            self.jobs.fetch(image, account);
        }
    }

    /// Takes note that an image came, or did not. What came has not worked out before it is found.
    /// What is tried again and again is told once.
    pub(super) fn pulled(&mut self, pulled: Pulled) {
        let image = pulled.image.clone();
        if let Ok(id) = &pulled.result {
            self.fetched.came(image.clone(), id.clone());
            self.unkept.fetched = true;
        }
        let is_first = !self.images.marks().contains_key(&image);
        self.images.gave_up(image, why_not(&pulled), Instant::now());
        self.untold.extend(is_first.then_some(pulled));
    }

    /// Tells of images that could not be fetched, under the name of everything that waits for them.
    pub(super) async fn tell_of_images(&mut self, desired: &Desired, seen: &Seen) {
        let is_there = |id| seen.containers.iter().any(|it| it.origin.deployment == Some(id));
        let untold = std::mem::take(&mut self.untold).into_iter();
        for pulled in untold.filter(|pulled| !seen.present.contains(&pulled.image)) {
            let waits = |it: &&Deployment| it.spec.image == pulled.image && !is_there(it.id);
            for wanted in desired.wanted.iter().filter(waits) {
                for fact in facts(&pulled) {
                    let service = Some(wanted.service.clone());
                    let part = wanted.replica.part(&wanted.service);
                    let Account { cause, held } = pulled.account.clone();
                    let subject = Subject::Service { service, part };
                    self.scribe.record(Note { cause, held, subject, fact }).await;
                }
            }
        }
    }
}

/// What is on record of an image that could not be fetched.
fn facts(pulled: &Pulled) -> [Fact; 2] {
    let reason = format!("its image is not on this host: {}", pulled.image);
    let duration_ms = pulled.took.as_millis().try_into().unwrap_or(u64::MAX);
    let (outcome, output) = (Outcome::Failure, Output::from_text(why_not(pulled)));
    [Fact::Began { reason }, Fact::Ended { outcome, duration_ms, output }]
}

/// Why an image that was fetched is not here, if it is not.
fn why_not(pulled: &Pulled) -> String {
    match &pulled.result {
        Ok(_) => format!("{} was fetched, and Podman does not find it", pulled.image),
        Err(why) => why.clone(),
    }
}

#[cfg(test)]
mod tests;
