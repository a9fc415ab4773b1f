//! The services' lane: looks, decides ([`super::plan`]), does one change, and looks again.
//!
//! A task of its own beside the agent's loop. It waits for Podman's events, for what the server
//! says, for what goes on beside it (images that come, questions of health), and, as a safety net,
//! for ten seconds to pass. Where nothing is wanted and nothing is there, it waits for the server
//! alone.

mod aftermath;
mod arrival;
mod asking;
mod dark;
mod desired;
mod doing;
pub(super) mod doors;
pub(super) mod forgotten;
mod hearing;
mod images;
mod jobs;
mod keeping;
mod lives;
mod look;
mod memory;
mod pulls;
mod round;
pub(super) mod rounds;
pub(super) mod saying;
pub(super) mod since;
pub(super) mod state;
mod stops;
mod telling;
mod waiting;
mod watch;
mod wiring;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::directory::Claim;
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, SessionId};
use fluke_model::message::NodeType;
use fluke_model::service::{DeploymentId, DeploymentReport, ServiceExecutor};
use fluke_model::volume::Volumes;

use super::addresses::Addresses;
use super::bridge::Interfaces;
use super::ceiling::Ceiling;
use super::fetched::Fetched;
use super::inbox::{Inbox, Tables};
use super::kept::Folder;
use super::plan::{Ending, Plan};
use super::podman::Podman;
use super::sections::{Account, Sections};
use super::setback::Setbacks;
use super::{Clock, ServicesConfig};
use crate::host::environment::Environment;
use arrival::{Arrival, Sighting};
use asking::Settling;
use desired::Desired;
use doors::Doors;
use forgotten::{Forgotten, Remains};
use hearing::News;
use jobs::{Jobs, Pulled, Stopped};
use keeping::Unkept;
use lives::Lives;
use look::Known;
use rounds::Rounds;
use saying::{Said, Scribe};
use since::Since;
use state::{Cause, Idle};
use waiting::changes;
use watch::Watch;

/// The safety net: how long nothing may have happened before somebody looks.
const SAFETY: Duration = Duration::from_secs(10);
/// A change that takes longer does not keep names, routes and mesh waiting.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the lane is made from.
pub struct Start {
    /// Whose lane it is.
    pub host: AgentName,
    /// What part its host plays.
    pub node_type: NodeType,
    /// What it was told.
    pub config: ServicesConfig,
    /// What may be done here at all.
    pub ceiling: Ceiling,
    /// What containers get of the host's environment.
    pub environment: Environment,
    /// What people's clocks show.
    pub clock: Clock,
    /// What it keeps across restarts.
    pub folder: Folder,
    /// Where it finds what it is told.
    pub inbox: Arc<Inbox>,
    /// The way to the agent.
    pub scribe: Scribe,
    /// Whom it asks.
    pub podman: Podman,
}

/// Keeps containers, names, routes and mesh as they should be.
pub struct Lane {
    host: AgentName,
    node_type: NodeType,
    config: ServicesConfig,
    ceiling: Ceiling,
    environment: Environment,
    clock: Clock,
    folder: Folder,
    inbox: Arc<Inbox>,
    scribe: Scribe,
    podman: Podman,
    interfaces: Interfaces,

    desired: Option<Arc<Desired>>,
    session: Option<SessionId>,
    /// In the order of asking.
    settling: Vec<Settling>,
    claim: Option<Claim>,
    addresses: Addresses,
    fetched: Fetched,
    unkept: Unkept,
    /// The last bytes of addresses that Podman would not give.
    unusable: BTreeSet<u8>,
    /// Deployments whose containers were to have one of these.
    misplaced: BTreeSet<DeploymentId>,
    /// What containers are called here, whoever's they are, and what Podman would call none.
    names: BTreeSet<String>,
    refused: BTreeSet<String>,
    tables: Tables,
    /// What names, routes and mesh had when the agent last ended; nothing once that is of no use.
    before: Tables,

    deployments: Setbacks<DeploymentId>,
    /// Those of them that were given up for good, as it is on disk.
    given_up: BTreeMap<DeploymentId, String>,
    containers: Setbacks<String>,
    images: Setbacks<String>,
    /// Images that could not be fetched, containers not stopped: what is not on record yet.
    untold: Vec<Pulled>,
    unstopped: Vec<Stopped>,
    /// Whether Podman answers.
    reach: Setbacks<()>,
    /// The socket that was last tried.
    sighting: Sighting,
    /// While Podman does not answer.
    arrival: Option<Arrival>,
    /// Containers that had not ended when somebody last looked.
    up: BTreeSet<String>,
    forgotten: Forgotten,
    /// What is left of them to end, as it is on disk.
    left: BTreeMap<String, Remains>,
    /// Containers that were told to end because they are not well, or for their successors.
    told_to_end: BTreeMap<String, Ending>,
    /// The latter, as it is on disk.
    made_way: BTreeSet<String>,
    released: BTreeMap<DeploymentId, Instant>,
    known: Known,
    lives: Lives,
    since: Since,
    jobs: Jobs,
    rounds: Rounds,
    doors: Doors,
    watch: Option<Watch>,
    sections: Option<Sections>,

