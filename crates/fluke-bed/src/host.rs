//! One host of a story.

use std::net::Ipv4Addr;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::api;
use fluke_model::event::Event;

use crate::bed::Inner;
use crate::turns::BOOTS;

/// How long a story waits for anything on a host.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host: a name, an address, a systemd, a disk. Cheap to clone; it lives as long as its bed.
#[derive(Clone)]
pub struct Host {
    pub(crate) bed: Arc<Inner>,
    pub(crate) name: String,
    pub(crate) number: u8,
}

/// What a command on a host printed, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// -1 where a signal ended it.
    pub code: i32,
    /// As text, without the last line break.
    pub stdout: String,
    /// As text, without the last line break.
    pub stderr: String,
}

impl Told {
    /// Whether it ended well.
    pub fn ok(&self) -> bool {
        self.code == 0
    }
}

impl Host {
    /// Its name, which is also its agent's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address on the bed.
    pub fn address(&self) -> Ipv4Addr {
        self.bed.site.network.subnet.address(self.number)
    }

    /// Runs a command line under bash; what it prints is the result.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, command: &str) -> String {
        let told = self.try_run(command);
        assert!(told.ok(), "on {}, `{command}` failed: {told:#?}", self.name);
        told.stdout
    }

    /// Runs a command line under bash; it may fail.
    pub fn try_run(&self, command: &str) -> Told {
        self.feed(command, "")
    }

    /// Runs a command line under bash, with something to read.
    pub fn feed(&self, command: &str, stdin: &str) -> Told {
        let output = self.output(&["bash", "-c", command], stdin);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\n').to_string();
        Told {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    fn output(&self, program: &[&str], stdin: &str) -> Output {
        let output = self.bed.site.exec(&self.name, program, stdin);
        output.unwrap_or_else(|error| panic!("on {}: {error}", self.name))
    }

    /// Whether a command line says yes.
    pub fn is(&self, command: &str) -> bool {
        self.try_run(command).ok()
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, path: &str) -> bool {
        self.is(&format!("test -e '{path}'"))
    }

    /// The content of a file; nothing where there is none.
    pub fn read(&self, path: &str) -> String {
        String::from_utf8_lossy(&self.output(&["cat", path], "").stdout).into_owned()
    }

    /// Writes a file, and the folders it is in.
    pub fn write(&self, path: &str, text: &str) {
        let told = self.feed(&format!("mkdir -p \"$(dirname '{path}')\" && cat > '{path}'"), text);
        assert!(told.ok(), "on {}, {path} could not be written: {told:#?}", self.name);
    }

    /// Writes a unit and has systemd read it. `web.service` is then there, and not yet started.
    pub fn unit(&self, name: &str, text: &str) {
        self.write(&format!("/etc/systemd/system/{name}"), text);
        self.run("systemctl daemon-reload");
    }

    /// Whether a unit is active now.
    pub fn is_active(&self, unit: &str) -> bool {
        self.is(&format!("systemctl is-active --quiet '{unit}'"))
    }

    /// The last lines that a unit logged, over all boots.
    pub fn journal(&self, unit: &str, lines: usize) -> String {
        self.try_run(&format!("journalctl --no-pager --output=cat -u '{unit}' -n {lines}")).stdout
    }

    /// Waits until a command line on the host says yes.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub fn until(&self, command: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = self.try_run(command);
            if told.ok() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "on {}, waited in vain until `{command}`: {told:#?}\n{}",
                self.name,
                self.bed.account()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    // === Power ===

    /// Cuts its power: everything ends at once, nothing is said, the disk stays as it was.
    pub fn kill(&self) {
        self.done("kill", self.bed.site.kill(&self.name));
        self.bed.plays(&self.name, false);
    }

    /// Shuts it down in order.
    pub fn stop(&self) {
        let _turn = BOOTS.take();
        self.done("stop", self.bed.site.stop(&self.name));
        self.bed.plays(&self.name, false);
    }

    /// Boots it again, with the same disk and address, and waits until systemd says it is up.
    pub fn start(&self) {
        let _turn = BOOTS.take();
        self.done("start", self.bed.site.boot(&self.name));
        self.bed.plays(&self.name, true);
    }

    /// Shuts it down in order and boots it again.
    pub fn reboot(&self) {
        self.stop();
        self.start();
    }

    /// Stops every process on it where it stands; connections stay open, nobody answers.
    pub fn freeze(&self) {
        self.done("freeze", self.bed.site.freeze(&self.name));
    }

    /// Lets a frozen host go on.
    pub fn thaw(&self) {
        self.done("thaw", self.bed.site.thaw(&self.name));
    }

    fn done<T>(&self, verb: &str, result: Result<T, crate::site::SiteError>) -> T {
        result.unwrap_or_else(|error| panic!("could not {verb} {}: {error}", self.name))
    }

    // === As the server sees it ===

    /// What the server knows of its agent, if anything.
    pub fn agent(&self) -> Option<api::AgentDetail> {
        self.bed.agent(&self.name)
    }

    /// What happened there, as the server tells it, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.bed.events(Some(&self.name))
    }

    /// Waits until this one host is as the newest commit says, whatever the others are.
    pub fn settles(&self) {
        self.bed.until(&format!("{} has settled", self.name), |bed| bed.is_settled(&self.name));
    }
}

impl From<&Host> for Ipv4Addr {
    fn from(host: &Host) -> Self {
        host.address()
    }
}
