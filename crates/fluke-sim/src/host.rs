//! A host made of facts: what drifts, what commands do to it, and the agent's world on it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluke_agent::AgentConfig;
use fluke_agent::executor::LookAgain;
use fluke_agent::host::process::Stop;
use fluke_agent::state::processing::Applied;
use fluke_agent::world::{Steps, World};
use fluke_model::message::Hello;
use fluke_model::task::Step;
use fluke_model::time::Timestamp;
use fluke_model::verdict::{Drift, Output, Verdict};
use fluke_wire::client::{ConnectError, Session, Target, connect_over};
use futures_util::StreamExt;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::dice::Dice;
use crate::net::Net;
use crate::repo::wanted;
use crate::trace::{Ended, Found, HostId, Trace, What};

/// For every command.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// As the real connect has it.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// When simulated clocks begin, in milliseconds: somewhere in 2026.
const EPOCH: u64 = 1_790_000_000_000;
/// How many changes of facts a watcher may lie behind.
const WATCHED: usize = 64;

/// What a step's commands do here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// What they should.
    #[default]
    Works,
    /// The apply ends with an error.
    ApplyFails,
    /// The apply says that it worked, and did nothing.
    ApplyLies,
    /// The apply does not end.
    ApplyHangs,
    /// The apply works, and what it did does not last.
    ApplyFlaps,
    /// The apply takes its agent down with it.
    ApplyKillsAgent,
    /// The check cannot tell.
    CheckFails,
    /// The check does not end.
    CheckHangs,
    /// The check takes a while.
    CheckCrawls,
}

/// A host, and who lives on it. Clones share it.
#[derive(Debug, Clone)]
pub struct Host {
    /// Which one.
    pub id: HostId,
    inner: Arc<Mutex<Inner>>,
    changed: broadcast::Sender<String>,
    dice: Dice,
    drifts: Dice,
    net: Net,
    trace: Trace,
    began: Instant,
    /// Where hosts say that something killed their agent.
    killed: mpsc::Sender<HostId>,
}

#[derive(Debug, Default)]
struct Inner {
    facts: BTreeMap<String, String>,
    modes: BTreeMap<String, Mode>,
    running: Vec<Running>,
    /// Which of its agents' lives it is; none while no agent lives.
    life: Option<u64>,
    lives: u64,
    drifts: u64,
    clock_ahead: i64,
}

/// A command that changes the host.
#[derive(Debug)]
struct Running {
    key: String,
    drift: u64,
    mark: String,
    command: AbortHandle,
}

/// What a host needs to be one.
pub struct Surroundings {
    /// All chance.
    pub dice: Dice,
    /// The way to the server.
    pub net: Net,
    /// Where everything is written down.
    pub trace: Trace,
    /// Where hosts say that something killed their agent.
    pub killed: mpsc::Sender<HostId>,
}

impl Host {
    /// A bare one.
    pub fn new(id: HostId, seed: u64, around: Surroundings) -> Self {
        let Surroundings { dice, net, trace, killed } = around;
        let (changed, _) = broadcast::channel(WATCHED);
        let inner = Arc::default();
        let drifts = Dice::new(seed, 77 + id as u64);
        Self { id, inner, changed, dice, drifts, net, trace, began: Instant::now(), killed }
    }

    /// An agent begins its life; what it meets is returned.
    pub fn begin_life(&self) -> SimWorld {
        let mut inner = self.lock();
        inner.lives += 1;
        inner.life = Some(inner.lives);
        self.trace.note(What::AgentBegan(self.id));
        SimWorld { host: self.clone(), life: inner.lives }
    }

    /// The agent is gone. Commands it ran go on, unless the machine goes down with it.
    pub fn end_life(&self, machine_too: bool) {
        let mut inner = self.lock();
        inner.life = None;
        let gone = if machine_too { std::mem::take(&mut inner.running) } else { Vec::new() };
        drop(inner);
        gone.into_iter().for_each(|running| self.bury(running));
        self.trace.note(What::AgentGone(self.id));
    }

    /// Somebody changes something behind everybody's back.
    pub fn drift(&self, key: &str) {
        let value = format!("drifted-{}", self.drifts.below(1000));
        self.set(key, value);
    }

    /// From now on a step's commands do this.
    pub fn set_mode(&self, key: &str, mode: Mode) {
        self.lock().modes.insert(key.to_owned(), mode);
    }

    /// Every command works again.
    pub fn mend(&self) {
        self.lock().modes.clear();
    }

    /// The clock on the wall jumps.
    pub fn jump(&self, millis: i64) {
        self.lock().clock_ahead += millis;
    }

