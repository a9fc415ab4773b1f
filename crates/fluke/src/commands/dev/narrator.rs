//! Tells what happens in `fluke dev`, line by line.

use std::path::PathBuf;
use std::sync::Arc;

use fluke_model::event::{Event, EventId, EventKind};
use fluke_model::label::Labels;
use fluke_model::service::Service;
use fluke_model::status::{Status, StepStatus};
use fluke_model::verdict::Outcome;
use fluke_server::changes::{Change, Changes};
use fluke_server::events::EventQuery;
use fluke_server::registry::Registry;
use fluke_server::server::Server;
use fluke_server::source::SourceHandle;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::colour::Paint;
use crate::diagnostics;
use crate::failure::Failure;
use crate::report::count;
use crate::sanitise;
use crate::screen::{self, Style};
use crate::when;

/// Listens to a server and tells people.
pub struct Narrator {
    changes: Receiver<Change>,
    source: SourceHandle,
    registry: Arc<Registry>,
    /// Of the one agent.
    labels: Labels,
    style: Style,
    /// To be broken once, to show how it is put right.
    to_break: Option<PathBuf>,
    /// Whether the last thing told was that all is well.
    calm: bool,
    /// What was before we listened, oldest first; and the last event that was told.
    before: Vec<Arc<Event>>,
    told: EventId,
}

impl Narrator {
    /// Begins to listen; nothing is missed, not even what the server did before.
    pub async fn new(
        server: &Server,
        labels: Labels,
        style: Style,
        to_break: Option<PathBuf>,
    ) -> Self {
        let changes: &Changes = &server.changes;
        let changes = changes.listen();
        let everything = EventQuery { limit: usize::MAX, ..EventQuery::default() };
        let mut before = server.events.recent(&everything).await.events;
        before.reverse();
        Self {
            changes,
            source: server.source.clone(),
            registry: server.registry.clone(),
            labels,
            style,
            to_break,
            calm: false,
            before,
            told: EventId(0),
        }
    }

    /// Tells until there is nobody left to listen.
    pub async fn tell(mut self) -> Result<(), Failure> {
        for event in std::mem::take(&mut self.before) {
            self.in_force(&event).await;
            self.event(&event)?;
        }
        loop {
            match self.changes.recv().await {
                Ok(Change::Event(event)) => {
                    self.in_force(&event).await;
                    self.event(&event)?;
                }
                Ok(Change::Agent(_)) => self.sum_up()?,
                Ok(Change::Source | Change::Service(_) | Change::Reconcile(_)) => {}
                Err(RecvError::Lagged(missed)) => {
                    self.line(
                        Paint::Dim,
                        "…",
                        &format!("{missed} changes went by too fast to tell"),
                    )?;
                }
                Err(RecvError::Closed) => return Ok(()),
            }
        }
    }

