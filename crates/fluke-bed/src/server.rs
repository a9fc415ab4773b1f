//! The real `fluke server`, as a process on the machine.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fluke_model::api::Events;
use fluke_model::event::Event;
use serde::de::DeserializeOwned;

use crate::api;
use crate::command;

/// The token that every agent of a story has.
pub const TOKEN: &str = "a-token-for-stories";
/// What pushes are announced with.
const WEBHOOK_SECRET: &str = "a-secret-for-pushes";
/// Where agents connect.
const GRPC_PORT: u16 = 7070;
/// Where people connect.
const HTTP_PORT: u16 = 7071;
/// A server that does not answer by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a server speaks with its agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// With a CA of its own.
    Own,
    /// In the clear.
    Off,
}

/// What a story wants its server to be told. Texts are HCL and go into the config as they are.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// How often the branch is looked at and every host checked. Pushes are announced anyway.
    pub poll_interval: String,
    /// How often each side of a stream says that it is here; the server's default where none is given.
    pub heartbeat: Option<String>,
    /// How it speaks.
    pub tls: Tls,
    /// Another repository than the bed's own.
    pub git_url: Option<String>,
    /// More lines of the `git` block.
    pub git: String,
    /// More lines of the `server` block: `drift`, `tls` with files, tokens.
    pub more: String,
    /// The lines within `event_store`.
    pub event_store: String,
    /// Variables that the server gets.
    pub environment: Vec<(String, String)>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            poll_interval: "1h".into(),
            heartbeat: None,
            tls: Tls::Own,
            git_url: None,
            git: String::new(),
            more: String::new(),
            event_store: "memory {\n      max_events_per_agent = 10000\n    }".into(),
            environment: Vec::new(),
        }
    }
}

/// A server, whether it runs or not: it comes back where it was.
pub struct Server {
    program: PathBuf,
    folder: PathBuf,
    address: Ipv4Addr,
    options: ServerOptions,
    process: Mutex<Option<Child>>,
}

