//! Real Redis servers for tests: each with a folder and a port of its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Longer than anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `redis-server` that this test has started. It ends with the value.
pub(crate) struct RedisServer {
    pub(crate) port: u16,
    folder: TempDir,
    arguments: Vec<String>,
    process: Option<Child>,
}

/// Whether Redis is installed here; says so if not, and fails where everything must run.
pub(crate) fn redis_is_here() -> bool {
    let found = ["redis-server", "redis-cli"].iter().all(|program| {
        Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
    });
    if !found {
        assert!(std::env::var_os("CI").is_none(), "redis-server is missing; see scripts/test");
        #[expect(clippy::print_stdout, reason = "scripts/test counts what was skipped")]
        {
            println!("SKIP: there is no redis-server");
        }
    }
    found
}

impl RedisServer {
    /// A server that keeps nothing on disk.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut server = Self {
            port: 0,
            folder: tempfile::tempdir().expect("a folder"),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            process: None,
        };
        // Somebody else may take the port in between: then another one is tried.
        loop {
            server.port = free_port();
            if server.comes_up() {
                return server;
            }
        }
    }

    /// On the port it had.
    pub(crate) fn start_again(&mut self) {
        let is_up = self.comes_up();
        assert!(is_up, "redis-server does not start again: who has taken port {}?", self.port);
    }

    /// Starts it, and waits until it is ready; not so if it ends, as somebody else has its port.
    fn comes_up(&mut self) -> bool {
        let port = self.port.to_string();
        let plain = if self.speaks_tls() {
            ["--port", "0", "--tls-port", &port]
        } else {
            ["--port", &port, "--tls-port", "0"]
        };
        // That of a server that was killed is still there.
        let _ = std::fs::remove_file(self.socket());
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--daemonize", "no"])
            .args(plain)
            .arg("--dir")
            .arg(self.folder.path())
            .arg("--unixsocket")
            .arg(self.socket())
            .args(&self.arguments)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server");
        self.process = Some(process);
        let deadline = Instant::now() + PATIENCE;
        while !self.is_ready() {
            let process = self.process.as_mut().expect("it was started");
            if process.try_wait().expect("a child").is_some() {
                self.process = None;
                return false;
            }
            assert!(Instant::now() < deadline, "redis-server does not come up");
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Nobody else has it, whereas a port may be another server's. It answers when everything is
    /// listened on.
    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Whether it listens, and has read what it kept.
    fn is_ready(&self) -> bool {
        let said = UnixStream::connect(self.socket()).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            exchange(stream, "ping")
        });
        said.is_ok_and(|said| !said.is_empty() && !said.starts_with("-LOADING"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().expect("a signal");
        process.wait().expect("its end");
    }

    /// From now on it accepts and never answers.
    pub(crate) fn hang(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        kill(Pid::from_raw(process.id().cast_signed()), signal).expect("a signal");
    }

    fn speaks_tls(&self) -> bool {
        self.arguments.iter().any(|argument| argument == "--tls-cert-file")
    }

    /// What it says to a command without arguments that hold spaces; the first line of it.
    pub(crate) fn ask(&self, command: &str) -> String {
        let stream = TcpStream::connect(self.address()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        exchange(stream, command).expect("an answer")
    }
}

fn exchange(mut stream: impl Read + Write, command: &str) -> io::Result<String> {
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_string())
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A port that nobody has now: below those that the system gives out by itself, and such that the
/// port of a cluster's own talk, ten thousand above, is free as well.
fn free_port() -> u16 {
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = now.subsec_nanos().wrapping_mul(std::process::id() | 1);
        let port = 11_000 + u16::try_from(seed % 10_000).expect("small");
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

/// Three masters that share all slots.
pub(crate) struct RedisCluster {
    pub(crate) nodes: Vec<RedisServer>,
}

impl RedisCluster {
    pub(crate) fn start() -> Self {
        let arguments = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let nodes: Vec<_> = (0..3).map(|_| RedisServer::start(&arguments)).collect();
        let created = Command::new("redis-cli")
            .args(["--cluster", "create", "--cluster-yes"])
            .args(nodes.iter().map(|node| node.address().to_string()))
            .output()
            .expect("redis-cli");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        let deadline = Instant::now() + PATIENCE;
        while nodes.iter().any(|node| node.ask("cluster info").is_empty() || !is_up(node)) {
            assert!(Instant::now() < deadline, "the cluster does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { nodes }
    }
}

fn is_up(node: &RedisServer) -> bool {
    let info = Command::new("redis-cli")
        .args(["-p", &node.port.to_string(), "cluster", "info"])
        .output()
        .expect("redis-cli");
    String::from_utf8_lossy(&info.stdout).contains("cluster_state:ok")
}
