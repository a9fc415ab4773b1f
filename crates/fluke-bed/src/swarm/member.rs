//! One simulated host with its agent: what it says to what it hears. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fluke_model::id::{CommitId, Hash256, InstructionId, ServiceName};
use fluke_model::message::{
    Checked, Fact, Record, RecordId, Scope, StepReport, Subject, ToAgent, ToServer,
};
use fluke_model::policy::{Policy, Trigger};
use fluke_model::service::DeploymentReport;
use fluke_model::snapshot::{Snapshot, SnapshotTask, StepIndex};
use fluke_model::task::Step;
use fluke_model::time::Timestamp;
use fluke_model::verdict::{Drift, Outcome, Output, Verdict};

use super::scheme::Fate;
use super::services::Services;
use super::services::containers::{Made, Mishap};

/// How long an apply, or the making of a container, is said to have taken, in milliseconds.
const TAKEN: u64 = 40;

/// What is wrong with a step of a simulated host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It is not so, until it is applied.
    Drifted(Drift),
    /// It is not so, and applying it fails.
    Stuck {
        /// Why it is not so.
        drift: Drift,
        /// What the apply prints.
        output: String,
    },
    /// Its check cannot tell.
    Unclear {
        /// Why.
        reason: String,
    },
}

impl Trouble {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Drifted(drift) | Self::Stuck { drift, .. } => Verdict::Drifted(drift.clone()),
            Self::Unclear { reason } => Verdict::Error { reason: reason.clone() },
        }
    }
}

/// A simulated host: everything is as it should be, but for its troubles.
#[derive(Debug)]
pub(super) struct Member {
    fate: Fate,
    /// By `task/kind.step`.
    troubles: BTreeMap<String, Trouble>,
    held: Option<Held>,
    /// How many there were so far.
    records: u64,
    /// Those that the server has not acknowledged.
    journal: VecDeque<Record>,
    services: Services,
    /// Containers that are being made, and why.
    under_way: Vec<(Made, Trigger)>,
}

#[derive(Debug)]
struct Held {
    commit: CommitId,
    snapshot: Arc<Snapshot>,
    /// What was last said of each step, in this session.
    said: Vec<Option<Verdict>>,
}

impl Member {
    pub(super) fn new(fate: Fate, services: Services) -> Self {
        Self {
            fate,
            troubles: BTreeMap::new(),
            held: None,
            records: 0,
            journal: VecDeque::new(),
            services,
            under_way: Vec::new(),
        }
    }

    /// The snapshot that it holds, for its hello. What was said is said anew in a new session.
    pub(super) fn reconnects(&mut self) -> Option<Hash256> {
        self.services.reconnects();
        let held = self.held.as_mut()?;
        held.said.fill(None);
        Some(held.snapshot.hash())
    }

