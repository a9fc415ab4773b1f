//! One member's connection: comes in, stays in, comes back. Decides nothing about messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use fluke_model::id::{AgentName, CommitId, InstanceId, ServiceName, SessionId};
use fluke_model::label::Labels;
use fluke_model::message::{DirectoryEdit, Fact, Hello, NodeType, ToAgent, ToServer};
use fluke_model::service::DeploymentReport;
use fluke_model::time::Timestamp;
use fluke_wire::client::Session;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::lock;
use super::member::{Member, Trouble};
use super::services::containers::Mishap;
use super::shared::Shared;

/// How long a member waits before it tries again, at least; up to twice as long, by its name.
const PAUSE: Duration = Duration::from_millis(500);

/// What a member says it does.
const KINDS: [&str; 7] = ["mise", "shell", "systemd", "container", "dns", "routes", "mesh"];

/// What a story wants of a member.
#[derive(Debug)]
pub(super) enum Order {
    Suffer(Box<(String, Trouble)>),
    Recover {
        place: String,
    },
    /// These are all containers of services that there are.
    Run(Vec<DeploymentReport>),
    /// Something or other is no longer as it should be.
    Drift,
    /// This befalls some container or other; it comes back.
    Mishap(Mishap),
    /// A container of a service ends, and stays away.
    Lose(ServiceName),
    /// It comes back.
    Regain(ServiceName),
    /// The connection breaks.
    Break,
    Leave,
    ComeBack,
}

/// A simulated host's agent.
pub(super) struct Agent {
    pub(super) name: AgentName,
    pub(super) labels: Labels,
    pub(super) node_type: NodeType,
    pub(super) instance: InstanceId,
    pub(super) member: Member,
    pub(super) is_slow: bool,
    /// When containers that are being made are there.
    pub(super) made_at: Option<Instant>,
    /// The last lost container that it was found to know of.
    pub(super) noted: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) orders: mpsc::Receiver<Order>,
}

/// Why a session is over.
enum End {
    Lost,
    Left,
    SwarmIsGone,
}

/// Counts a session for as long as it lasts, however it ends.
struct Presence(Arc<Shared>);

