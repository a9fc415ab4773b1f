//! Puts the server together, starts it, and stops it in order.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::policy::Policy;
use fluke_model::secret::Secret;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::alert::{AlertSettings, AlertSink, Alerter, AlerterError};
use crate::changes::{Change, Changes};
use crate::clock::Clock;
use crate::events::memory::{MemoryBounds, MemoryStore};
use crate::events::redis::{RedisSettings, RedisStore};
use crate::events::{EventLog, EventStore, QueueBounds};
use crate::fleet::Fleet;
use crate::http::auth::ApiTokens;
use crate::http::{
    App, LocalSocket, Parts, Patience, Place, SocketError, serve_http, serve_socket,
};
use crate::meter::Meter;
use crate::outlets::Outlets;
use crate::reconciles::Reconciles;
use crate::registry::Registry;
use crate::services::desk::Desk;
use crate::source::{Source, SourceConfig, SourceHandle};
use crate::strikes::Strikes;
use crate::tls::{Certificates, Listener, Speaks, TlsError, TlsFiles, own_host, own_names};
use crate::trust::{Grant, Trust};

/// How often each side of a stream says that it is here.
pub const HEARTBEAT: Duration = Duration::from_secs(30);
/// How long the last alerts and events may take to leave when the server stops.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// All that a server is told at its start.
pub struct Settings {
    /// Where agents connect: the first of these that can be had.
    pub listen_grpc: Vec<String>,
    /// Where people and programs connect.
    pub listen_http: Vec<String>,
    /// For local administration.
    pub socket: Option<PathBuf>,
    /// Whose agents are let in.
    pub grants: Vec<Grant>,
    /// Who may use the API over the network.
    pub api_tokens: Vec<Secret>,
    /// Names that lead to the HTTP side, besides those that are known to.
    pub http_names: Vec<String>,
    /// Where desired state comes from.
    pub source: SourceConfig,
    /// Which files of it are manifests.
    pub manifest_glob: String,
    /// How often agents are checked.
    pub poll_interval: Duration,
    /// What pushes are signed with.
    pub webhook_secret: Option<Secret>,
    /// For tasks that name no policy.
    pub default_policy: Policy,
    /// Whom drift is told to.
    pub alert_webhook: Option<Secret>,
    /// Where history is kept.
    pub history: History,
    /// How both listeners speak.
    pub tls: TlsSettings,
    /// How often each side of a stream says that it is here.
    pub heartbeat: Duration,
    /// Where people and programs are served: on other threads than agents, neither crowd stands in
    /// the other's way.
    pub http_runtime: Handle,
}

/// Where history is kept.
#[derive(Debug, Clone)]
pub enum History {
    /// In memory, until the process ends.
    Memory {
        /// How many events of each agent.
        max_events_per_agent: usize,
    },
    /// In Redis, until its time is up.
    Redis(RedisSettings),
}

