//! When to ask which container how it feels. Pure.
//!
//! Podman would start a timer and a process for each; the agent asks by the socket instead. While
//! failures do not count yet, it asks more often than the manifest says: who is quickly well shall
//! quickly serve.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluke_model::gather::Gather;
use fluke_model::service::{DeploymentId, Health, HealthSpec};

use crate::host::output::Secrets;
use crate::services::plan::{Container, State};
use crate::services::podman::Finding;

/// Between two questions to a container that has just started.
const SOONEST: Duration = Duration::from_millis(250);
/// What is said of one that says nothing itself.
const NO_ANSWER: &str = "its health command does not end";

/// All containers that are asked.
#[derive(Debug, Default)]
pub struct Rounds {
    each: BTreeMap<String, Round>,
    /// Whether nobody could be asked since somebody was last seen.
    in_the_dark: bool,
}

#[derive(Debug)]
struct Round {
    spec: HealthSpec,
    /// Whose secrets it may print.
    of: Option<DeploymentId>,
    /// Tells one life of a container from the next.
    process: Option<i32>,
    /// When it was first seen in this life.
    since: Instant,
    asked: Option<Instant>,
    is_being_asked: bool,
    known: Health,
    /// What it complained of when it was last asked.
    complaint: Option<String>,
    /// How often in a row no answer came.
    silent: u32,
}

/// A question that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Whom to ask.
    pub container: String,
    /// In which of its lives.
    pub process: Option<i32>,
    /// How long it may take.
    pub limit: Duration,
}

/// What a container said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is well.
    Well,
    /// It is not; what its command said, if that is known.
    Unwell(Option<Finding>),
    /// Nothing, in the time that it had.
    Silence,
    /// Nobody knows: the question may not have come to it.
    NotHeard,
}

impl Rounds {
    /// Takes note of who is there now, and may be asked. One that is not wanted any more is asked
    /// on: it serves until its successor does, and may have to be started again for that.
    pub fn see<'c>(&mut self, containers: impl Iterator<Item = &'c Container>, now: Instant) {
        let running = containers.filter(|it| it.is_ours && it.state == State::Running);
        let asked: BTreeMap<&str, (&Container, &HealthSpec)> =
            running.filter_map(|it| Some((it.id.as_str(), (it, it.check.as_ref()?)))).gather();
        if std::mem::take(&mut self.in_the_dark) {
            self.each.values_mut().for_each(|it| it.comes_to_light(now));
        }
        self.each.retain(|id, _| asked.contains_key(id.as_str()));
        for (id, (it, spec)) in asked {
            let round = self.each.entry(id.to_owned());
            let round = round.or_insert_with(|| Round::new(spec.clone(), it, now));
            if round.process != it.process {
                *round = Round::new(spec.clone(), it, now);
            }
            round.known = it.health;
        }
    }

    /// Nobody can be asked until somebody is seen again, and who could not be asked is not late with
    /// an answer. What is known stays, and whom a question is on its way to is not asked another. Who
    /// was silent before may only have seemed so.
    pub fn in_the_dark(&mut self) {
        self.in_the_dark = true;
    }

    /// Whom to ask now; they count as being asked.
    pub fn due(&mut self, now: Instant) -> Vec<Question> {
        let all = self.each.iter_mut().filter(|_| !self.in_the_dark);
        let due = all.filter(|(_, it)| !it.is_being_asked && it.next() <= now);
        let question = |(id, it): (&String, &mut Round)| {
            it.is_being_asked = true;
            let limit = Duration::from_millis(it.spec.timeout_ms);
            Question { container: id.clone(), process: it.process, limit }
        };
        due.map(question).collect()
    }

    /// When somebody is to be asked next.
    pub fn next(&self) -> Option<Instant> {
        let all = self.each.values().filter(|_| !self.in_the_dark);
        all.filter(|it| !it.is_being_asked).map(Round::next).min()
    }

    /// What an answer says, without the `secrets` of what it is about; one of an earlier life says
    /// nothing. Whether it is worth a look.
    pub fn answered<'s>(
        &mut self,
        question: &Question,
        answer: Answer,
        secrets: impl FnOnce(DeploymentId) -> Option<&'s Secrets>,
        now: Instant,
    ) -> bool {
        let it = self.each.get_mut(&question.container);
        let Some(it) = it.filter(|it| it.process == question.process) else { return false };
        it.is_being_asked = false;
        it.asked = Some(now);
        match answer {
            Answer::Well => {
                (it.silent, it.complaint) = (0, None);
                it.known != Health::Healthy
            }
            Answer::Unwell(finding) => {
                let secrets = it.of.and_then(secrets);
                let words = |finding: Finding| match secrets {
                    Some(secrets) => finding.in_words(secrets),
                    // Nobody can say what must not be told.
                    None => {
                        Finding { output: String::new(), ..finding }.in_words(&Secrets::default())
                    }
                };
                (it.silent, it.complaint) = (0, finding.map(words));
                it.known != Health::Unhealthy
            }
            Answer::Silence => {
                it.silent = it.silent.saturating_add(1);
                it.complaint = Some(NO_ANSWER.into());
                it.is_silent()
            }
            Answer::NotHeard => false,
        }
    }

    /// Since when a container can be asked in this life.
    pub fn since(&self, container: &str, process: Option<i32>) -> Option<Instant> {
        let round = self.each.get(container).filter(|it| it.process == process);
        round.map(|it| it.since)
    }

    /// What a container complained of when it was last asked.
    pub fn complaint(&self, container: &str) -> Option<&str> {
        self.each.get(container)?.complaint.as_deref()
    }

    /// Whether a container does not even answer any more, which Podman does not count.
    pub fn is_silent(&self, container: &str) -> bool {
        self.each.get(container).is_some_and(Round::is_silent)
    }
}

impl Round {
    fn new(spec: HealthSpec, container: &Container, now: Instant) -> Self {
        Self {
            spec,
            of: container.origin.deployment,
            process: container.process,
            since: now,
            asked: None,
            is_being_asked: false,
            known: container.health,
            complaint: None,
            silent: 0,
        }
    }

    /// That it did not answer may have been Podman's doing: it is asked at once, and counts as silent
    /// if it does not answer then either.
    fn comes_to_light(&mut self, now: Instant) {
        self.since = now;
        if self.silent > 0 {
            self.silent = self.silent.min(self.enough() - 1);
            self.asked = None;
        }
    }

    fn next(&self) -> Instant {
        let Some(asked) = self.asked else { return self.since };
        let interval = Duration::from_millis(self.spec.interval_ms).max(SOONEST);
        let early = asked.saturating_duration_since(self.since);
        let pause = match self.known {
            Health::Starting if early < grace(&self.spec) => (early / 2).clamp(SOONEST, interval),
            _ => interval,
        };
        // Who does not answer may still be busy with the last question.
        asked + pause.saturating_mul(1 << self.silent.min(5))
    }

    fn is_silent(&self) -> bool {
        self.silent >= self.enough()
    }

    /// How often it may not answer. Once may have been the moment at which Podman came back.
    fn enough(&self) -> u32 {
        self.spec.retries.max(2)
    }
}

/// How long failures do not count: as the manifest says, and at least until the first question
/// would be asked by the manifest.
pub fn grace(spec: &HealthSpec) -> Duration {
    Duration::from_millis(spec.start_period_ms.max(spec.interval_ms))
}

#[cfg(test)]
mod tests;
