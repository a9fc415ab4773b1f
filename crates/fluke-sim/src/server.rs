//! One life of the server: the real fleet, registry, sessions and machines, on simulated ground.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fluke_manifest::{DEFAULT_GLOB, Loader};
use fluke_model::api::{ReconcileRequest, ReconcileScope};
use fluke_model::event::{Event, EventKind};
use fluke_model::id::CommitId;
use fluke_model::policy::Policy;
use fluke_model::snapshot::Compiler;
use fluke_model::time::Timestamp;
use fluke_server::alert::{Alert, AlertSink};
use fluke_server::changes::Changes;
use fluke_server::clock::Clock;
use fluke_server::events::memory::{MemoryBounds, MemoryStore};
use fluke_server::events::{EventLog, EventSink, QueueBounds};
use fluke_server::fleet::Fleet;
use fluke_server::outlets::Outlets;
use fluke_server::reconciles::Reconciles;
use fluke_server::registry::Registry;
use fluke_server::services::desk::Desk;
use fluke_server::source::Desired;
use fluke_server::trust::{Grant, Trust};
use fluke_wire::server::{Accepted, serve};
use futures_util::stream;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::net::{End, Net};
use crate::repo::Repo;
use crate::trace::{ServerLife, Trace, What};

/// How often agents are checked.
pub const POLL: Duration = Duration::from_secs(60);
/// How often each side says that it is here.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the branch is looked at.
const GIT_POLL: Duration = Duration::from_secs(30);
/// How long a look takes.
const GIT_LOOK: Duration = Duration::from_millis(300);
/// What agents come in with.
pub const TOKEN: &str = "a-token";
const EPOCH: u64 = 1_790_000_000_000;

/// What outlives a server.
#[derive(Clone)]
pub struct Ground {
    /// What it follows.
    pub repo: Repo,
    /// How agents come.
    pub net: Net,
    /// Where everything is written down.
    pub trace: Trace,
    /// How far its clock on the wall is ahead, in milliseconds.
    pub clock_ahead: Arc<AtomicI64>,
    /// When time began.
    pub began: Instant,
}

/// A server that lives.
pub struct Server {
    /// Which life.
    pub life: ServerLife,
    /// Who is connected.
    pub registry: Arc<Registry>,
    reconciles: Arc<Reconciles>,
    desired: watch::Receiver<Option<Arc<Desired>>>,
    asked: Mutex<Vec<String>>,
    poked: Arc<Notify>,
    tap: Arc<Tap>,
    clock: Clock,
    stopping: watch::Sender<bool>,
    serving: JoinHandle<()>,
    loops: Vec<JoinHandle<()>>,
    net: Net,
}

/// Writes down what a server says, for as long as it lives.
struct Tap {
    life: ServerLife,
    dead: AtomicBool,
    trace: Trace,
    log: Arc<EventLog>,
}

impl Tap {
    fn lives(&self) -> bool {
        !self.dead.load(Ordering::Relaxed)
    }
}

impl EventSink for Tap {
    fn record(&self, event: Event) {
        if self.lives() {
            self.trace.note(What::Event(self.life, Box::new(event.clone())));
            self.log.record(event);
        }
    }
}

impl AlertSink for Tap {
    fn send(&self, alert: Alert) {
        if self.lives() {
            self.trace.note(What::Alert(self.life, Box::new(alert)));
        }
    }
}

impl Server {
    /// Begins to serve.
    pub async fn start(life: ServerLife, ground: &Ground) -> Self {
        let Ground { repo, net, trace, clock_ahead, began } = ground.clone();
        trace.note(What::ServerBegan(life));
        let changes = Changes::with_backlog(16);
        let store = Arc::new(MemoryStore::new(MemoryBounds::default()));
        let (log, writer) = EventLog::start(store, changes.clone(), QueueBounds::default()).await;
        let tap = Arc::new(Tap { life, dead: AtomicBool::new(false), trace: trace.clone(), log });
        let registry = Arc::new(Registry::default());
        let reconciles = Arc::new(Reconciles::new(registry.clone(), tap.clone(), changes.clone()));
        let clock = Clock::showing(move || {
            let passed = began.elapsed().as_millis() as u64;
            Timestamp((EPOCH + passed).saturating_add_signed(clock_ahead.load(Ordering::Relaxed)))
        });
        let (publish, desired) = watch::channel(None);
        let (stopping, stopped) = watch::channel(false);
        let (open, _) = mpsc::channel(1);
        let outlets = Outlets {
            events: tap.clone(),
            alerts: Some(tap.clone()),
            reconciles: reconciles.clone(),
            changes: changes.clone(),
            meter: Arc::default(),
        };
        let desk = Desk::start(desired.clone(), tap.clone(), changes, clock.clone());
        let fleet = Fleet {
            trust: Arc::new(Trust::new(vec![Grant::any(TOKEN)])),
            registry: registry.clone(),
            desk,
            outlets,
            poll_interval: POLL,
            heartbeat: HEARTBEAT,
            stopping: stopped.clone(),
            clock: clock.clone(),
            events: tap.log.clone(),
            open,
        };
        let poked = Arc::new(Notify::new());
        let source = Source { life, repo, publish, tap: tap.clone(), clock: clock.clone() };
        let serving = serve_agents(fleet, &net, stopped);
        let loops = vec![writer, tokio::spawn(source.run(poked.clone()))];
        let asked = Mutex::default();
        Self {
            life,
            registry,
            reconciles,
            desired,
            asked,
            poked,
            tap,
            clock,
            stopping,
            serving,
            loops,
            net,
        }
    }

