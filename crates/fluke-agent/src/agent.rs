//! The loop: hears the server, asks [`crate::state`] what next, has [`crate::executor`] do it, and
//! has [`crate::store`] remember it.
//!
//! One task owns everything. Commands and the connection run on tasks of their own, so the loop
//! itself never waits for anything but the next thing that happens.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::{AgentName, Hash256, InstructionId, SessionId, StepAddress, TaskName};
use fluke_model::label::Labels;
use fluke_model::message::{
    Checked, Fact, Hello, Holdings, NodeType, RecordId, Scope, Subject, ToAgent, ToServer,
};
use fluke_model::snapshot::StepIndex;
use fluke_model::verdict::{Output, Verdict};
use fluke_wire::client::Target;
use futures_util::future::{BoxFuture, Fuse, FusedFuture};
use futures_util::stream::{self, BoxStream, FusedStream, SelectAll};
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use crate::executor::{Allow, Executors};
use crate::host::process::Stop;
use crate::journal::Entry;
use crate::services::ceiling::Ceiling;
use crate::services::{FromLane, Opening, Services, ServicesConfig};
use crate::session::{self, Connector, Event};
use crate::state::offline::Offline;
use crate::state::processing::{
    Acted, Acting, Applied, Cause, Judged, Judging, Next, Processing, Report, Told, Verifying,
};
use crate::state::reported::Reported;
use crate::state::{Checking, Held, Home, Idle, Order, OrderKind, TakenUp, Waiting};
use crate::store::{Store, StoreError};
use crate::world::{Steps, ThisHost, World};

/// How often to try to write what a full disk did not take.
const WRITE_AGAIN: Duration = Duration::from_secs(10);
/// How long to wait before a connection that failed in itself is begun anew.
const CONNECT_ANEW: Duration = Duration::from_secs(1);
/// How long nothing has to happen before what waiting does not need is let go of.
const REST_AFTER: Duration = Duration::from_secs(5);
/// How long the last words may take when the agent stops.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// All that an agent has to be told.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// What it calls itself.
    pub name: AgentName,
    /// What it is.
    pub labels: Labels,
    /// Of the program.
    pub version: String,
    /// Its server.
    pub target: Target,
    /// What it keeps across restarts.
    pub state_dir: PathBuf,
    /// What part its host plays for services.
    pub node_type: NodeType,
    /// What shell steps run under.
    pub default_shell: String,
    /// For commands of steps that name no timeout.
    pub command_timeout: Duration,
    /// The ceiling that no server can lift.
    pub allow: Allow,
    /// How many checks run at once.
    pub parallel_checks: usize,
    /// How long a command that puts something right may go on when the agent is told to stop.
    pub stop_grace: Duration,
    /// How services are looked after; none: they are not.
    pub services: Option<ServicesConfig>,
}

/// What an agent is doing, for those who watch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentStatus {
    /// Looks for its server.
    Connecting,
    /// Has a session.
    Connected {
        /// The server's.
        server_version: String,
    },
    /// Has none, and will try again.
    Unreachable {
        /// Why.
        reason: String,
        /// After this pause.
        retry: Duration,
    },
    /// Was turned away, and will try again.
    Refused {
        /// Why.
        reason: String,
        /// After this pause.
        retry: Duration,
    },
    /// Had one.
    Lost {
        /// Why it is over.
        reason: String,
    },
    /// Looks at steps.
    Checking {
        /// How many.
        steps: usize,
        /// Whether on its own account, because the server is away.
        alone: bool,
    },
    /// Puts a step right.
    Applying {
        /// Of which task.
        task: TaskName,
        /// Which step.
        step: StepAddress,
        /// Whether on its own account, because the server is away.
        alone: bool,
    },
    /// Waits for something to do.
    Idle,
    /// Ends what is under way.
    Stopping,
}

/// How an agent may be told to end, and how it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The host goes down, or the agent shall not run: what is under way has a grace period.
    Stop,
    /// Another agent takes over in this process: the order under way comes to its end, and no new
    /// one is taken up.
    HandOver,
}

