//! A server that does as the test says, and a host with an agent on it.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use fluke_model::message::Welcome;
use fluke_wire::server::{Accepted, Entry as Admission, Fleet, Link, serve};
use fluke_wire::{Refusal, Secret};
use futures_util::stream;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;

/// Long enough that no test waits for one.
const QUIET: Duration = Duration::from_secs(60);

/// A server under the test's hand.
pub(super) struct Hall {
    pub(super) address: SocketAddr,
    guests: mpsc::Receiver<Guest>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
    rules: Arc<Mutex<Rules>>,
}

/// How those who come are received.
pub(super) struct Rules {
    pub(super) heartbeat: Duration,
    pub(super) poll_interval: Duration,
    pub(super) refuse: Option<Refusal>,
    sessions: u64,
}

/// An agent that was let in. Its session lasts until this is dropped.
pub(super) struct Guest {
    pub(super) hello: Hello,
    pub(super) link: Link,
    session: SessionId,
    orders: u64,
    _stay: oneshot::Sender<()>,
}

struct Doorman {
    guests: mpsc::Sender<Guest>,
    rules: Arc<Mutex<Rules>>,
}

impl Fleet for Doorman {
    type Pass = ();

    async fn admit(&self, token: Option<&str>, _: Option<SocketAddr>) -> Result<(), Refusal> {
        if token == Some("let-me-in") { Ok(()) } else { Err(Refusal::Unauthenticated) }
    }

    async fn enter(
        &self,
        (): (),
        hello: Hello,
        _: Option<SocketAddr>,
    ) -> Result<Admission, Refusal> {
        let mut rules = self.rules.lock().expect("no panic");
        if let Some(refusal) = &rules.refuse {
            return Err(refusal.clone());
        }
        rules.sessions += 1;
        let session = SessionId(rules.sessions);
        let welcome = Welcome {
            session,
            heartbeat: rules.heartbeat,
            poll_interval: rules.poll_interval,
            version: "9.9.9".into(),
        };
        let guests = self.guests.clone();
        let run = async move |link| {
            let (stay, left) = oneshot::channel();
            let guest = Guest { hello, link, session, orders: 0, _stay: stay };
            let _ = guests.send(guest).await;
            let _ = left.await;
        };
        Ok(Admission { welcome, run: Box::new(|link| Box::pin(run(link))) })
    }
}

impl Hall {
    pub(super) async fn open() -> Self {
        // An address of its own, so that its port is still free when it opens again.
        static HALLS: AtomicU8 = AtomicU8::new(1);
        let process = std::process::id().to_be_bytes();
        let hall = HALLS.fetch_add(1, Ordering::Relaxed);
        Self::open_at(SocketAddr::from(([127, process[2] | 1, process[3], hall], 0))).await
    }

    pub(super) async fn open_at(address: SocketAddr) -> Self {
        let listener = loop {
            match TcpListener::bind(address).await {
                // A child of another test that is just being started still has the old one open.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                bound => break bound.expect("a port"),
            }
        };
        let address = listener.local_addr().expect("bound");
        let rules = Arc::new(Mutex::new(Rules {
            heartbeat: QUIET,
            poll_interval: QUIET,
            refuse: None,
            // Two servers never give the same number to a session.
            sessions: getrandom::u64().expect("randomness") >> 8,
        }));
        let (arrivals, guests) = mpsc::channel(4);
        let (stop, stopped) = oneshot::channel::<()>();
        let incoming = stream::unfold(listener, async |listener| {
            let accepted = listener.accept().await.map(|(io, peer)| Accepted::new(io, Some(peer)));
            Some((accepted as io::Result<Accepted>, listener))
        });
        let doorman = Arc::new(Doorman { guests: arrivals, rules: rules.clone() });
        let served = tokio::spawn(async move {
            serve(doorman, incoming, stopped).await.expect("served");
        });
        Self { address, guests, stop: Some(stop), served, rules }
    }

    pub(super) fn rule(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.rules.lock().expect("no panic"));
    }

    pub(super) async fn next_guest(&mut self) -> Guest {
        self.guests.recv().await.expect("somebody comes")
    }

    /// Ends every session in good order.
    pub(super) async fn stop(mut self) -> SocketAddr {
        self.stop = None;
        self.served.await.expect("no panic");
        self.address
    }

    /// Is gone from one moment to the next.
    pub(super) async fn crash(self) -> SocketAddr {
        self.served.abort();
        let _ = self.served.await;
        self.address
    }
}

impl Guest {
    pub(super) async fn send(&mut self, message: ToAgent) {
        self.link.outgoing.send(message).await.expect("the agent is there");
    }

    /// The next message that is not just a sign of life.
    pub(super) async fn next(&mut self) -> ToServer {
        loop {
            let next = self.link.incoming.next().await.expect("no error");
            match next.expect("the agent is there") {
                ToServer::Heartbeat => {}
                message => return message,
            }
        }
    }

