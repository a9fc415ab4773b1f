//! What the server knows, and what it has to be told. Pure, but for the way there.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluke_model::gather::Gather;
use fluke_model::id::ServiceName;
use fluke_model::message::{Fact, MeshReport, NetworkReport, ServicesReport, Subject, ToServer};
use fluke_model::service::{DeploymentId, DeploymentReport, Phase};
use fluke_model::verdict::Verdict;
use fluke_model::volume::Volumes;
use tokio::sync::{mpsc, oneshot};

use super::desired::Desired;
use super::state::Cause;
use crate::services::plan::{Change, Plan};
use crate::state::Held;

/// Something that happened, but for when and under which number.
#[derive(Debug)]
pub struct Note {
    /// Why.
    pub cause: Cause,
    /// Under which snapshot.
    pub held: Arc<Held>,
    /// To what.
    pub subject: Subject,
    /// What.
    pub fact: Fact,
}

/// What the lane says to the agent.
#[derive(Debug)]
pub enum FromLane {
    /// To be sent, if there is a session.
    Say(Box<ToServer>),
    /// To be written down; the lane goes on when it is.
    Record(Box<Note>, oneshot::Sender<()>),
}

/// The way to the agent.
#[derive(Debug, Clone)]
pub struct Scribe(pub mpsc::Sender<FromLane>);

impl Scribe {
    /// Tells the server.
    pub async fn say(&self, message: ToServer) {
        // An agent that is gone needs to hear nothing.
        let _ = self.0.send(FromLane::Say(Box::new(message))).await;
    }

    /// Takes something down; it is on disk when this returns.
    pub async fn record(&self, note: Note) {
        let (written, is_written) = oneshot::channel();
        if self.0.send(FromLane::Record(Box::new(note), written)).await.is_ok() {
            let _ = is_written.await;
        }
    }
}

/// What was said in this session.
#[derive(Debug, Default)]
pub struct Said {
    /// Whether somebody had looked.
    seen: bool,
    deployments: Option<BTreeMap<DeploymentId, DeploymentReport>>,
    volumes: Option<Volumes>,
    network: Option<NetworkReport>,
    mesh: Option<MeshReport>,
    placements: bool,
}

impl Said {
    /// Whether placements are still to be said: once is enough.
    pub fn placements(&mut self) -> bool {
        !std::mem::replace(&mut self.placements, true)
    }

    /// What is new about deployments and volumes; all of it the first time, and the first time that
    /// somebody had looked.
    pub fn deployments(
        &mut self,
        reports: &[DeploymentReport],
        volumes: Option<&Volumes>,
        seen: bool,
    ) -> Option<ServicesReport> {
        if std::mem::replace(&mut self.seen, seen) != seen {
            self.deployments = None;
        }
        let unseen = !seen;
        let volumes = volumes.filter(|volumes| self.volumes.as_ref() != Some(volumes)).cloned();
        if volumes.is_some() {
            self.volumes.clone_from(&volumes);
        }
        let now: BTreeMap<_, _> = reports.iter().map(|it| (it.id, it.clone())).gather();
        let Some(before) = self.deployments.replace(now.clone()) else {
            let deployments = now.into_values().collect();
            return Some(ServicesReport {
                whole: true,
                deployments,
                gone: Vec::new(),
                volumes,
                unseen,
            });
        };
        let gone: Vec<_> = before.keys().filter(|id| !now.contains_key(id)).copied().collect();
        let is_new = |it: &DeploymentReport| before.get(&it.id) != Some(it);
        let deployments: Vec<_> = now.into_values().filter(is_new).collect();
        let is_news = !gone.is_empty() || !deployments.is_empty() || volumes.is_some();
        is_news.then_some(ServicesReport { whole: false, deployments, gone, volumes, unseen })
    }

