//! A fleet of processes on loopback: what can be killed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use fluke_bed::criterion::{self, Chronicle, Evidence, PROGRAM, Step};
use fluke_bed::{Repository, Server, ServerOptions, TOKEN, Tls};
use fluke_model::api;
use fluke_model::id::CommitId;
use fluke_model::status::Status;
use tempfile::TempDir;

const PROGRAM_UNDER_TEST: &str = env!("CARGO_BIN_EXE_fluke");
/// Longer than anything may take on a busy machine; a story that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where each agent's steps are, in words that every agent reads in its own way.
pub const ROOT: &str = "$STORY_ROOT";

/// A server whose heartbeats are two seconds apart, and that does nothing by itself for an hour.
pub fn quiet() -> ServerOptions {
    ServerOptions { heartbeat: Some("2s".into()), tls: Tls::Off, ..ServerOptions::default() }
}

/// Prints what was measured.
#[expect(clippy::print_stderr, reason = "figures are for whoever looks")]
pub fn figure(text: std::fmt::Arguments<'_>) {
    eprintln!("{text}");
}

/// A server process with its repository, and the folder that everything is in.
pub struct Fleet {
    pub server: Server,
    pub repository: Repository,
    pub address: Ipv4Addr,
    folder: TempDir,
}

impl Fleet {
    pub fn start(options: ServerOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let repository = Repository::new(folder.path().join("repository"));
        repository.commit("begin", &[("README.md", "what hosts should be\n")]);
        let address = own_address();
        let server = Server::new(
            Path::new(PROGRAM_UNDER_TEST),
            &folder.path().join("server"),
            address,
            repository.path(),
            options,
        );
        let server = server.expect("a place for a server");
        server.start();
        Self { server, repository, address, folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// An agent that is not started yet.
    pub fn agent(&self, name: &str) -> Agent {
        self.agent_via(name, self.server.grpc())
    }

    /// The same, on another way to the server.
    pub fn agent_via(&self, name: &str, address: SocketAddr) -> Agent {
        Agent::new(self, name, name, address)
    }

    /// A second agent of a name, with folders of its own.
    pub fn namesake(&self, name: &str, folder: &str) -> Agent {
        Agent::new(self, name, folder, self.server.grpc())
    }

    /// An agent that the server knows.
    pub fn joined(&self, name: &str) -> Agent {
        let mut agent = self.agent(name);
        agent.start();
        self.until("it has joined", || self.is_connected(name));
        agent
    }

    /// Commits tasks that keep files, all of one version, and tells the server if it runs.
    pub fn commit(&self, tasks: &[&str], version: &str) -> CommitId {
        let step = |task: &&str| Step { root: ROOT, task, version, policy: "remediate" }.manifest();
        self.commit_text(&tasks.iter().map(step).collect::<String>())
    }

    pub fn commit_text(&self, manifest: &str) -> CommitId {
        let commit = self.repository.commit("a commit", &[("tasks.fluke.hcl", manifest)]);
        if self.server.is_running() {
            self.server.pushed(commit.as_str()).expect("the push is taken");
        }
        commit
    }

    pub fn known(&self, name: &str) -> Option<api::AgentDetail> {
        self.server.get(&format!("/api/v1/agents/{name}")).ok()
    }

    pub fn is_connected(&self, name: &str) -> bool {
        self.known(name).is_some_and(|known| known.agent.connected)
    }

    pub fn is_settled(&self, name: &str) -> bool {
        let head = self.repository.head();
        self.known(name).is_some_and(|known| is_at(&known.agent, &head))
    }

    pub fn settles(&self, name: &str) {
        self.until("it has settled", || self.is_settled(name));
    }

    pub fn source(&self) -> api::Source {
        self.server.get("/api/v1/source").expect("the server answers")
    }

    /// Waits for a state.
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "waited in vain until {what}\n{}", self.account());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the server without a warning. What it knew was read before.
    pub fn kill_server(&self, agents: &mut [&mut Agent]) {
        agents.iter_mut().for_each(|agent| agent.chronicle.read(&self.server, &agent.name));
        self.server.kill();
    }

    /// Waits until everything stands still, and holds what is left against the criterion.
    pub fn ends_well(&self, agent: &mut Agent) {
        // What the server knows may be of before the fault: the host has to agree.
        let is_there = |(_, wanted, found): &(String, String, String)| wanted == found;
        self.until("it has settled, as Git says", || {
            self.is_settled(&agent.name) && agent.files().iter().all(is_there)
        });
        // Whoever was killed may still be on the way out.
        let patience = Instant::now() + Duration::from_secs(20);
        let mut strays = self.strays();
        while !strays.is_empty() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
            strays = self.strays();
        }
        agent.chronicle.read(&self.server, &agent.name);
        let evidence = Evidence {
            account: agent.read("account"),
            chronicle: std::mem::take(&mut agent.chronicle),
            files: agent.files(),
            strays,
            state: agent.state(),
        };
        let broken = criterion::broken(&evidence);
        assert!(
            broken.is_empty(),
            "{broken:#?}\n--- the host's account\n{}\n{}",
            evidence.account,
            self.account()
        );
        agent.chronicle = evidence.chronicle;
    }

