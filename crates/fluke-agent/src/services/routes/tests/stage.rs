//! A proxy, containers that answer, and somebody who asks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fluke_model::directory::{Route, RouteKey, Routes};
use fluke_model::id::{PortName, ServiceName};
use fluke_model::service::Traffic;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::super::{Network, Proxy, RoutesError, Settings};
use super::foreman::Foreman;
use crate::services::plain;
use crate::services::section::Found;

pub(super) const WEB: u16 = 18080;
pub(super) const SECURE: u16 = 18443;
const API: u16 = 17810;
/// Containers of this host, and of others.
pub(super) const LOCAL: Ipv4Addr = Ipv4Addr::new(127, 100, 0, 1);
pub(super) const REMOTE: Ipv4Addr = Ipv4Addr::new(127, 101, 0, 1);
/// Longer than anything takes.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// A program that tests run for real; none: the test is skipped, and says why.
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
pub(super) fn tool(name: &str) -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::iter::once(tools).chain(std::env::split_paths(&path));
    let found = folders.find_map(|folder| folder.join(name).canonicalize().ok());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no {name}: run scripts/test-tools");
        eprintln!("SKIP: there is no {name}: run scripts/test-tools");
    }
    found
}

/// A proxy with addresses of its own.
pub(super) struct Stage {
    pub(super) folder: TempDir,
    pub(super) listen: Ipv4Addr,
    pub(super) proxy: Proxy<Foreman>,
}

impl Stage {
    pub(super) fn new() -> Option<Self> {
        Self::with(|_, _| {})
    }

    /// With other settings; they may name files in the folder.
    pub(super) fn with(adjust: impl FnOnce(&mut Settings, &Path)) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = settings(folder.path())?;
        let Some(IpAddr::V4(listen)) = settings.listen else { return None };
        adjust(&mut settings, folder.path());
        let proxy = Proxy::kept_by(Foreman::default(), settings).expect("a client");
        Some(Self { folder, listen, proxy })
    }

    /// Has these routes in effect, and finds them so.
    pub(super) async fn routes(&mut self, routes: &Routes) {
        self.proxy.apply(routes).await.expect("it can be done");
        assert_eq!(self.proxy.in_effect(), routes.hash());
        assert_eq!(self.finds(routes).await, Found::default());
    }

    /// The same where somebody wrote to the files a moment ago: Traefik may still be at that.
    pub(super) async fn recovers(&mut self, routes: &Routes) {
        let recovered = async {
            loop {
                self.proxy.apply(routes).await.expect("it can be done");
                if self.finds(routes).await == Found::default() {
                    return;
                }
            }
        };
        tokio::time::timeout(LONG, recovered).await.expect("what was wanted is so in the end");
    }

    /// What a check finds.
    pub(super) async fn finds(&mut self, routes: &Routes) -> Found {
        self.proxy.check(routes).await.expect("it can be told")
    }

    /// The agent ends, and another one begins, which remembers nothing.
    pub(super) fn has_another_agent(&mut self) {
        let foreman = std::mem::take(&mut self.proxy.supervisor);
        self.proxy = Proxy::kept_by(foreman, self.proxy.settings.clone()).expect("a client");
    }

    /// What differs; something must.
    pub(super) async fn drift(&mut self, routes: &Routes) -> String {
        self.finds(routes).await.drift.expect("something differs")
    }

    /// Has what serves take all that it can; what is said of the rest.
    pub(super) async fn goes_on_with(&mut self, routes: &Routes) -> String {
        self.drift(routes).await;
        self.proxy.apply(routes).await.expect("it has all that it can take");
        self.is_hindered(routes).await
    }

    /// What somebody has to do something about; nothing else is to be done.
    pub(super) async fn is_hindered(&mut self, routes: &Routes) -> String {
        let found = self.finds(routes).await;
        assert_eq!(found.drift, None);
        found.problem.expect("something is missing")
    }

    pub(super) async fn error(&mut self, routes: &Routes) -> RoutesError {
        self.proxy.apply(routes).await.expect_err("it cannot be done")
    }

    pub(super) fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.listen.into(), port)
    }

    /// Asks for a domain: status and body.
    pub(super) async fn get(&self, domain: &str) -> (u16, String) {
        ask(&client(), self.at(WEB), domain).await.expect("an answer")
    }

    /// What the only process of Traefik reads whenever it changes.
    pub(super) fn dynamic(&self, name: &str) -> PathBuf {
        let mut all = std::fs::read_dir(self.path("dynamic")).expect("a folder");
        let folder = all.next().expect("one of a process").expect("readable").path();
        assert!(all.next().is_none(), "there is one process");
        folder.join(name)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("proxy").join(name)
    }
}

/// A proxy in this folder, with an address of its own.
pub(super) fn settings(folder: &Path) -> Option<Settings> {
    Some(Settings {
        folder: folder.join("proxy"),
        program: Some(tool("traefik")?),
        local: Network { address: LOCAL, prefix: 16 },
        listen: Some(IpAddr::V4(own_address())),
        web: WEB,
        secure: SECURE,
        api: API,
        certificates: Vec::new(),
        acme: None,
    })
}

/// One address for each test of each process, within 127.0.0.0/8.
fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    Ipv4Addr::new(127, 10 + number as u8, high, low.clamp(1, 254))
}

