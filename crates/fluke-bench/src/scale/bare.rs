//! Bare gRPC streams over TLS: no fluke in them at all. One process serves them, `xtask floor
//! streams`, and this one has them open.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes};
use fluke_bed::swarm::{Meter, Traffic};
use futures_util::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::Service;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{self, Uri};
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status, Streaming};

use crate::folder::folder;
use crate::row::Trouble;
use tempfile::TempDir;

/// What is sent to everybody at once, in bytes.
const MESSAGE: usize = 200;
/// A heartbeat of fluke's is so long, and the poll of a host, or its answer, so long; no other message
/// is as long as [`MESSAGE`].
const HEARTBEAT: usize = 13;
const POLL: usize = 62;
/// How often something is said on every stream, a heartbeat and a poll by turns.
const EVERY: Duration = Duration::from_secs(30);
/// How many moments there are within that to say it at: as many streams share each as hosts do that
/// are polled every minute.
const MOMENTS: usize = 60;
/// How many may be on their way in at the same time, as in a swarm.
const AT_ONCE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(120);

/// The process that serves bare streams.
pub struct BareServer {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Where it listens.
    pub address: SocketAddr,
    folder: TempDir,
}

impl BareServer {
    /// Starts it on a port of its own.
    pub fn start(own: &Path) -> Result<Self, Trouble> {
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("start bare streams", error);
        let folder = folder()?;
        let certified = rcgen::generate_simple_self_signed(["localhost".to_string()]);
        let certified = certified.map_err(|error| failed(&error))?;
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&cert, certified.cert.pem()).map_err(|error| failed(&error))?;
        std::fs::write(&key, certified.signing_key.serialize_pem())
            .map_err(|error| failed(&error))?;
        let mut process = Command::new(own)
            .args(["floor", "streams"])
            .args([&cert, &key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed(&"it has no pipes"));
        };
        let mut answers = BufReader::new(answers);
        let address = line(&mut answers)?.parse();
        let address = address.map_err(|error| failed(&error))?;
        Ok(Self { process, orders, answers, address, folder })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends a message on every stream; the seconds until all have acknowledged it.
    pub fn broadcast(&mut self) -> Result<f64, Trouble> {
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("broadcast", error);
        writeln!(self.orders, "broadcast").map_err(|error| failed(&error))?;
        line(&mut self.answers)?.parse().map_err(|error| failed(&error))
    }

    /// Whom clients are to trust.
    fn certificate(&self) -> Result<CertificateDer<'static>, Trouble> {
        CertificateDer::from_pem_file(self.folder.path().join("cert.pem"))
            .map_err(|error| Trouble::failed("read a certificate", error))
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn line(answers: &mut impl BufRead) -> Result<String, Trouble> {
    let mut line = String::new();
    let read = answers.read_line(&mut line);
    match read {
        Ok(0) => Err(Trouble::failed("hear of bare streams", "their process has ended")),
        Ok(_) => Ok(line.trim().to_string()),
        Err(error) => Err(Trouble::failed("hear of bare streams", error)),
    }
}

/// What passes messages on as they are.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// What all streams share.
#[derive(Debug)]
struct Hall {
    messages: broadcast::Sender<Bytes>,
    open: AtomicUsize,
    acknowledged: AtomicUsize,
    /// By the moment that is theirs.
    streams: [Mutex<Vec<Queue>>; MOMENTS],
}

type Queue = mpsc::Sender<Result<Bytes, Status>>;

#[derive(Debug, Clone)]
struct Streams(Arc<Hall>);

impl<B> Service<http::Request<B>> for Streams
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let stream = Stream(self.0.clone());
        Box::pin(async move { Ok(tonic::server::Grpc::new(Raw).streaming(stream, request).await) })
    }
}

struct Stream(Arc<Hall>);

impl tonic::server::StreamingService<Bytes> for Stream {
    type Response = Bytes;
    type ResponseStream = ReceiverStream<Result<Bytes, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let hall = self.0.clone();
        Box::pin(async move {
            let (queue, waiting) = mpsc::channel(1);
            tokio::spawn(serve(hall, request.into_inner(), queue));
            Ok(Response::new(ReceiverStream::new(waiting)))
        })
    }
}

async fn serve(hall: Arc<Hall>, mut incoming: Streaming<Bytes>, queue: Queue) {
    let mut messages = hall.messages.subscribe();
    let number = hall.open.fetch_add(1, Ordering::Relaxed);
    lock(&hall.streams[number % MOMENTS]).push(queue.clone());
    loop {
        // Both are cancel-safe.
        tokio::select! {
            Ok(message) = messages.recv() => {
                if queue.send(Ok(message)).await.is_err() {
                    break;
                }
            }
            heard = incoming.message() => match heard {
                Ok(Some(heard)) if heard.len() == MESSAGE => {
                    hall.acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Some(_)) => {}
                _ => break,
            },
            else => break,
        }
    }
    hall.open.fetch_sub(1, Ordering::Relaxed);
}

