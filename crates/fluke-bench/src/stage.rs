//! The real program at work: a server and agents as processes of their own, over TLS on loopback.
//!
//! Each stage has an address of its own in `127.0.0.0/8`, a temporary folder and a repository;
//! dropped, it leaves nothing behind. Agents run as whoever runs the benchmark: manifests must
//! touch nothing outside [`Stage::root`].

mod feed;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fluke_bed::{Repository, Server, ServerOptions, TOKEN};
use fluke_model::api;
use fluke_model::id::CommitId;
use fluke_model::status::Status;

use crate::folder::folder;
use crate::row::{Bench, Trouble};
pub use feed::Feed;
use tempfile::TempDir;

/// Longer than anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often to look for what is waited for but not timed.
const LOOK: Duration = Duration::from_millis(10);

/// What an agent and what stands beside it find in their environment: about what systemd gives a
/// service. What whoever measures has in his is handed on with every check, and is not measured.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("LANG", "C.UTF-8"),
    ("NO_COLOR", "1"),
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
];

/// Which cores a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// The first one only.
    One,
    /// All there are.
    All,
}

impl Cores {
    /// A command that keeps to them, with the same environment whoever measures.
    pub fn command(self, program: &Path) -> Command {
        let mut command = match self {
            Self::All => Command::new(program),
            Self::One => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", "0"]).arg(program);
                command
            }
        };
        command.env_clear().envs(ENVIRONMENT);
        command
    }
}

/// A server with its repository, and agents.
pub struct Stage {
    agents: Vec<(String, Child)>,
    server: Server,
    repository: Repository,
    program: PathBuf,
    folder: TempDir,
}

impl Stage {
    /// Starts a server that speaks TLS and polls once an hour: what happens is what the row does.
    pub fn start(bench: &Bench) -> Result<Self, Trouble> {
        Self::start_with(bench, ServerOptions::default())
    }

    /// The same, with a server of another kind.
    pub fn start_with(bench: &Bench, options: ServerOptions) -> Result<Self, Trouble> {
        let made = |error| Trouble::failed("make a place for a server", error);
        let folder = folder()?;
        let repository = Repository::new(folder.path().join("repository"));
        repository.commit("begin", &[("README.md", "what hosts should be\n")]);
        std::fs::create_dir(folder.path().join("root")).map_err(made)?;
        let place = folder.path().join("server");
        let server = Server::new(&bench.program, &place, own_address(), repository.path(), options);
        let server = server.map_err(made)?;
        server.start();
        Ok(Self { agents: Vec::new(), server, repository, program: bench.program.clone(), folder })
    }

    /// The folder that manifests may write to.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The repository that the server follows.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Has agents run another program from now on.
    pub fn agents_run(&mut self, program: PathBuf) {
        self.program = program;
    }

    /// Ends everybody in order, agents first.
    pub fn ends(mut self) {
        for (_, agent) in &mut self.agents {
            let _ = Command::new("kill").arg(agent.id().to_string()).status();
            let _ = agent.wait();
        }
        self.server.stop();
    }