pub(super) fn client() -> reqwest::Client {
    let builder = plain::client().redirect(reqwest::redirect::Policy::none()).timeout(LONG);
    builder.build().expect("a client")
}

pub(super) async fn ask(
    client: &reqwest::Client,
    at: SocketAddr,
    domain: &str,
) -> reqwest::Result<(u16, String)> {
    let answer = client.get(format!("http://{at}/")).header("Host", domain).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// A table of routes; each is the only port of its service.
pub(super) fn table<const N: usize>(rows: [(&str, Traffic, &[&Container]); N]) -> Routes {
    let rows = rows.map(|(service, traffic, containers)| {
        let service = ServiceName::new(service).expect("a name");
        let key = RouteKey { service, port: PortName::new("main").expect("a name") };
        let upstreams = containers.iter().map(|container| container.address).collect();
        (key, Route { traffic, upstreams })
    });
    Routes::from(rows.to_vec())
}

pub(super) fn http(domain: &str) -> Traffic {
    Traffic::Http { domain: Some(domain.to_owned()) }
}

pub(super) fn tcp(port: u16) -> Traffic {
    Traffic::Tcp { external: Some(port), domain: None }
}

/// One that answers every request with its name, and counts.
pub(super) struct Container {
    pub(super) address: SocketAddrV4,
    pub(super) served: Arc<AtomicUsize>,
    pub(super) task: JoinHandle<()>,
}

impl Container {
    /// Answers requests.
    pub(super) async fn http(ip: Ipv4Addr, name: &str) -> Self {
        let name = name.to_owned();
        Self::serving(ip, move |stream, served| answer(stream, name.clone(), served)).await
    }

    /// Says its name to whoever connects, and hangs up.
    pub(super) async fn tcp(ip: Ipv4Addr, name: &str) -> Self {
        let name = name.to_owned();
        let greet = move |mut stream: TcpStream, served: Arc<AtomicUsize>| {
            let name = name.clone();
            async move {
                served.fetch_add(1, Ordering::Relaxed);
                // Whoever does not listen misses it.
                let _ = stream.write_all(name.as_bytes()).await;
            }
        };
        Self::serving(ip, greet).await
    }

    pub(super) async fn serving<F>(
        ip: Ipv4Addr,
        serve: impl Fn(TcpStream, Arc<AtomicUsize>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((ip, 0)).await.expect("a port");
        let SocketAddr::V4(address) = listener.local_addr().expect("bound") else { panic!("v4") };
        let served = Arc::new(AtomicUsize::new(0));
        let count = served.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, count.clone()));
            }
        });
        Self { address, served, task }
    }

    pub(super) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    /// Dies, and everything that it was about with it.
    pub(super) async fn dies(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream, name: String, served: Arc<AtomicUsize>) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        seen.extend_from_slice(&buffer[..length]);
        while let Some(end) = seen.windows(4).position(|it| it == b"\r\n\r\n") {
            seen.drain(..end + 4);
            served.fetch_add(1, Ordering::Relaxed);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Many who ask all the time, and what they got that they should not have.
pub(super) struct Crowd {
    /// How many requests each has had answered.
    rounds: Vec<Arc<AtomicUsize>>,
    failures: Arc<Mutex<Vec<String>>>,
    tasks: JoinSet<()>,
}

impl Crowd {
    pub(super) fn of(size: usize, at: SocketAddr, domain: &'static str) -> Self {
        let rounds: Vec<Arc<AtomicUsize>> = (0..size).map(|_| Arc::default()).collect();
        let failures: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for round in rounds.clone() {
            let (client, failures) = (client(), failures.clone());
            tasks.spawn(async move {
                loop {
                    match ask(&client, at, domain).await {
                        Ok((200, _)) => {}
                        other => failures.lock().expect("sound").push(format!("{other:?}")),
                    }
                    round.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { rounds, failures, tasks }
    }

    /// Returns when every request that is under way now was answered, and another one after it.
    pub(super) async fn goes_on(&self) {
        let now: Vec<usize> = self.rounds.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        for (round, now) in self.rounds.iter().zip(now) {
            until("requests go on", || round.load(Ordering::Relaxed) >= now + 2).await;
        }
    }

    /// How many requests there were, and those that failed.
    pub(super) async fn leaves(mut self) -> (usize, Vec<String>) {
        self.tasks.shutdown().await;
        let failures = self.failures.lock().expect("sound").clone();
        (self.rounds.iter().map(|it| it.load(Ordering::Relaxed)).sum(), failures)
    }
}

/// Waits for a state.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waited).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub(super) async fn greeting(stage: &Stage, port: u16) -> String {
    let mut stream = TcpStream::connect(stage.at(port)).await.expect("somebody listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an end");
    text
}

/// Says back whatever it is told, for as long as anybody listens.
pub(super) async fn echo() -> Container {
    Container::serving(LOCAL, |mut stream, _| async move {
        let (mut from, mut to) = stream.split();
        let _ = tokio::io::copy(&mut from, &mut to).await;
    })
    .await
}

/// Says something by a connection, and waits until it comes back.
pub(super) async fn goes_on(stream: &mut TcpStream) {
    let said = async {
        stream.write_all(b"still there?").await?;
        stream.read_exact(&mut [0; 12]).await
    };
    tokio::time::timeout(LONG, said).await.expect("in time").expect("it goes on");
}
