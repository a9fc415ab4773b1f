//! One member's connection: comes in, stays in, comes back. Decides nothing about messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use fluke_model::id::{AgentName, InstanceId, SessionId};
use fluke_model::label::Labels;
use fluke_model::message::{Fact, Hello, NodeType, ToAgent, ToServer};
use fluke_model::time::Timestamp;
use fluke_wire::client::{Session, connect};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::member::{Member, Trouble};
use super::{Shared, lock};

/// How long a member waits before it tries again, at least; up to twice as long, by its name.
const PAUSE: Duration = Duration::from_millis(500);

/// What a story wants of a member.
#[derive(Debug)]
pub(super) enum Order {
    Suffer { place: String, trouble: Trouble },
    Recover { place: String },
    Leave,
    ComeBack,
}

/// A simulated host's agent.
pub(super) struct Agent {
    pub(super) name: AgentName,
    pub(super) labels: Labels,
    pub(super) instance: InstanceId,
    pub(super) member: Member,
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
            executors: ["mise", "shell", "systemd"].map(str::to_owned).into(),
            node_type: NodeType::Worker,
            snapshot: self.member.reconnects(),
            instance: self.instance,
            previous,
        };
        let _door = self.shared.doors.acquire().await.ok()?;
        match connect(&self.shared.target, hello).await {
            Ok(session) => Some(session),
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
        let mut is_working = false;
        let shared = self.shared.clone();
        let works = works(&shared);
        tokio::pin!(works);
        loop {
            while !is_working && let Some(message) = waiting.pop_front() {
                self.counts(&message);
                is_working = begins_work(&message);
                if outgoing.send(message).await.is_err() {
                    return End::Lost;
                }
            }
            // All branches are cancel-safe; work goes on where it was.
            tokio::select! {
                () = &mut works, if is_working => {
                    is_working = false;
                    works.set(self::works(&shared));
                }
                _ = beats.tick() => {
                    if outgoing.send(ToServer::Heartbeat).await.is_err() {
                        return End::Lost;
                    }
                }
                message = incoming.next() => match message {
                    Ok(Some(message)) => waiting.extend(self.hears(message)),
                    Ok(None) | Err(_) => return End::Lost,
                },
                order = self.orders.recv() => match order {
                    Some(Order::Suffer { place, trouble }) => {
                        waiting.extend(self.member.suffers(&place, trouble));
                    }
                    Some(Order::Recover { place }) => waiting.extend(self.member.recovers(&place)),
                    Some(Order::Leave) => return End::Left,
                    Some(Order::ComeBack) => {}
                    None => return End::SwarmIsGone,
                },
            }
        }
    }

    fn hears(&mut self, message: ToAgent) -> Vec<ToServer> {
        let message = match message {
            ToAgent::Snapshot { commit, snapshot } => {
                ToAgent::Snapshot { commit, snapshot: self.shared.share(snapshot) }
            }
            other => other,
        };
        self.member.hears(message, Timestamp::from(SystemTime::now()))
    }

    fn counts(&self, message: &ToServer) {
        let counter = match message {
            ToServer::Checked(_) => &self.shared.counts.checks,
            ToServer::Finished { .. } => &self.shared.counts.applies,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What happens to the host while its agent is away is noticed when it is back.
    async fn is_called_back(&mut self) -> bool {
        while let Some(order) = self.orders.recv().await {
            match order {
                Order::Suffer { place, trouble } => drop(self.member.suffers(&place, trouble)),
                Order::Recover { place } => drop(self.member.recovers(&place)),
                Order::Leave => {}
                Order::ComeBack => return true,
            }
        }
        false
    }

    fn pause(&self) -> Duration {
        PAUSE + PAUSE.mul_f64((self.instance.0 % 1000) as f64 / 1000.0)
    }
}

/// Between the beginning of an apply and its end is the work.
fn begins_work(message: &ToServer) -> bool {
    matches!(message, ToServer::Record(record) if matches!(record.fact, Fact::Began { .. }))
}

/// Takes the time of one apply, and longer while the swarm is held.
async fn works(shared: &Shared) {
    sleep(shared.apply_takes).await;
    // Cannot be closed: the sender is beside it.
    let _ = shared.held.subscribe().wait_for(|held| !held).await;
}
