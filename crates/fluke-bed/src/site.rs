//! A site: hosts, the network between them, and the folder that all of it is in.
//!
//! A site belongs to the process that holds its lock, or, when it is kept, to nobody. A site whose
//! owner has died is removed by whoever comes next.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use crate::command::{self, CommandError};
use crate::image::{self, ImageError};
use crate::machine::{self, MachineError};
use crate::network::{FIRST_HOST, GATEWAY, LAST_HOST, Network, Subnet};
use crate::places::{self, FileError, Lock, doing};

/// How Podman is called for hosts: no systemd of the machine, no CNI, no journal.
pub(crate) const PODMAN: &[&str] =
    &["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file"];
/// A host that has not booted by then never will.
const BOOT: Duration = Duration::from_secs(120);
/// How long a host may take to shut down before its power is cut.
const SHUTDOWN_SECONDS: &str = "60";
/// How long a command on a host may take.
const COMMAND_SECONDS: &str = "120";
/// What commands on a host find their programs in.
const PATH: &str = "/opt/fluke:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why the bed does not do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// There can be no bed here.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Hosts have nothing to boot from.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A program failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Files cannot be had.
    #[error(transparent)]
    File(#[from] FileError),
    /// No addresses are left.
    #[error(
        "every subnet from 198.18.0.0/24 to 198.19.255.0/24 is taken by a bed or by a route of this machine; `cargo bed down --all` ends the beds, `ip route show table all` shows the routes"
    )]
    NoSubnet,
    /// No numbers are left.
    #[error("a bed has at most {} hosts", LAST_HOST - FIRST_HOST + 1)]
    Full,
    /// Not a name that hosts and beds can have.
    #[error("`{0}` is no name for {1}: lower-case letters, digits and `-`, at most {2}")]
    Name(String, &'static str, usize),
    /// Nobody made it.
    #[error(
        "there is no bed `{0}`; `cargo bed up` makes it, `cargo bed list` shows those there are"
    )]
    NoBed(String),
    /// Nobody made it.
    #[error("there is no host `{0}`; `cargo bed list` shows those there are")]
    NoHost(String),
    /// Nothing can be run on it.
    #[error("`{0}` is not running")]
    Down(String),
    /// It hangs in its boot.
    #[error("`{host}` did not boot within {} s: {said}", BOOT.as_secs())]
    Boot {
        /// Which host.
        host: String,
        /// What systemd said last.
        said: String,
    },
}

/// Whether a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It runs.
    On,
    /// It is frozen.
    Frozen,
    /// It was stopped or killed; its disk is there.
    Off,
    /// It was never booted.
    Absent,
}

/// A site, looked at from any process.
#[derive(Debug, Clone)]
pub struct Site {
    id: String,
    folder: PathBuf,
    /// The network.
    pub network: Network,
}

impl Site {
    /// Makes a site for the story that this process tells; it lives as long as the lock.
    pub fn for_story(story: &str) -> Result<(Self, Lock), SiteError> {
        machine::prepare()?;
        image::ensure()?;
        let _alone = Lock::wait(&places::sites().join(".lock"))?;
        Self::reap()?;
        let number = std::process::id();
        let id = (0..).map(|n| format!("s{}", base36(u64::from(number) + 1_000_003 * n)));
        let id = id.into_iter().find(|id| !places::sites().join(id).exists());
        let site = Self::claim(&id.unwrap_or_default(), story)?;
        let owner = Lock::wait(&site.folder.join("owner"))?;
        site.network.make()?;
        Ok((site, owner))
    }

    /// Finds or makes a site that stays until it is taken down.
    pub fn kept(name: &str) -> Result<Self, SiteError> {
        check_name(name, "a bed", 8)?;
        machine::prepare()?;
        image::ensure()?;
        let _alone = Lock::wait(&places::sites().join(".lock"))?;
        Self::reap()?;
        let site = match Self::find(name)? {
            Some(site) => site,
            None => Self::claim(name, "kept")?,
        };
        let kept = site.folder.join("kept");
        fs::write(&kept, "").map_err(doing("write", &kept))?;
        site.network.make()?;
        Ok(site)
    }