/// Why an agent cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Runs an agent until `shutdown`; then ends what is under way, and remembers that it did.
pub async fn run(
    config: AgentConfig,
    shutdown: impl Future,
    status: impl Fn(AgentStatus),
) -> Result<(), AgentError> {
    let endings = stream::once(async {
        shutdown.await;
        Ending::Stop
    });
    run_until(config, endings, status).await.map(drop)
}

/// Runs an agent until it is told to end, and returns how it was told to. A `Stop` may follow a
/// `HandOver` that takes too long.
pub async fn run_until(
    config: AgentConfig,
    endings: impl Stream<Item = Ending>,
    status: impl Fn(AgentStatus),
) -> Result<Ending, AgentError> {
    run_in(ThisHost, config, endings, status).await
}

/// The same in a world of one's choosing.
pub async fn run_in(
    world: impl World,
    config: AgentConfig,
    endings: impl Stream<Item = Ending>,
    status: impl Fn(AgentStatus),
) -> Result<Ending, AgentError> {
    let mut store = Store::open(&config.state_dir, world.now())?;
    if let Some(mark) = store.left_behind() {
        // An apply that is still under way must not meet a second one.
        let commands = world.end_left_behind(mark).await;
        if commands > 0 {
            tracing::warn!(commands, "ended what an agent that was killed had begun");
        }
    }
    store.begin_run();
    let mut agent = Agent::new(world, config, store, status);
    let mut endings = std::pin::pin!(endings.fuse());
    let ending = loop {
        if let Some(ending) = agent.is_over() {
            break ending;
        }
        let happening = agent.wait(endings.as_mut()).await;
        agent.handle(happening);
    };
    agent.say_last_words().await;
    // Told to stop in the meantime: that is not for a successor to find out.
    match endings.next().now_or_never() {
        Some(Some(Ending::Stop)) => Ok(Ending::Stop),
        _ => Ok(ending),
    }
}

struct Agent<W: World, S> {
    world: Arc<W>,
    steps: Arc<W::Steps>,
    parallel_checks: usize,
    store: Store,
    status: S,

    services: Option<ServicesConfig>,
    /// What may be done for them here.
    ceiling: Ceiling,
    /// Looks after services.
    lane: Option<Services>,
    /// How many changes it is in the middle of.
    lane_changes: usize,

    activity: Activity,
    work: JoinSet<Done>,
    /// Tells running commands that the agent stops.
    stop: watch::Sender<bool>,
    /// Set once the agent was told to end.
    ending: Option<Ending>,
    /// Whether the host goes down with it, while that is being found out; and what came of it.
    asked: Fuse<BoxFuture<'static, bool>>,
    goes_down: bool,
    stop_grace: Duration,
    /// When a command that still runs is taken along.
    hurry_at: Option<Instant>,

    target: Target,
    hello: Hello,
    connection: JoinSet<()>,
    events: mpsc::Receiver<Event>,
    session: Option<Live>,
    outbox: VecDeque<Out>,
    /// The dropped records that this session's server is being told of.
    telling_lost: u64,
    reported: Reported,
    snapshot: watch::Sender<Option<Hash256>>,
    /// The tables that the lane holds, for whoever connects.
    tables: watch::Sender<Holdings>,

    offline: Offline,
    /// The snapshot whose steps are watched.
    watching: Option<Hash256>,
    watched: SelectAll<BoxStream<'static, StepIndex>>,
    watchable: Vec<StepIndex>,
    /// What changed and has not been looked at.
    noticed: BTreeSet<StepIndex>,
    write_again: Instant,
    /// When to rest, unless something happens before.
    rest_at: Option<Instant>,
}

/// The session that there is now.
struct Live {
    id: SessionId,
    to_server: mpsc::Sender<ToServer>,
}

/// Something to send.
enum Out {
    /// One of the records that the store keeps anyway.
    Record(RecordId),
    /// Anything else.
    Message(Box<ToServer>),
}