/// How listeners speak.
#[derive(Debug, Clone)]
pub enum TlsSettings {
    /// In the clear.
    Off,
    /// With a certificate that was given.
    Files(TlsFiles),
    /// With a certificate of the server's own CA, kept in this directory.
    Own(PathBuf),
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be had.
    #[error("could not listen on {address} for {what}; is another server running there?")]
    Listen {
        /// For whom.
        what: &'static str,
        /// Where.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No certificate can be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The local socket cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The manifest glob is no glob.
    #[error("`manifest_glob` is not a valid pattern")]
    Glob(#[from] fluke_manifest::GlobError),
    /// The alert webhook makes no sense.
    #[error(transparent)]
    Alerter(#[from] AlerterError),
}

/// A server that runs.
pub struct Server {
    /// Where agents connect.
    pub grpc: SocketAddr,
    /// Where people connect.
    pub http: SocketAddr,
    /// What is known of the source, and the way to have it looked at.
    pub source: SourceHandle,
    /// Who is connected.
    pub registry: Arc<Registry>,
    /// What happened.
    pub events: Arc<EventLog>,
    /// What changes.
    pub changes: Changes,
    /// What TLS is spoken with, if any is.
    pub certificates: Option<Arc<Certificates>>,
    trust: Arc<Trust>,
    api_tokens: Arc<ApiTokens>,
    alerter: Option<Arc<Alerter>>,
    stopping: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
    /// Closed when the last session has ended.
    sessions: mpsc::Receiver<Infallible>,
    loops: Vec<JoinHandle<()>>,
}

/// What a server listens on.
struct Doors {
    grpc: Listener,
    http: Listener,
    socket: Option<LocalSocket>,
    certificates: Option<Arc<Certificates>>,
    addresses: [SocketAddr; 2],
}

impl Server {
    /// Takes every address first, so that a server that starts serves everything.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let doors = Doors::open(&settings).await?;
        let changes = Changes::default();
        let (events, event_writer) = start_events(&settings.history, &changes).await;
        let loader = fluke_manifest::Loader::new(&settings.manifest_glob)?;
        let (source, handle) =
            Source::new(settings.source, loader, settings.default_policy, events.clone());
        let alerter = match &settings.alert_webhook {
            Some(url) => {
                let settings = AlertSettings::new(url.expose());
                Some(Arc::new(Alerter::start(settings, events.clone())?))
            }
            None => None,
        };
        let registry = Arc::new(Registry::telling(changes.clone()));
        let reconciles =
            Arc::new(Reconciles::new(registry.clone(), events.clone(), changes.clone()));
        let trust = Arc::new(Trust::new(settings.grants));
        let api_tokens = settings.api_tokens.iter().map(Secret::expose);
        let api_tokens = Arc::new(ApiTokens::new(api_tokens));
        let meter = Arc::new(Meter::default());
        let (stopping, stopped) = watch::channel(false);
        let (open, sessions) = mpsc::channel(1);
        let clock = Clock::default();
        let desk =
            Desk::start(handle.desired.clone(), events.clone(), changes.clone(), clock.clone());
        let fleet = Fleet {
            trust: trust.clone(),
            registry: registry.clone(),
            desk: desk.clone(),
            outlets: Outlets {
                events: events.clone(),
                alerts: alerter.clone().map(|alerter| alerter as Arc<dyn AlertSink>),
                reconciles: reconciles.clone(),
                changes: changes.clone(),
                meter: meter.clone(),
            },
            events: events.clone(),
            poll_interval: settings.poll_interval,
            heartbeat: settings.heartbeat,
            stopping: stopped.clone(),
            clock,
            open,
        };
        let pushes = handle.clone();
        let http_runtime = settings.http_runtime;
        let parts = Parts {
            registry: registry.clone(),
            reconciles,
            desired: desk.desired(),
            desk,
            source: handle.status.clone(),
            pushed: Arc::new(move |push| pushes.pushed(push)),
            events: events.clone(),
            changes: changes.clone(),
            alerter: alerter.clone(),
            api_tokens: api_tokens.clone(),
            strikes: Strikes::default(),
            webhook_secret: settings.webhook_secret.map(|secret| secret.expose().to_string()),
            default_policy: settings.default_policy,
            meter,
            polls: handle.polls.clone(),
            place: doors.place(settings.socket, settings.http_names),
            patience: Patience::USUAL,
        };
        let app = {
            // What it begins goes on there.
            let _there = http_runtime.enter();
            App::new(parts)
        };
        let ([grpc, http], certificates) = (doors.addresses, doors.certificates.clone());
        let listeners = doors.serve(fleet, app, &http_runtime, &stopped);
        let mut loops = vec![
            tokio::spawn(source.run()),
            tokio::spawn(tell_of_source(handle.clone(), changes.clone())),
            event_writer,
        ];
        loops.extend(certificates.clone().map(|in_use| tokio::spawn(in_use.keep_fresh())));
        Ok(Self {
            grpc,
            http,
            source: handle,
            registry,
            events,
            changes,
            certificates,
            trust,
            api_tokens,
            alerter,
            stopping,
            listeners,
            sessions,
            loops,
        })
    }

    /// From now on only these tokens are good; whoever is in stays in.
    pub fn replace_tokens(&self, grants: Vec<Grant>, api_tokens: &[Secret]) {
        self.trust.replace(grants);
        self.api_tokens.replace(api_tokens.iter().map(Secret::expose));
    }

    /// Lets agents go (they come back at once), ends requests, and sends what is left to say.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        for listener in self.listeners {
            // A listener that panicked has stopped as well.
            let _ = listener.await;
        }
        // A stream may be over before its session has recorded that it is.
        let _ = tokio::time::timeout(LAST_WORDS, self.sessions.recv()).await;
        if let Some(alerter) = &self.alerter {
            let left = alerter.close(LAST_WORDS).await;
            if left > 0 {
                tracing::warn!(left, "alerts could not be delivered before the server stopped");
            }
        }
        self.events.flush(LAST_WORDS).await;
        let lost = self.events.counts().waiting;
        if lost > 0 {
            tracing::warn!(
                lost,
                "events could not be stored before the server stopped; they are lost"
            );
        }
        self.loops.iter().for_each(JoinHandle::abort);
    }
}

