//! What must hold of every night, whatever went wrong in it. Pure: a record in, breaches out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use fluke_model::event::{Event, EventKind};
use fluke_model::policy::{Policy, pause_after};
use fluke_model::time::Timestamp;
use fluke_model::verdict::Outcome;
use fluke_server::alert::News;

use crate::host::drift_number;
use crate::trace::{Found, HostId, Record, ServerLife, What};

#[cfg(test)]
mod tests;

/// A law that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Which.
    pub law: Law,
    /// When it was noticed.
    pub at: Duration,
    /// How.
    pub how: String,
}

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// The last thing before an apply is a check of the same step that said no.
    CheckBeforeApply,
    /// A host is changed by one command at a time.
    OneApplyAtATime,
    /// What is applied is what one good commit says, and it is the one that the event names.
    OneCommit,
    /// Tasks that are left to humans are applied when a human asks, and only then.
    HumansDecide,
    /// Every apply that began has a beginning and exactly one end in the events.
    EveryApplyIsTold,
    /// No server tells anything twice, or an end without a beginning.
    NothingIsToldTwice,
    /// One alert per drift, and its end is told.
    OneAlertPerDrift,
    /// What fails is left alone for a while.
    FailuresRest,
    /// In the end every host is as Git says, and the server knows it.
    Convergence,
    /// In the end nothing is left that neither works nor ends.
    NothingHangs,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3}  {:?}: {}", self.at.as_secs_f64(), self.law, self.how)
    }
}

/// Every breach of every law.
pub fn judge(record: &Record) -> Vec<Breach> {
    let mut court = Court { record, breaches: Vec::new() };
    court.checks_before_applies();
    court.one_apply_at_a_time();
    court.events_of_applies();
    court.events_of_each_server();
    court.alerts();
    court.pauses();
    court.standing();
    court.breaches.sort_by_key(|breach| (breach.at, breach.law));
    court.breaches
}

struct Court<'a> {
    record: &'a Record,
    breaches: Vec<Breach>,
}

/// What the servers said of one apply.
#[derive(Debug, Default, Clone)]
struct Told {
    trigger: String,
    commit: Option<String>,
    outcome: Option<Outcome>,
}

impl Told {
    fn failed(&self) -> bool {
        self.outcome.is_some_and(Outcome::is_failure)
    }
}

