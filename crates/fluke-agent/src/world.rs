//! What an agent meets outside of itself: the time of day, chance, its server, its host.
//!
//! One world is real, [`ThisHost`]. Another is made of nothing but memory, and is where thousands
//! of nights go wrong in a minute: see the simulation in `fluke-sim`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use fluke_model::message::Hello;
use fluke_model::snapshot::{Snapshot, StepIndex};
use fluke_model::task::Step;
use fluke_model::time::Timestamp;
use fluke_model::verdict::{Drift, Verdict};
use fluke_wire::client::{ConnectError, Session, Target, connect};
use tokio::task::JoinSet;

use crate::agent::AgentConfig;
use crate::executor::{Executors, LookAgain, Settings, systemd};
use crate::host::environment::Environment;
use crate::host::process::Stop;
use crate::host::{Host, memory, orphans, users};
use crate::state::processing::Applied;

/// Everything outside of an agent.
pub trait World: Send + Sync + 'static {
    /// How steps are looked at and put right here.
    type Steps: Steps;

    /// What people's clocks show; may jump.
    fn now(&self) -> Timestamp;

    /// Any number, each as likely as any other.
    fn random(&self) -> u64;

    /// Opens a session with a server.
    fn connect(
        &self,
        target: &Target,
        hello: Hello,
    ) -> impl Future<Output = Result<Session, ConnectError>> + Send;

    /// Ends what an agent that was killed has left running under `mark`; says how many commands.
    fn end_left_behind(&self, mark: &str) -> impl Future<Output = usize> + Send;

    /// Whether the host goes down, of which an agent that is told to stop is only a part.
    fn goes_down(&self) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }

    /// Lets go of what waiting does not need: nothing has been under way for a while.
    fn rest(&self) {}

    /// Gets ready to run commands, which carry `mark` and end with `stop`.
    fn steps(&self, config: &AgentConfig, mark: &str, stop: Stop) -> Self::Steps;
}

/// How steps are looked at and put right.
pub trait Steps: Send + Sync + 'static {
    /// Tells whether a step holds.
    fn check(&self, step: &Step) -> impl Future<Output = Verdict> + Send;

    /// Makes a step hold that has drifted.
    fn apply(&self, step: &Step, drift: &Drift) -> impl Future<Output = Applied> + Send;

    /// Tells when a step is worth another look, where that can be told.
    fn watch(&self, step: &Step) -> Option<LookAgain>;

    /// Puts steps together that are best checked as one; by default none are.
    fn groups(&self, _snapshot: &Snapshot, steps: &[StepIndex]) -> Vec<Vec<StepIndex>> {
        steps.iter().map(|step| vec![*step]).collect()
    }

    /// Tells of the steps of one group.
    fn check_group(
        &self,
        snapshot: &Snapshot,
        group: &[StepIndex],
    ) -> impl Future<Output = Vec<(StepIndex, Verdict)>> + Send {
        async move {
            let mut found = Vec::with_capacity(group.len());
            for index in group {
                found.push((*index, self.check_at(snapshot, *index).await));
            }
            found
        }
    }

    /// Tells of many steps of a snapshot, `at_once` groups at a time, each on a task of its own: one
    /// that has something to do wakes no other.
    ///
    /// Dropping the future ends every check that is under way.
    fn check_all(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        steps: &[StepIndex],
        at_once: usize,
    ) -> impl Future<Output = Vec<(StepIndex, Verdict)>> + Send
    where
        Self: Sized,
    {
        async move {
            let mut running: JoinSet<Vec<(StepIndex, Verdict)>> = JoinSet::new();
            let mut found = BTreeMap::new();
            for group in self.groups(snapshot, steps) {
                if running.len() >= at_once.max(1)
                    && let Some(Ok(checked)) = running.join_next().await
                {
                    found.extend(checked);
                }
                let (this, snapshot) = (self.clone(), snapshot.clone());
                running.spawn(async move { this.check_group(&snapshot, &group).await });
            }
            while let Some(checked) = running.join_next().await {
                found.extend(checked.into_iter().flatten());
            }
            let bug = || Verdict::Error {
                reason: "a bug in fluke made this check fail; please report it".to_owned(),
            };
            steps.iter().map(|step| (*step, found.remove(step).unwrap_or_else(bug))).collect()
        }
    }

    /// Tells whether a step of a snapshot holds.
    fn check_at(
        &self,
        snapshot: &Snapshot,
        index: StepIndex,
    ) -> impl Future<Output = Verdict> + Send {
        async move {
            match snapshot.step(index) {
                Some((_, step)) => self.check(step).await,
                None => Verdict::Error { reason: "there is no such step".to_owned() },
            }
        }
    }
}

/// The real world.
#[derive(Debug, Clone, Copy)]
pub struct ThisHost;

impl World for ThisHost {
    type Steps = Executors;

    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }

    fn random(&self) -> u64 {
        // Where there is no chance, pauses are as long as can be: late, but not all at once.
        getrandom::u64().unwrap_or(u64::MAX)
    }

    async fn connect(&self, target: &Target, hello: Hello) -> Result<Session, ConnectError> {
        connect(target, hello).await
    }

    async fn end_left_behind(&self, mark: &str) -> usize {
        orphans::end(mark).await
    }

    async fn goes_down(&self) -> bool {
        systemd::goes_down().await
    }

    fn rest(&self) {
        memory::give_back();
    }

    fn steps(&self, config: &AgentConfig, mark: &str, stop: Stop) -> Executors {
        let host = Host {
            environment: Environment::of_this_process(config.target.token.expose())
                .with(orphans::MARK, mark),
            home: users::own_home(),
            stop,
        };
        let settings = Settings {
            version: config.version.clone(),
            default_shell: config.default_shell.clone(),
            command_timeout: config.command_timeout,
            allow: config.allow.clone(),
        };
        Executors::new(settings, host)
    }
}
