//! What a lane says, and until when it is heard.

use std::time::Duration;

use fluke_model::id::InstructionId;
use fluke_model::message::{Fact, NetworkReport, ToServer};
use fluke_model::service::{DeploymentId, DeploymentReport};
use fluke_model::verdict::Outcome;
use tokio::time::timeout;

use super::Stage;
use crate::services::FromLane;
use crate::services::podman::Listed;

/// Long enough that nobody waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

impl Stage {
    pub fn report(&self, id: DeploymentId) -> Option<&DeploymentReport> {
        self.reports.get(&id)
    }

    pub fn reports(&self) -> impl Iterator<Item = &DeploymentReport> {
        self.reports.values()
    }

    pub fn network(&self) -> Option<&NetworkReport> {
        self.network.as_ref()
    }

    pub fn facts(&self, part: &str) -> Vec<Fact> {
        let of_part = self.records.iter().filter(|(of, _)| of == part);
        of_part.map(|(_, fact)| fact.clone()).collect()
    }

    /// How changes of a part ended.
    pub fn endings(&self, part: &str) -> Vec<Outcome> {
        let outcome = |fact: Fact| match fact {
            Fact::Ended { outcome, .. } => Some(outcome),
            _ => None,
        };
        self.facts(part).into_iter().filter_map(outcome).collect()
    }

    /// For what something was done to a part, each once.
    pub fn done_for(&self, part: &str) -> Vec<Option<InstructionId>> {
        let of_part = self.instructions.iter().filter(|(of, _)| of == part);
        let mut done_for: Vec<_> = of_part.map(|(_, instruction)| *instruction).collect();
        done_for.dedup();
        done_for
    }

    pub fn settled(&self, instruction: InstructionId) -> bool {
        self.settled.iter().any(|(of, problem)| *of == instruction && problem.is_none())
    }

    /// What was said to be wrong to somebody who asked.
    pub fn problem_of(&self, instruction: InstructionId) -> Option<String> {
        let mut all = self.settled.iter();
        all.find(|(of, _)| *of == instruction).and_then(|(_, problem)| problem.clone())
    }

    pub fn is_silent(&self) -> bool {
        self.heard == 0
    }

    /// Whether the lane has taken everything that it was told.
    pub fn has_heard_everything(&self) -> bool {
        self.lane().inbox.is_read()
    }

    /// Hears the lane until it is so.
    pub async fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let waited = timeout(PATIENCE, async {
            while !is_so(self) {
                self.hear_for(Duration::from_millis(20)).await;
            }
        });
        if waited.await.is_err() {
            self.give_up();
        }
    }

    /// Hears the lane until the host is so.
    pub async fn until_all_is(&mut self, is_so: impl AsyncFn(&Self) -> bool) {
        let waited = timeout(PATIENCE, async {
            while !is_so(self).await {
                self.hear_for(Duration::from_millis(20)).await;
            }
        });
        if waited.await.is_err() {
            self.give_up();
        }
    }

    fn give_up(&self) -> ! {
        let log = std::fs::read_to_string(self.path("podman.log")).unwrap_or_default();
        let said = |fact: &Fact| match fact {
            Fact::Began { reason } => format!("began: {reason}"),
            Fact::Ended { outcome, output, .. } => {
                format!("{}: {}", outcome.as_str(), output.text())
            }
            Fact::PassedOver { reason, .. } => format!("passed over: {reason}"),
        };
        let records: Vec<_> =
            self.records.iter().map(|(part, fact)| format!("{part} {}", said(fact))).collect();
        panic!(
            "it does not become so; reports: {:#?}\nrecords: {records:#?}\nnetwork: {:?}\n{log}",
            self.reports, self.network
        );
    }

    pub async fn until_report(
        &mut self,
        id: DeploymentId,
        is_so: impl Fn(&DeploymentReport) -> bool,
    ) -> DeploymentReport {
        self.until(|stage| stage.report(id).is_some_and(&is_so)).await;
        self.report(id).expect("it is so").clone()
    }

    pub async fn until_serves(&mut self, id: DeploymentId) -> DeploymentReport {
        self.until_report(id, |report| report.serves).await
    }

    /// Another container, or another life of it.
    pub async fn until_runs_other_than(&mut self, before: &Listed) -> Listed {
        let is_other = |it: &Listed| it.state == "running" && it.pid != before.pid;
        self.until_all_is(async |stage| stage.containers().await.iter().any(is_other)).await;
        self.containers().await.into_iter().find(is_other).expect("it runs")
    }

    async fn hear_for(&mut self, pause: Duration) {
        let Some(lane) = self.lane.as_mut() else { return };
        let said = timeout(pause, lane.next()).await;
        if let Ok(said) = said {
            self.hear(said.expect("the lane goes on"));
        }
    }

    fn hear(&mut self, said: FromLane) {
        self.heard += 1;
        match said {
            FromLane::Record(note, written) => {
                let (_, _, part) = note.subject.names();
                self.instructions.push((part.to_string(), note.cause.instruction));
                self.records.push((part.to_string(), note.fact));
                let _ = written.send(());
            }
            FromLane::Say(message) => match *message {
                ToServer::Services(report) => {
                    if report.whole {
                        self.reports.clear();
                    }
                    if report.volumes.is_some() {
                        self.volumes = report.volumes;
                    }
                    report.gone.iter().for_each(|id| drop(self.reports.remove(id)));
                    self.reports.extend(report.deployments.into_iter().map(|it| (it.id, it)));
                }
                ToServer::Network(report) => self.network = Some(report),
                ToServer::Settled { instruction, problem } => {
                    self.settled.push((instruction, problem));
                }
                _ => {}
            },
        }
    }
}
