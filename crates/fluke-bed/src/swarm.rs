//! A swarm: thousands of agents in one process, over the real protocol, whose hosts are simulated.
//!
//! Everything between the server and a member is real: its connection, its session, its messages.
//! Only the host is not: checks answer what the story says is so, and an apply makes it so.
//!
//! ```no_run
//! # use fluke_bed::swarm::{Swarm, SwarmOptions, Trouble, SwarmError};
//! # use fluke_model::verdict::Drift;
//! # async fn story(target: fluke_wire::client::Target) -> Result<(), SwarmError> {
//! let mut swarm = Swarm::new(SwarmOptions::to(target))?;
//! swarm.join(10_000).await?;
//! let expired = Drift::because("the certificate expired yesterday");
//! swarm.trouble("web-eu-00000", "certs/shell.renew", Trouble::Drifted(expired)).await?;
//! assert_eq!(swarm.statistics().connected, 10_000);
//! # Ok(())
//! # }
//! ```

mod agent;
mod fleet;
mod member;
mod meter;
mod repair;
mod scheme;
mod services;
mod shared;
mod timing;
mod weather;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluke_model::id::{AgentName, Hash256, InstanceId, InvalidName};
use fluke_model::label::Labels;
use fluke_model::message::NodeType;
use fluke_model::service::DeploymentReport;
use fluke_wire::client::{ConnectError, Target};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

pub use member::Trouble;
pub use meter::{Meter, Metered, Traffic};
pub use scheme::{Shares, member};
pub use timing::Timing;
pub use weather::Weather;

use agent::{Agent, Order};
use member::Member;
use scheme::Fate;
use services::Services;
use shared::Shared;

/// How many orders may wait for a member.
const ORDERS: usize = 16;
/// When nobody has got any further for this long, nobody will.
const STUCK: Duration = Duration::from_secs(30);
/// How often to look whether all have got in.
const LOOK: Duration = Duration::from_millis(10);
/// Descriptors that the process needs for other things.
const SPARE: u64 = 512;

/// What a swarm is to be like.
#[derive(Debug, Clone)]
pub struct SwarmOptions {
    /// The server.
    pub target: Target,
    /// How many may be on their way in at the same time.
    pub at_once: usize,
    /// How many are not well from the start.
    pub shares: Shares,
    /// How long a round of checks takes.
    pub check_takes: Duration,
    /// How long the apply of a step takes.
    pub apply_takes: Duration,
    /// How long a round of checks takes those that are slow: see [`Shares::slow`].
    pub slow_takes: Duration,
    /// Whether hosts keep services: run the containers that they should, are in the mesh, and hold
    /// tables. Else they have those that a story gives them.
    pub services: bool,
    /// How long a container takes to start.
    pub start_takes: Duration,
}

impl SwarmOptions {
    /// To this server; everything else as usual.
    pub fn to(target: Target) -> Self {
        Self {
            target,
            at_once: 64,
            shares: Shares::default(),
            check_takes: Duration::ZERO,
            apply_takes: Duration::ZERO,
            slow_takes: Duration::from_secs(5),
            services: false,
            start_takes: Duration::from_millis(300),
        }
    }
}

/// Why a swarm cannot do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SwarmError {
    /// Some are still outside.
    #[error(
        "{inside} of {of} agents are connected, and for {} s nobody else got in{}",
        STUCK.as_secs(),
        .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
    )]
    Stuck {
        /// How many are in.
        inside: u64,
        /// Of how many.
        of: u64,
        /// What the last one that was not let in was told.
        why: Option<String>,
    },
    /// Some have not answered.
    #[error(
        "{answered} of {of} agents have answered to the commit, and for {} s nobody else did",
        STUCK.as_secs()
    )]
    Unanswered {
        /// How many have.
        answered: u64,
        /// Of how many.
        of: u64,
    },
    /// Some have not been put right.
    #[error(
        "{repaired} of {of} hosts that drifted are repaired, and for {} s nobody else was",
        STUCK.as_secs()
    )]
    Unrepaired {
        /// How many are.
        repaired: u64,
        /// Of how many.
        of: u64,
    },
    /// Some have not been told how services are.
    #[error(
        "{hosts} of {of} hosts have the names that are waited for, and for {} s nobody else got them",
        within.as_secs()
    )]
    Untold {
        /// How many have.
        hosts: u64,
        /// Of how many.
        of: u64,
        /// How long nobody did.
        within: Duration,
    },
    /// The server's certificate cannot be checked.
    #[error(transparent)]
    Trust(#[from] ConnectError),
    /// Every agent is a descriptor.
    #[error(
        "{wanted} agents need {} file descriptors and this process may have {may}; \
         raise the hard limit (`ulimit -Hn`), or ask for fewer",
        wanted + SPARE
    )]
    TooFewFiles {
        /// How many agents there would be.
        wanted: u64,
        /// The hard limit.
        may: u64,
    },
    /// A name breaks the grammar.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Nobody has that name.
    #[error("there is no agent `{0}` in the swarm")]
    Unknown(String),
    /// There is somebody of that name.
    #[error("there is an agent `{0}` in the swarm already")]
    Taken(String),
}