impl Doors {
    async fn open(settings: &Settings) -> Result<Self, StartError> {
        let grpc = bind("agents", &settings.listen_grpc).await?;
        let http = bind("HTTP", &settings.listen_http).await?;
        let addresses = [local_address("agents", &grpc)?, local_address("HTTP", &http)?];
        let socket = match &settings.socket {
            Some(path) => Some(LocalSocket::bind(path).await?),
            None => None,
        };
        let certificates = match &settings.tls {
            TlsSettings::Off => None,
            TlsSettings::Files(files) => Some(Certificates::from_files(files.clone())?),
            TlsSettings::Own(directory) => {
                Some(Certificates::own(directory, own_names(&addresses))?)
            }
        };
        let listener = |tcp, speaks| match &certificates {
            None => Ok(Listener::plain(tcp)),
            Some(certificates) => Listener::tls(tcp, certificates.clone(), speaks),
        };
        let (grpc, http) = (listener(grpc, Speaks::Grpc)?, listener(http, Speaks::Http)?);
        Ok(Self { grpc, http, socket, certificates, addresses })
    }

    /// What the HTTP side says of itself.
    fn place(&self, socket: Option<PathBuf>, more_names: Vec<String>) -> Place {
        let (tls, http) = (self.certificates.is_some(), self.addresses[1]);
        let scheme = if tls { "https" } else { "http" };
        let authority = match http.ip() {
            ip if ip.is_loopback() => Some(format!("localhost:{}", http.port())),
            ip if ip.is_unspecified() => own_host().map(|host| format!("{host}:{}", http.port())),
            _ => Some(http.to_string()),
        };
        let page_url = authority.map(|authority| format!("{scheme}://{authority}"));
        let names = own_names(&[http]).into_iter().chain(more_names).collect();
        Place { tls, names, socket, page_url }
    }

    fn serve(
        self,
        fleet: Fleet,
        app: App,
        http_runtime: &Handle,
        stopped: &watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let agents = serve_agents(Arc::new(fleet), self.grpc, stop(stopped));
        let mut listeners = vec![
            tokio::spawn(agents),
            http_runtime.spawn(serve_http(app.clone(), self.http, stop(stopped))),
        ];
        if let Some(socket) = self.socket {
            listeners.push(http_runtime.spawn(serve_socket(app, socket, stop(stopped))));
        }
        listeners
    }
}

async fn start_events(history: &History, changes: &Changes) -> (Arc<EventLog>, JoinHandle<()>) {
    let store: Arc<dyn EventStore> = match history {
        &History::Memory { max_events_per_agent: events_per_agent } => {
            let bounds = MemoryBounds { events_per_agent, ..MemoryBounds::default() };
            Arc::new(MemoryStore::new(bounds))
        }
        History::Redis(settings) => Arc::new(RedisStore::new(settings.clone())),
    };
    EventLog::start(store, changes.clone(), QueueBounds::default()).await
}

/// Listens on the first address that can be had.
async fn bind(what: &'static str, candidates: &[String]) -> Result<TcpListener, StartError> {
    let mut failed = None;
    for address in candidates {
        match TcpListener::bind(address.as_str()).await {
            Ok(listener) => return Ok(listener),
            Err(source) => {
                // The first address is the one that was meant.
                failed.get_or_insert(StartError::Listen { what, address: address.clone(), source });
            }
        }
    }
    let nowhere = || io::Error::new(io::ErrorKind::InvalidInput, "no address was given");
    Err(failed.unwrap_or_else(|| StartError::Listen {
        what,
        address: String::new(),
        source: nowhere(),
    }))
}

fn local_address(what: &'static str, listener: &TcpListener) -> Result<SocketAddr, StartError> {
    let address = String::from("the address it was given");
    listener.local_addr().map_err(|source| StartError::Listen { what, address, source })
}

async fn serve_agents(
    fleet: Arc<Fleet>,
    listener: Listener,
    stop: impl Future<Output = ()> + Send,
) {
    if let Err(error) = fluke_wire::server::serve(fleet, listener.into_agents(), stop).await {
        tracing::error!(%error, "agents are no longer served");
    }
}

/// Ends when the server is told to stop.
fn stop(stopping: &watch::Receiver<bool>) -> impl Future<Output = ()> + Send + 'static {
    let mut stopping = stopping.clone();
    async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}

async fn tell_of_source(mut source: SourceHandle, changes: Changes) {
    while source.status.changed().await.is_ok() {
        changes.tell(Change::Source);
    }
}
