//! A host with a Podman of its own: storage, network and locks are nobody else's.

mod hearing;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fluke_model::directory::Subnet;
use fluke_model::id::{AgentName, CommitId, InstructionId, SessionId};
use fluke_model::message::{Fact, NetworkReport, NodeType};
use fluke_model::policy::Policy;
use fluke_model::service::{
    ContainerSpec, DeploymentId, DeploymentReport, Replica, SnapshotService,
};
use fluke_model::snapshot::Snapshot;
use fluke_model::volume::Volumes;
use tempfile::TempDir;

use crate::executor::Allow;
use crate::host::environment::Environment;
use crate::services::addresses::own_choice;
use crate::services::bridge;
use crate::services::ceiling::Ceiling;
use crate::services::fixture::{self, HOST};
use crate::services::kept::Folder;
use crate::services::podman::create::Limit;
use crate::services::podman::{Listed, Podman};
use crate::services::{Opening, Services, ServicesConfig, names};
use crate::state::Held;

const INSIDE: &str = "FLUKE_TEST_INSIDE_A_HOST";
/// Runs until it is told to end, and then ends at once.
pub const RUNS: &str = "trap 'exit 0' TERM; sleep 1000 & wait";

/// Tells a story on a host of its own: the test runs itself again where it may do anything.
pub fn tell<Story: AsyncFnOnce(&mut Stage)>(story: Story) {
    if std::env::var_os(INSIDE).is_some() {
        // The lane goes on while a story waits for a program.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build();
        return runtime.expect("a runtime").block_on(async {
            let mut stage = Stage::new();
            story(&mut stage).await;
        });
    }
    if !can_have_a_host() {
        return;
    }
    let this = std::env::current_exe().expect("a test program");
    // Without /run, nobody there can be asked to do anything to this machine.
    let prepare = "set -e; for place in /dev/shm /run /mnt; do mount -t tmpfs tmpfs $place; done; \
                   mkdir /run/netns /run/lock /mnt/sys; mount -t sysfs sysfs /mnt/sys; \
                   ip link set lo up; exec \"$@\"";
    let mut again = Command::new("unshare");
    // However a story ends, nothing that it started goes on.
    again.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    again.args(["sh", "-c", prepare, "sh"]).arg(this);
    again.args(["--exact", test_of::<Story>(), "--nocapture"]).env(INSIDE, "1");
    let output = again.output().expect("unshare runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// What the test is called whose body has the story in it.
fn test_of<Story>() -> &'static str {
    let story = std::any::type_name::<Story>();
    let (_, within) = story.split_once("::").expect("it is in a crate");
    within.trim_end_matches("::{{closure}}")
}

#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
fn can_have_a_host() -> bool {
    let probe =
        "podman --version && runc --version && busybox true && ip link add name probe type bridge";
    let tried = Command::new("unshare").args(["--net", "--mount", "sh", "-c", probe]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        assert!(std::env::var_os("CI").is_none(), "needs root, podman, runc, ip and busybox");
        eprintln!("SKIP: no host of its own can be made: needs root, podman, runc, ip and busybox");
    }
    can
}

/// The host, and what its lane has said.
pub struct Stage {
    dir: TempDir,
    pub podman: Podman,
    service: Option<Child>,
    lane: Option<Services>,
    held: Option<Arc<Held>>,
    greeting: Option<&'static str>,
    node_type: NodeType,
    allow: Allow,
    sessions: u64,
    reports: BTreeMap<DeploymentId, DeploymentReport>,
    /// What it said of volumes, if it did.
    pub volumes: Option<Volumes>,
    network: Option<NetworkReport>,
    records: Vec<(String, Fact)>,
    /// For what each of them was done, if somebody asked.
    instructions: Vec<(String, Option<InstructionId>)>,
    settled: Vec<(InstructionId, Option<String>)>,
    heard: usize,
}

impl Stage {
    fn new() -> Self {
        // In memory, and gone with the last process of the story.
        let dir = tempfile::tempdir_in("/mnt").expect("a directory");
        let mut stage = Self::bare(dir);
        stage.make_image();
        stage.podman_begins();
        stage.start();
        stage
    }

    pub fn without_podman(dir: TempDir) -> Self {
        let mut stage = Self::bare(dir);
        stage.start();
        stage
    }

    /// A proxy that is told nothing of what it should be.
    pub fn proxy_without_podman(dir: TempDir) -> Self {
        let mut stage = Self::bare(dir);
        stage.node_type = NodeType::Proxy;
        stage.start();
        stage
    }

    fn bare(dir: TempDir) -> Self {
        let podman = Podman::at(&dir.path().join("podman.sock")).expect("a client");
        Self {
            dir,
            podman,
            service: None,
            lane: None,
            held: None,
            greeting: Some("hello"),
            node_type: NodeType::Worker,
            allow: Allow::default(),
            sessions: 1,
            reports: BTreeMap::new(),
            volumes: None,
            network: None,
            records: Vec::new(),
            instructions: Vec::new(),
            settled: Vec::new(),
            heard: 0,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self) -> Command {
        let mut podman = Command::new("podman");
        for (option, folder) in [
            ("--root", "root"),
            ("--runroot", "run"),
            ("--tmpdir", "tmp"),
            ("--network-config-dir", "networks"),
        ] {
            podman.arg(option).arg(self.path(folder));
        }
        // As on the bed: crun refuses to run where control groups of both versions are in use.
        podman.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs"]);
        podman.args(["--events-backend", "file"]);
        podman
    }

    /// What Podman's own command line says.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let output = self.command().args(arguments).output().expect("podman runs");
        // Podman 5 warns of what has nothing to do with it.
        let warned = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "podman {arguments:?}: {warned}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Whether Podman's command line says yes.
    pub fn is_so(&self, arguments: &[&str]) -> bool {
        self.command().args(arguments).output().expect("podman runs").status.success()
    }

    /// A file of the lane's own.
    pub fn state(&self, name: &str) -> PathBuf {
        self.path("state/services").join(name)
    }

    /// A file system with nothing but busybox.
    fn make_image(&self) {
        let script = r#"set -e; mkdir -p image/bin image/tmp image/etc; cd image
            cp "$(command -v busybox)" bin/busybox
            for name in sh sleep test touch mkdir nslookup true; do ln -sf busybox bin/$name; done
            tar -c . > ../image.tar"#;
        let made = Command::new("sh").args(["-c", script]).current_dir(self.dir.path()).status();
        assert!(made.expect("sh runs").success());
        let tar = self.path("image.tar");
        self.cli(&["import", "--quiet", tar.to_str().expect("UTF-8"), "localhost/box:1"]);
    }

    /// The same with a health check of its own.
    pub fn has_image_with_a_check(&self, name: &str, command: &str) {
        let recipe = self.path("image/Dockerfile");
        let lines = format!("FROM localhost/box:1\nHEALTHCHECK CMD {command}\n");
        std::fs::write(&recipe, lines).expect("room");
        let (recipe, folder) = (recipe.to_str().expect("UTF-8"), self.path("image"));
        // Images of the other format have none.
        let build = ["build", "--quiet", "--format", "docker", "--pull=never", "--tag", name];
        let of = ["--file", recipe, folder.to_str().expect("UTF-8")];
        self.cli(&[&build[..], &of[..]].concat());
    }

    pub fn podman_begins(&mut self) {
        let socket = self.path("podman.sock");
        let _ = std::fs::remove_file(&socket);
        let mut service = self.command();
        service.args(["system", "service", "--time", "0"]);
        service.arg(format!("unix://{}", socket.display()));
        let log = std::fs::File::create(self.path("podman.log")).expect("a file");
        service.stdout(Stdio::null()).stderr(log);
        self.service = Some(service.spawn().expect("podman runs"));
        while !socket.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn podman_ends(&mut self) {
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
        let _ = std::fs::remove_file(self.path("podman.sock"));
    }

    /// Starts the lane as an agent does.
    pub fn start(&mut self) {
        let resolvers = self.path("resolv.conf");
        std::fs::write(&resolvers, "").expect("room");
        let config = ServicesConfig {
            socket: self.path("podman.sock"),
            resolvers,
            sys: "/mnt/sys".into(),
            drain: Duration::ZERO,
            // On a machine that is not of its own, the port may be anybody's.
            dns_port: if self.service.is_some() { names::PORT } else { 0 },
            ..ServicesConfig::default()
        };
        let lane = Services::start(Opening {
            host: AgentName::new(HOST).expect("a name"),
            node_type: self.node_type,
            config,
            ceiling: Ceiling::of(&self.allow),
            environment: Environment::from_pairs(self.greeting.map(|it| ("GREETING", it))),
            clock: Arc::new(|| SystemTime::now().into()),
            state_dir: &self.path("state"),
            held: self.held.clone(),
            after: Duration::ZERO,
        });
        self.lane = lane;
        self.look_again();
    }

    /// Takes the lane away in the middle of what it does.
    pub fn crash(&mut self) {
        self.lane = None;
        self.reports.clear();
    }

    /// What the next lane finds as the host's `$GREETING`.
    pub fn greets(&mut self, greeting: impl Into<Option<&'static str>>) {
        self.greeting = greeting.into();
    }

    /// What the next lane finds in the host's own config.
    pub fn allows(&mut self, executors: Option<&[&str]>) {
        let executors = executors.map(|kinds| kinds.iter().map(ToString::to_string).collect());
        self.allow = Allow { executors, stated: Some("agent.hcl:7".into()), ..Allow::default() };
    }

    pub fn lane(&self) -> &Services {
        self.lane.as_ref().expect("it runs")
    }

    pub fn session(&self) -> SessionId {
        SessionId(self.sessions)
    }

    /// A server that connects anew has everything looked at.
    pub fn look_again(&mut self) {
        self.sessions += 1;
        self.lane().inbox.session(Some(self.session()));
    }

    pub fn subnet(&self) -> Subnet {
        own_choice(HOST, |_| false)
    }

    pub fn claimed(&self) -> Option<Ipv4Addr> {
        Folder::within(&self.path("state")).claim().map(|claim| claim.subnet.network())
    }

    /// Git says that these services are to run here.
    pub fn wants<const N: usize>(&mut self, services: [SnapshotService; N]) -> Vec<DeploymentId> {
        let host = AgentName::new(HOST).expect("a name");
        let ids = services.iter().flat_map(|it| it.deployments(&host).map(|(_, id)| id));
        let ids = ids.collect();
        let services = services.into_iter().map(Arc::new).collect();
        let snapshot = Arc::new(Snapshot::default().with_services(services));
        let held = Arc::new(Held { commit: CommitId::new("c1"), snapshot });
        self.held = Some(held.clone());
        self.lane().inbox.hold(held, false);
        ids
    }

    pub async fn containers(&self) -> Vec<Listed> {
        self.podman.list().await.expect("listed")
    }

    /// Kills the first process of a container, as nobody should.
    pub fn kill(&self, container: &Listed) {
        kill(container.pid);
    }

    /// Kills who would tell Podman that a container has ended.
    pub fn kill_monitor(&self, container: &Listed) {
        let said = self.cli(&["inspect", "--format", "{{.State.ConmonPid}}", &container.id]);
        kill(said.trim().parse().expect("a process"));
    }

    /// Somebody begins to stop a container, and is gone once Podman has written that down.
    pub async fn leave_half_stopped(&self, container: &Listed) {
        let mut stop = self.command();
        let stop = stop.args(["stop", "--time", "600", &container.id]).spawn();
        let mut stop = stop.expect("podman runs");
        while !self.containers().await.iter().any(|it| it.state == "stopping") {
            assert!(matches!(stop.try_wait(), Ok(None)), "it has 600 s");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.kill().and_then(|()| stop.wait()).expect("it ran");
    }

    /// What Podman's storage knows of a container was not written before the power went.
    pub fn forget_storage_of(&self, container: &Listed) {
        let known = self.path("root/overlay-containers/containers.json");
        let content = std::fs::read(&known).expect("it is there");
        let mut all: Vec<serde_json::Value> = serde_json::from_slice(&content).expect("a list");
        all.retain(|it| it["id"] != container.id.as_str());
        std::fs::write(&known, serde_json::to_vec(&all).expect("plain data")).expect("room");
    }

    /// Somebody removes the network's file.
    pub fn forget_network(&self) {
        std::fs::remove_file(self.path("networks/fluke.json")).expect("it was there");
    }

    pub fn answers_ping(&self, address: Ipv4Addr) -> bool {
        let address = address.to_string();
        let ping = Command::new("busybox").args(["ping", "-c1", "-W1", &address]).output();
        ping.expect("busybox runs").status.success()
    }

    /// Where the only container is attached to the bridge.
    pub fn port_of_bridge(&self) -> String {
        let (sys, proc) = ("/mnt/sys".into(), "/proc".into());
        let ports = bridge::Interfaces { sys, proc }.ports();
        ports.into_iter().next().expect("it is attached")
    }

    /// The network interfaces that there are.
    pub fn interfaces(&self) -> Vec<String> {
        let all = std::fs::read_dir("/mnt/sys/class/net").expect("a kernel that tells");
        let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        all.map(|entry| name(entry.expect("an interface"))).collect()
    }
}

/// Something that runs in the control group of a container.
pub struct Group {
    folder: PathBuf,
    process: Child,
}

impl Group {
    pub fn of(container: &str) -> Self {
        // What can be frozen does not end even when it is killed, where groups are of the first version.
        let roots = ["/sys/fs/cgroup/freezer", "/sys/fs/cgroup"];
        let folder = roots.map(|root| PathBuf::from(root).join(format!("libpod-{container}")));
        let folder = folder.into_iter().find(|it| std::fs::create_dir(it).is_ok());
        let folder = folder.expect("a group of its own");
        let process = Command::new("sleep").arg("1000").spawn().expect("sleep runs");
        let it = Self { folder, process };
        it.write("cgroup.procs", &it.process.id().to_string());
        it
    }

    pub fn freeze(&self) {
        if self.folder.join("freezer.state").exists() {
            self.write("freezer.state", "FROZEN");
        }
    }

    pub fn is_frozen(&self) -> bool {
        let state = std::fs::read_to_string(self.folder.join("freezer.state"));
        state.is_ok_and(|state| state.trim() == "FROZEN")
    }

    pub fn thaw(&self) {
        self.write("freezer.state", "THAWED");
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("a control group");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.is_frozen() {
            self.thaw();
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir(&self.folder);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.lane = None;
        if std::env::var_os(INSIDE).is_some() {
            self.podman_ends();
            let _ = self.command().args(["rm", "--all", "--force", "--time", "0"]).output();
        }
    }
}

fn kill(process: i32) {
    let process = nix::unistd::Pid::from_raw(process);
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).expect("it runs");
}

pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

/// Limits that can be given on any machine.
pub fn few() -> Vec<Limit> {
    ["nofile", "nproc"].map(|kind| Limit { kind, soft: 1024, hard: 1024 }).into()
}

/// A container that runs a line of shell.
pub fn spec(line: &str) -> ContainerSpec {
    let command = Some(vec!["sh".into(), "-c".into(), line.into()]);
    ContainerSpec { command, ..fixture::spec("localhost/box:1") }
}

pub fn service(name: &str, spec: ContainerSpec) -> SnapshotService {
    SnapshotService {
        name: fixture::service(name),
        policy: Policy::Remediate,
        container: Some(Arc::new(spec)),
        replicas: vec![Replica::Own],
        listens: Vec::new(),
    }
}
