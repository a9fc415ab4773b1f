//! Takes connections and serves them, within bounds, until told to stop.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::serve::Listener;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, watch};
use tower_layer::Layer;

use super::auth::Peer;
use super::crowd::Holding;
use super::idle::{Lobby, Usage};
use super::socket::LocalSocket;
use super::stall::Impatient;
use super::{App, Patience, router};

/// Of each HTTP/2 connection; a browser has one for all its tabs, and each of them a stream.
const MAX_REQUESTS: u32 = 256;
const MAX_HEADERS: usize = 32 << 10;
const HEADERS_WITHIN: Duration = Duration::from_secs(15);
/// How often it is tried to make room while somebody waits for it.
const MAKE_ROOM: Duration = Duration::from_secs(1);
/// For requests that are under way when the server stops, or their connection has to end.
const DRAIN: Duration = Duration::from_secs(5);

/// What is known of the connection that a request came over.
#[derive(Debug, Clone)]
pub struct Connection {
    /// How it came in.
    pub peer: Peer,
    /// From where, if over the network.
    pub from: Option<IpAddr>,
    /// True once the server stops.
    pub closing: watch::Receiver<bool>,
    /// What goes on over it.
    pub usage: Usage,
}

/// Serves everything to the network until `shutdown`, then lets requests end for a few seconds.
pub async fn serve_http<L: Listener<Addr = SocketAddr>>(
    app: App,
    listener: L,
    shutdown: impl Future<Output = ()> + Send,
) {
    serve(app, listener, shutdown, |_, from| (Peer::Tcp, Some(from.ip()))).await;
}

/// Serves everything to the local socket until `shutdown`, and removes its file.
pub async fn serve_socket(
    app: App,
    socket: LocalSocket,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (listener, _file) = socket.into_parts();
    let peer = |io: &tokio::net::UnixStream, _: &_| {
        let uid = io.peer_cred().ok().map(|peer| peer.uid());
        (Peer::Socket { uid }, None)
    };
    serve(app, listener, shutdown, peer).await;
}

async fn serve<L: Listener>(
    app: App,
    mut listener: L,
    shutdown: impl Future<Output = ()> + Send,
    peer: impl Fn(&L::Io, &L::Addr) -> (Peer, Option<IpAddr>),
) {
    let router = router(app.clone());
    let places = Arc::new(Semaphore::new(app.patience.connections));
    let lobby = Lobby::default();
    // Every connection holds a receiver: the sender knows when the last one is gone.
    let (closing, told) = watch::channel(false);
    let mut shutdown = pin!(shutdown);
    loop {
        let next = async {
            let (io, address) = listener.accept().await;
            let (peer, from) = peer(&io, &address);
            let Ok(held) = app.hold(from, Holding::Connection) else {
                let complain =
                    |from| app.0.complaints.make(from, "it has too many connections open");
                from.into_iter().for_each(complain);
                return None;
            };
            Some((io, peer, from, held, place(&places, &lobby).await))
        };
        let next = tokio::select! {
            next = next => next,
            () = &mut shutdown => break,
        };
        let Some((io, peer, from, held, place)) = next else { continue };
        let (counted, patience) = (app.0.connections.clone(), app.patience);
        let connection = Connection { peer, from, closing: told.clone(), usage: lobby.enter() };
        let service = Extension(connection.clone()).layer(router.clone());
        tokio::spawn(async move {
            converse(io, TowerToHyperService::new(service), connection, patience).await;
            drop((place, held, counted));
        });
    }
    drop(told);
    closing.send_replace(true);
    closing.closed().await;
}

/// A place for one more connection; while there is none, those that are idle are sent off.
async fn place(
    places: &Arc<Semaphore>,
    lobby: &Lobby,
) -> Result<OwnedSemaphorePermit, AcquireError> {
    loop {
        if let Ok(place) = places.clone().try_acquire_owned() {
            return Ok(place);
        }
        lobby.make_room();
        if let Ok(place) = tokio::time::timeout(MAKE_ROOM, places.clone().acquire_owned()).await {
            return place;
        }
    }
}

/// Serves one connection to its end.
async fn converse<Io>(
    io: Io,
    service: TowerToHyperService<axum::middleware::AddExtension<axum::Router, Connection>>,
    Connection { mut closing, usage, .. }: Connection,
    patience: Patience,
) where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20))
        .max_concurrent_streams(MAX_REQUESTS)
        .max_header_list_size(MAX_HEADERS as u32);
    let io = TokioIo::new(Impatient::new(io, HEADERS_WITHIN, patience.stall));
    let mut connection = pin!(builder.serve_connection(io, service));
    tokio::select! {
        ended = connection.as_mut() => return trace(ended),
        _ = closing.wait_for(|closing| *closing) => {}
        () = usage.over(patience.idle) => {}
    }
    connection.as_mut().graceful_shutdown();
    if let Ok(ended) = tokio::time::timeout(DRAIN, connection).await {
        trace(ended);
    }
}

fn trace<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        // Clients go away in many ways; none of them is worth more than this.
        tracing::trace!("a connection ended: {error}");
    }
}
