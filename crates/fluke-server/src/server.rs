//! Puts the server together, starts it, and stops it in order.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::Hash256;
use fluke_model::policy::Policy;
use fluke_model::secret::Secret;
use fluke_wire::server::Accepted;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::alert::{AlertSettings, Alerter, AlerterError};
use crate::changes::{Change, Changes};
use crate::events::memory::{MemoryBounds, MemoryStore};
use crate::events::EventLog;
use crate::fleet::Fleet;
use crate::http::auth::ApiTokens;
use crate::http::{App, LocalSocket, Parts, SocketError, serve_http, serve_socket};
use crate::outlets::Outlets;
use crate::reconciles::Reconciles;
use crate::registry::Registry;
use crate::source::{Source, SourceConfig, SourceHandle};
use crate::tls::{Listener, ListenError, Protocol, Tls};
use crate::trust::{Grant, Trust};

/// How often each side of a stream says that it is here.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long the last alerts and events may take to leave when the server stops.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// All that a server is told at its start.
pub struct Settings {
    /// Where agents connect; `:7070` is every address.
    pub listen_grpc: String,
    /// Where people and programs connect.
    pub listen_http: String,
    /// For local administration.
    pub socket: Option<PathBuf>,
    /// Whose agents are let in.
    pub grants: Vec<Grant>,
    /// Who may use the API over the network.
    pub api_tokens: Vec<Secret>,
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
    pub alert_webhook: Option<String>,
    /// How much history each agent has.
    pub max_events_per_agent: usize,
    /// How both listeners speak.
    pub tls: Option<Tls>,
    /// How often each side of a stream says that it is here.
    pub heartbeat: Duration,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
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
    pub grpc: std::net::SocketAddr,
    /// Where people connect.
    pub http: std::net::SocketAddr,
    /// What is known of the source, and the way to have it looked at.
    pub source: SourceHandle,
    /// Who is connected.
    pub registry: Arc<Registry>,
    /// What happened.
    pub events: Arc<EventLog>,
    /// What changes.
    pub changes: Changes,
    /// The fingerprint of the server's own CA, where it made one.
    pub ca_fingerprint: Option<Hash256>,
    trust: Arc<Trust>,
    api_tokens: Arc<ApiTokens>,
    alerter: Option<Arc<Alerter>>,
    stopping: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
    loops: Vec<JoinHandle<()>>,
}

impl Server {
    /// Takes every address first, so that a server that starts serves everything.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let tls = settings.tls.as_ref();
        let grpc = Listener::bind(&settings.listen_grpc, tls, Protocol::Grpc).await?;
        let http = Listener::bind(&settings.listen_http, tls, Protocol::Http).await?;
        let socket = match &settings.socket {
            Some(path) => Some(LocalSocket::bind(path).await?),
            None => None,
        };
        let changes = Changes::default();
        let bounds = MemoryBounds { per_agent: settings.max_events_per_agent, ..Default::default() };
        let store = Arc::new(MemoryStore::new(bounds));
        let events = Arc::new(EventLog::start(store, changes.clone()).await);
        let loader = fluke_manifest::Loader::new(&settings.manifest_glob)?;
        let (source, handle) =
            Source::new(settings.source, loader, settings.default_policy, events.clone());
        let alerter = match &settings.alert_webhook {
            Some(url) => Some(Arc::new(Alerter::start(AlertSettings::new(url), events.clone())?)),
            None => None,
        };
        let registry = Arc::new(Registry::default());
        let reconciles =
            Arc::new(Reconciles::new(registry.clone(), events.clone(), changes.clone()));
        let trust = Arc::new(Trust::new(settings.grants));
        let api_tokens = Arc::new(ApiTokens::new(&settings.api_tokens));
        let (stopping, stopped) = watch::channel(false);
        let fleet = Arc::new(Fleet {
            trust: trust.clone(),
            registry: registry.clone(),
            desired: handle.desired.clone(),
            outlets: Outlets {
                events: events.clone(),
                alerter: alerter.clone(),
                reconciles: reconciles.clone(),
                changes: changes.clone(),
            },
            poll_interval: settings.poll_interval,
            heartbeat: settings.heartbeat,
            stopping: stopped.clone(),
        });
        let app = App::new(Parts {
            registry: registry.clone(),
            reconciles,
            source: handle.clone(),
            events: events.clone(),
            changes: changes.clone(),
            alerter: alerter.clone(),
            api_tokens: api_tokens.clone(),
            webhook_secret: settings.webhook_secret,
            default_policy: settings.default_policy,
        });
        let (grpc_address, http_address) = (grpc.address(), http.address());
        let mut listeners = vec![
            tokio::spawn(serve_agents(fleet, grpc, stop(&stopped))),
            tokio::spawn(serve_http(app.clone(), http, stop(&stopped))),
        ];
        listeners.extend(socket.map(|socket| tokio::spawn(serve_socket(app, socket, stop(&stopped)))));
        let loops = vec![
            tokio::spawn(source.run()),
            tokio::spawn(tell_of_source(handle.clone(), changes.clone())),
        ];
        Ok(Self {
            grpc: grpc_address,
            http: http_address,
            source: handle,
            registry,
            events,
            changes,
            ca_fingerprint: settings.tls.as_ref().and_then(Tls::ca_fingerprint),
            trust,
            api_tokens,
            alerter,
            stopping,
            listeners,
            loops,
        })
    }

    /// From now on only these tokens are good; whoever is in stays in.
    pub fn replace_tokens(&self, grants: Vec<Grant>, api_tokens: &[Secret]) {
        self.trust.replace(grants);
        self.api_tokens.replace(api_tokens);
    }

    /// Lets agents go (they come back at once), ends requests, and sends what is left to say.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        for listener in self.listeners {
            let _ = listener.await;
        }
        self.loops.iter().for_each(JoinHandle::abort);
        if let Some(alerter) = &self.alerter {
            let left = alerter.close(LAST_WORDS).await;
            if left > 0 {
                tracing::warn!(left, "alerts could not be delivered before the server stopped");
            }
        }
        self.events.flush(LAST_WORDS).await;
    }
}

async fn serve_agents(fleet: Arc<Fleet>, listener: Listener, stop: impl Future<Output = ()> + Send) {
    let incoming = futures_util::stream::unfold(listener, |mut listener| async {
        let (io, peer) = listener.accept().await;
        Some((Ok(Accepted::new(io, Some(peer))), listener))
    });
    if let Err(error) = fluke_wire::server::serve(fleet, incoming, stop).await {
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