    /// What is new about names, routes and mesh.
    pub fn network(&mut self, report: NetworkReport) -> Option<NetworkReport> {
        let is_new = self.network.as_ref() != Some(&report);
        is_new.then(|| self.network.insert(report).clone())
    }

    /// What is new about how this host is reached.
    pub fn mesh(&mut self, report: MeshReport) -> Option<MeshReport> {
        let is_new = self.mesh.as_ref() != Some(&report);
        is_new.then(|| self.mesh.insert(report).clone())
    }
}

/// How what somebody asked for, of one service or of all, ended; none while it goes on.
pub fn settled(
    plan: &Plan,
    only: Option<&ServiceName>,
    desired: &Desired,
) -> Option<Option<String>> {
    if let Some(why) = only.and_then(|name| is_not_here(name, desired)) {
        return Some(Some(why));
    }
    let is_due = |change: &Change| change.service().is_none_or(|it| covers(only, it));
    let covered = plan.reports.iter().filter(|it| covers(only, &it.service));
    if plan.changes.iter().any(is_due) || covered.clone().any(goes_on) {
        return None;
    }
    let mut failed: Vec<_> =
        covered.filter(|it| it.phase == Phase::Failed || is_refused(it)).map(problem_of).collect();
    // Replicas may have failed for the same reason.
    failed.dedup();
    Some((!failed.is_empty()).then(|| failed.join("\n")))
}

/// What is said to somebody who has waited for as long as anybody waits.
pub fn unsettled(plan: &Plan, only: Option<&ServiceName>) -> String {
    let mut covered = plan.reports.iter().filter(|it| covers(only, &it.service));
    let what = covered.find(|it| goes_on(it)).map(problem_of);
    let late = "it is not done after five minutes".to_owned();
    what.map_or_else(|| late.clone(), |what| format!("{late}: {what}"))
}

fn covers(only: Option<&ServiceName>, service: &ServiceName) -> bool {
    only.is_none_or(|only| only == service)
}

/// Why nothing of a service can be put right here.
fn is_not_here(name: &ServiceName, desired: &Desired) -> Option<String> {
    if desired.not_understood.contains(name) {
        return Some(format!("{name}: this agent is too old for it"));
    }
    let is_wanted = desired.wanted.iter().any(|it| it.service == *name);
    (!is_wanted).then(|| format!("{name}: nothing of it is to run on this host any more"))
}

fn goes_on(it: &DeploymentReport) -> bool {
    match it.phase {
        _ if is_refused(it) => false,
        Phase::Pulling | Phase::Stopped | Phase::Starting => true,
        // It is missing because of something that may pass by itself, and soon.
        Phase::Missing => true,
        Phase::Running | Phase::Retiring | Phase::Failed => false,
    }
}

/// Whether this host's own config refuses it, or nobody can tell how it is.
fn is_refused(it: &DeploymentReport) -> bool {
    matches!(it.verdict, Verdict::Error { .. })
}

/// What is wrong with a deployment, in words.
pub fn problem_of(report: &DeploymentReport) -> String {
    let note = report.note.as_deref().unwrap_or(report.phase.as_str());
    format!("{}: {note}", report.service)
}

/// What is said of deployments while nobody can tell how they are.
pub fn in_the_dark(known: &[DeploymentReport], plan: &Plan, why: &str) -> Vec<DeploymentReport> {
    let was = |it: &DeploymentReport| known.iter().find(|known| known.id == it.id).cloned();
    let each = |it: &DeploymentReport| {
        let unknown = DeploymentReport { phase: Phase::Failed, ..it.clone() };
        let (note, verdict) = (Some(why.to_owned()), Verdict::Error { reason: why.to_owned() });
        DeploymentReport { note, verdict, ..was(it).unwrap_or(unknown) }
    };
    let gone = known.iter().filter(|it| !plan.reports.iter().any(|new| new.id == it.id)).cloned();
    plan.reports.iter().map(each).chain(gone).collect()
}

#[cfg(test)]
mod tests;
