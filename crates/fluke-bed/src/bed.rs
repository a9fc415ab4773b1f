//! A bed for one story: hosts, a repository, a server; and what they tell.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fluke_model::api;
use fluke_model::event::{Event, EventKind};
use fluke_model::id::CommitId;
use fluke_model::status::Status;

use crate::account::chain;
use crate::host::Host;
use crate::link::Link;
use crate::network::GATEWAY;
use crate::places::Lock;
use crate::repository::Repository;
use crate::server::{Server, ServerOptions};
use crate::site::{Power, Site, SiteError};
use crate::turns::{BEDS, BOOTS, Turn};

/// Longer than anything may take on a busy machine; a story that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(90);
/// Set to keep the bed of a story that failed; `cargo bed list` shows it.
const KEEP: &str = "FLUKE_BED_KEEP";

/// A fleet of real hosts for one story. Dropped, it leaves nothing behind.
pub struct Bed(Arc<Inner>);

/// What hosts share with their bed.
pub(crate) struct Inner {
    pub(crate) site: Site,
    program: PathBuf,
    pub(crate) repository: Repository,
    pub(crate) server: OnceLock<Server>,
    state: Mutex<State>,
    // Last: another story may only come when everything of this one is gone.
    _owner: Lock,
    _turn: Turn,
}

#[derive(Default)]
struct State {
    /// Hosts that have an agent.
    joined: BTreeSet<String>,
    /// Those of them whose agents are to be as Git says.
    in_play: BTreeSet<String>,
    links: Vec<Arc<Link>>,
}

impl Bed {
    /// A bed for the story that this test tells, with the program under test; none where there
    /// can be no bed: then the reason is on stderr, or, with `CI` set, the test has failed.
    pub fn up(program: impl AsRef<Path>) -> Option<Self> {
        let turn = BEDS.take();
        let thread = std::thread::current();
        match Site::for_story(thread.name().unwrap_or("a story")) {
            Ok((site, owner)) => Some(Self::on(site, owner, turn, program.as_ref())),
            Err(error @ (SiteError::Machine(_) | SiteError::Image(_))) => {
                skip(&error);
                None
            }
            Err(error) => panic!("the bed could not be made: {}", chain(&error)),
        }
    }

    fn on(site: Site, owner: Lock, turn: Turn, program: &Path) -> Self {
        let program = install(&site, program, "fluke");
        let repository = Repository::new(site.folder().join("repository"));
        repository.commit("begin", &[("README.md", "what hosts should be\n")]);
        Self(Arc::new(Inner {
            site,
            program,
            repository,
            server: OnceLock::new(),
            state: Mutex::default(),
            _owner: owner,
            _turn: turn,
        }))
    }

    /// The host of that name; booted at its first mention.
    pub fn host(&self, name: &str) -> Host {
        let number = self.0.site.add(name).unwrap_or_else(|error| panic!("{error}"));
        let host = Host { bed: self.0.clone(), name: name.into(), number };
        if self.0.site.power(name).is_ok_and(|power| power == Power::Absent) {
            host.start();
        }
        host
    }

    /// Several hosts, booted side by side.
    pub fn hosts<const N: usize>(&self, names: [&str; N]) -> [Host; N] {
        std::thread::scope(|scope| {
            let booting = names.map(|name| scope.spawn(move || self.host(name)));
            booting.map(|host| host.join().expect("a host boots"))
        })
    }

    /// Every host has this program as `/opt/fluke/NAME`.
    pub fn brings(&self, program: &Path, name: &str) {
        install(&self.0.site, program, name);
    }

    /// The machine's address on the bed, where servers listen.
    pub fn gateway(&self) -> Ipv4Addr {
        self.0.gateway()
    }

    /// Everything of this bed is in there, and goes with it.
    pub fn folder(&self) -> &Path {
        self.0.site.folder()
    }

    // === The server ===

    /// The server; started at its first mention.
    pub fn server(&self) -> &Server {
        self.0.server()
    }

    /// Starts the server as the story wants it. To be called before any host joins.
    pub fn server_with(&self, options: ServerOptions) -> &Server {
        assert!(self.0.server.get().is_none(), "there is a server already");
        self.0.server_or(options)
    }

    /// A way to the server that can be slow, silent or torn; for [`crate::Join::via`].
    pub fn link(&self) -> Arc<Link> {
        let link = Link::new(self.gateway(), self.server().grpc()).expect("a port for a link");
        let link = Arc::new(link);
        self.0.state().links.push(link.clone());
        link
    }

    /// The repository that the server tracks.
    pub fn repository(&self) -> &Repository {
        &self.0.repository
    }

    /// Commits one file and pushes it: the forge tells the server, if there is one.
    pub fn commit(&self, file: &str, text: &str) -> CommitId {
        self.commit_files(&[(file, text)])
    }