    /// What a fact is now.
    pub fn fact(&self, key: &str) -> Option<String> {
        self.lock().facts.get(key).cloned()
    }

    fn set(&self, key: &str, value: String) {
        self.lock().facts.insert(key.to_owned(), value);
        // Nobody watching is no error.
        let _ = self.changed.send(key.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mode(&self, key: &str) -> Mode {
        self.lock().modes.get(key).copied().unwrap_or_default()
    }

    /// Whether the agent's process is still there.
    fn is_alive(&self, life: u64) -> bool {
        self.lock().life == Some(life)
    }

    /// Kills commands with this mark, and one drift's only if it is given.
    fn kill(&self, mark: &str, drift: Option<u64>) -> usize {
        let mut inner = self.lock();
        let goes = |running: &Running| {
            running.mark == mark && drift.is_none_or(|drift| running.drift == drift)
        };
        let (gone, kept) = std::mem::take(&mut inner.running).into_iter().partition(goes);
        inner.running = kept;
        drop(inner);
        let gone: Vec<Running> = gone;
        let count = gone.len();
        gone.into_iter().for_each(|running| self.bury(running));
        count
    }

    fn bury(&self, Running { key, drift, command, .. }: Running) {
        command.abort();
        self.trace.note(What::ApplyEnded { host: self.id, key, drift, how: Ended::Killed });
    }

    /// A command has come to its end by itself.
    fn ended(&self, key: &str, drift: u64, how: Ended) {
        let mut inner = self.lock();
        let before = inner.running.len();
        inner.running.retain(|running| running.drift != drift);
        if inner.running.len() < before {
            drop(inner);
            let key = key.to_owned();
            self.trace.note(What::ApplyEnded { host: self.id, key, drift, how });
        }
    }

    /// Starts the command that is to make `key` be `value`; it goes on whoever waits for it.
    fn start(&self, key: &str, value: &str, drift: u64, mark: &str) -> oneshot::Receiver<Ended> {
        let (tell, told) = oneshot::channel();
        let (host, key, value) = (self.clone(), key.to_owned(), value.to_owned());
        let began =
            What::ApplyBegan { host: self.id, key: key.clone(), value: value.clone(), drift };
        self.trace.note(began);
        let running_key = key.clone();
        let command = tokio::spawn(async move {
            let how = host.act(&key, value).await;
            host.ended(&key, drift, how);
            // Whoever waited may be dead.
            let _ = tell.send(how);
        });
        let (mark, command) = (mark.to_owned(), command.abort_handle());
        self.lock().running.push(Running { key: running_key, drift, mark, command });
        told
    }

    async fn act(&self, key: &str, value: String) -> Ended {
        let mode = self.mode(key);
        if mode == Mode::ApplyKillsAgent {
            sleep(self.dice.millis(1, 500)).await;
            let _ = self.killed.send(self.id).await;
        }
        sleep(self.dice.millis(20, 2_000)).await;
        match mode {
            Mode::ApplyHangs => std::future::pending().await,
            Mode::ApplyFails => Ended::Failed,
            Mode::ApplyLies => Ended::Done,
            Mode::ApplyFlaps => {
                self.set(key, value);
                let (host, key) = (self.clone(), key.to_owned());
                tokio::spawn(async move {
                    sleep(host.dice.millis(100, 20_000)).await;
                    if host.mode(&key) == Mode::ApplyFlaps {
                        host.drift(&key);
                    }
                });
                Ended::Done
            }
            _ => {
                self.set(key, value);
                Ended::Done
            }
        }
    }
}

/// What one life of an agent meets.
pub struct SimWorld {
    host: Host,
    life: u64,
}

impl World for SimWorld {
    type Steps = SimSteps;

    fn now(&self) -> Timestamp {
        let passed = self.host.began.elapsed().as_millis() as u64;
        Timestamp((EPOCH + passed).saturating_add_signed(self.host.lock().clock_ahead))
    }

    fn random(&self) -> u64 {
        self.host.dice.throw()
    }

    async fn connect(&self, target: &Target, hello: Hello) -> Result<Session, ConnectError> {
        let address = "server:7070".to_owned();
        if !self.host.is_alive(self.life) {
            return std::future::pending().await;
        }
        let session = async {
            let io =
                self.host.net.connect(self.host.id).await.map_err(|source| {
                    ConnectError::Unreachable { address: address.clone(), source }
                })?;
            connect_over(io, target, hello).await
        };
        timeout(CONNECT_WITHIN, session).await.unwrap_or_else(|_| {
            let source = io::ErrorKind::TimedOut.into();
            Err(ConnectError::Unreachable { address: address.clone(), source })
        })
    }

    async fn end_left_behind(&self, mark: &str) -> usize {
        let count = self.host.kill(mark, None);
        sleep(self.host.dice.millis(0, 100)).await;
        count
    }

    fn steps(&self, _: &AgentConfig, mark: &str, stop: Stop) -> SimSteps {
        SimSteps { host: self.host.clone(), life: self.life, mark: mark.to_owned(), stop }
    }
}

/// Commands of one life of an agent.
pub struct SimSteps {
    host: Host,
    life: u64,
    mark: String,
    stop: Stop,
}

impl SimSteps {
    async fn look(&self, key: &str, value: &str) -> Option<Verdict> {
        let host = &self.host;
        let mode = host.mode(key);
        sleep(match mode {
            Mode::CheckCrawls => host.dice.millis(1_000, 20_000),
            _ => host.dice.millis(1, 50),
        })
        .await;
        match mode {
            Mode::CheckHangs => return std::future::pending().await,
            Mode::CheckFails => return None,
            _ => {}
        }
        let fact = host.fact(key);
        if fact.as_deref() == Some(value) {
            return Some(Verdict::Satisfied);
        }
        let mut inner = host.lock();
        inner.drifts += 1;
        let number = inner.drifts;
        Some(Verdict::Drifted(Drift::because(format!("#{number}: it is {fact:?}"))))
    }
}

/// The number in the reason of a drift.
pub fn drift_number(reason: &str) -> Option<u64> {
    reason.strip_prefix('#')?.split_once(':')?.0.parse().ok()
}

impl Steps for SimSteps {
    async fn check(&self, step: &Step) -> Verdict {
        let error = |reason: &str| Verdict::Error { reason: reason.to_owned() };
        let Some((key, value)) = wanted(&step.spec) else { return error("no such command") };
        if !self.host.is_alive(self.life) {
            return std::future::pending().await;
        }
        let mut stop = self.stop.clone();
        let verdict = tokio::select! {
            biased;
            () = stop.stopped() => error("interrupted: the agent stops"),
            looked = timeout(COMMAND_TIMEOUT, self.look(key, value)) => match looked {
                Ok(Some(verdict)) => verdict,
                Ok(None) => error("it cannot be told"),
                Err(_) => error("the check took too long"),
            },
        };
        let found = match &verdict {
            Verdict::Satisfied => Found::Satisfied,
            Verdict::Drifted(drift) => Found::Drifted(drift_number(&drift.reason).unwrap_or(0)),
            Verdict::Error { .. } => Found::Error,
        };
        let host = self.host.id;
        self.host.trace.note(What::Checked { host, key: key.to_owned(), found });
        verdict
    }

    async fn apply(&self, step: &Step, drift: &Drift) -> Applied {
        let failed = |reason: &str| Applied::Failed(Output::from_text(reason));
        let Some((key, value)) = wanted(&step.spec) else { return failed("no such command") };
        if !self.host.is_alive(self.life) {
            return std::future::pending().await;
        }
        let number = drift_number(&drift.reason).unwrap_or(0);
        let told = self.host.start(key, value, number, &self.mark);
        let _leash = Leash { steps: self, drift: number };
        let mut stop = self.stop.clone();
        let ended = tokio::select! {
            biased;
            () = stop.stopped() => return Applied::Interrupted(Output::default()),
            ended = timeout(COMMAND_TIMEOUT, told) => ended,
        };
        match ended {
            Ok(Ok(Ended::Done)) => Applied::Done(Output::from_text(format!("for #{number}"))),
            Ok(_) => failed(&format!("for #{number}: it failed")),
            Err(_) => failed(&format!("for #{number}: it took too long and was killed")),
        }
    }

    fn watch(&self, step: &Step) -> Option<LookAgain> {
        let (key, _) = wanted(&step.spec)?;
        // The first step of a task is of a kind that can be watched.
        let key = key.ends_with("/s0").then(|| key.to_owned())?;
        let changes = self.host.changed.subscribe();
        let changes = futures_util::stream::unfold(changes, move |mut changes| {
            let key = key.clone();
            async move {
                loop {
                    match changes.recv().await {
                        Ok(changed) if changed != key => {}
                        Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {
                            return Some(((), changes));
                        }
                        Err(broadcast::error::RecvError::Closed) => return None,
                    }
                }
            }
        });
        Some(changes.boxed())
    }
}

/// A command ends with whoever waits for it, unless it was a whole process that died.
struct Leash<'a> {
    steps: &'a SimSteps,
    drift: u64,
}

impl Drop for Leash<'_> {
    fn drop(&mut self) {
        let SimSteps { host, life, mark, .. } = self.steps;
        if host.is_alive(*life) {
            host.kill(mark, Some(self.drift));
        }
    }
}