/// How a swarm fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// How many have a session now.
    pub connected: u64,
    /// How many sessions there were.
    pub sessions: u64,
    /// How many attempts came to nothing.
    pub refused: u64,
    /// How many checks were answered.
    pub checks: u64,
    /// How many applies were finished.
    pub applies: u64,
    /// How many edits of tables were heard.
    pub edits: u64,
    /// How many of them did not fit.
    pub resends: u64,
}

/// How long the server, and the swarm itself, take for what. Times that members were told to take
/// are among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// From the first packet to the server's welcome.
    pub join: Timing,
    /// From a host that says that something changed to the server's asking what.
    pub notice: Timing,
    /// From a record of what was done to the server's having it.
    pub record: Timing,
    /// From a drift that befalls a host to the server's having the record of its repair; of those
    /// that are not slow.
    pub repair: Timing,
    /// From the newest commit to the answers of those whom it concerns: from when the first of
    /// them heard of it, or from [`Swarm::expects_a_commit`].
    pub commit: Timing,
    /// From the server's asking to the answer: how long the members themselves take.
    pub answer: Timing,
    /// From the last container that a story ended, to its being gone from each host's names.
    pub names: Timing,
}

/// Many agents. Dropping it ends all of their sessions.
#[derive(Debug)]
pub struct Swarm {
    shared: Arc<Shared>,
    shares: Shares,
    services: bool,
    /// How many were made by the scheme so far.
    made: u32,
    orders: BTreeMap<String, mpsc::Sender<Order>>,
    agents: JoinSet<()>,
}

impl Swarm {
    /// Nobody yet.
    pub fn new(options: SwarmOptions) -> Result<Self, SwarmError> {
        let (shares, services) = (options.shares, options.services);
        Ok(Self {
            shared: Arc::new(Shared::new(options)?),
            shares,
            services,
            made: 0,
            orders: BTreeMap::new(),
            agents: JoinSet::new(),
        })
    }

    /// Adds members by the scheme, and waits until all are in. Says how long that took.
    pub async fn join(&mut self, count: u32) -> Result<Duration, SwarmError> {
        allow_files(self.orders.len() as u64 + u64::from(count))?;
        let began = Instant::now();
        for number in self.made..self.made + count {
            let (name, labels) = scheme::member(number)?;
            let fate = Fate::of(number, self.shares);
            let node_type = self.shares.node_type(number);
            self.add(name, labels, fate, self.shares.is_slow(number), node_type)?;
        }
        self.made += count;
        self.all_are_in().await?;
        Ok(began.elapsed())
    }

    /// Adds one with a name and labels of its own who is well, and waits until it is in.
    pub async fn join_as(&mut self, name: &str, labels: Labels) -> Result<(), SwarmError> {
        self.add(AgentName::new(name)?, labels, Fate::Well, false, NodeType::Worker)?;
        self.all_are_in().await
    }

    /// The same, with a proxy, which loads whatever routes it is told.
    pub async fn join_as_proxy(&mut self, name: &str, labels: Labels) -> Result<(), SwarmError> {
        self.add(AgentName::new(name)?, labels, Fate::Well, false, NodeType::Proxy)?;
        self.all_are_in().await
    }

    /// These are all containers of services that a host has, from now on and in every session.
    pub async fn runs(
        &self,
        name: &str,
        deployments: Vec<DeploymentReport>,
    ) -> Result<(), SwarmError> {
        self.order(name, Order::Run(deployments)).await
    }

    /// Something goes wrong with a step (`task/kind.name`) on a host.
    pub async fn trouble(
        &self,
        name: &str,
        place: &str,
        trouble: Trouble,
    ) -> Result<(), SwarmError> {
        self.order(name, Order::Suffer(Box::new((place.to_owned(), trouble)))).await
    }

    /// Somebody puts a step right by hand.
    pub async fn recover(&self, name: &str, place: &str) -> Result<(), SwarmError> {
        self.order(name, Order::Recover { place: place.to_owned() }).await
    }

    /// An agent goes away, and stays away.
    pub async fn leave(&self, name: &str) -> Result<(), SwarmError> {
        self.order(name, Order::Leave).await
    }

    /// An agent that went away comes back.
    pub async fn come_back(&self, name: &str) -> Result<(), SwarmError> {
        self.order(name, Order::ComeBack).await
    }

    /// An agent's connection breaks without a word; it comes back by itself.
    pub async fn breaks(&self, name: &str) -> Result<(), SwarmError> {
        self.order(name, Order::Break).await
    }

