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
use tokio::sync::{Semaphore, watch};
use tower_layer::Layer;

use super::auth::Peer;
use super::crowd::Holding;
use super::socket::LocalSocket;
use super::stall::Impatient;
use super::{App, router};

/// Of each listener.
const MAX_CONNECTIONS: usize = 2048;
/// Of each HTTP/2 connection; a browser has one for all its tabs, and each of them a stream.
const MAX_REQUESTS: u32 = 256;
const MAX_HEADERS: usize = 32 << 10;
const HEADERS_WITHIN: Duration = Duration::from_secs(15);
/// For requests that are under way when the server stops.
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
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Every connection holds a receiver: the sender knows when the last one is gone.
    let (closing, told) = watch::channel(false);
    let mut shutdown = pin!(shutdown);
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, (io, address)) = tokio::select! {
            next = next => next,
            () = &mut shutdown => break,
        };
        let (peer, from) = peer(&io, &address);
        let Ok(held) = app.hold(from, Holding::Connection) else {
            from.into_iter().for_each(|from| {
                app.0.complaints.make(from, "it has too many connections open");
            });
            continue;
        };
        let (counted, stall) = (app.0.connections.clone(), app.patience.stall);
        let connection = Connection { peer, from, closing: told.clone() };
        let service = Extension(connection.clone()).layer(router.clone());
        tokio::spawn(async move {
            converse(io, TowerToHyperService::new(service), connection.closing, stall).await;
            drop((place, held, counted));
        });
    }
    drop(told);
    closing.send_replace(true);
    closing.closed().await;
}

/// Serves one connection to its end.
async fn converse<Io>(
    io: Io,
    service: TowerToHyperService<axum::middleware::AddExtension<axum::Router, Connection>>,
    mut closing: watch::Receiver<bool>,
    stall: Duration,
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
    let io = TokioIo::new(Impatient::new(io, HEADERS_WITHIN, stall));
    let mut connection = pin!(builder.serve_connection(io, service));
    tokio::select! {
        ended = connection.as_mut() => return trace(ended),
        _ = closing.wait_for(|closing| *closing) => connection.as_mut().graceful_shutdown(),
    }
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