    /// Somebody pushed, and a webhook says so.
    pub fn poke(&self) {
        self.poked.notify_one();
    }

    /// Somebody asks for a reconcile.
    pub fn reconcile(&self, scope: ReconcileScope, name: Option<String>) {
        self.tap.trace.note(What::Asked);
        let request = ReconcileRequest { scope, name, agent: None, seen: None, by: None };
        let desired = self.desired.borrow().clone();
        let now = self.clock.read().wall;
        // An agent or a task that is not there is refused, as it should be.
        let accepted =
            self.reconciles.start(&request, "somebody".to_owned(), desired.as_deref(), now);
        if let Ok(accepted) = accepted {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(accepted.id);
        }
    }

    /// The reconciles that have not ended.
    pub fn unfinished(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_over = |id: &String| self.reconciles.progress(id).is_none_or(|it| it.done);
        asked.into_iter().filter(|id| !is_over(id)).collect()
    }

    /// What its clock on the wall shows.
    pub fn wall(&self) -> Timestamp {
        self.clock.read().wall
    }

    /// Ends as it was told to: sessions first.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        self.net.close_door();
        let _ = self.serving.await;
        self.tap.dead.store(true, Ordering::Relaxed);
        self.net.process_gone(End::Server, None);
        self.loops.iter().for_each(JoinHandle::abort);
    }

    /// Ends at once, without a word; the system closes its connections, or is gone as well.
    pub fn kill(self, machine_too: bool) {
        self.tap.dead.store(true, Ordering::Relaxed);
        self.net.close_door();
        match machine_too {
            true => self.net.machine_gone(End::Server, None),
            false => self.net.process_gone(End::Server, None),
        }
        self.serving.abort();
        self.loops.iter().for_each(JoinHandle::abort);
    }
}

fn serve_agents(fleet: Fleet, net: &Net, mut stopped: watch::Receiver<bool>) -> JoinHandle<()> {
    let arrivals = stream::unfold(net.listen(), |mut arrivals| async {
        let io = arrivals.recv().await?;
        Some((Ok(Accepted::new(io, None)), arrivals))
    });
    tokio::spawn(async move {
        // A door that closes must not look like the end of serving.
        let arrivals = futures_util::StreamExt::chain(arrivals, stream::pending());
        let stop = async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        let _ = serve(Arc::new(fleet), arrivals, stop).await;
    })
}

/// Follows the branch, as the real source does.
struct Source {
    life: ServerLife,
    repo: Repo,
    publish: watch::Sender<Option<Arc<Desired>>>,
    tap: Arc<Tap>,
    clock: Clock,
}

impl Source {
    async fn run(self, poked: Arc<Notify>) {
        let Ok(mut loader) = Loader::new(DEFAULT_GLOB) else { return };
        let mut seen = None;
        loop {
            sleep(GIT_LOOK).await;
            if let Some(head) = self.repo.head()
                && seen.as_ref() != Some(&head.id)
            {
                seen = Some(head.id.clone());
                self.judge(&head.id, loader.load(&head.tree()).model);
            }
            tokio::select! {
                biased;
                () = poked.notified() => {}
                () = sleep(GIT_POLL) => {}
            }
        }
    }

    fn judge(&self, id: &str, model: Option<fluke_model::snapshot::Model>) {
        let (commit, since) = (CommitId::new(id), self.clock.read().wall);
        let kind = match model {
            Some(_) => EventKind::CommitAccepted,
            None => EventKind::CommitRejected,
        };
        self.tap.record(Event { commit: Some(commit.clone()), ..Event::new(kind, since) });
        if let Some(model) = model {
            let compiler = match &*self.publish.borrow() {
                Some(before) => before.compiler.follow(&model),
                None => Compiler::new(&model, Policy::Remediate),
            };
            self.tap.trace.note(What::InForce(self.life, id.to_owned()));
            self.publish.send_replace(Some(Arc::new(Desired::new(commit, since, model, compiler))));
        }
    }
}