    /// The same, of all of them at once.
    pub async fn breaks_everywhere(&self) -> Result<(), SwarmError> {
        for name in self.orders.keys() {
            self.breaks(name).await?;
        }
        Ok(())
    }

    /// Lets it befall the swarm as it is now, until the future is dropped.
    pub fn weather(&self, weather: Weather) -> impl Future<Output = ()> + use<> {
        weather.blows_over(self.orders.values().cloned().collect())
    }

    /// [`Timings::commit`] of the next commit that anybody hears of counts from now.
    pub fn expects_a_commit(&self) {
        lock(&self.shared.round).expected = Some(Instant::now());
        self.shared.stopwatches.commit.forget();
    }

    /// Waits until so many have answered to the newest commit, and says how long that took them.
    pub async fn answers_to_commit(&self, of: u64) -> Result<Timing, SwarmError> {
        let times = &self.shared.stopwatches.commit;
        match self.gets_to(of, || times.count()).await {
            Ok(()) => Ok(times.sum_up()),
            Err(answered) => Err(SwarmError::Unanswered { answered, of }),
        }
    }

    /// From now on, applies that began do not end.
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    /// They end now.
    pub fn release(&self) {
        self.shared.held.send_replace(false);
    }

    /// How it fares.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// What went over the wire so far, in all sessions.
    pub fn traffic(&self) -> Traffic {
        self.shared.meter.traffic()
    }

    /// How long everything took so far.
    pub fn timings(&self) -> Timings {
        self.shared.timings()
    }

    /// Forgets how long everything took so far: what follows is measured by itself.
    pub fn forgets_timings(&self) {
        self.shared.forgets_timings();
    }

    fn add(
        &mut self,
        name: AgentName,
        labels: Labels,
        fate: Fate,
        is_slow: bool,
        node_type: NodeType,
    ) -> Result<(), SwarmError> {
        if self.orders.contains_key(name.as_str()) {
            return Err(SwarmError::Taken(name.to_string()));
        }
        let (orders, heard) = mpsc::channel(ORDERS);
        let shelves = self.shared.shelves.clone();
        let services = match self.services {
            true => Services::kept(name.clone(), node_type, shelves),
            false => Services::told(node_type, shelves),
        };
        self.orders.insert(name.as_str().to_owned(), orders);
        let agent = Agent {
            // The same in another process: a swarm that is started again is the same hosts.
            instance: InstanceId(first_word(&Hash256::of(name.as_str().as_bytes()))),
            name,
            labels,
            node_type,
            member: Member::new(fate, services),
            is_slow,
            made_at: None,
            noted: 0,
            shared: self.shared.clone(),
            orders: heard,
        };
        self.agents.spawn(agent.run());
        Ok(())
    }

    async fn order(&self, name: &str, order: Order) -> Result<(), SwarmError> {
        let unknown = || SwarmError::Unknown(name.to_owned());
        let member = self.orders.get(name).ok_or_else(unknown)?;
        member.send(order).await.map_err(|_| unknown())
    }

    /// Waits until as many have a session as there are members.
    pub async fn all_are_in(&self) -> Result<(), SwarmError> {
        let of = self.orders.len() as u64;
        let connected = || self.statistics().connected;
        self.gets_to(of, connected).await.map_err(|inside| SwarmError::Stuck {
            inside,
            of,
            why: lock(&self.shared.why).clone(),
        })
    }

    /// Waits until a count has come to `goal`; fails with where it got stuck.
    async fn gets_to(&self, goal: u64, count: impl Fn() -> u64) -> Result<(), u64> {
        self.gets_to_within(STUCK, goal, count).await
    }

    async fn gets_to_within(
        &self,
        stuck: Duration,
        goal: u64,
        count: impl Fn() -> u64,
    ) -> Result<(), u64> {
        let (mut reached, mut since) = (0, Instant::now());
        loop {
            let now = count();
            if now >= goal {
                return Ok(());
            }
            if now > reached {
                (reached, since) = (now, Instant::now());
            }
            if since.elapsed() > stuck {
                return Err(reached);
            }
            sleep(LOOK).await;
        }
    }
}

/// Every member is a descriptor: takes as many as this process may have.
fn allow_files(agents: u64) -> Result<(), SwarmError> {
    let files = Resource::RLIMIT_NOFILE;
    let Ok((soft, hard)) = getrlimit(files) else { return Ok(()) };
    if soft < hard {
        // What it was is enough for a small swarm; a large one hears of it below.
        let _ = setrlimit(files, hard, hard);
    }
    match hard < agents + SPARE {
        true => Err(SwarmError::TooFewFiles { wanted: agents, may: hard }),
        false => Ok(()),
    }
}

fn first_word(hash: &Hash256) -> u64 {
    hash.as_bytes()[..8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