    /// A commit's event comes a moment before the commit itself.
    async fn in_force(&mut self, event: &Event) {
        if event.kind == EventKind::CommitAccepted {
            let wanted = self.source.desired.wait_for(|desired| {
                desired.as_ref().is_some_and(|desired| desired.since >= event.time)
            });
            // A source that is gone says nothing new; what it said last is told.
            let _ = wanted.await;
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), Failure> {
        if event.id <= self.told {
            return Ok(());
        }
        self.told = event.id;
        let output = event.output.as_deref().unwrap_or_default();
        let step = place(event);
        match event.kind {
            EventKind::CommitAccepted => {
                self.calm = false;
                self.line(Paint::Green, "read", &self.accepted())?;
                self.unmatched()?;
                self.services()
            }
            EventKind::CommitRejected => {
                self.calm = false;
                let told = match self.source.desired.borrow().is_some() {
                    true => "the manifests have mistakes; what was in force stays in force",
                    false => {
                        "the manifests have mistakes; nothing is in force until they are mended"
                    }
                };
                self.line(Paint::Red, "refused", told)?;
                screen::print(&diagnostics::text(&event.diagnostics, self.style))
            }
            EventKind::DriftDetected => self.line(
                Paint::Yellow,
                "drift",
                &format!("{step}: {}", sanitise::first_line(output)),
            ),
            EventKind::DriftResolved => {
                self.line(Paint::Green, "healed", &format!("{step}: is as it should be again"))
            }
            EventKind::ApplyStarted => self.line(Paint::Cyan, "apply", &step),
            EventKind::ApplyFinished => self.applied(event, &step, output),
            EventKind::ApplySkipped | EventKind::CheckFailed => {
                let told = format!("{step}: {}", sanitise::first_line(output));
                self.line(Paint::Red, "skipped", &told)
            }
            EventKind::SourceUnreachable | EventKind::AlertFailed | EventKind::EventsLost => {
                self.line(Paint::Red, "trouble", &sanitise::first_line(output))
            }
            _ => Ok(()),
        }
    }

    fn applied(&self, event: &Event, step: &str, output: &str) -> Result<(), Failure> {
        let took = event.duration_ms.map(when::took).unwrap_or_default();
        match event.outcome {
            Some(Outcome::Success) => {
                self.line(Paint::Green, "applied", &format!("{step} in {took}"))
            }
            Some(Outcome::AppliedButDrifted) => {
                let told = format!(
                    "{step}: ran without error, but its check still fails: one of the two is wrong"
                );
                self.line(Paint::Red, "applied?", &told)?;
                self.quote(output)
            }
            _ => {
                self.line(Paint::Red, "failed", &format!("{step} after {took}"))?;
                self.quote(output)
            }
        }
    }

    /// How things stand, once they stand still; and the one thing broken on purpose.
    fn sum_up(&mut self) -> Result<(), Failure> {
        let agents = self.registry.agents();
        let settled = |status| matches!(status, Status::InSync | Status::Drifted | Status::Failed);
        if self.calm || agents.is_empty() || !agents.iter().all(|agent| settled(agent.status)) {
            if !agents.iter().all(|agent| settled(agent.status)) {
                self.calm = false;
            }
            return Ok(());
        }
        self.calm = true;
        let drift = self.registry.drift();
        let not_so = format!("{} not as the manifests say", count(drift.len(), "step"));
        let failed = drift.iter().find(|entry| has_failed(entry.status));
        match (failed, drift.first()) {
            (Some(failed), _) => {
                let told = format!("{not_so}; see `fluke describe agent {}`", failed.agent);
                self.line(Paint::Red, "failed", &told)?;
            }
            (None, Some(first)) => {
                let scope = match &first.task {
                    Some(task) => format!("task {task}"),
                    None => format!("agent {}", first.agent),
                };
                let told = format!(
                    "{not_so}; see `fluke get drift`, and `fluke reconcile {scope}` puts it right"
                );
                self.line(Paint::Yellow, "drifted", &told)?;
            }
            (None, None) => {
                self.line(Paint::Green, "in sync", "this machine is as the manifests say")?
            }
        }
        self.break_something()
    }

    fn break_something(&mut self) -> Result<(), Failure> {
        let Some(path) = self.to_break.take() else { return Ok(()) };
        if std::fs::remove_file(&path).is_ok() {
            let told = format!("removing {} on purpose; watch", path.display());
            self.line(Paint::Bold, "break", &told)?;
        }
        Ok(())
    }

    fn accepted(&self) -> String {
        let desired = self.source.desired.borrow();
        let model = desired.as_ref().map(|desired| &desired.model);
        let tasks = model.map_or(0, |model| model.tasks.len());
        let services = model.map_or(0, |model| model.services.len());
        match (tasks, services) {
            (0, 0) => "no task yet: write one into a file whose name ends in .fluke.hcl".into(),
            (_, 0) => format!("{} in force", count(tasks, "task")),
            (0, _) => format!("{} in force", count(services, "service")),
            _ => format!("{} and {} in force", count(tasks, "task"), count(services, "service")),
        }
    }

    /// Services are read as anywhere, and nothing of them runs; nobody shall wait for it.
    fn services(&self) -> Result<(), Failure> {
        let Some(desired) = self.source.desired.borrow().clone() else { return Ok(()) };
        for service in desired.model.services.values() {
            self.line(Paint::Dim, "service", &would_run(service, &self.labels))?;
        }
        Ok(())
    }

    /// Tasks that do nothing here puzzle people; say why.
    fn unmatched(&self) -> Result<(), Failure> {
        let Some(desired) = self.source.desired.borrow().clone() else { return Ok(()) };
        let Some(agent) = self.registry.agents().into_iter().next() else { return Ok(()) };
        let idle: Vec<_> = desired
            .model
            .tasks
            .values()
            .filter(|task| !task.selector.matches(&agent.labels))
            .map(|task| task.name.to_string())
            .collect();
        if idle.is_empty() {
            return Ok(());
        }
        let told = format!(
            "{} not for this agent ({}); give it their labels with --label key=value",
            idle.join(", "),
            agent.labels
        );
        self.line(Paint::Dim, "idle", &told)
    }

    fn line(&self, paint: Paint, word: &str, rest: &str) -> Result<(), Failure> {
        let word = paint.on(&format!("{word:>9}"), self.style.colours);
        screen::print(&format!("{word}  {}\n", sanitise::line(rest)))
    }

    fn quote(&self, output: &str) -> Result<(), Failure> {
        let quoted: String =
            sanitise::block(output).lines().map(|line| format!("           | {line}\n")).collect();
        screen::print(&quoted)
    }
}

/// What would run of a service, where, and that it does not here.
fn would_run(service: &Service, labels: &Labels) -> String {
    let (name, image) = (&service.name, &service.container.image);
    let what = match service.replicas {
        None => format!("{image}, once on each host that it matches"),
        Some(1) => format!("{image}, on one of the hosts that it matches"),
        Some(many) => format!("{image}, {many} times, spread over the hosts that it matches"),
    };
    let here = match service.selector.matches(labels) {
        true => "1 of 1 host here".to_string(),
        false => format!("none of 1 host here, which has {labels}"),
    };
    format!("{name} would run {what} ({here}); `fluke dev` does not run containers")
}

/// Whether reconciling once more would hardly help.
fn has_failed(status: StepStatus) -> bool {
    matches!(status, StepStatus::Failed | StepStatus::AppliedButDrifted)
}

fn place(event: &Event) -> String {
    let task = event.task.as_ref().map(ToString::to_string).unwrap_or_default();
    match &event.step {
        Some(step) => format!("{task}/{step}"),
        None => task,
    }
}
