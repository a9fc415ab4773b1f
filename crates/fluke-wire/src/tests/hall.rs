//! A fleet for tests: lets agents in by rule, and hands their sessions to the test.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::{AgentName, InstanceId, SessionId};
use fluke_model::label::Labels;
use fluke_model::message::{Hello, Holdings, NodeType, Welcome};
use futures_util::{Stream, StreamExt, stream};
use rustls::ServerConfig;
use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;

use crate::Secret;
use crate::client::{ClientTls, Target};
use crate::refusal::Refusal;
use crate::server::{Accepted, Entry, Fleet, Link, ServeError, serve};

pub(super) const TOKEN: &str = "let-me-in";
pub(super) const SESSION: SessionId = SessionId(0xfeed_beef);

/// An agent that was let in. Its session lasts until this is dropped.
pub(super) struct Guest {
    pub(super) hello: Hello,
    pub(super) link: Link,
    _stay: oneshot::Sender<()>,
}

struct Doorman {
    guests: mpsc::Sender<Guest>,
}

impl Fleet for Doorman {
    type Pass = ();

    async fn admit(&self, token: Option<&str>, _: Option<SocketAddr>) -> Result<(), Refusal> {
        match token {
            Some(TOKEN) => Ok(()),
            _ => Err(Refusal::Unauthenticated),
        }
    }

    async fn enter(&self, (): (), hello: Hello, _: Option<SocketAddr>) -> Result<Entry, Refusal> {
        match hello.name.as_str() {
            "taken" => return Err(Refusal::NameTaken("`taken` is connected from 10.0.0.1".into())),
            "banned" => return Err(Refusal::Forbidden("`banned` is not among web-*".into())),
            "early" => return Err(Refusal::Unavailable("no commit is loaded yet".into())),
            _ => {}
        }
        let guests = self.guests.clone();
        let run = async move |link| {
            let (stay, left) = oneshot::channel();
            let _ = guests.send(Guest { hello, link, _stay: stay }).await;
            let _ = left.await;
        };
        Ok(Entry { welcome: welcome(), run: Box::new(|link| Box::pin(run(link))) })
    }
}

pub(super) fn welcome() -> Welcome {
    Welcome {
        session: SESSION,
        heartbeat: Duration::from_secs(5),
        poll_interval: Duration::from_secs(60),
        version: "0.1.0".to_owned(),
    }
}

pub(super) fn hello(name: &str) -> Hello {
    Hello {
        name: AgentName::new(name).expect("a name"),
        labels: Labels::default(),
        version: "0.1.0".to_owned(),
        executors: vec!["shell".to_owned()],
        node_type: NodeType::Worker,
        snapshot: None,
        instance: InstanceId(1),
        previous: None,
        tables: Holdings::default(),
    }
}

pub(super) fn target(url: &str) -> Target {
    Target {
        url: url.parse().expect("an address"),
        token: Secret::new(TOKEN),
        tls: ClientTls::default(),
    }
}

/// A server under test.
pub(super) struct Hall {
    pub(super) address: SocketAddr,
    guests: mpsc::Receiver<Guest>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Hall {
    /// Serves plaintext on loopback.
    pub(super) async fn open() -> Self {
        let (listener, address) = listen().await;
        Self::serve(address, plain(listener))
    }

    /// Serves TLS on loopback.
    pub(super) async fn open_tls(config: ServerConfig) -> Self {
        let (listener, address) = listen().await;
        Self::serve(address, encrypted(listener, config))
    }

    /// Serves one end of a pipe in memory, and returns the other.
    pub(super) fn open_pipe() -> (Self, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        (Self::open_over(Accepted::new(theirs, None)), ours)
    }

    /// Serves one connection.
    pub(super) fn open_over(accepted: Accepted) -> Self {
        let incoming = stream::iter([Ok(accepted)]).chain(stream::pending());
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Self::serve(nowhere, incoming)
    }

    fn serve(
        address: SocketAddr,
        incoming: impl Stream<Item = io::Result<Accepted>> + Send + 'static,
    ) -> Self {
        let (arrivals, guests) = mpsc::channel(4);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(Arc::new(Doorman { guests: arrivals }), incoming, stopped));
        Self { address, guests, stop: Some(stop), served }
    }

    pub(super) fn url(&self) -> String {
        format!("grpc://{}", self.address)
    }

    pub(super) async fn next_guest(&mut self) -> Guest {
        self.guests.recv().await.expect("somebody comes")
    }

    pub(super) fn stop(&mut self) {
        self.stop = None;
    }

    /// Waits for the server to have stopped.
    pub(super) async fn stopped(self) {
        self.served.await.expect("no panic").expect("no error");
    }
}

pub(super) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

fn plain(listener: TcpListener) -> impl Stream<Item = io::Result<Accepted>> {
    stream::unfold(listener, async |listener| {
        let accepted = listener.accept().await.map(|(io, peer)| Accepted::new(io, Some(peer)));
        Some((accepted, listener))
    })
}

fn encrypted(
    listener: TcpListener,
    config: ServerConfig,
) -> impl Stream<Item = io::Result<Accepted>> {
    let (ready, accepted) = mpsc::channel(4);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((io, peer)) = listener.accept().await {
            let (acceptor, ready) = (acceptor.clone(), ready.clone());
            tokio::spawn(async move {
                if let Ok(io) = acceptor.accept(io).await {
                    let _ = ready.send(Ok(Accepted::new(io, Some(peer)))).await;
                }
            });
        }
    });
    ReceiverStream::new(accepted)
}