    /// Processes of servers and agents that are gone.
    pub fn strays(&self) -> Vec<String> {
        let strays = self.processes().into_iter().filter(|process| !is_kept(process.parent));
        strays.map(|process| format!("{} {}", process.pid, process.line)).collect()
    }

    /// How many processes were started that have these words in their command line.
    pub fn running(&self, words: &str) -> usize {
        self.processes().iter().filter(|process| process.line.contains(words)).count()
    }

    /// What was started by servers and agents of this fleet, and still runs.
    fn processes(&self) -> Vec<Process> {
        let folder = self.folder().to_string_lossy().into_owned();
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let ours = |process: &Process| {
            let environment = fs::read(format!("/proc/{}/environ", process.pid));
            let environment = environment.unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&folder) && !process.is_fluke()
        };
        numbers.filter_map(Process::find).filter(ours).collect()
    }

    fn account(&self) -> String {
        let line = |event: fluke_model::event::Event| {
            let task = event.task.map(|task| task.to_string()).unwrap_or_default();
            let outcome = event.outcome.map(|outcome| outcome.as_str()).unwrap_or_default();
            let output = event.output.unwrap_or_default();
            format!("{} {} {task} {outcome} {output}\n", event.time, event.kind.as_str())
        };
        let events: String = self.server.events(None).into_iter().map(line).collect();
        let logs = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let logs: String = logs
            .filter_map(|entry| {
                let log = fs::read_to_string(entry.path().join("log")).ok()?;
                let lines: Vec<_> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(30)..].join("\n");
                Some(format!("--- {}\n{tail}\n", entry.file_name().to_string_lossy()))
            })
            .collect();
        let agents = self.server.get::<api::Agents>("/api/v1/agents");
        format!("--- agents\n{agents:?}\n--- events\n{events}{logs}")
    }
}

struct Process {
    pid: u32,
    parent: u32,
    line: String,
}

impl Process {
    fn find(pid: u32) -> Option<Self> {
        let read = |name| fs::read(format!("/proc/{pid}/{name}")).ok();
        let line = String::from_utf8_lossy(&read("cmdline")?).replace('\0', " ");
        let stat = String::from_utf8_lossy(&read("stat")?).into_owned();
        // Behind the name, which may hold anything: state, then parent.
        let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        Some(Self { pid, parent, line })
    }

    fn is_fluke(&self) -> bool {
        self.line.starts_with(PROGRAM_UNDER_TEST)
    }
}

/// Whether a server or an agent that lives has this process, or one that it comes from.
fn is_kept(pid: u32) -> bool {
    Process::find(pid).is_some_and(|process| process.is_fluke() || is_kept(process.parent))
}

/// Whether the server knows all of an agent, and all is as that commit says.
pub fn is_at(agent: &api::Agent, commit: &CommitId) -> bool {
    agent.connected && agent.commit.as_ref() == Some(commit) && agent.status == Status::InSync
}

/// An address of this machine that no other story has.
fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let number = std::process::id();
    let (high, low) = ((number / 250 % 250) as u8 + 2, (number % 250) as u8);
    loop {
        let address = Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Ordering::SeqCst).max(1));
        let free = |port: u16| TcpListener::bind((address, port)).is_ok();
        if free(7070) && free(7071) {
            return address;
        }
    }
}

/// An agent process, and the folder that is its host.
pub struct Agent {
    pub name: String,
    pub chronicle: Chronicle,
    folder: PathBuf,
    story: PathBuf,
    process: Option<Child>,
    wanted: BTreeMap<String, String>,
}

impl Agent {
    fn new(fleet: &Fleet, name: &str, folder: &str, address: SocketAddr) -> Self {
        let folder = fleet.folder().join(folder);
        fs::create_dir_all(folder.join("root")).expect("a folder");
        let program = folder.join("root/step");
        fs::write(&program, PROGRAM).expect("a file is written");
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("allowed");
        let (scheme, tls) = match fleet.server.tls() {
            Tls::Off => ("grpc", String::new()),
            Tls::Own => {
                let ca = fleet.server.ca_file();
                ("grpcs", format!("tls {{\n    ca_file = \"{}\"\n  }}", ca.display()))
            }
        };
        let state = folder.join("state");
        let config = format!(
            "agent {{\n  server_url = \"{scheme}://{address}\"\n  token      = \"{TOKEN}\"\n  \
             name       = \"{name}\"\n  labels     = {{ folder = \"{}\" }}\n  \
             state_dir  = \"{}\"\n  {tls}\n}}\n",
            folder.file_name().unwrap_or_default().to_string_lossy(),
            state.display()
        );
        fs::write(folder.join("agent.hcl"), config).expect("a file is written");
        Self {
            name: name.into(),
            chronicle: Chronicle::default(),
            story: fleet.folder().to_path_buf(),
            folder,
            process: None,
            wanted: BTreeMap::new(),
        }
    }