impl Server {
    /// A server that is yet to be started, listening on `address`.
    pub fn new(
        program: &Path,
        folder: &Path,
        address: Ipv4Addr,
        repository: &Path,
        options: ServerOptions,
    ) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let server = Self {
            program: program.to_path_buf(),
            folder: folder.to_path_buf(),
            address,
            options,
            process: Mutex::new(None),
        };
        fs::write(server.config_file(), server.config(repository))?;
        Ok(server)
    }

    fn config(&self, repository: &Path) -> String {
        let ServerOptions { poll_interval, heartbeat, git, more, event_store, .. } = &self.options;
        let (folder, address) = (self.folder.display(), self.address);
        let url = self.options.git_url.clone().unwrap_or(repository.display().to_string());
        let tls = match self.options.tls {
            Tls::Own => "",
            Tls::Off => "tls {\n    enabled = false\n  }",
        };
        let heartbeat = heartbeat.as_ref().map(|every| format!("heartbeat = \"{every}\""));
        let heartbeat = heartbeat.unwrap_or_default();
        format!(
            r#"server {{
  listen_grpc  = "{address}:{GRPC_PORT}"
  listen_http  = "{address}:{HTTP_PORT}"
  socket       = "{folder}/fluke.sock"
  cache_dir    = "{folder}/cache"
  agent_tokens = ["{TOKEN}"]
  {heartbeat}

  git {{
    url            = "{url}"
    poll_interval  = "{poll_interval}"
    webhook_secret = "{WEBHOOK_SECRET}"
    {git}
  }}

  event_store {{
    {event_store}
  }}
  {tls}
  {more}
}}
"#
        )
    }

    /// What the server was told; a story may write another one before a restart or a reload.
    pub fn config_file(&self) -> PathBuf {
        self.folder.join("server.hcl")
    }

    /// The API's local socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("fluke.sock")
    }

    /// The certificate of the server's own CA.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("cache/tls/ca.pem")
    }

    /// Where agents connect.
    pub fn grpc(&self) -> SocketAddr {
        (self.address, GRPC_PORT).into()
    }

    /// Where people and programs connect.
    pub fn http(&self) -> SocketAddr {
        (self.address, HTTP_PORT).into()
    }

    /// How it was told to speak.
    pub fn tls(&self) -> Tls {
        self.options.tls
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the process runs, as far as anybody told it to.
    pub fn is_running(&self) -> bool {
        self.process().is_some()
    }

    /// The process's number, to send it signals.
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Child::id)
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Panics
    /// When it does not.
    pub fn start(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "the server runs already");
        let log = OpenOptions::new().create(true).append(true).open(self.log_file());
        let log = log.expect("a log for the server");
        let errors = log.try_clone().expect("a log for the server");
        let child = Command::new(&self.program)
            .arg("server")
            .arg("--config")
            .arg(self.config_file())
            .envs(self.options.environment.iter().cloned())
            .env_remove("RUST_LOG")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn();
        let child = child
            .unwrap_or_else(|error| panic!("could not run {}: {error}", self.program.display()));
        fs::write(self.folder.join("pid"), child.id().to_string()).expect("a file is written");
        let child = process.insert(child);
        let deadline = Instant::now() + PATIENCE;
        while api::exchange(&self.socket(), "GET", "/healthz", &[], "").is_err() {
            if let Ok(Some(status)) = child.try_wait() {
                *process = None;
                panic!("the server ended at once ({status}):\n{}", self.log_tail(20));
            }
            assert!(Instant::now() < deadline, "the server does not answer\n{}", self.log_tail(20));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it without a warning.
    pub fn kill(&self) {
        if let Some(mut child) = self.process().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Tells it to end, and waits until it has.
    pub fn stop(&self) {
        if let Some(mut child) = self.process().take() {
            signal(child.id(), "TERM");
            let _ = child.wait();
        }
    }

    /// Stops it in order and starts it again.
    pub fn restart(&self) {
        self.stop();
        self.start();
    }

    /// Has it read its config again.
    pub fn reload(&self) {
        self.signal("HUP");
    }

    /// Sends the process a signal: `STOP`, `CONT`, `HUP`.
    pub fn signal(&self, name: &str) {
        signal(self.pid().expect("the server runs"), name);
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Everything it has logged since its first start.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// The last lines of that.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log(), lines)
    }

    /// `GET`s a document: `/api/v1/agents`.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> io::Result<T> {
        api::get(&self.socket(), path)
    }

    /// What happened, on one agent or anywhere, oldest first.
    pub fn events(&self, agent: Option<&str>) -> Vec<Event> {
        let of = agent.map(|name| format!("&agent={name}")).unwrap_or_default();
        let mut all = Vec::new();
        let mut before = String::new();
        // Page by page, newest first.
        while let Ok(page) = self.get::<Events>(&format!("/api/v1/events?limit=500{of}{before}")) {
            all.extend(page.events);
            let Some(next) = page.next else { break };
            before = format!("&before={next}");
        }
        all.reverse();
        all
    }

    /// `POST`s JSON over the local socket, which may do everything: status and body.
    pub fn post(&self, path: &str, body: &str) -> io::Result<(u16, String)> {
        let json = [("Content-Type", "application/json")];
        api::exchange(&self.socket(), "POST", path, &json, body)
    }

    /// `DELETE`s over the local socket: status and body.
    pub fn delete(&self, path: &str) -> io::Result<(u16, String)> {
        api::exchange(&self.socket(), "DELETE", path, &[], "")
    }

    /// What a forge sends after a push.
    pub fn pushed(&self, commit: &str) -> io::Result<()> {
        let headers = [
            ("Content-Type", "application/json"),
            ("X-Gitlab-Event", "Push Hook"),
            ("X-Gitlab-Token", WEBHOOK_SECRET),
        ];
        let body = format!(r#"{{"ref":"refs/heads/main","after":"{commit}"}}"#);
        let (status, said) =
            api::exchange(&self.socket(), "POST", "/webhooks/git", &headers, &body)?;
        match status {
            200..300 => Ok(()),
            _ => Err(io::Error::other(format!("the webhook was refused: {status} {said}"))),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ends a server whose story died before it could.
pub(crate) fn end_stray(site: &Path) {
    let folder = site.join("server");
    let pid = fs::read_to_string(folder.join("pid")).unwrap_or_default();
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    // Numbers are given again; a command line that names this very folder is not.
    if let (Ok(pid), true) =
        (pid.parse(), String::from_utf8_lossy(&line).contains(&*folder.to_string_lossy()))
    {
        signal(pid, "KILL");
    }
}

fn signal(pid: u32, name: &str) {
    command::holds("kill", &[&format!("-{name}"), &pid.to_string()]);
}

pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