    said: Said,
    /// How what is wanted is; none before the first look.
    reports: Option<Vec<DeploymentReport>>,
    /// Whether Podman has ever answered, or nobody needs it.
    has_looked: bool,
    /// Whether something of ours is here.
    has_containers: bool,
    /// The volumes of numbered replicas that are here, as far as is known.
    volumes: Option<Volumes>,
    looked: Option<Instant>,
    look_at: Option<Instant>,
}

/// Why the lane looks around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// The server said something.
    Told,
    /// Podman did, or the kernel: a container has ended.
    Event,
    /// There is a socket where nobody answered.
    Socket,
    /// An image came, a container ended, a container feels otherwise.
    Job,
    /// It was decided to look again by now.
    Due,
    /// Nothing happened for a while.
    Safety,
    /// Names, routes or mesh may have changed by themselves.
    Section,
}

impl Lane {
    /// One that has not looked at anything.
    pub fn new(start: Start) -> Self {
        let Start { host, node_type, config, ceiling, environment, clock, .. } = start;
        let Start { folder, inbox, scribe, podman, .. } = start;
        let (given_up, left, made_way) = (folder.given_up(), folder.left(), folder.made_way());
        let mut deployments = Setbacks::default();
        for (id, why) in given_up.clone() {
            deployments.gave_up_for_good(id, why, Instant::now());
        }
        let interfaces = Interfaces { sys: config.sys.clone(), proc: config.proc.clone() };
        Self {
            claim: folder.claim(),
            addresses: folder.addresses(),
            fetched: folder.fetched(),
            tables: inbox.tables(),
            before: inbox.tables(),
            jobs: Jobs::new(podman.clone(), config.pull_timeout),
            host,
            node_type,
            config,
            ceiling,
            environment,
            clock,
            folder,
            inbox,
            scribe,
            podman,
            interfaces,
            unkept: Unkept::default(),
            unusable: BTreeSet::new(),
            misplaced: BTreeSet::new(),
            names: BTreeSet::new(),
            refused: BTreeSet::new(),
            desired: None,
            session: None,
            settling: Vec::new(),
            deployments,
            given_up,
            containers: Setbacks::default(),
            images: Setbacks::default(),
            untold: Vec::new(),
            unstopped: Vec::new(),
            reach: Setbacks::default(),
            sighting: Sighting::default(),
            arrival: None,
            up: BTreeSet::new(),
            forgotten: Forgotten::with(left.clone(), Instant::now()),
            left,
            told_to_end: made_way.iter().map(|it| (it.clone(), Ending::MakesWay)).gather(),
            made_way,
            released: BTreeMap::new(),
            known: Known::default(),
            lives: Lives::default(),
            since: Since::default(),
            rounds: Rounds::default(),
            doors: Doors::default(),
            watch: None,
            sections: None,
            said: Said::default(),
            reports: None,
            has_looked: false,
            has_containers: false,
            volumes: None,
            looked: None,
            look_at: None,
        }
    }

    /// Works until it is dropped.
    pub async fn run(mut self) {
        let mut idle = Idle::new();
        // What was kept is acted upon before anybody says anything.
        let mut wake = Wake::Told;
        loop {
            idle = self.wake_up(idle, wake).await;
            wake = self.wait().await;
        }
    }