    /// The same, for several files.
    pub fn commit_files(&self, files: &[(&str, &str)]) -> CommitId {
        let commit = self.0.repository.commit("a commit", files);
        if let Some(server) = self.0.server.get().filter(|server| server.is_running()) {
            let told = server.pushed(commit.as_str());
            told.unwrap_or_else(|error| panic!("the push was not taken: {error}"));
        }
        commit
    }

    // === The network ===

    /// Nothing gets to or from the host any more; it sees nothing of it but silence.
    pub fn partition(&self, host: &Host) {
        done(self.0.site.network.isolate(host.number));
    }

    /// Undoes the partition of one host.
    pub fn reunite(&self, host: &Host) {
        done(self.0.site.network.reunite(host.number));
    }

    /// Nothing gets between the two any more: hosts, or [`Bed::gateway`] for the server.
    pub fn cut(&self, one: impl Into<Ipv4Addr>, other: impl Into<Ipv4Addr>) {
        let (one, other) = (one.into(), other.into());
        done(self.0.site.network.cut(one, other));
        done(self.0.site.network.cut(other, one));
    }

    /// Nothing gets from the one to the other any more; the other way is free.
    pub fn mute(&self, from: impl Into<Ipv4Addr>, to: impl Into<Ipv4Addr>) {
        done(self.0.site.network.cut(from.into(), to.into()));
    }

    /// Loses so many of a hundred packets to and from the host.
    pub fn lossy(&self, host: &Host, percent: u8) {
        done(self.0.site.network.lose(host.number, percent));
    }

    /// Pulls the host's cable: unlike a partition, the host sees it.
    pub fn unplug(&self, host: &Host) {
        done(self.0.site.network.carry(host.number, false));
    }

    /// Puts the cable back.
    pub fn plug(&self, host: &Host) {
        done(self.0.site.network.carry(host.number, true));
    }

    /// Undoes every partition, cut and loss, and heals every link.
    pub fn heal(&self) {
        done(self.0.site.network.heal());
        self.0.state().links.iter().for_each(|link| link.heal());
    }

    // === What is known ===

    /// Waits until every host whose agent is in play is `in_sync` at the newest commit. Hosts that
    /// were stopped or killed are not in play until they are started.
    ///
    /// # Panics
    /// When that takes too long; tells how everything stands.
    pub fn settles(&self) {
        self.until("the fleet has settled", |bed| bed.unsettled().is_empty());
    }

    /// Waits for a state.
    ///
    /// # Panics
    /// When it does not come; tells how everything stands.
    pub fn until(&self, what: &str, holds: impl Fn(&Bed) -> bool) {
        self.0.wait(what, || holds(self));
    }

    /// Those in play that are not as the newest commit says.
    fn unsettled(&self) -> Vec<String> {
        let names = self.0.state().in_play.clone();
        names.into_iter().filter(|name| !self.0.is_settled(name)).collect()
    }

    /// What the server knows of an agent.
    pub fn agent(&self, name: &str) -> Seen {
        Seen::of(self.0.agent(name))
    }

    /// Every agent that the server knows.
    pub fn agents(&self) -> Vec<api::Agent> {
        self.0.agents()
    }

    /// What is drifted now.
    pub fn drift(&self) -> Vec<api::DriftEntry> {
        self.server().get::<api::DriftList>("/api/v1/drift").map_or(Vec::new(), |list| list.drift)
    }

    /// The source, as the server sees it.
    pub fn source(&self) -> api::Source {
        self.server().get("/api/v1/source").unwrap_or_else(|error| panic!("no source: {error}"))
    }

    /// What happened on a host, oldest first.
    pub fn events(&self, agent: &str) -> Vec<Event> {
        self.0.events(Some(agent))
    }

    /// What happened anywhere, oldest first.
    pub fn all_events(&self) -> Vec<Event> {
        self.0.events(None)
    }

    /// Events of one kind on a host, oldest first.
    pub fn events_of(&self, agent: &str, kind: EventKind) -> Vec<Event> {
        self.events(agent).into_iter().filter(|event| event.kind == kind).collect()
    }

    /// How often steps were applied on a host so far, as the server tells it.
    pub fn applies(&self, agent: &str) -> usize {
        self.events_of(agent, EventKind::ApplyStarted).len()
    }

    /// How everything stands: agents, drift, and what happened, a line each.
    pub fn account(&self) -> String {
        self.0.account()
    }
}

/// What the server knows of an agent; of one that was never seen, that it is not there.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Whether its stream is open.
    pub connected: bool,
    /// How it stands.
    pub status: Status,
    /// All of it.
    pub detail: Option<api::AgentDetail>,
}

