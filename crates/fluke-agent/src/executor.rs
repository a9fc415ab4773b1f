//! The kinds of steps that this agent can check and apply, and the one list of them.
//!
//! Failure is data here: whatever goes wrong is a [`Verdict::Error`] or an [`Applied::Failed`] with
//! a text for an operator.

use std::time::Duration;

use fluke_model::service::ServiceExecutor;
use fluke_model::snapshot::{Snapshot, StepIndex};
use fluke_model::task::{ExecutorSpec, Step};
use fluke_model::verdict::{Drift, Output, Verdict};
use futures_util::stream::BoxStream;

use crate::host::{Host, users};
use crate::state::processing::Applied;
use crate::world::Steps;

mod mise;
mod shell;
pub(crate) mod systemd;

use mise::Mise;
use shell::Shell;
use systemd::Systemd;

/// One kind of manifest block, and how this host satisfies it.
///
/// `check` only looks; `apply` only acts, and only on the [`Drift`] that a check returned, so an
/// apply without a reason cannot be spelled. Each keeps to `within`, stops when the agent stops,
/// and leaves nothing running when it is dropped.
pub trait Executor: Send + Sync {
    /// The block's body, already validated.
    type Spec: Send + Sync;

    /// Tells whether `spec` holds. Read-only and quick: it runs every cycle.
    fn check(&self, spec: &Self::Spec, within: Duration) -> impl Future<Output = Verdict> + Send;

    /// Makes `spec` hold. Safe to repeat.
    fn apply(
        &self,
        spec: &Self::Spec,
        drift: &Drift,
        within: Duration,
    ) -> impl Future<Output = Applied> + Send;

    /// Tells when `spec` is worth another look, where the system can.
    fn watch(&self, _spec: &Self::Spec) -> Option<LookAgain> {
        None
    }
}

/// "Look again", whenever something changed.
pub type LookAgain = BoxStream<'static, ()>;

/// What the host's own config permits, whatever a server says. `None` permits all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    /// Kinds of steps.
    pub executors: Option<Vec<String>>,
    /// Users that steps may run as, the agent's own among them.
    pub run_as: Option<Vec<String>>,
    /// Where that stands, for people: `agent.hcl:12`.
    pub stated: Option<String>,
}

/// What steps are done by.
const KINDS: [&str; 3] = ["mise", "shell", "systemd"];

impl Allow {
    /// What `executors` may name: kinds of steps, and what services are done by.
    pub fn known() -> impl Iterator<Item = &'static str> {
        KINDS.into_iter().chain(ServiceExecutor::ALL.map(ServiceExecutor::as_str))
    }

    /// Why nothing of this kind is done here; none where it may be.
    pub fn refuses(&self, kind: &str) -> Option<String> {
        let allowed = self.executors.as_ref()?;
        let is_refused = !allowed.iter().any(|one| one == kind);
        is_refused.then(|| self.told(&format!("`{kind}` is not among `allow.executors`")))
    }

    fn told(&self, why: &str) -> String {
        let place = self.stated.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
        format!("refused by this host's own config: {why}{place}")
    }
}

/// What steps have in common on this host.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of the program.
    pub version: String,
    /// What shell steps run under.
    pub default_shell: String,
    /// For commands of steps that name no timeout.
    pub command_timeout: Duration,
    /// The ceiling.
    pub allow: Allow,
}

/// Every executor there is.
#[derive(Debug)]
pub struct Executors {
    settings: Settings,
    own_user: String,
    shell: Shell,
    mise: Mise,
    systemd: Systemd,
}

impl Executors {
    /// All of them, on this host.
    pub fn new(settings: Settings, host: Host) -> Self {
        let own_user = users::own_name();
        let shell = Shell::new(settings.default_shell.clone(), own_user.clone(), host.clone());
        let systemd = Systemd::new(host.clone());
        Self { settings, own_user, shell, mise: Mise::new(host), systemd }
    }

    /// The kinds of steps that are there and may run, as the server is told.
    pub fn offered(allow: &Allow) -> impl Iterator<Item = String> {
        KINDS.into_iter().filter(|kind| allow.refuses(kind).is_none()).map(str::to_owned)
    }
}

impl Steps for Executors {
    async fn check(&self, step: &Step) -> Verdict {
        if let Some(reason) = self.refusal(step) {
            return Verdict::Error { reason };
        }
        let within = self.time_for(step);
        match &step.spec {
            ExecutorSpec::Mise(spec) => self.mise.check(spec, within).await,
            ExecutorSpec::Shell(spec) => self.shell.check(spec, within).await,
            ExecutorSpec::Systemd(spec) => self.systemd.check(spec, within).await,
            ExecutorSpec::Unknown => Verdict::Error { reason: self.absence(step) },
        }
    }