    async fn wake_up(&mut self, idle: Idle, wake: Wake) -> Idle {
        let news = self.hear();
        self.keep_own().await;
        let cause = self.cause(wake, news);
        if let (Wake::Section | Wake::Told, News::Tables) = (wake, news) {
            self.look_after_sections(cause).await;
            return idle;
        }
        if wake == Wake::Safety {
            self.sections.iter_mut().for_each(Sections::doubt);
        }
        self.doubt(wake);
        if wake == Wake::Socket {
            self.reach.forget_all();
        }
        self.look_at = None;
        let Some(desired) = self.desired.clone() else {
            // A proxy leads where it led before, whether or not its host knows what it should be.
            self.look_after_sections(cause).await;
            self.looked = self.is_concerned().then(Instant::now);
            self.answer_all("this host was not told yet what it should be").await;
            return idle;
        };
        let is_known = !desired.wanted.is_empty() || self.has_containers;
        if !is_known && !watch::is_there(&self.config.socket) {
            // Nothing is wanted, and nothing was there.
            if self.node_type == NodeType::Worker {
                self.go_quiet();
            } else {
                // A proxy needs no Podman: what it leads to is elsewhere.
                self.look_after_sections(cause).await;
                self.looked = Some(Instant::now());
            }
            // Something may be found once there is one.
            self.expect_podman();
            return self.stay_quiet(idle, &desired).await;
        }
        let idle = self.work_through(idle, desired, cause).await;
        self.keep_own().await;
        self.keep_tables().await;
        match (self.is_concerned(), self.is_watchful()) {
            (true, _) => {}
            (false, true) => self.close_sections(),
            // What could not be looked at is still there, as far as is known.
            (false, false) if !self.has_looked && !self.addresses.is_empty() => {}
            (false, false) => {
                self.go_quiet();
                self.expect_podman_if_away();
            }
        }
        idle
    }

    /// Whether there is anything to watch over.
    fn is_concerned(&self) -> bool {
        let wants = self.desired.as_ref().is_some_and(|desired| !desired.wanted.is_empty());
        let may_have = self.refusal().is_none();
        (wants && may_have) || self.has_containers || self.node_type == NodeType::Proxy
    }

    /// Why no container is touched here, whatever is wanted.
    fn refusal(&self) -> Option<&str> {
        self.ceiling.refuses(ServiceExecutor::Container)
    }

    /// Whether anything may happen here that somebody has to know of: a volume that is removed is
    /// what a replica waited for; an image that is of no use has its time, and a container that is
    /// nobody's goes where there should be none, if they may.
    fn is_watchful(&self) -> bool {
        let has_volumes = self.volumes.as_ref().is_some_and(|volumes| !volumes.is_empty());
        let may_go = !self.fetched.is_empty() || self.config.exclusive;
        self.is_concerned() || has_volumes || (may_go && self.refusal().is_none())
    }

    /// Nothing is asked, listened to or timed any more.
    fn go_quiet(&mut self) {
        self.watch = None;
        self.arrival = None;
        self.lives = Lives::default();
        self.known.doubt();
        self.close_sections();
        (self.looked, self.look_at) = (None, None);
        self.jobs.give_up_but(|_| false);
        (self.rounds, self.doors) = (Rounds::default(), Doors::default());
    }

    /// When they are opened again, whatever they do then is news.
    fn close_sections(&mut self) {
        self.sections = None;
        self.before = Tables::default();
    }

    /// Names, routes and mesh, without a look at containers.
    async fn look_after_sections(&mut self, cause: Cause) {
        let held = self.desired.as_ref().map(|desired| desired.held.clone());
        let account = held.map(|held| Account { cause, held });
        self.settle_sections(account.as_ref()).await;
        self.say_how_sections_are().await;
        self.keep_own().await;
        self.keep_tables().await;
    }

    /// Says once that nothing is here, if somebody may think otherwise. What has an address here was
    /// there when this host was last looked at.
    async fn stay_quiet(&mut self, idle: Idle, desired: &Desired) -> Idle {
        self.reports = Some(Vec::new());
        self.has_looked |= self.addresses.is_empty();
        if !self.has_looked {
            let socket = self.config.socket.display();
            tracing::warn!(%socket, "containers ran here, and nobody can look without Podman");
        }
        if self.claim.is_some() {
            self.say_how_containers_are().await;
        }
        self.answer_who_asked(&Plan::default(), desired).await;
        idle
    }

    /// Does `work`; where that takes long, names, routes and mesh go on, and others hear of it.
    async fn meanwhile<T>(&mut self, account: &Account, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = tokio::time::timeout(PATIENCE, changes(&mut self.sections)) => {}
            }
            self.hear_of_session().await;
            self.settle_sections(Some(account)).await;
            self.say_how_sections_are().await;
        }
    }

    /// Names, routes and mesh, where there is anything to serve. What is put right without an account
    /// is not on record: only before this host was ever told what it should be.
    async fn settle_sections(&mut self, account: Option<&Account>) {
        if !self.is_concerned() {
            return;
        }
        let subnet = self.subnet();
        let account = account.map(|account| self.account_of(None, account));
        let Self { sections, config, node_type, folder, scribe, ceiling, before, .. } = self;
        let open = || {
            let before = std::mem::take(before);
            Sections::open(config, *node_type, ceiling, folder, subnet, &before)
        };
        let sections = sections.get_or_insert_with(open);
        sections.settle(&self.inbox.tables(), account.as_ref(), scribe).await;
    }
}

#[cfg(test)]
mod tests;