impl Seen {
    fn of(detail: Option<api::AgentDetail>) -> Self {
        let agent = detail.as_ref().map(|detail| &detail.agent);
        Self {
            connected: agent.is_some_and(|agent| agent.connected),
            status: agent.map_or(Status::Unknown, |agent| agent.status),
            detail,
        }
    }

    /// One step of it: `task/kind.name`.
    pub fn step(&self, place: &str) -> Option<api::AgentStep> {
        let (task, step) = place.split_once('/').expect("task/step");
        let mut tasks = self.detail.iter().flat_map(|detail| &detail.task_details);
        let task = tasks.find(|known| known.name.as_str() == task)?;
        task.steps.iter().find(|known| known.step.to_string() == step).cloned()
    }
}

impl Inner {
    /// Whether the agent of a host is to be as Git says.
    pub(crate) fn is_in_play(&self, host: &str) -> bool {
        self.state().in_play.contains(host)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gateway(&self) -> Ipv4Addr {
        self.site.network.subnet.address(GATEWAY)
    }

    /// The host has an agent, which is to be as Git says.
    pub(crate) fn joins(&self, host: &str) {
        self.state().joined.insert(host.into());
        self.plays(host, true);
    }

    /// Whether the agent of a host, if it has one, is to be as Git says from now on.
    pub(crate) fn plays(&self, host: &str, plays: bool) {
        let mut state = self.state();
        match plays && state.joined.contains(host) {
            true => state.in_play.insert(host.into()),
            false => state.in_play.remove(host),
        };
    }

    pub(crate) fn server(&self) -> &Server {
        self.server_or(ServerOptions::default())
    }

    fn server_or(&self, options: ServerOptions) -> &Server {
        self.server.get_or_init(|| {
            let folder = self.site.folder().join("server");
            let repository = self.repository.path();
            let server = Server::new(&self.program, &folder, self.gateway(), repository, options);
            let server = server.unwrap_or_else(|error| panic!("no place for a server: {error}"));
            server.start();
            server
        })
    }

    pub(crate) fn agents(&self) -> Vec<api::Agent> {
        let Some(server) = self.server.get() else { return Vec::new() };
        server.get::<api::Agents>("/api/v1/agents").map_or(Vec::new(), |list| list.agents)
    }

    pub(crate) fn agent(&self, name: &str) -> Option<api::AgentDetail> {
        self.server.get()?.get(&format!("/api/v1/agents/{name}")).ok()
    }

    pub(crate) fn events(&self, agent: Option<&str>) -> Vec<Event> {
        self.server.get().map_or(Vec::new(), |server| server.events(agent))
    }

    /// Whether a host is `in_sync` at the newest commit.
    pub(crate) fn is_settled(&self, name: &str) -> bool {
        let newest = self.repository.head();
        let agent = self.agent(name).map(|detail| detail.agent);
        agent.is_some_and(|agent| {
            agent.connected && agent.commit == Some(newest) && agent.status == Status::InSync
        })
    }

    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Inner) -> bool) {
        self.wait(what, || holds(self));
    }

    fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            let late = Instant::now() >= deadline;
            assert!(!late, "waited in vain until {what}\n{}", self.account());
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for Inner {
    #[expect(clippy::print_stderr, reason = "a test that fails tells why there")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.last_words());
            if std::env::var_os(KEEP).is_some() && self.site.keep().is_ok() {
                eprintln!("kept: bed `{}`; `cargo bed list`", self.site.id());
                return;
            }
        }
        if let Some(server) = self.server.get() {
            server.kill();
        }
        let _turn = BOOTS.take();
        if let Err(error) = self.site.remove() {
            eprintln!("the bed {} was not taken down: {}", self.site.id(), chain(&error));
        }
    }
}

/// Puts the program under test where every host has it.
fn install(site: &Site, program: &Path, name: &str) -> PathBuf {
    let folder = site.folder().join("bin");
    std::fs::create_dir_all(&folder).expect("a folder for the program");
    let placed = folder.join(name);
    // A new build makes a new file: what hosts run stays what the story began with.
    let linked = std::fs::hard_link(program, &placed);
    linked
        .or_else(|_| std::fs::copy(program, &placed).map(drop))
        .unwrap_or_else(|error| panic!("could not take {}: {error}", program.display()));
    placed
}

#[expect(clippy::print_stderr, reason = "tests that do not run say so there")]
fn skip(error: &SiteError) {
    let why = chain(error);
    assert!(std::env::var_os("CI").is_none(), "there can be no bed here: {why}");
    eprintln!("SKIP: no bed: {why}");
}

fn done(result: Result<(), crate::command::CommandError>) {
    result.unwrap_or_else(|error| panic!("the network could not be changed: {}", chain(&error)));
}