    pub fn start(&mut self) {
        assert!(self.process.is_none(), "the agent runs already");
        let log = OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("a log");
        let child = Command::new(PROGRAM_UNDER_TEST)
            .arg("agent")
            .arg("--config")
            .arg(self.folder.join("agent.hcl"))
            .env("STORY", &self.story)
            .env("STORY_ROOT", self.root())
            .env("NO_COLOR", "1")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn();
        let child = child.expect("the agent starts");
        self.write("agent.pid", &child.id().to_string());
        self.process = Some(child);
    }

    /// Ends it without a warning.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Tells it to end, and waits until it has.
    pub fn stop(&mut self) {
        if let Some(child) = &self.process {
            self.signal("TERM", child.id());
            self.ends();
        }
    }

    /// Waits until it has ended, for whatever reason.
    pub fn ends(&mut self) {
        let mut child = self.process.take().expect("an agent");
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().expect("it is ours").is_none() {
            assert!(Instant::now() < deadline, "the agent does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops it where it stands.
    pub fn freeze(&self) {
        self.signal("STOP", self.process.as_ref().expect("an agent").id());
    }

    fn signal(&self, name: &str, pid: u32) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
        assert!(sent.expect("kill runs").success());
    }

    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    pub fn has(&self, file: &str) -> bool {
        self.root().join(file).exists()
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.root().join(file)).unwrap_or_default()
    }

    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.root().join(file), text).expect("a file is written");
    }

    /// Takes files away; those that are not there are fine.
    pub fn remove(&self, files: &[&str]) {
        files.iter().for_each(|file| drop(fs::remove_file(self.root().join(file))));
    }

    /// Lets everything go that is held.
    pub fn let_go(&self) {
        self.remove(&["hold.check", "hold.second", "hold.apply", "hold.verify"]);
        self.remove(&["at.check", "at.apply"]);
    }

    /// What Git says of its files from now on.
    pub fn should_have(&mut self, tasks: &[&str], version: &str) {
        self.wanted = tasks.iter().map(|task| (task.to_string(), format!("{version}\n"))).collect();
    }

    fn files(&self) -> Vec<(String, String, String)> {
        let wanted = self.wanted.iter();
        wanted.map(|(task, text)| (task.clone(), text.clone(), self.read(task))).collect()
    }

    /// How often steps were applied, by the host's own account.
    pub fn begun(&self) -> usize {
        self.read("account").lines().filter(|line| line.starts_with("begin ")).count()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Makes this agent's host a copy of another one's.
    pub fn copy(&self, other: &Agent) {
        let to = self.folder.join("state");
        fs::create_dir_all(&to).expect("a folder");
        for (name, bytes) in other.state() {
            fs::write(to.join(name), bytes).expect("a file is written");
        }
    }

    /// The files of its state directory.
    pub fn state(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.folder.join("state")).into_iter().flatten().flatten();
        let file = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            // One that is being replaced goes away in between.
            Some((name, fs::read(entry.path()).ok()?))
        };
        // A file that is being written has no name of its own yet.
        entries.filter_map(file).filter(|(name, _)| !name.contains(".tmp")).collect()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.let_go();
        self.kill();
        // What it left under way has nobody else to end it.
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            let root = format!("STORY_ROOT={}\0", self.root().display());
            let name = process.file_name().to_string_lossy().into_owned();
            if String::from_utf8_lossy(&environment).contains(&root) {
                let _ = Command::new("kill").args(["-KILL", &name]).stderr(Stdio::null()).status();
            }
        }
    }
}

/// A place where `git` waits for ever: a remote that hangs.
pub struct Hang(PathBuf);

impl Hang {
    pub fn new(fleet: &Fleet) -> Self {
        let path = fleet.repository.path().join(".git/packed-refs");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo runs").success());
        Self(path)
    }

    /// The remote lets go of everybody.
    pub fn end(self) {
        let open = || OpenOptions::new().read(true).write(true).open(&self.0);
        let readers: Option<File> = open().ok();
        fs::remove_file(&self.0).expect("it is there");
        drop(readers);
    }
}