/// Says twice a minute on every stream what a server says to a host that nothing is done on; whoever
/// hears it says as much.
async fn keep_talking(hall: Arc<Hall>) {
    let [heartbeat, poll] = [HEARTBEAT, POLL].map(|bytes| Bytes::from(vec![b'x'; bytes]));
    let mut moments = interval(EVERY / MOMENTS as u32);
    for message in [heartbeat, poll].iter().cycle() {
        for streams in &hall.streams {
            moments.tick().await;
            let say = |queue: &Queue| queue.try_send(Ok(message.clone()));
            let is_open = |queue: &Queue| !matches!(say(queue), Err(TrySendError::Closed(_)));
            lock(streams).retain(is_open);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process: prints where it listens, then does what it is told until nobody tells it anything.
pub fn serve_streams(
    cert: &Path,
    key: &Path,
    say: fn(&dyn std::fmt::Display),
) -> Result<(), Trouble> {
    let failed = |error: &dyn std::fmt::Display| Trouble::failed("serve bare streams", error);
    let chain = CertificateDer::from_pem_file(cert).map_err(|error| failed(&error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(vec![chain], key));
    let mut config = config.map_err(|error| failed(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.send_tls13_tickets = 0;
    raise_files();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| failed(&error))?;
    let hall = Arc::new(Hall {
        messages: broadcast::Sender::new(4),
        open: AtomicUsize::new(0),
        acknowledged: AtomicUsize::new(0),
        streams: std::array::from_fn(|_| Mutex::default()),
    });
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.map_err(|error| failed(&error))?;
    say(&listener.local_addr().map_err(|error| failed(&error))?);
    runtime.spawn(keep_talking(hall.clone()));
    runtime.spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), Streams(hall.clone())));
    for _ in std::io::stdin().lock().lines() {
        say(&told_to_all(&hall));
    }
    Ok(())
}

fn told_to_all(hall: &Hall) -> f64 {
    hall.acknowledged.store(0, Ordering::Relaxed);
    let (open, start) = (hall.open.load(Ordering::Relaxed), Instant::now());
    let _ = hall.messages.send(Bytes::from(vec![b'x'; MESSAGE]));
    while hall.acknowledged.load(Ordering::Relaxed) < open && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(200));
    }
    start.elapsed().as_secs_f64()
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, streams: Streams) {
    let builder = Builder::new(TokioExecutor::new()).http2_only();
    while let Ok((tcp, _)) = listener.accept().await {
        let (acceptor, builder) = (acceptor.clone(), builder.clone());
        let streams = TowerToHyperService::new(streams.clone());
        tokio::spawn(async move {
            let _ = tcp.set_nodelay(true);
            if let Ok(stream) = acceptor.accept(tcp).await {
                let _ = builder.serve_connection(TokioIo::new(stream), streams).await;
            }
        });
    }
}

/// Bare streams that this process has open; dropped, they end.
pub struct BareClients {
    runtime: tokio::runtime::Runtime,
    tasks: JoinSet<()>,
    meter: Meter,
}

impl BareClients {
    /// Opens so many streams; says how many seconds that took.
    pub fn join(server: &BareServer, count: usize) -> Result<(Self, f64), Trouble> {
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("open bare streams", error);
        raise_files();
        let mut roots = RootCertStore::empty();
        roots.add(server.certificate()?).map_err(|error| failed(&error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        let connector = TlsConnector::from(Arc::new(config));
        let runtime = tokio::runtime::Runtime::new().map_err(|error| failed(&error))?;
        let (doors, open) = (Arc::new(Semaphore::new(AT_ONCE)), Arc::new(AtomicUsize::new(0)));
        let meter = Meter::default();
        let way = Way { address: server.address, connector, doors, meter: meter.clone() };
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (way, open) = (way.clone(), open.clone());
            let stream = async move {
                let _ = listen(way, open).await;
            };
            tasks.spawn_on(stream, runtime.handle());
        }
        while open.load(Ordering::Relaxed) < count {
            if start.elapsed() > PATIENCE {
                return Err(failed(&format!("{open:?} of {count} are open")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok((Self { runtime, tasks, meter }, start.elapsed().as_secs_f64()))
    }

    /// What went over the wire so far.
    pub fn traffic(&self) -> Traffic {
        self.meter.traffic()
    }

    /// Ends all of them.
    pub fn leave(mut self) {
        self.tasks.abort_all();
        self.runtime.block_on(async { while self.tasks.join_next().await.is_some() {} });
        self.runtime.shutdown_background();
    }
}

/// How a stream gets to the server.
#[derive(Clone)]
struct Way {
    address: SocketAddr,
    connector: TlsConnector,
    doors: Arc<Semaphore>,
    meter: Meter,
}

/// One stream: acknowledges whatever it hears.
async fn listen(
    way: Way,
    open: Arc<AtomicUsize>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Way { address, connector, doors, meter } = way;
    let door = doors.acquire().await?;
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let stream = connector.connect(ServerName::try_from("localhost")?, meter.on(tcp)).await?;
    let uri: Uri = format!("https://localhost:{}", address.port()).parse()?;
    let once = Once(Some(TokioIo::new(stream)));
    let channel = Endpoint::from(uri).connect_with_connector(once).await?;
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await?;
    let (queue, waiting) = mpsc::channel(1);
    let call = Request::new(ReceiverStream::new(waiting));
    let path = PathAndQuery::from_static("/bare/stream");
    let mut incoming = grpc.streaming(call, path, Raw).await?.into_inner();
    open.fetch_add(1, Ordering::Relaxed);
    drop(door);
    while let Some(message) = incoming.message().await? {
        queue.send(message.slice(..MESSAGE.min(message.len()))).await?;
    }
    // Nothing ends here by itself while it is measured.
    sleep(PATIENCE).await;
    Ok(())
}

/// Hands out one connection, once.
struct Once<T>(Option<T>);

impl<T> Service<Uri> for Once<T> {
    type Response = T;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<T, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let spent = || std::io::Error::other("the connection is over");
        std::future::ready(self.0.take().ok_or_else(spent))
    }
}

/// Every stream is a descriptor.
fn raise_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // What it was may be enough.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