    /// Starts an agent, and waits until the server knows it. Gives its process id.
    pub fn agent(&mut self, name: &str, cores: Cores) -> Result<u32, Trouble> {
        let config = self.folder.path().join(format!("{name}.hcl"));
        let started = |error| Trouble::failed(format!("start the agent {name}"), error);
        std::fs::write(&config, self.agent_config(name)).map_err(started)?;
        let log = self.folder.path().join(format!("{name}.log"));
        let log = std::fs::File::create(log).map_err(started)?;
        let child = cores
            .command(&self.program)
            .arg("agent")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(started)?)
            .stderr(log)
            .spawn()
            .map_err(started)?;
        let pid = child.id();
        self.agents.push((name.to_string(), child));
        self.until(&format!("{name} has joined"), |stage| stage.is_connected(name))?;
        Ok(pid)
    }

    fn agent_config(&self, name: &str) -> String {
        let (address, ca) = (self.server.grpc(), self.server.ca_file());
        let state = self.folder.path().join(format!("{name}.state"));
        format!(
            "agent {{\n  server_url = \"grpcs://{address}\"\n  token = \"{TOKEN}\"\n  \
             name = \"{name}\"\n  state_dir = \"{}\"\n  tls {{\n    ca_file = \"{}\"\n  }}\n  \
             execution {{\n    default_shell = \"/bin/sh\"\n  }}\n}}\n",
            state.display(),
            ca.display()
        )
    }

    /// Commits the one manifest there is, announces it, and waits until every agent is as it says.
    pub fn settle(&self, manifest: &str) -> Result<(), Trouble> {
        let commit = self.repository.commit("settle", &[("tasks.fluke.hcl", manifest)]);
        self.announce(commit.as_str())?;
        self.settles()
    }

    /// Tells the server of a push.
    pub fn announce(&self, commit: &str) -> Result<(), Trouble> {
        self.server.pushed(commit).map_err(|error| Trouble::failed("announce a push", error))
    }

    /// Waits until every agent is as the newest commit says.
    pub fn settles(&self) -> Result<(), Trouble> {
        let newest = self.repository.head();
        self.until("every agent is in sync", |stage| {
            let names = stage.agents.iter().map(|(name, _)| stage.seen(name));
            names.into_iter().all(|agent| agent.is_some_and(|agent| is_as(&agent, &newest)))
        })
    }

    /// Whether an agent is as that commit says.
    pub fn is_in_sync(&self, name: &str, commit: &CommitId) -> bool {
        self.seen(name).is_some_and(|agent| is_as(&agent, commit))
    }

    /// Whether the server knows an agent of that name, and has its stream.
    pub fn is_connected(&self, name: &str) -> bool {
        self.seen(name).is_some_and(|agent| agent.connected)
    }

    /// Whether that commit is what counts.
    pub fn is_in_force(&self, commit: &CommitId) -> bool {
        let source = self.server.get::<api::Source>("/api/v1/source");
        source.is_ok_and(|source| source.commit.as_ref() == Some(commit))
    }

    fn seen(&self, name: &str) -> Option<api::Agent> {
        let seen = self.server.get::<api::AgentDetail>(&format!("/api/v1/agents/{name}"));
        seen.ok().map(|detail| detail.agent)
    }

    /// A feed of what the server tells.
    pub fn feed(&self) -> Result<Feed, Trouble> {
        Feed::open(&self.server.socket())
    }

    /// Asks for a check of everything everywhere, and says how many seconds pass until the server
    /// says that it is done. The feed must have been open before.
    pub fn reconcile(&self, feed: &mut Feed) -> Result<f64, Trouble> {
        reconcile(&self.server, feed)
    }

    /// Waits for a state that is not timed.
    pub fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<(), Trouble> {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            if Instant::now() >= deadline {
                let waited = format!("wait until {what}");
                return Err(Trouble::failed(waited, self.account()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// What everybody logged last.
    fn account(&self) -> String {
        let log = |(name, _): &(String, Child)| {
            let path = self.folder.path().join(format!("{name}.log"));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let last: Vec<_> = text.lines().rev().take(5).collect();
            format!("\n{name}: {}", last.join("\n"))
        };
        let agents: String = self.agents.iter().map(log).collect();
        format!("it did not come\nserver: {}{agents}", self.server.log_tail(10))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for (_, agent) in &mut self.agents {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

/// Asks a server for a check of everything everywhere, and says how many seconds pass until it says
/// that it is done.
pub fn reconcile(server: &Server, feed: &mut Feed) -> Result<f64, Trouble> {
    let start = Instant::now();
    let asked = server.post("/api/v1/reconcile", r#"{"scope":"all","by":"bench"}"#);
    let (status, said) = asked.map_err(|error| Trouble::failed("ask for a cycle", error))?;
    if status != 202 {
        return Err(Trouble::failed("ask for a cycle", format!("{status} {said}")));
    }
    feed.until(r#""kind":"reconcile_finished""#)?;
    Ok(start.elapsed().as_secs_f64())
}

fn is_as(agent: &api::Agent, commit: &CommitId) -> bool {
    agent.commit.as_ref() == Some(commit) && agent.status == Status::InSync
}

/// An address that no other stage has, of this process or of another.
fn own_address() -> Ipv4Addr {
    static STAGES: AtomicU32 = AtomicU32::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let stage = STAGES.fetch_add(1, Ordering::Relaxed) % 100;
    Ipv4Addr::new(127, 100 + stage as u8, high, low)
}

/// A manifest of one task for every host, with so many shell steps that all say the same.
pub fn shell_task(check: &str, command: &str, steps: usize) -> String {
    let step = |number: usize| {
        format!(
            "  shell \"s{number}\" {{\n    check   = \"{check}\"\n    command = \"{command}\"\n  }}\n"
        )
    };
    let steps: String = (0..steps).map(step).collect();
    format!("task \"t\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n{steps}}}\n")
}