    fn groups(&self, snapshot: &Snapshot, steps: &[StepIndex]) -> Vec<Vec<StepIndex>> {
        let (units, others): (Vec<_>, Vec<_>) =
            steps.iter().copied().partition(|index| is_unit(snapshot, *index));
        // One question to systemd is for all units. It is put first: nothing waits long for it.
        let units = Some(units).filter(|units| !units.is_empty());
        units.into_iter().chain(others.into_iter().map(|index| vec![index])).collect()
    }

    async fn check_group(
        &self,
        snapshot: &Snapshot,
        group: &[StepIndex],
    ) -> Vec<(StepIndex, Verdict)> {
        match group {
            [index] => vec![(*index, self.check_at(snapshot, *index).await)],
            units => self.check_units(snapshot, units).await,
        }
    }

    async fn apply(&self, step: &Step, drift: &Drift) -> Applied {
        if let Some(reason) = self.refusal(step) {
            return Applied::Failed(Output::from_text(reason));
        }
        let within = self.time_for(step);
        let applied = match &step.spec {
            ExecutorSpec::Mise(spec) => self.mise.apply(spec, drift, within).await,
            ExecutorSpec::Shell(spec) => self.shell.apply(spec, drift, within).await,
            ExecutorSpec::Systemd(spec) => self.systemd.apply(spec, drift, within).await,
            ExecutorSpec::Unknown => Applied::Failed(Output::from_text(self.absence(step))),
        };
        self.shell.users.forget();
        applied
    }

    fn watch(&self, step: &Step) -> Option<LookAgain> {
        if self.refusal(step).is_some() {
            return None;
        }
        match &step.spec {
            ExecutorSpec::Mise(spec) => self.mise.watch(spec),
            ExecutorSpec::Shell(spec) => self.shell.watch(spec),
            ExecutorSpec::Systemd(spec) => self.systemd.watch(spec),
            ExecutorSpec::Unknown => None,
        }
    }
}

impl Executors {
    /// Tells of steps that are units, all at once.
    async fn check_units(
        &self,
        snapshot: &Snapshot,
        steps: &[StepIndex],
    ) -> Vec<(StepIndex, Verdict)> {
        let mut found = Vec::with_capacity(steps.len());
        let mut specs = Vec::with_capacity(steps.len());
        let mut asked = Vec::with_capacity(steps.len());
        let mut within = Duration::ZERO;
        for index in steps {
            let Some((_, step)) = snapshot.step(*index) else { continue };
            let ExecutorSpec::Systemd(spec) = &step.spec else { continue };
            match self.refusal(step) {
                Some(reason) => found.push((*index, Verdict::Error { reason })),
                None => {
                    asked.push(*index);
                    specs.push(spec);
                    within = within.max(self.time_for(step));
                }
            }
        }
        found.extend(asked.into_iter().zip(self.systemd.check_all(&specs, within).await));
        found
    }

    fn time_for(&self, step: &Step) -> Duration {
        step.timeout.unwrap_or(self.settings.command_timeout)
    }

    fn absence(&self, step: &Step) -> String {
        format!(
            "this agent (version {}) has no `{}` executor; give this host a version that has it, or do not \
             select it for this task",
            self.settings.version,
            step.address.kind()
        )
    }

    /// Why the host's own config forbids a step.
    fn refusal(&self, step: &Step) -> Option<String> {
        let allow = &self.settings.allow;
        if let Some(refused) = allow.refuses(step.address.kind()) {
            return Some(refused);
        }
        let user = match &step.spec {
            ExecutorSpec::Shell(spec) => spec.run_as.as_ref().unwrap_or(&self.own_user),
            ExecutorSpec::Mise(_) => &self.own_user,
            ExecutorSpec::Systemd(_) | ExecutorSpec::Unknown => return None,
        };
        match &allow.run_as {
            Some(allowed) if !allowed.contains(user) => {
                let why = "who is not among `allow.run_as`";
                Some(allow.told(&format!("the step would run as `{user}`, {why}")))
            }
            _ => None,
        }
    }
}

fn is_unit(snapshot: &Snapshot, index: StepIndex) -> bool {
    let step = snapshot.step(index);
    step.is_some_and(|(_, step)| matches!(step.spec, ExecutorSpec::Systemd(_)))
}

#[cfg(test)]
mod tests;
