//! Plays a schedule: starts everything, makes things go wrong, and waits for peace.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use fluke_agent::{AgentConfig, AgentStatus, Allow, Ending, run_in};
use fluke_model::api::{AgentDetail, AgentTask, ReconcileScope};
use fluke_model::id::AgentName;
use fluke_model::label::Labels;
use fluke_model::message::NodeType;
use fluke_model::policy::Policy;
use fluke_model::snapshot::{Compiler, Snapshot};
use fluke_model::status::Status;
use fluke_wire::Secret;
use fluke_wire::client::Target;
use futures_util::stream;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::dice::Dice;
use crate::host::{COMMAND_TIMEOUT, Host, Surroundings};
use crate::net::{End, Net};
use crate::repo::{Repo, wanted};
use crate::schedule::{Action, Schedule, Scope};
use crate::server::{Ground, POLL, Server, TOKEN};
use crate::trace::{HostId, Record, ServerLife, Standing, Trace, What};

/// How soon a supervisor starts an agent that died by itself.
const SUPERVISED: Duration = Duration::from_secs(1);
/// How often to look again at tasks that are left alone for a while after they failed.
const PATIENCE: usize = 3;
/// How long the slowest apply and all that goes with it may take once it is due.
const SETTLING: Duration = Duration::from_secs(30);

/// Plays a schedule in a time of its own, from beginning to end.
pub fn play(schedule: &Schedule) -> Record {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread needs nothing");
    runtime.block_on(async { Director::new(schedule).play(schedule).await })
}

struct Director {
    ground: Ground,
    hosts: Vec<Host>,
    agents: Vec<Option<Agent>>,
    server: Option<Server>,
    lives: ServerLife,
    agenda: BTreeMap<(Instant, usize), Action>,
    killed: mpsc::Receiver<HostId>,
    state: TempDir,
}