impl Court<'_> {
    fn breach(&mut self, law: Law, at: Duration, how: String) {
        self.breaches.push(Breach { law, at, how });
    }

    fn checks_before_applies(&mut self) {
        let mut last: BTreeMap<(HostId, &str), Found> = BTreeMap::new();
        for entry in &self.record.entries {
            match &entry.what {
                What::Checked { host, key, found } => drop(last.insert((*host, key), *found)),
                What::ApplyBegan { host, key, drift, .. } => {
                    let before = last.insert((*host, key), Found::Error);
                    if before != Some(Found::Drifted(*drift)) {
                        let how =
                            format!("host {host}: {key} was applied for #{drift} after {before:?}");
                        self.breach(Law::CheckBeforeApply, entry.at, how);
                    }
                }
                _ => {}
            }
        }
    }

    fn one_apply_at_a_time(&mut self) {
        let mut running: BTreeMap<HostId, BTreeSet<u64>> = BTreeMap::new();
        for entry in &self.record.entries {
            match &entry.what {
                What::ApplyBegan { host, key, drift, .. } => {
                    let there = running.entry(*host).or_default();
                    there.insert(*drift);
                    if there.len() > 1 {
                        let how = format!("host {host}: {key} began while others ran: {there:?}");
                        self.breach(Law::OneApplyAtATime, entry.at, how);
                    }
                }
                What::ApplyEnded { host, drift, .. } => {
                    running.entry(*host).or_default().remove(drift);
                }
                _ => {}
            }
        }
    }

    /// Every apply of every host is in the events, under its commit, for a reason that its policy
    /// allows, with one end.
    fn events_of_applies(&mut self) {
        let told = self.beginnings();
        let lost = self.losses();
        for entry in &self.record.entries {
            let What::ApplyBegan { host, key, value, drift } = &entry.what else { continue };
            match told.get(&(*host, *drift)) {
                Some(event) => self.compare(entry.at, *host, key, value, event),
                // What its agent had not handed over went with its disk.
                None if lost.get(host).is_some_and(|at| *at >= entry.at) => {}
                None => {
                    let how = format!("host {host}: nobody told of {key} for #{drift}");
                    self.breach(Law::EveryApplyIsTold, entry.at, how);
                }
            }
        }
        self.ends_of_applies(&lost);
    }

    fn compare(&mut self, at: Duration, host: HostId, key: &str, value: &str, event: &Event) {
        let commit = event.commit.as_ref().map(|commit| commit.as_str()).unwrap_or_default();
        let task = event.task.as_ref().map(|task| task.as_str()).unwrap_or_default();
        let said = self.record.commits.get(commit);
        if said.and_then(|said| said.values.get(key)).map(String::as_str) != Some(value) {
            let how = format!("host {host}: {key} = {value} is not what {commit} says");
            self.breach(Law::OneCommit, at, how);
        }
        let policy = said.and_then(|said| said.policies.get(task));
        if policy == Some(&Policy::AlertOnly) && event.trigger.as_deref() != Some("manual") {
            let how = format!("host {host}: {key} was applied because of {:?}", event.trigger);
            self.breach(Law::HumansDecide, at, how);
        }
    }

    /// Counted once, however many servers heard of it: as many ends as beginnings.
    fn ends_of_applies(&mut self, lost: &BTreeMap<HostId, Duration>) {
        type Mark<'a> = (Timestamp, Option<Outcome>, Option<&'a str>);
        let mut counts: BTreeMap<(HostId, String), [BTreeSet<Mark<'_>>; 2]> = BTreeMap::new();
        for (host, event) in self.apply_events() {
            let (Some(task), Some(step)) = (&event.task, &event.step) else { continue };
            let marks = counts.entry((host, format!("{task}/{step}"))).or_default();
            let which = usize::from(event.kind == EventKind::ApplyFinished);
            marks[which].insert((event.time, event.outcome, event.output.as_deref()));
        }
        let mut breaches = Vec::new();
        for ((host, step), [began, ended]) in counts {
            if began.len() != ended.len() && !lost.contains_key(&host) {
                let how = format!(
                    "host {host}: {step} began {} times and ended {} times",
                    began.len(),
                    ended.len()
                );
                breaches.push(Breach { law: Law::EveryApplyIsTold, at: self.end(), how });
            }
        }
        self.breaches.extend(breaches);
    }

    /// What each server says of an agent is beginning, end, beginning, end. It may have come in
    /// the middle: the beginning was told to the server before it.
    fn events_of_each_server(&mut self) {
        #[derive(Default)]
        struct Heard {
            open: Option<(String, String)>,
            any: bool,
            /// An end or a beginning may have gone with the disk, while others are still on their way.
            gap: bool,
            drifts: BTreeSet<u64>,
        }
        let mut heard: BTreeMap<(ServerLife, HostId), Heard> = BTreeMap::new();
        let entries = &self.record.entries;
        for entry in entries {
            if let What::JournalLost(host) = &entry.what {
                let lives = heard.iter_mut().filter(|((_, of), _)| of == host);
                lives.for_each(|(_, heard)| heard.gap = true);
            }
            let What::Event(life, event) = &entry.what else { continue };
            let Some(host) = self.host_of(event) else { continue };
            let step = || {
                let part = |part: Option<String>| part.unwrap_or_default();
                (
                    part(event.task.as_ref().map(ToString::to_string)),
                    part(event.step.as_ref().map(ToString::to_string)),
                )
            };
            let known = heard.entry((*life, host)).or_default();
            let wrong = match event.kind {
                EventKind::ApplyStarted => {
                    let drift = event.output.as_deref().and_then(drift_number);
                    let again = drift.is_some_and(|drift| !known.drifts.insert(drift));
                    let before = known.open.replace(step());
                    let before = before.filter(|_| !std::mem::take(&mut known.gap));
                    again.then(|| "a second time".to_owned()).or_else(|| {
                        before.map(|before| format!("while {before:?} was still under way"))
                    })
                }
                EventKind::ApplyFinished => match known.open.take() {
                    Some(open) if open == step() => None,
                    None if !known.any || std::mem::take(&mut known.gap) => None,
                    open => Some(format!("though {open:?} was under way")),
                },
                _ => continue,
            };
            known.any = true;
            if let Some(wrong) = wrong {
                let how = format!(
                    "server {life} told of {} of host {host}'s {:?} {wrong}",
                    event.kind.as_str(),
                    step()
                );
                self.breaches.push(Breach { law: Law::NothingIsToldTwice, at: entry.at, how });
            }
        }
    }

    fn alerts(&mut self) {
        #[derive(Default, Clone, Copy)]
        struct Open {
            drift: bool,
            failure: bool,
        }
        let mut open: BTreeMap<(ServerLife, &str, &str), Open> = BTreeMap::new();
        let mut last = 0;
        for entry in &self.record.entries {
            if let What::ServerBegan(life) = &entry.what {
                last = *life;
            }
            let What::Alert(life, alert) = &entry.what else { continue };
            let now = open.entry((*life, alert.agent.as_str(), alert.of.name())).or_default();
            let before = *now;
            *now = match alert.news {
                News::DriftDetected { .. } => Open { drift: true, ..before },
                News::DriftRemediated { success: false } => Open { failure: true, ..before },
                News::DriftRemediated { success: true } | News::DriftResolved => Open::default(),
            };
            let wrong = match alert.news {
                News::DriftDetected { .. } => before.drift,
                News::DriftRemediated { success: false } => before.failure,
                News::DriftRemediated { success: true } => !before.drift && !before.failure,
                News::DriftResolved => !before.drift,
            };
            if wrong {
                let how =
                    format!("{} {}: {:?} once more", alert.agent, alert.of.name(), alert.news);
                self.breaches.push(Breach { law: Law::OneAlertPerDrift, at: entry.at, how });
            }
        }
        let Some((at, standing)) = self.final_standing() else { return };
        for (host, task) in standing.pending {
            let name = self.record.names[host].as_str();
            if !open.get(&(last, name, task.as_str())).is_some_and(|open| open.drift) {
                let how = format!("nobody was told that {task} of {name} waits for a human");
                self.breach(Law::OneAlertPerDrift, at, how);
            }
        }
        for ((life, name, task), open) in open {
            let pending =
                |(host, of): &(HostId, String)| self.record.names[*host] == name && of == task;
            let waits = self.final_standing().is_some_and(|it| it.1.pending.iter().any(pending));
            if life == last && open.drift && !waits {
                let how = format!("the end of the drift of {task} of {name} was not told");
                self.breach(Law::OneAlertPerDrift, at, how);
            }
        }
    }

    /// Between a failure and the next try there is a pause, unless there is news. To be
    /// interrupted once is no failure of the task's.
    fn pauses(&mut self) {
        let told = self.outcomes();
        let mut ended: BTreeMap<(HostId, &str), (Duration, u64)> = BTreeMap::new();
        let mut begun: BTreeMap<(HostId, &str), Duration> = BTreeMap::new();
        let mut interrupted: BTreeMap<(HostId, &str), u32> = BTreeMap::new();
        let mut began_agents: BTreeMap<HostId, Duration> = BTreeMap::new();
        let (mut news, mut in_force) = (Duration::ZERO, None);
        for entry in &self.record.entries {
            if let What::InForce(_, commit) = &entry.what {
                in_force = Some(commit);
            }
            match &entry.what {
                What::AgentBegan(host) => drop(began_agents.insert(*host, entry.at)),
                What::InForce(..) | What::Asked | What::ServerBegan(_) => {
                    news = entry.at;
                    interrupted.clear();
                }
                // How often it was interrupted before went with the disk.
                What::JournalLost(host) => interrupted.retain(|(of, _), _| of != host),
                What::Checked { host, key, found: Found::Satisfied } => {
                    // Peace: what comes now is another drift.
                    ended.remove(&(*host, key.as_str()));
                    interrupted.remove(&(*host, key.as_str()));
                }
                What::ApplyEnded { host, key, drift, how: _ } => {
                    ended.insert((*host, key), (entry.at, *drift));
                    let told = told.get(&(*host, *drift)).cloned().unwrap_or_default();
                    let streak = interrupted.entry((*host, key)).or_default();
                    // One of an older commit says nothing of what came with the newer one, and one
                    // on the agent's own account nothing of the server's.
                    let counts = told.commit.as_ref() == in_force && told.trigger != "offline";
                    let again = told.outcome == Some(Outcome::Interrupted) && counts;
                    *streak = if again { *streak + 1 } else { 0 };
                }
                What::ApplyBegan { host, key, drift, .. } => {
                    let began = begun.insert((*host, key), entry.at).unwrap_or_default();
                    let Some((at, before)) = ended.get(&(*host, key.as_str())).copied() else {
                        continue;
                    };
                    let failed = told.get(&(*host, before)).cloned().unwrap_or_default();
                    let next = told.get(&(*host, *drift)).cloned().unwrap_or_default();
                    let rested = entry.at >= at + pause_after(1) || news >= began;
                    let streak = interrupted.get(&(*host, key.as_str())).copied();
                    let excused = failed.outcome == Some(Outcome::Interrupted)
                        && streak.is_none_or(|streak| streak <= 1)
                        // What failed on the agent's own account, the server begins with anew.
                        || failed.trigger == "offline"
                        // What failed for the server in another life of the agent, it has no
                        // account of when it is alone.
                        || next.trigger == "offline" && began_agents.get(host) > Some(&at)
                        // Somebody asked, or a new snapshot tries at once.
                        || matches!(next.trigger.as_str(), "manual" | "commit");
                    if failed.failed() && !rested && !excused {
                        let how = format!(
                            "host {host}: {key} for #{drift}, {:?} after it failed for #{before}",
                            entry.at - at
                        );
                        self.breach(Law::FailuresRest, entry.at, how);
                    }
                }
                _ => {}
            }
        }
    }

    fn standing(&mut self) {
        let Some((at, standing)) = self.final_standing() else {
            return self.breach(Law::NothingHangs, self.end(), "it has no end".to_owned());
        };
        for wrong in standing.wrong {
            self.breach(Law::Convergence, at, wrong);
        }
        for id in standing.unfinished {
            self.breach(Law::NothingHangs, at, format!("reconcile {id} never ended"));
        }
        if standing.connections != standing.agents {
            let how = format!("{} agents, {} connections", standing.agents, standing.connections);
            self.breach(Law::NothingHangs, at, how);
        }
        let running = self.record.entries.iter().fold(BTreeSet::new(), |mut running, entry| {
            match &entry.what {
                What::ApplyBegan { host, drift, .. } => drop(running.insert((*host, *drift))),
                What::ApplyEnded { host, drift, .. } => drop(running.remove(&(*host, *drift))),
                _ => {}
            }
            running
        });
        for (host, drift) in running {
            self.breach(Law::NothingHangs, at, format!("host {host}: #{drift} never ended"));
        }
    }

    fn final_standing(&self) -> Option<(Duration, crate::trace::Standing)> {
        self.record.entries.iter().rev().find_map(|entry| match &entry.what {
            What::Final(standing) => Some((entry.at, (**standing).clone())),
            _ => None,
        })
    }

    fn end(&self) -> Duration {
        self.record.entries.last().map(|entry| entry.at).unwrap_or_default()
    }

    fn host_of(&self, event: &Event) -> Option<HostId> {
        let agent = event.agent.as_ref()?;
        self.record.names.iter().position(|name| name == agent.as_str())
    }

    /// Beginnings and ends of applies, as servers told them, with their hosts.
    fn apply_events(&self) -> impl Iterator<Item = (HostId, &Event)> {
        self.record.entries.iter().filter_map(|entry| {
            let What::Event(_, event) = &entry.what else { return None };
            let of_apply = matches!(event.kind, EventKind::ApplyStarted | EventKind::ApplyFinished);
            Some((self.host_of(event).filter(|_| of_apply)?, &**event))
        })
    }

    /// The event of each beginning, by drift.
    fn beginnings(&self) -> BTreeMap<(HostId, u64), Event> {
        let began = self.apply_events().filter(|(_, event)| event.kind == EventKind::ApplyStarted);
        began
            .filter_map(|(host, event)| {
                Some(((host, drift_number(event.output.as_deref()?)?), event.clone()))
            })
            .collect()
    }

    /// Why each apply was made and whether it failed: its end follows its beginning.
    fn outcomes(&self) -> BTreeMap<(HostId, u64), Told> {
        let mut told: BTreeMap<(HostId, u64), Told> = BTreeMap::new();
        let mut open: BTreeMap<HostId, u64> = BTreeMap::new();
        for (host, event) in self.apply_events() {
            let drift = event.output.as_deref().and_then(drift_number);
            match (event.kind, drift) {
                (EventKind::ApplyStarted, Some(drift)) => {
                    let trigger = event.trigger.clone().unwrap_or_default();
                    let commit = event.commit.as_ref().map(ToString::to_string);
                    told.insert((host, drift), Told { trigger, commit, outcome: None });
                    open.insert(host, drift);
                }
                _ => {
                    if let Some(drift) = open.remove(&host)
                        && let Some(told) = told.get_mut(&(host, drift))
                    {
                        told.outcome = event.outcome;
                    }
                }
            }
        }
        told
    }

    /// When each host last lost what it had not handed over.
    fn losses(&self) -> BTreeMap<HostId, Duration> {
        let lost = self.record.entries.iter().filter_map(|entry| match entry.what {
            What::JournalLost(host) => Some((host, entry.at)),
            _ => None,
        });
        lost.collect()
    }
}