    /// What is said again in a new session.
    pub(super) fn repeats(&self) -> impl Iterator<Item = ToServer> + '_ {
        self.journal.iter().cloned().map(ToServer::Record)
    }

    /// Whether the server has every record.
    pub(super) fn has_told_all(&self) -> bool {
        self.journal.is_empty()
    }

    /// What is new of its services.
    pub(super) fn says_of_services(&mut self, now: Timestamp) -> Vec<ToServer> {
        self.services.says(now)
    }

    /// What is known of its services.
    pub(super) fn services(&self) -> &Services {
        &self.services
    }

    /// Answers one message.
    pub(super) fn hears(&mut self, message: ToAgent, now: Timestamp) -> Vec<ToServer> {
        match message {
            ToAgent::Snapshot { commit, snapshot, .. } => self.takes(commit, snapshot, now),
            ToAgent::Check { instruction, snapshot, steps } => {
                self.checks(instruction, snapshot, steps).into_iter().collect()
            }
            ToAgent::Apply { instruction, snapshot, steps, trigger } => {
                self.applies(instruction, snapshot, &steps, &trigger, now)
            }
            ToAgent::Ack { record } => {
                self.journal.retain(|kept| kept.id > record);
                Vec::new()
            }
            ToAgent::Settle { instruction, service, trigger } => {
                self.settles(instruction, service.as_ref(), &trigger, now)
            }
            ToAgent::Directory(edit) => self.services.edit(edit).into_iter().collect(),
            ToAgent::Subnet(claim) => {
                self.services.is_granted(claim);
                Vec::new()
            }
            ToAgent::Released(deployments) => {
                self.services.let_go(&deployments);
                Vec::new()
            }
            ToAgent::Welcome(_) | ToAgent::Heartbeat => Vec::new(),
        }
    }

    /// Its containers are these from now on.
    pub(super) fn runs(&mut self, deployments: Vec<DeploymentReport>) {
        self.services.are(deployments);
    }

    /// Something befalls one of its containers: of this service, or whose turn it is. Its agent sees
    /// it, and what follows.
    pub(super) fn loses(
        &mut self,
        mishap: Mishap,
        only: Option<&ServiceName>,
        turn: u64,
        now: Timestamp,
    ) -> Vec<ToServer> {
        let turn = turn.wrapping_add(self.records);
        match self.services.suffer(mishap, only, turn) {
            Some(_) => self.begins(&Trigger::Watch, now),
            None => Vec::new(),
        }
    }

    /// Somebody holds containers of a service down once they end, or no more.
    pub(super) fn holds_down(
        &mut self,
        service: &ServiceName,
        is_held: bool,
        now: Timestamp,
    ) -> Vec<ToServer> {
        self.services.hold_down(service, is_held);
        self.begins(&Trigger::Watch, now)
    }

    /// Says how containers are, and begins to make what is due.
    fn begins(&mut self, trigger: &Trigger, now: Timestamp) -> Vec<ToServer> {
        let mut told = self.services.says(now);
        for made in self.services.due_by_itself() {
            if self.under_way.iter().any(|(it, _)| it.is_of(&made)) {
                continue;
            }
            let began = Fact::Began { reason: made.reason.clone() };
            told.extend(self.record(None, &made.subject(), trigger, now, [began]));
            self.under_way.push((made, trigger.clone()));
        }
        told
    }

    /// Whether containers are being made.
    pub(super) fn is_making(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Those that were being made are there.
    pub(super) fn has_made(&mut self, now: Timestamp) -> Vec<ToServer> {
        self.services.make(false, None, now);
        let mut told = Vec::new();
        for (made, trigger) in std::mem::take(&mut self.under_way) {
            told.extend(self.record(None, &made.subject(), &trigger, now, [done()]));
        }
        told
    }

    /// Something went wrong on the host; the agent notices.
    pub(super) fn suffers(&mut self, place: &str, trouble: Trouble) -> Option<ToServer> {
        self.troubles.insert(place.to_owned(), trouble);
        self.looks_again(place)
    }

    /// One more step that the server puts right by itself is no longer so, if there is one; the
    /// agent notices.
    pub(super) fn drifts(&mut self, where_to: u64) -> Option<ToServer> {
        let held = self.held.as_ref()?;
        let count = held.snapshot.step_count() as u64;
        let first = where_to.wrapping_add(self.records);
        let places = (0..count).filter_map(|on| {
            let index = StepIndex((first.wrapping_add(on) % count) as u32);
            let (task, step) = held.snapshot.step(index)?;
            let task = &held.snapshot.tasks()[task];
            task.policy.remediates().then(|| place(task, step))
        });
        let mut places = places.filter(|place| !self.troubles.contains_key(place));
        let place = places.next()?;
        self.suffers(&place, Trouble::Drifted(Drift::because("somebody changed it by hand")))
    }

    /// Somebody put it right by hand; the agent notices.
    pub(super) fn recovers(&mut self, place: &str) -> Option<ToServer> {
        self.troubles.remove(place)?;
        self.looks_again(place)
    }

    fn takes(
        &mut self,
        commit: CommitId,
        snapshot: Arc<Snapshot>,
        now: Timestamp,
    ) -> Vec<ToServer> {
        self.meets_its_fate(&snapshot);
        self.services.should_be(&snapshot);
        let said = vec![None; snapshot.step_count()];
        self.held = Some(Held { commit, snapshot, said });
        self.begins(&Trigger::Commit, now)
    }

    /// Once: what waits for people comes first, because it stays as it is.
    fn meets_its_fate(&mut self, snapshot: &Snapshot) {
        let waits = snapshot.steps().find(|(_, task, _)| task.policy == Policy::AlertOnly);
        let Some((_, task, step)) = waits.or_else(|| snapshot.steps().next()) else { return };
        let trouble = match std::mem::replace(&mut self.fate, Fate::Well) {
            Fate::Well => return,
            Fate::Drifted => {
                Trouble::Drifted(Drift::because("the check ended with 1: it is not so"))
            }
            Fate::Failed => {
                Trouble::Unclear { reason: "the check was killed after 60 s".to_owned() }
            }
        };
        self.troubles.insert(place(task, step), trouble);
    }

    fn verdict(&self, task: &SnapshotTask, step: &Step) -> Verdict {
        if self.troubles.is_empty() {
            return Verdict::Satisfied;
        }
        let trouble = self.troubles.get(&place(task, step));
        trouble.map_or(Verdict::Satisfied, Trouble::verdict)
    }

    fn checks(
        &mut self,
        instruction: InstructionId,
        of: Hash256,
        steps: Scope,
    ) -> Option<ToServer> {
        let held = self.held.as_ref().filter(|held| held.snapshot.hash() == of)?;
        let steps = match steps {
            Scope::All => (0..held.snapshot.step_count() as u32).map(StepIndex).collect(),
            Scope::Steps(steps) => steps,
        };
        let mut changes = Vec::new();
        for index in &steps {
            let Some((task, step)) = held.snapshot.step(*index) else { continue };
            let verdict = self.verdict(&held.snapshot.tasks()[task], step);
            if held.said[index.0 as usize].as_ref() != Some(&verdict) {
                changes.push(StepReport { step: *index, verdict });
            }
        }
        let checked = steps.len() as u32;
        self.has_said(&changes);
        Some(ToServer::Checked(Checked { instruction, snapshot: of, changes, checked }))
    }

    fn has_said(&mut self, changes: &[StepReport]) {
        let Some(held) = &mut self.held else { return };
        for report in changes {
            held.said[report.step.0 as usize] = Some(report.verdict.clone());
        }
    }

    fn applies(
        &mut self,
        instruction: InstructionId,
        of: Hash256,
        steps: &[StepIndex],
        trigger: &Trigger,
        now: Timestamp,
    ) -> Vec<ToServer> {
        let mut told = Vec::new();
        for index in steps {
            let facts = self.applies_one(of, *index);
            let Some((facts, subject)) = facts.zip(self.subject(*index)) else { continue };
            told.extend(self.record(Some(instruction), &subject, trigger, now, facts));
        }
        told.push(ToServer::Finished { instruction });
        told
    }

    /// Somebody asks for one service, or for all: what is not as it should be is made so.
    fn settles(
        &mut self,
        instruction: InstructionId,
        only: Option<&ServiceName>,
        trigger: &Trigger,
        now: Timestamp,
    ) -> Vec<ToServer> {
        let mut told = Vec::new();
        for made in self.services.due(only) {
            let facts = [Fact::Began { reason: made.reason.clone() }, done()];
            told.extend(self.record(Some(instruction), &made.subject(), trigger, now, facts));
        }
        self.services.make(true, only, now);
        told.extend(self.services.says(now));
        told.push(ToServer::Settled { instruction, problem: None });
        told
    }

    /// How the apply of a step begins and ends.
    fn applies_one(&mut self, of: Hash256, index: StepIndex) -> Option<[Fact; 2]> {
        let held = self.held.as_ref().filter(|held| held.snapshot.hash() == of)?;
        let (task, step) = held.snapshot.step(index)?;
        let place = place(&held.snapshot.tasks()[task], step);
        let trouble = self.troubles.get(&place)?;
        let (outcome, output) = match trouble {
            Trouble::Drifted(_) => (Outcome::Success, "done"),
            Trouble::Stuck { output, .. } => (Outcome::Failure, output.as_str()),
            Trouble::Unclear { .. } => return None,
        };
        let Verdict::Drifted(Drift { reason, .. }) = trouble.verdict() else { return None };
        let output = Output::from_text(output);
        let ended = Fact::Ended { outcome, duration_ms: TAKEN, output };
        if outcome == Outcome::Success {
            self.troubles.remove(&place);
            let satisfied = StepReport { step: index, verdict: Verdict::Satisfied };
            self.has_said(&[satisfied]);
        }
        Some([Fact::Began { reason }, ended])
    }

    fn subject(&self, index: StepIndex) -> Option<Subject> {
        let snapshot = &self.held.as_ref()?.snapshot;
        let (task, step) = snapshot.step(index)?;
        let (task, step) = (snapshot.tasks()[task].name.clone(), step.address.clone());
        Some(Subject::Step { task, step, index })
    }

    /// Writes down how something began, ended, or both.
    fn record<const N: usize>(
        &mut self,
        instruction: Option<InstructionId>,
        subject: &Subject,
        trigger: &Trigger,
        at: Timestamp,
        facts: [Fact; N],
    ) -> Vec<ToServer> {
        let Some(held) = &self.held else { return Vec::new() };
        let records = facts.map(|fact| {
            self.records += 1;
            Record {
                id: RecordId(self.records),
                at,
                instruction,
                snapshot: held.snapshot.hash(),
                commit: held.commit.clone(),
                subject: subject.clone(),
                trigger: trigger.clone(),
                fact,
            }
        });
        self.journal.extend(records.clone());
        records.map(ToServer::Record).into()
    }

    fn looks_again(&self, at: &str) -> Option<ToServer> {
        let held = self.held.as_ref()?;
        let is_here = |(_, task, step): &(StepIndex, &SnapshotTask, &Step)| place(task, step) == at;
        let (index, _, _) = held.snapshot.steps().find(is_here)?;
        Some(ToServer::LookAgain { snapshot: held.snapshot.hash(), steps: vec![index] })
    }
}

/// The making of a container ended as it should.
fn done() -> Fact {
    let (outcome, output) = (Outcome::Success, Output::from_text(""));
    Fact::Ended { outcome, duration_ms: TAKEN, output }
}

fn place(task: &SnapshotTask, step: &Step) -> String {
    format!("{}/{}", task.name, step.address)
}

#[cfg(test)]
mod tests;