impl Presence {
    fn of(shared: &Arc<Shared>) -> Self {
        shared.counts.connected.fetch_add(1, Ordering::Relaxed);
        shared.counts.sessions.fetch_add(1, Ordering::Relaxed);
        Self(shared.clone())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.counts.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Agent {
    pub(super) async fn run(mut self) {
        let mut previous = None;
        loop {
            let end = match self.connects(previous).await {
                Some(session) => {
                    previous = Some(session.welcome.session);
                    let _here = Presence::of(&self.shared);
                    self.talks(session).await
                }
                None => End::Lost,
            };
            match end {
                End::Lost => sleep(self.pause()).await,
                End::Left => match self.is_called_back().await {
                    true => {}
                    false => return,
                },
                End::SwarmIsGone => return,
            }
        }
    }

    /// Through one of the doors; what it is told when it is not let in is remembered.
    async fn connects(&mut self, previous: Option<SessionId>) -> Option<Session> {
        let hello = Hello {
            name: self.name.clone(),
            labels: self.labels.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            executors: KINDS.map(str::to_owned).into(),
            node_type: self.node_type,
            snapshot: self.member.reconnects(),
            instance: self.instance,
            previous,
            tables: self.member.services().holdings(),
        };
        let _door = self.shared.doors.acquire().await.ok()?;
        let began = Instant::now();
        let meter = &self.shared.meter;
        match self.shared.target.connect_through(hello, |tcp| meter.on(tcp)).await {
            Ok(session) => {
                self.shared.stopwatches.join.note(began.elapsed());
                Some(session)
            }
            Err(error) => {
                self.shared.counts.refused.fetch_add(1, Ordering::Relaxed);
                lock(&self.shared.why).replace(error.to_string());
                None
            }
        }
    }

    /// One session, from its welcome to its end.
    async fn talks(&mut self, session: Session) -> End {
        let Session { welcome, outgoing, mut incoming } = session;
        let mut beats = interval(welcome.heartbeat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beats.reset();
        let mut waiting: VecDeque<_> = self.member.repeats().collect();
        let mut open = Open::default();
        // Whether there may be something to say of services; said when nothing more is to be heard.
        let mut has_news = true;
        // What is done before the first of those that wait is said.
        let shared = self.shared.clone();
        let (mut is_working, mut is_done) = (false, false);
        let works = works(&shared, Work::default());
        tokio::pin!(works);
        loop {
            while !is_working && let Some(message) = waiting.front() {
                if !is_done && let Some(work) = self.work_before(message) {
                    works.set(self::works(&shared, work));
                    is_working = true;
                    break;
                }
                is_done = false;
                let Some(message) = waiting.pop_front() else { break };
                self.notes(&message, &mut open);
                // Whatever is said says that the agent is here.
                beats.reset();
                if outgoing.send(message).await.is_err() {
                    return End::Lost;
                }
            }
            let made_at = self.made_at;
            // All branches are cancel-safe; work goes on where it was.
            tokio::select! {
                biased;
                () = &mut works, if is_working => (is_working, is_done) = (false, true),
                _ = beats.tick() => {
                    if outgoing.send(ToServer::Heartbeat).await.is_err() {
                        return End::Lost;
                    }
                }
                message = incoming.next() => match message {
                    Ok(Some(message)) => {
                        has_news |= concerns_services(&message);
                        waiting.extend(self.hears(message, &mut open));
                    }
                    Ok(None) | Err(_) => return End::Lost,
                },
                order = self.orders.recv() => match order {
                    Some(Order::Break) => return End::Lost,
                    Some(Order::Leave) => return End::Left,
                    Some(order) => {
                        let is_drift = matches!(order, Order::Drift);
                        let told = self.obeys(order);
                        if is_drift && !told.is_empty() {
                            open.drifted.get_or_insert_with(Instant::now);
                        }
                        waiting.extend(told);
                        has_news = true;
                    }
                    None => return End::SwarmIsGone,
                },
                () = until(made_at), if made_at.is_some() => {
                    self.made_at = None;
                    waiting.extend(self.member.has_made(now()));
                    has_news = true;
                }
                () = std::future::ready(()), if has_news => {
                    has_news = false;
                    waiting.extend(self.member.says_of_services(now()));
                }
            }
        }
    }

    fn hears(&mut self, message: ToAgent, open: &mut Open) -> Vec<ToServer> {
        let stopwatches = &self.shared.stopwatches;
        let message = match message {
            ToAgent::Snapshot { commit, snapshot, is_moved } => {
                self.shared.hears_of(&commit);
                open.commit = Some(commit.clone());
                ToAgent::Snapshot { commit, snapshot: self.shared.share(snapshot), is_moved }
            }
            message @ ToAgent::Check { .. } => {
                open.noticed
                    .take()
                    .into_iter()
                    .for_each(|at| stopwatches.notice.note(at.elapsed()));
                open.asked = Some(Instant::now());
                message
            }
            message @ ToAgent::Ack { .. } => {
                open.recorded
                    .take()
                    .into_iter()
                    .for_each(|at| stopwatches.record.note(at.elapsed()));
                message
            }
            other => other,
        };
        let is_names = matches!(message, ToAgent::Directory(DirectoryEdit::Names(_)));
        let is_edit = matches!(message, ToAgent::Directory(_));
        let told = self.member.hears(message, now());
        if self.member.has_told_all()
            && let Some(drifted) = open.repaired.take()
        {
            self.is_repaired(drifted);
        }
        if is_edit {
            self.shared.counts.edits.fetch_add(1, Ordering::Relaxed);
        }
        if is_names && let Some(names) = self.member.services().names() {
            self.shared.has_names(names, &mut self.noted);
        }
        self.waits_for_containers();
        told
    }

    /// The server has all that was done about a drift.
    fn is_repaired(&self, drifted: Instant) {
        let Shared { counts, stopwatches, .. } = &*self.shared;
        if !self.is_slow {
            stopwatches.repair.note(drifted.elapsed());
        }
        counts.repaired.fetch_add(1, Ordering::Relaxed);
    }

    fn waits_for_containers(&mut self) {
        if self.member.is_making() && self.made_at.is_none() {
            self.made_at = Some(Instant::now() + self.shared.start_takes);
        }
    }

    /// Something is about to be said.
    fn notes(&self, message: &ToServer, open: &mut Open) {
        let Shared { counts, stopwatches, .. } = &*self.shared;
        match message {
            ToServer::Checked(_) => {
                counts.checks.fetch_add(1, Ordering::Relaxed);
                open.asked.take().into_iter().for_each(|at| stopwatches.answer.note(at.elapsed()));
                open.commit.take().into_iter().for_each(|commit| self.shared.has_answered(&commit));
            }
            ToServer::Finished { .. } => drop(counts.applies.fetch_add(1, Ordering::Relaxed)),
            ToServer::LookAgain { .. } => drop(open.noticed.get_or_insert_with(Instant::now)),
            ToServer::Resend(_) => drop(counts.resends.fetch_add(1, Ordering::Relaxed)),
            ToServer::Record(record) => {
                open.recorded.get_or_insert_with(Instant::now);
                if matches!(record.fact, Fact::Ended { .. }) {
                    open.repaired = open.repaired.or(open.drifted.take());
                }
            }
            _ => {}
        }
    }

    /// What has to be done until a message can be said, if it takes any time.
    fn work_before(&self, message: &ToServer) -> Option<Work> {
        let shared = &self.shared;
        let work = match message {
            ToServer::Checked(_) if self.is_slow => Work::of(*lock(&shared.slow_takes)),
            ToServer::Checked(_) => Work::of(shared.check_takes),
            ToServer::Record(record) if matches!(record.fact, Fact::Ended { .. }) => {
                Work { takes: shared.apply_takes, is_held: *shared.held.borrow() }
            }
            _ => return None,
        };
        (work != Work::default()).then_some(work)
    }

    /// What an order gives rise to that is not about the connection.
    fn obeys(&mut self, order: Order) -> Vec<ToServer> {
        let told = match order {
            Order::Suffer(what) => self.member.suffers(&what.0, what.1).into_iter().collect(),
            Order::Recover { place } => self.member.recovers(&place).into_iter().collect(),
            Order::Run(deployments) => {
                self.member.runs(deployments);
                self.member.says_of_services(now())
            }
            Order::Drift => self.member.drifts(self.instance.0).into_iter().collect(),
            Order::Mishap(mishap) => self.member.loses(mishap, None, self.instance.0, now()),
            Order::Lose(service) => self.loses(service),
            Order::Regain(service) => self.member.holds_down(&service, false, now()),
            Order::Break | Order::Leave | Order::ComeBack => Vec::new(),
        };
        self.waits_for_containers();
        told
    }

    fn loses(&mut self, service: ServiceName) -> Vec<ToServer> {
        let Some(address) = self.member.services().serves_at(&service) else { return Vec::new() };
        self.shared.loses(service.clone(), address);
        let mut told = self.member.holds_down(&service, true, now());
        told.extend(self.member.loses(Mishap::Death, Some(&service), 0, now()));
        told
    }

    /// What happens to the host while its agent is away is noticed when it is back.
    async fn is_called_back(&mut self) -> bool {
        while let Some(order) = self.orders.recv().await {
            match order {
                Order::ComeBack => return true,
                order => drop(self.obeys(order)),
            }
        }
        false
    }

    fn pause(&self) -> Duration {
        PAUSE + PAUSE.mul_f64((self.instance.0 % 1000) as f64 / 1000.0)
    }
}

/// Whether there may be something to say of services after this.
fn concerns_services(message: &ToAgent) -> bool {
    use ToAgent::{Directory, Released, Snapshot, Subnet};
    matches!(message, Directory(_) | Subnet(_) | Released(_) | Snapshot { .. })
}

fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

/// Sleeps until `instant`; for ever if there is none.
async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// What was said or heard and has no answer yet, and since when.
#[derive(Default)]
struct Open {
    asked: Option<Instant>,
    noticed: Option<Instant>,
    recorded: Option<Instant>,
    /// Something drifted, and no repair has ended.
    drifted: Option<Instant>,
    /// Since when it was drifted; the repair has ended, and the server may not know.
    repaired: Option<Instant>,
    /// It was told of this commit, and has not answered for it.
    commit: Option<CommitId>,
}

/// What a member is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Work {
    takes: Duration,
    /// It does not end while the swarm is held.
    is_held: bool,
}

impl Work {
    fn of(takes: Duration) -> Self {
        Self { takes, is_held: false }
    }
}

async fn works(shared: &Shared, work: Work) {
    sleep(work.takes).await;
    if work.is_held {
        // Cannot be closed: the sender is beside it.
        let _ = shared.held.subscribe().wait_for(|held| !held).await;
    }
}