    /// Takes an id and a subnet. The caller holds the lock of all sites.
    fn claim(id: &str, story: &str) -> Result<Self, SiteError> {
        let others = Self::all()?;
        let routes = command::run("ip", &["-4", "route", "show", "table", "all"])?;
        let is_taken = |subnet: Subnet| {
            subnet.is_routed(&routes) || others.iter().any(|site| site.network.subnet == subnet)
        };
        let subnet = Subnet::free(is_taken).ok_or(SiteError::NoSubnet)?;
        let folder = places::sites().join(id);
        fs::create_dir_all(&folder).map_err(doing("make", &folder))?;
        let site = Self { id: id.into(), network: Network::new(id, subnet), folder };
        site.note("subnet", &subnet.to_string())?;
        site.note("story", story)?;
        site.write_names()?;
        Ok(site)
    }

    fn note(&self, name: &str, text: &str) -> Result<(), FileError> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(doing("write", &path))
    }

    /// A site of that id, if there is one.
    pub fn find(id: &str) -> Result<Option<Self>, SiteError> {
        Ok(Self::all()?.into_iter().find(|site| site.id == id))
    }

    /// Every site on this machine.
    pub fn all() -> Result<Vec<Self>, SiteError> {
        let folder = places::sites();
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
        let mut sites = Vec::new();
        for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
            let id = entry.file_name().to_string_lossy().into_owned();
            let subnet = fs::read_to_string(entry.path().join("subnet")).unwrap_or_default();
            // Without one it was claimed by a process that died that very moment.
            let subnet = subnet.parse().unwrap_or(Subnet(0, 0));
            sites.push(Self { network: Network::new(&id, subnet), id, folder: entry.path() });
        }
        sites.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(sites)
    }

    /// Removes every site whose owner has died. The caller holds the lock of all sites.
    fn reap() -> Result<(), SiteError> {
        for site in Self::all()? {
            if !site.is_kept() && Lock::attempt(&site.folder.join("owner"))?.is_some() {
                site.remove_hosts()?;
                site.remove_rest()?;
            }
        }
        Ok(())
    }

    /// Whether it stays until it is taken down.
    pub fn is_kept(&self) -> bool {
        self.folder.join("kept").exists()
    }

    /// Keeps the site beyond its owner, to be looked into.
    pub fn keep(&self) -> Result<(), FileError> {
        self.note("kept", "")
    }

    /// What it is called.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it is for.
    pub fn story(&self) -> String {
        fs::read_to_string(self.folder.join("story")).unwrap_or_default()
    }

    /// Everything of the site is in there, and goes with it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes everything away: hosts, network, folder, and a server that was left running.
    pub fn remove(&self) -> Result<(), SiteError> {
        self.remove_hosts()?;
        let _alone = Lock::wait(&places::sites().join(".lock"))?;
        self.remove_rest()
    }

    fn remove_hosts(&self) -> Result<(), SiteError> {
        crate::server::end_stray(&self.folder);
        let label = format!("label=fluke-bed={}", self.id);
        let ids = podman(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &label])?;
        let ids: Vec<_> = ids.split_whitespace().collect();
        if !ids.is_empty() {
            podman(&[&["rm", "--force", "--time", "0", "--volumes"][..], &ids].concat())?;
        }
        Ok(())
    }

    /// The caller holds the lock of all sites.
    fn remove_rest(&self) -> Result<(), SiteError> {
        self.network.remove();
        fs::remove_dir_all(&self.folder).map_err(doing("remove", &self.folder))?;
        Ok(())
    }

    // === Hosts ===

    /// Every host that was ever booted, with its number, in that order.
    pub fn hosts(&self) -> Vec<(String, u8)> {
        let entries = fs::read_dir(self.folder.join("hosts")).into_iter().flatten().flatten();
        let number = |path: PathBuf| fs::read_to_string(path.join("number")).ok()?.parse().ok();
        let mut hosts: Vec<(String, u8)> = entries
            .filter_map(|entry| {
                Some((entry.file_name().to_string_lossy().into_owned(), number(entry.path())?))
            })
            .collect();
        hosts.sort_by_key(|(_, number)| *number);
        hosts
    }

    /// The number of a host.
    pub fn number(&self, host: &str) -> Result<u8, SiteError> {
        let found = self.hosts().into_iter().find(|(name, _)| name == host);
        found.map(|(_, number)| number).ok_or_else(|| SiteError::NoHost(host.into()))
    }

    /// Gives a host its number and its place, unless it has them.
    pub fn add(&self, host: &str) -> Result<u8, SiteError> {
        check_name(host, "a host", 40)?;
        let _alone = Lock::wait(&self.folder.join("hosts.lock"))?;
        let hosts = self.hosts();
        if let Some((_, number)) = hosts.iter().find(|(name, _)| name == host) {
            return Ok(*number);
        }
        let number = hosts.last().map_or(FIRST_HOST, |(_, number)| number + 1);
        if number > LAST_HOST {
            return Err(SiteError::Full);
        }
        let storage = self.host_folder(host).join("containers");
        fs::create_dir_all(&storage).map_err(doing("make", &storage))?;
        let path = self.host_folder(host).join("number");
        fs::write(&path, number.to_string()).map_err(doing("write", &path))?;
        self.write_names()?;
        Ok(number)
    }

    fn host_folder(&self, host: &str) -> PathBuf {
        self.folder.join("hosts").join(host)
    }

    /// The `/etc/hosts` of all hosts. Written in place: it is mounted in each of them.
    fn write_names(&self) -> Result<(), FileError> {
        let mut text = String::from("127.0.0.1 localhost\n");
        let named = std::iter::once(("server".to_string(), GATEWAY)).chain(self.hosts());
        for (name, number) in named {
            text += &format!("{} {name}\n", self.network.subnet.address(number));
        }
        self.note("names", &text)
    }

    /// Boots a host: makes it if it is new, and starts it if it is off.
    pub fn boot(&self, host: &str) -> Result<(), SiteError> {
        let number = self.add(host)?;
        match self.power(host)? {
            Power::On => return Ok(()),
            Power::Frozen => return self.thaw(host),
            Power::Absent => {
                self.network.plug(number)?;
                self.create(host, number)?;
            }
            Power::Off => {
                self.network.plug(number)?;
                podman(&["start", &self.container(host)])?;
            }
        }
        self.wait_for_boot(host)
    }

    fn create(&self, host: &str, number: u8) -> Result<(), SiteError> {
        let binaries = self.folder.join("bin");
        fs::create_dir_all(&binaries).map_err(doing("make", &binaries))?;
        let folder = self.host_folder(host);
        // What a run that was killed has left behind.
        let _ = fs::remove_file(folder.join("cid"));
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let files = machine::most_files();
        let arguments = [
            "run".to_string(),
            "--detach".into(),
            format!("--name={}", self.container(host)),
            format!("--hostname={host}"),
            format!("--label=fluke-bed={}", self.id),
            format!("--network=ns:/run/netns/{}", self.network.namespace(number)),
            "--dns=none".into(),
            "--no-hosts".into(),
            // Not `--systemd=always`: hosts would share the machine's own systemd hierarchy.
            "--privileged".into(),
            "--systemd=false".into(),
            "--cgroupns=private".into(),
            "--env=container=podman".into(),
            "--stop-signal=SIGRTMIN+3".into(),
            "--tmpfs=/run:rw,exec,mode=755".into(),
            "--tmpfs=/run/lock:rw".into(),
            "--tmpfs=/tmp:rw,exec,mode=1777".into(),
            // Both, or the default of the other is lost; not more than this machine may have.
            format!("--ulimit=nofile={files}:{files}"),
            "--ulimit=nproc=8192:8192".into(),
            "--pids-limit=-1".into(),
            "--log-driver=none".into(),
            format!("--cidfile={}", text(folder.join("cid"))),
            format!("--pidfile={}", text(folder.join("pid"))),
            // On a real disk: overlay on overlay does not work.
            format!("--volume={}:/var/lib/containers", text(folder.join("containers"))),
            format!("--volume={}:/etc/hosts:ro", text(self.folder.join("names"))),
            format!("--volume={}:/opt/fluke:ro", text(binaries)),
            image::name(),
            "/sbin/init".into(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        podman(&arguments)?;
        Ok(())
    }

    fn wait_for_boot(&self, host: &str) -> Result<(), SiteError> {
        let deadline = Instant::now() + BOOT;
        loop {
            let state = self.exec(host, &["systemctl", "is-system-running"], "")?;
            let state = String::from_utf8_lossy(&state.stdout).trim().to_string();
            if matches!(state.as_str(), "running" | "degraded") {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(SiteError::Boot { host: host.into(), said: state });
            }
            std::thread::sleep(Duration::from_millis(25));
        }
    }

    /// Cuts a host's power: everything on it ends at once, and no packet says so.
    pub fn kill(&self, host: &str) -> Result<(), SiteError> {
        let power = self.power(host)?;
        if matches!(power, Power::Off | Power::Absent) {
            return Ok(());
        }
        self.network.carry(self.number(host)?, false)?;
        // A frozen host does not die.
        if power == Power::Frozen {
            self.thaw(host)?;
        }
        podman(&["kill", "--signal=KILL", &self.container(host)])?;
        podman(&["wait", "--interval=20ms", &self.container(host)])?;
        Ok(())
    }

    /// Shuts a host down in order.
    pub fn stop(&self, host: &str) -> Result<(), SiteError> {
        podman(&["stop", "--time", SHUTDOWN_SECONDS, &self.container(host)])?;
        Ok(())
    }

    /// Stops every process of a host where it stands; its connections stay open.
    pub fn freeze(&self, host: &str) -> Result<(), SiteError> {
        podman(&["pause", &self.container(host)])?;
        Ok(())
    }

    /// Lets a frozen host go on.
    pub fn thaw(&self, host: &str) -> Result<(), SiteError> {
        podman(&["unpause", &self.container(host)])?;
        Ok(())
    }

    /// Whether a host runs.
    pub fn power(&self, host: &str) -> Result<Power, SiteError> {
        self.number(host)?;
        let inspect = [PODMAN, &["inspect", "--format={{.State.Status}}"]].concat();
        let said =
            command::output("podman", &[&inspect[..], &[&self.container(host)]].concat(), "")?;
        Ok(match String::from_utf8_lossy(&said.stdout).trim() {
            "running" => Power::On,
            "paused" => Power::Frozen,
            "" => Power::Absent,
            _ => Power::Off,
        })
    }

    /// Runs a program on a host, through its namespaces: quick, and outside of its cgroups, so a
    /// daemon is started by its unit and not by this.
    pub fn exec(&self, host: &str, program: &[&str], stdin: &str) -> Result<Output, SiteError> {
        let arguments = self.entering(host, Some(COMMAND_SECONDS))?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Ok(command::output(arguments[0], &[&arguments[1..], program].concat(), stdin)?)
    }

    /// The words before a program that is to run on a host, for so many seconds at most.
    pub fn entering(&self, host: &str, seconds: Option<&str>) -> Result<Vec<String>, SiteError> {
        let pid = self.pid(host)?;
        let path = format!("PATH={PATH}");
        let limit = seconds.map(|seconds| ["timeout", "-k", "5", seconds]);
        let enter = ["nsenter", "-t", &pid, "-m", "-u", "-i", "-n", "-p", "-C", "--"];
        let environment = ["env", "-i", &path, "HOME=/root", "LANG=C.UTF-8", "container=podman"];
        let words = limit.into_iter().flatten().chain(enter).chain(environment);
        Ok(words.map(str::to_string).collect())
    }

    /// The process of a host's systemd. Believed only if it really is in that host's cgroup: a
    /// number left over from before must not lead into a stranger.
    pub(crate) fn pid(&self, host: &str) -> Result<String, SiteError> {
        self.number(host)?;
        let folder = self.host_folder(host);
        let read = |name| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let (pid, id) = (read("pid").trim().to_string(), read("cid").trim().to_string());
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        match !id.is_empty() && cgroup.contains(&id) {
            true => Ok(pid),
            false => Err(SiteError::Down(host.into())),
        }
    }

    fn container(&self, host: &str) -> String {
        format!("fluke-bed-{}-{host}", self.id)
    }
}

fn podman(arguments: &[&str]) -> Result<String, CommandError> {
    command::run("podman", &[PODMAN, arguments].concat())
}

fn check_name(name: &str, of: &'static str, most: usize) -> Result<(), SiteError> {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fine = (1..=most).contains(&name.len()) && name.chars().all(is_fine);
    match fine && !name.starts_with('-') {
        true => Ok(()),
        false => Err(SiteError::Name(name.into(), of, most)),
    }
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    while number > 0 || digits.is_empty() {
        digits.extend(char::from_digit((number % 36) as u32, 36));
        number /= 36;
    }
    digits.iter().rev().collect()
}