struct Agent {
    process: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Director {
    fn new(schedule: &Schedule) -> Self {
        let Schedule { seed, hosts, .. } = *schedule;
        let trace = Trace::begin();
        let net = Net::new(hosts, seed);
        let repo = Repo::new(&Dice::new(seed, 3));
        let (tell, killed) = mpsc::channel(64);
        let host = |id| {
            let around =
                Surroundings { net: net.clone(), trace: trace.clone(), killed: tell.clone() };
            Host::new(id, seed, around)
        };
        let began = Instant::now();
        let clock_ahead = Arc::new(AtomicI64::new(0));
        let actions = schedule.actions.iter().enumerate();
        Self {
            hosts: (0..hosts).map(host).collect(),
            agents: (0..hosts).map(|_| None).collect(),
            server: None,
            lives: 0,
            agenda: actions.map(|(n, (at, action))| ((began + *at, n), *action)).collect(),
            killed,
            state: in_memory().expect("room for a few small files"),
            ground: Ground { repo, net, trace, clock_ahead, began },
        }
    }

    async fn play(mut self, schedule: &Schedule) -> Record {
        self.start_server().await;
        for host in 0..schedule.hosts {
            self.start_agent(host);
        }
        let quiet = self.ground.began + schedule.quiet;
        while let Some(next) = self.next_before(quiet).await {
            match next {
                Next::Play(action) => self.act(action).await,
                Next::Killed(host) => {
                    self.kill_agent(host, false).await;
                    let back = Instant::now() + SUPERVISED;
                    let number = usize::MAX - self.agenda.len();
                    self.agenda.insert((back, number), Action::StartAgent(host));
                }
            }
        }
        self.heal().await;
        self.settle().await;
        self.conclude()
    }

    async fn next_before(&mut self, quiet: Instant) -> Option<Next> {
        let first = self.agenda.first_key_value().map(|(key, _)| *key);
        let at = first.map_or(quiet, |(at, _)| at.min(quiet));
        tokio::select! {
            biased;
            Some(host) = self.killed.recv() => Some(Next::Killed(host)),
            () = sleep_until(at) => match first {
                Some((due, _)) if due <= quiet => {
                    self.agenda.pop_first().map(|(_, action)| Next::Play(action))
                }
                _ => None,
            },
        }
    }

    async fn act(&mut self, action: Action) {
        let Ground { net, repo, trace, clock_ahead, .. } = &self.ground;
        trace.note(What::Played(format!("{action:?}")));
        match action {
            Action::Commit(change, told) => {
                repo.change(change);
                self.server.iter().filter(|_| told).for_each(Server::poke);
            }
            Action::GitDown => repo.set_reachable(false),
            Action::GitUp => repo.set_reachable(true),
            Action::KillAgent(host) => self.kill_agent(host, false).await,
            Action::CrashHost(host) => self.kill_agent(host, true).await,
            Action::StopAgent(host) => self.stop_agent(host),
            Action::StartAgent(host) => self.start_agent(host),
            Action::LoseJournal(host) => self.lose_journal(host).await,
            Action::TearJournal(host) => self.tear_journal(host).await,
            Action::KillServer => self.server.take().into_iter().for_each(|it| it.kill(false)),
            Action::CrashServer => self.server.take().into_iter().for_each(|it| it.kill(true)),
            Action::StopServer => {
                if let Some(server) = self.server.take() {
                    server.stop().await;
                }
            }
            Action::StartServer => self.start_server().await,
            Action::Partition(host, way) => net.partition(host, way),
            Action::Slow(host, millis) => net.slow_down(host, Duration::from_millis(millis)),
            Action::HealLink(host) => net.heal(host),
            Action::Reset(host) => net.reset(host),
            Action::Drift(host, task, step) => self.hosts[host].drift(&repo.step(task, step)),
            Action::Misbehave(host, task, step, mode) => {
                self.hosts[host].set_mode(&repo.step(task, step), mode);
            }
            Action::Behave(host) => self.hosts[host].mend(),
            Action::Reconcile(scope) => self.reconcile(scope),
            Action::JumpHost(host, seconds) => self.hosts[host].jump(seconds * 1000),
            Action::JumpServer(seconds) => {
                clock_ahead.fetch_add(seconds * 1000, Ordering::Relaxed);
            }
        }
    }

    async fn start_server(&mut self) {
        if self.server.is_none() {
            self.lives += 1;
            self.server = Some(Server::start(self.lives, &self.ground).await);
        }
    }

    fn start_agent(&mut self, id: HostId) {
        match &self.agents[id] {
            Some(agent) if agent.process.is_finished() => {}
            Some(Agent { stop: None, .. }) => {
                // It is still about to stop; a supervisor waits for that.
                let number = usize::MAX - self.agenda.len();
                self.agenda.insert((Instant::now() + SUPERVISED, number), Action::StartAgent(id));
                return;
            }
            Some(_) => return,
            None => {}
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let host = self.hosts[id].clone();
        let config = config(id, self.state_dir(id));
        let process = tokio::spawn(async move {
            let endings = stream::once(async {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
                Ending::Stop
            });
            let world = host.begin_life();
            run_in(world, config, endings, |_: AgentStatus| {}).await.expect("a directory");
            host.end_life(false);
        });
        self.agents[id] = Some(Agent { process, stop: Some(stop) });
    }

    fn stop_agent(&mut self, host: HostId) {
        if let Some(stop) = self.agents[host].as_mut().and_then(|agent| agent.stop.take()) {
            // One that is gone already needs no telling.
            let _ = stop.send(());
        }
    }

    async fn kill_agent(&mut self, host: HostId, machine_too: bool) {
        let Some(agent) = self.agents[host].take() else { return };
        if agent.process.is_finished() {
            return;
        }
        self.hosts[host].end_life(machine_too);
        match machine_too {
            true => self.ground.net.machine_gone(End::Agent, Some(host)),
            false => self.ground.net.process_gone(End::Agent, Some(host)),
        }
        agent.process.abort();
        let _ = agent.process.await;
    }

    async fn lose_journal(&mut self, host: HostId) {
        self.kill_agent(host, false).await;
        let path = self.state_dir(host).join("journal");
        if std::fs::write(path, b"\0\0\0\0").is_ok() {
            self.ground.trace.note(What::JournalLost(host));
        }
    }

    async fn tear_journal(&mut self, host: HostId) {
        self.kill_agent(host, false).await;
        let path = self.state_dir(host).join("journal");
        if let Ok(mut content) = std::fs::read(&path) {
            content.extend_from_slice(b"{\"id\":4");
            let _ = std::fs::write(&path, content);
        }
    }

    fn reconcile(&self, scope: Scope) {
        let Some(server) = &self.server else { return };
        match scope {
            Scope::All => server.reconcile(ReconcileScope::All, None),
            Scope::Host(host) => server.reconcile(ReconcileScope::Agent, Some(name(host))),
            Scope::Task(task) => server.reconcile(ReconcileScope::Task, Some(format!("t{task}"))),
        }
    }

    /// Nothing is wrong with the world any more.
    async fn heal(&mut self) {
        self.agenda.clear();
        self.ground.trace.note(What::Healed);
        self.ground.repo.set_reachable(true);
        self.ground.repo.mend();
        self.start_server().await;
        self.server.iter().for_each(Server::poke);
        for host in 0..self.hosts.len() {
            self.hosts[host].mend();
            self.ground.net.heal(host);
            self.start_agent(host);
        }
    }

    /// Two intervals; then, for tasks that failed so often that they are left alone for a while,
    /// until that is over.
    async fn settle(&mut self) {
        self.pass(2 * POLL).await;
        for _ in 0..PATIENCE {
            let Some(pause) = self.longest_pause() else { return };
            self.pass(pause + SETTLING).await;
        }
    }

    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Some((at, _)) = self.agenda.first_key_value().map(|(key, _)| *key)
            && at <= until
        {
            // Only agents that took their time to stop are still to be started.
            sleep_until(at).await;
            if let Some((_, action)) = self.agenda.pop_first() {
                self.act(action).await;
            }
        }
        sleep(until.saturating_duration_since(Instant::now())).await;
    }

    /// How long the server means to leave some task alone that is not as it should be.
    fn longest_pause(&self) -> Option<Duration> {
        let server = self.server.as_ref()?;
        let details = (0..self.hosts.len()).filter_map(|host| server.registry.agent(&name(host)));
        let retries = details.flat_map(|detail| detail.task_details);
        // One that is applied has had its pause.
        let is_applied = |task: &AgentTask| task.status == Status::Applying;
        let due = |task: AgentTask| task.retry_at.or(is_applied(&task).then(|| server.wall()));
        let latest = retries.filter_map(due).max()?;
        Some(latest.since(server.wall()))
    }

    fn conclude(mut self) -> Record {
        let mut standing = Standing {
            agents: self.hosts.len(),
            connections: self.ground.net.open_connections(),
            ..Standing::default()
        };
        if let Some(server) = self.server.take() {
            standing.unfinished = server.unfinished();
            self.compare(&server, &mut standing);
        }
        self.ground.trace.note(What::Final(Box::new(standing)));
        Record {
            entries: self.ground.trace.entries(),
            commits: self.ground.repo.said(),
            names: (0..self.hosts.len()).map(name).collect(),
        }
    }

    /// Holds every host, and what the server believes of it, against what Git says.
    fn compare(&self, server: &Server, standing: &mut Standing) {
        let Some((head, model)) =
            self.ground.repo.head().and_then(|it| Some((it.id.clone(), it.load()?)))
        else {
            standing.wrong.push("there is no good commit".to_owned());
            return;
        };
        let compiler = Compiler::new(&model, Policy::Remediate);
        for host in &self.hosts {
            let snapshot = compiler.snapshot(&labels(host.id));
            compare_facts(host, &snapshot, standing);
            let Some(detail) = server.registry.agent(&name(host.id)) else {
                standing.wrong.push(format!("host {}: the server does not know it", host.id));
                continue;
            };
            compare_view(host.id, &detail, &head, &snapshot, standing);
        }
    }

    fn state_dir(&self, host: HostId) -> PathBuf {
        self.state.path().join(name(host))
    }
}

enum Next {
    Play(Action),
    Killed(HostId),
}

fn compare_facts(host: &Host, snapshot: &Snapshot, standing: &mut Standing) {
    for (_, task, step) in snapshot.steps() {
        let Some((key, value)) = wanted(&step.spec) else { continue };
        let fact = host.fact(key);
        match fact.as_deref() {
            Some(fact) if fact == value => {}
            _ if task.policy == Policy::AlertOnly => {
                let pending = (host.id, task.name.to_string());
                if !standing.pending.contains(&pending) {
                    standing.pending.push(pending);
                }
            }
            fact => {
                let id = host.id;
                standing.wrong.push(format!("host {id}: {key} is {fact:?} and not {value}"));
            }
        }
    }
}

fn compare_view(
    host: HostId,
    detail: &AgentDetail,
    head: &str,
    snapshot: &Snapshot,
    standing: &mut Standing,
) {
    let mut wrong = |what: String| standing.wrong.push(format!("host {host}: {what}"));
    let agent = &detail.agent;
    if !agent.connected {
        wrong("the server says that it is not connected".to_owned());
    }
    if agent.commit.as_ref().is_none_or(|commit| commit.as_str() != head) {
        wrong(format!("the server holds it to {:?} and not to {head}", agent.commit));
    }
    if agent.snapshot != Some(snapshot.hash()) {
        wrong("the server holds it to another snapshot".to_owned());
    }
    for task in &detail.task_details {
        let pending = standing.pending.contains(&(host, task.name.to_string()));
        let expected = if pending { Status::Drifted } else { Status::InSync };
        let said = task.status;
        // A human's apply of a task that nobody retries may have failed last.
        if said != expected && !(pending && said == Status::Failed) {
            let mut steps = String::new();
            for step in &task.steps {
                steps.push_str(&format!(" {:?} {:?}", step.status, step.reason));
            }
            let name = &task.name;
            standing.wrong.push(format!("host {host}: {name} is said to be {said:?}:{steps}"));
        }
    }
}

fn name(host: HostId) -> String {
    format!("host-{host}")
}

fn labels(host: HostId) -> Labels {
    let role = ["web", "db", "cache"][host % 3];
    Labels([Labels::parse_pair(&format!("role={role}")).expect("a label")].into_iter().collect())
}

fn config(host: HostId, state_dir: PathBuf) -> AgentConfig {
    AgentConfig {
        name: AgentName::new(name(host)).expect("a name"),
        labels: labels(host),
        version: "0.0.0".to_owned(),
        target: Target {
            url: "grpc://server:7070".parse().expect("an address"),
            token: Secret::new(TOKEN),
            tls: Default::default(),
        },
        state_dir,
        node_type: NodeType::Worker,
        default_shell: "none".to_owned(),
        command_timeout: COMMAND_TIMEOUT,
        allow: Allow::default(),
        parallel_checks: 4,
        stop_grace: Duration::from_secs(3),
        services: None,
    }
}

/// A directory for the agents' files, in memory where the system has such a place: agents make
/// sure that everything is on the disk, which takes a while on a real one.
fn in_memory() -> std::io::Result<TempDir> {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }
}