/// What is under way.
enum Activity {
    Idle(Idle),
    Checking(Checking),
    Judging(Judging),
    Acting(Acting, Cause, Instant),
    Verifying(Verifying, Cause, Instant),
    /// Only for the moment in which one becomes another.
    Changing,
}

/// What became of work.
enum Done {
    Checked(Vec<(StepIndex, Verdict)>),
    Judged(Verdict),
    Applied(Applied),
}

/// What the loop waits for.
enum Happening {
    ToldToEnd(Ending),
    /// Whether the host does.
    GoesDown(bool),
    OutOfPatience,
    Session(Event),
    Worked(Result<Done, JoinError>),
    /// Which it never does by itself while the agent runs.
    ConnectionEnded(Result<(), JoinError>),
    Sent,
    TimeToLook,
    TimeToWrite,
    Noticed(StepIndex),
    TimeToRest,
    /// The lane said something; nothing: it ended, which it never does by itself.
    Lane(Option<FromLane>),
}

impl<W: World, S: Fn(AgentStatus)> Agent<W, S> {
    fn new(world: W, config: AgentConfig, store: Store, status: S) -> Self {
        let (stop, stopped) = Stop::new();
        let steps = Arc::new(world.steps(&config, store.run(), stopped));
        let world = Arc::new(world);
        let held = store.held().cloned();
        let (snapshot, _) = watch::channel(held.as_ref().map(|held| held.snapshot.hash()));
        let (_, events) = session::events();
        let ceiling = Ceiling::of(&config.allow);
        let offered = config.services.iter().flat_map(|_| ceiling.permitted());
        let hello = Hello {
            name: config.name,
            labels: config.labels,
            version: config.version,
            executors: Executors::offered(&config.allow).chain(offered).collect(),
            node_type: config.node_type,
            snapshot: None,
            instance: store.instance(),
            previous: None,
            tables: Holdings::default(),
        };
        let now = Instant::now().into_std();
        let mut offline = Offline::new(store.poll_interval(), now);
        offline.leave_alone(store.interrupted(), now);
        let mut agent = Self {
            world,
            steps,
            parallel_checks: config.parallel_checks.max(1),
            offline,
            store,
            status,
            services: config.services,
            ceiling,
            lane: None,
            lane_changes: 0,
            activity: Activity::Idle(Idle::new(held)),
            work: JoinSet::new(),
            stop,
            ending: None,
            asked: Fuse::terminated(),
            goes_down: false,
            stop_grace: config.stop_grace,
            hurry_at: None,
            target: config.target,
            hello,
            connection: JoinSet::new(),
            events,
            session: None,
            outbox: VecDeque::new(),
            telling_lost: 0,
            reported: Reported::default(),
            snapshot,
            tables: watch::Sender::default(),
            watching: None,
            watched: SelectAll::new(),
            watchable: Vec::new(),
            noticed: BTreeSet::new(),
            write_again: Instant::now() + WRITE_AGAIN,
            rest_at: None,
        };
        // What it has of others is known before anybody is told.
        agent.open_lane(Duration::ZERO);
        agent.connect(Duration::ZERO);
        agent.watch_steps();
        agent
    }

    /// How it ended, once it has.
    fn is_over(&self) -> Option<Ending> {
        let is_idle = matches!(self.activity, Activity::Idle(_)) && self.lane_changes == 0;
        self.ending.filter(|_| is_idle && self.asked.is_terminated())
    }

    /// Whether nothing new is taken up.
    fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Whether what is under way is to be cut short where that does no harm.
    fn is_stopping(&self) -> bool {
        self.ending == Some(Ending::Stop)
    }

    /// Looks for the server from now on, on a task of its own.
    fn connect(&mut self, after: Duration) {
        let (to_agent, events) = session::events();
        self.events = events;
        let connector = Connector {
            world: self.world.clone(),
            target: self.target.clone(),
            hello: self.hello.clone(),
            snapshot: self.snapshot.subscribe(),
            tables: self.tables.subscribe(),
            events: to_agent,
        };
        self.connection.spawn(async move {
            tokio::time::sleep(after).await;
            session::run(connector).await;
        });
    }