    pub(super) async fn give(&mut self, snapshot: &Arc<Snapshot>) {
        let commit = CommitId::new("c0ffee");
        let snapshot = snapshot.clone();
        self.send(ToAgent::Snapshot { commit, snapshot, is_moved: false }).await;
    }

    fn instruction(&mut self) -> InstructionId {
        self.orders += 1;
        InstructionId { session: self.session, number: self.orders }
    }

    pub(super) async fn order_check(&mut self, snapshot: &Snapshot) -> InstructionId {
        let instruction = self.instruction();
        let snapshot = snapshot.hash();
        self.send(ToAgent::Check { instruction, snapshot, steps: Scope::All }).await;
        instruction
    }

    pub(super) async fn check(&mut self, snapshot: &Snapshot) -> Checked {
        let instruction = self.order_check(snapshot).await;
        match self.next().await {
            ToServer::Checked(checked) => {
                assert_eq!(checked.instruction, instruction);
                checked
            }
            other => panic!("not an answer to a check: {other:?}"),
        }
    }

    pub(super) async fn order_apply(
        &mut self,
        snapshot: &Snapshot,
        steps: &[u32],
    ) -> InstructionId {
        let instruction = self.instruction();
        let steps = steps.iter().copied().map(StepIndex).collect();
        let trigger = Trigger::Poll;
        let snapshot = snapshot.hash();
        self.send(ToAgent::Apply { instruction, snapshot, steps, trigger }).await;
        instruction
    }

    /// Everything up to the end of an apply.
    pub(super) async fn apply(&mut self, snapshot: &Snapshot, steps: &[u32]) -> Vec<Record> {
        let asked = self.order_apply(snapshot, steps).await;
        let mut records = Vec::new();
        loop {
            match self.next().await {
                ToServer::Record(record) => records.push(record),
                ToServer::Finished { instruction } => {
                    assert_eq!(instruction, asked);
                    return records;
                }
                other => panic!("not about an apply: {other:?}"),
            }
        }
    }

    pub(super) async fn record(&mut self) -> Record {
        match self.next().await {
            ToServer::Record(record) => record,
            other => panic!("not a record: {other:?}"),
        }
    }
}

/// A host with an agent on it.
pub(super) struct Host {
    pub(super) dir: TempDir,
    pub(super) config: AgentConfig,
    agent: Option<Running>,
    statuses: Option<mpsc::UnboundedReceiver<AgentStatus>>,
}

struct Running {
    task: JoinHandle<Result<(), AgentError>>,
    stop: oneshot::Sender<()>,
}

impl Host {
    pub(super) fn new(address: SocketAddr) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let config = AgentConfig {
            name: AgentName::new("web-01").expect("a name"),
            labels: Labels::default(),
            version: "1.2.3".into(),
            target: Target {
                url: format!("grpc://{address}").parse().expect("an address"),
                token: Secret::new("let-me-in"),
                tls: Default::default(),
            },
            state_dir: dir.path().join("state"),
            node_type: NodeType::Worker,
            default_shell: "/bin/bash".into(),
            command_timeout: Duration::from_secs(60),
            allow: Allow::default(),
            parallel_checks: 4,
            stop_grace: Duration::ZERO,
            services: None,
        };
        Self { dir, config, agent: None, statuses: None }
    }

    /// A host with its agent running.
    pub(super) fn running(address: SocketAddr) -> Self {
        let mut host = Self::new(address);
        host.start();
        host
    }

    pub(super) fn start(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let (told, statuses) = mpsc::unbounded_channel();
        let config = self.config.clone();
        let task = tokio::spawn(async move {
            run(config, stopped, move |status| drop(told.send(status))).await
        });
        self.agent = Some(Running { task, stop });
        self.statuses = Some(statuses);
    }

    /// Stops the agent in good order.
    pub(super) async fn stop(&mut self) {
        let Running { task, stop } = self.agent.take().expect("it runs");
        drop(stop);
        task.await.expect("no panic").expect("no error");
    }

    /// Takes the agent away in the middle of what it does, as far as that can be done within one
    /// process.
    pub(super) async fn crash(&mut self) {
        let Running { task, stop: _kept } = self.agent.take().expect("it runs");
        task.abort();
        let _ = task.await;
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Waits until the agent says so.
    pub(super) async fn until(&mut self, wanted: impl Fn(&AgentStatus) -> bool) -> AgentStatus {
        let statuses = self.statuses.as_mut().expect("it was started");
        loop {
            let status = statuses.recv().await.expect("the agent runs");
            if wanted(&status) {
                return status;
            }
        }
    }
}

/// Waits for a file to be there.
pub(super) async fn appears(path: &Path) {
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A named pipe: who opens one end waits for the other.
pub(super) fn pipe(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
}

/// Lets whoever waits at a pipe's reading end go on.
pub(super) async fn release(path: &Path) {
    tokio::fs::write(path, "go\n").await.expect("somebody reads");
}