    /// Waits for the next thing that happens.
    ///
    /// Every branch is cancel-safe: channels, join sets and streams lose nothing, a permit is used
    /// in the same breath, and the rest are timers.
    async fn wait(&mut self, mut endings: Pin<&mut impl FusedStream<Item = Ending>>) -> Happening {
        let idle = matches!(self.activity, Activity::Idle(_));
        let look = self.offline.next_look().filter(|_| idle).map(Instant::from_std);
        let Self { events, work, session, outbox, store, watched, connection, lane, asked, .. } =
            self;
        tokio::select! {
            biased;
            Some(ending) = endings.next(), if self.ending != Some(Ending::Stop) => {
                Happening::ToldToEnd(ending)
            }
            goes_down = asked => Happening::GoesDown(goes_down),
            Some(event) = events.recv() => Happening::Session(event),
            Some(done) = work.join_next() => Happening::Worked(done),
            Some(ended) = connection.join_next(), if self.ending != Some(Ending::Stop) => {
                Happening::ConnectionEnded(ended)
            }
            Some(()) = send_next(session.as_ref(), outbox, store) => Happening::Sent,
            said = hear_lane(lane.as_mut()) => Happening::Lane(said),
            Some(step) = watched.next() => Happening::Noticed(step),
            () = sleep_until(self.hurry_at.unwrap_or(self.write_again)), if self.hurry_at.is_some() => {
                Happening::OutOfPatience
            }
            () = sleep_until(look.unwrap_or(self.write_again)), if look.is_some() => {
                Happening::TimeToLook
            }
            () = sleep_until(self.write_again), if store.is_behind() => Happening::TimeToWrite,
            () = sleep_until(self.rest_at.unwrap_or(self.write_again)), if idle && self.rest_at.is_some() => {
                Happening::TimeToRest
            }
        }
    }

    fn handle(&mut self, happening: Happening) {
        self.rest_at = Some(Instant::now() + REST_AFTER);
        match happening {
            Happening::ToldToEnd(Ending::Stop) => self.shut_down(),
            Happening::ToldToEnd(Ending::HandOver) => self.hand_over(),
            Happening::GoesDown(goes_down) => self.hear_of_host(goes_down),
            Happening::OutOfPatience => self.hurry(),
            Happening::Session(event) => self.heard(event),
            Happening::Worked(done) => self.worked(done),
            Happening::ConnectionEnded(ended) => self.reconnect(ended),
            Happening::Sent => {}
            Happening::TimeToLook => self.look_around(),
            Happening::TimeToWrite => {
                self.store.write();
                self.write_again = Instant::now() + WRITE_AGAIN;
            }
            Happening::Noticed(step) => drop(self.noticed.insert(step)),
            Happening::Lane(Some(said)) => self.heard_lane(said),
            Happening::Lane(None) => self.reopen_lane(),
            Happening::TimeToRest => {
                self.rest_at = None;
                self.world.rest();
            }
        }
        self.see_to_what_changed();
        self.end_lane_if_it_is_the_last();
    }

    fn tell(&self, status: AgentStatus) {
        (self.status)(status);
    }
}

/// Sends the first of what waits; nothing if there is nothing, or nobody to send it to.
async fn send_next(
    session: Option<&Live>,
    outbox: &mut VecDeque<Out>,
    store: &Store,
) -> Option<()> {
    let live = session.filter(|_| !outbox.is_empty())?;
    let permit = live.to_server.reserve().await.ok()?;
    match outbox.pop_front()? {
        Out::Message(message) => permit.send(*message),
        Out::Record(id) => {
            // One that was acknowledged or dropped in the meantime needs no sending.
            if let Some(record) = store.unacknowledged_record(id) {
                permit.send(ToServer::Record(record.clone()));
            }
        }
    }
    Some(())
}

mod hearing;
mod serving;
mod working;

use serving::hear_lane;

#[cfg(test)]
mod tests;
