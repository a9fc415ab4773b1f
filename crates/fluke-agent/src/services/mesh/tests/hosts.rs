//! Hosts that are namespaces.

use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use fluke_model::directory::{Names, Peer, Peers, Subnet};
use fluke_model::id::AgentName;
use fluke_model::time::Timestamp;
use nix::sched::{CloneFlags, unshare};

use super::kernel::SERVED_BY;
use crate::services::mesh::netlink::{Family, Socket, route};
use crate::services::mesh::{Keeper, Mesh, PROGRAM, Setup, is_left, leave};
use crate::services::section::Found;

/// Nothing here takes so long, but on a machine that is busy with other things.
pub const DEADLINE: Duration = Duration::from_secs(30);

type Work = Box<dyn for<'a> FnOnce(&'a mut Mesh) -> Pin<Box<dyn Future<Output = ()> + 'a>> + Send>;

/// Hosts on one wire.
pub struct World {
    wire: Place,
    /// Which world it is, on a machine where several tests run at once.
    number: u32,
}

/// A thread in a network of its own.
pub struct Place {
    /// By which it is found under `/proc`.
    pub thread: i32,
    /// Ends the thread when dropped.
    orders: Option<mpsc::Sender<Work>>,
    ended: Option<JoinHandle<()>>,
}

/// A host with its mesh.
pub struct Host {
    pub place: Place,
    /// Its number: that of its subnet, and the last one of its address.
    pub number: u8,
    /// What its interface is called: sockets of WireGuard are the machine's.
    pub interface: String,
    _state: tempfile::TempDir,
}

impl World {
    /// An empty one; says SKIP and why where there cannot be any.
    pub fn new() -> Option<Self> {
        static WORLDS: AtomicU32 = AtomicU32::new(0);
        if let Err(why) = possible() {
            skip(&why);
            return None;
        }
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let wire = Place::new(None);
        wire.sh("ip link add wire type bridge && ip link set wire up");
        Some(Self { wire, number })
    }

    /// A host, with the address 192.0.2.N on the wire.
    pub fn host(&self, number: u8) -> Host {
        let state = tempfile::tempdir().expect("a directory");
        let interface = format!("fl{:x}-{}-{number}", std::process::id() & 0xfffff, self.number);
        // systemd would start it in the machine's own network.
        let keeper = Keeper::Nobody;
        let setup = Setup { interface: interface.clone(), keeper, ..Setup::new(state.path()) };
        let place = Place::new(Some(setup));
        self.wire.sh(&format!(
            "ip link add port{number} type veth peer name eth0 netns {} && \
             ip link set port{number} master wire up",
            place.thread
        ));
        place.sh(&format!(
            "ip link set lo up && ip link set eth0 up && ip address add 192.0.2.{number}/24 dev eth0"
        ));
        Host { place, number, interface, _state: state }
    }
}

impl World {
    /// Has nothing longer than this get to a host or away from it.
    pub fn narrows(&self, host: &Host, mtu: u32) {
        self.wire.sh(&format!("ip link set port{} mtu {mtu}", host.number));
        host.sh(&format!("ip link set eth0 mtu {mtu}"));
    }
}

impl Host {
    /// Does something with its mesh, on the host.
    pub fn does<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Mesh) -> Pin<Box<dyn Future<Output = T> + 'a>>
        + Send
        + 'static,
    ) -> T {
        self.place.does(work)
    }

    /// Has it leave the mesh.
    pub fn leaves(&self) {
        self.does(|mesh| Box::pin(async { leave(&mesh.setup.interface).await.expect("gone") }));
    }

    /// Whether anything of the mesh is there.
    pub fn is_left(&self) -> bool {
        self.does(|mesh| Box::pin(async { is_left(&mesh.setup.interface) }))
    }

    /// Runs a command on the host, which must succeed; what it says. `MESH` in it is the interface,
    /// `PROGRAM` finds the process that serves it.
    pub fn sh(&self, command: &str) -> String {
        // The interface is named in its arguments, and is this test's own.
        let command = command.replace("PROGRAM", "pgrep -xf '/[^ ]*/wireguard-go MESH'");
        self.place.sh(&command.replace("MESH", &self.interface))
    }

    /// Whether a program serves its interface; else the kernel does.
    pub fn has_program(&self) -> bool {
        self.kind() == "tun"
    }

    /// What its interface is, in the kernel's word.
    fn kind(&self) -> String {
        let asked = route::get_link(&self.interface);
        let answer = self.does(|_| {
            Box::pin(async { Socket::open(Family::Route).and_then(|socket| socket.ask(asked)) })
        });
        route::read_link(&answer.expect("a link").1).expect("sound").kind
    }

    pub fn subnet(&self) -> Subnet {
        Subnet::new(self.number.into()).expect("a number")
    }

    pub fn name(&self) -> AgentName {
        AgentName::new(format!("h{}", self.number)).expect("a name")
    }

    /// What others are told of it.
    pub fn row(&self) -> (AgentName, Peer) {
        let (public_key, endpoints) = self
            .does(|mesh| Box::pin(async { (mesh.public_key(), mesh.endpoints().expect("seen")) }));
        let (subnet, since) = (self.subnet(), Timestamp(1));
        (self.name(), Peer { public_key, endpoints, subnet, since })
    }

    /// Makes its mesh as the table says, and sees that it is.
    pub fn joins(&self, table: &Peers) {
        self.applies(table);
        assert_eq!(self.finds(table), Found::default());
        let effect = self.does(|mesh| Box::pin(async { mesh.in_effect() }));
        assert_eq!(effect, table.hash());
        if let Ok(kind) = std::env::var(SERVED_BY) {
            assert_eq!(self.kind(), kind);
        }
    }

    pub fn applies(&self, table: &Peers) {
        let (own, table) = (self.subnet(), table.clone());
        let applied = self.does(move |mesh| Box::pin(async move { mesh.apply(own, &table).await }));
        applied.expect("put right");
    }

    pub fn drift(&self, table: &Peers) -> Option<String> {
        self.finds(table).drift
    }

    /// What a check finds.
    pub fn finds(&self, table: &Peers) -> Found {
        let (own, table, names) = (self.subnet(), table.clone(), Names::default());
        let found =
            self.does(move |mesh| Box::pin(async move { mesh.check(own, &table, &names).await }));
        found.expect("seen")
    }

    /// Tries to make its mesh as the table says; why it is not, as far as that is its fault.
    pub fn fails(&self, table: &Peers) -> String {
        let (own, table) = (self.subnet(), table.clone());
        let applied = self.does(move |mesh| Box::pin(async move { mesh.apply(own, &table).await }));
        applied.expect_err("something is in the way").to_string()
    }

    /// Asks a host at its address in the mesh until it answers.
    pub fn reaches(&self, other: &Host) {
        let to = other.subnet().host();
        self.sh(&format!("ping -q -c 1 -i 0.2 -w {} {to}", DEADLINE.as_secs()));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The program ends with its interface; nobody else would end it.
        if self.place.orders.is_some() {
            self.place.try_sh(&format!("ip link delete {}", self.interface));
        }
    }
}

impl Place {
    pub fn new(setup: Option<Setup>) -> Self {
        let (orders, received) = mpsc::channel::<Work>();
        let (ready, begun) = mpsc::channel();
        let ended = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network of its own");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let state = tempfile::tempdir().expect("a directory");
                let setup = setup.unwrap_or_else(|| Setup::new(state.path()));
                let mut mesh = Mesh::open(setup).expect("a mesh");
                ready.send(nix::unistd::gettid().as_raw()).expect("awaited");
                while let Ok(work) = received.recv() {
                    work(&mut mesh).await;
                }
            });
        });
        let thread = begun.recv().expect("it begins");
        Self { thread, orders: Some(orders), ended: Some(ended) }
    }

    pub fn does<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a mut Mesh) -> Pin<Box<dyn Future<Output = T> + 'a>>
        + Send
        + 'static,
    ) -> T {
        let (answer, answered) = mpsc::channel();
        let work: Work = Box::new(move |mesh| {
            Box::pin(async move {
                let done = tokio::time::timeout(2 * DEADLINE, work(mesh)).await;
                let _ = answer.send(done.expect("in time"));
            })
        });
        self.orders.as_ref().expect("alive").send(work).expect("alive");
        answered.recv().expect("done")
    }

    pub fn sh(&self, command: &str) -> String {
        let output = self.try_sh(command);
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn try_sh(&self, command: &str) -> std::process::Output {
        let command = command.to_owned();
        self.does(|_| {
            Box::pin(async move {
                let mut shell = tokio::process::Command::new("sh");
                shell.args(["-c", &command]).output().await.expect("sh runs")
            })
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(ended) = self.ended.take() {
            let _ = ended.join();
        }
    }
}

/// The table of some hosts.
pub fn table(hosts: &[&Host]) -> Peers {
    Peers::from(hosts.iter().map(|host| host.row()).collect::<Vec<_>>())
}

fn possible() -> Result<(), String> {
    let try_out = "ip link add name probe type bridge && ip link add name one type veth peer name two \
                   && test -c /dev/net/tun && nft list tables >/dev/null && ping -V >/dev/null";
    let tried = Command::new("unshare").args(["--net", "sh", "-c", try_out]).output();
    match tried {
        Err(error) => return Err(format!("there is no unshare: {error}")),
        Ok(output) if !output.status.success() => {
            return Err("needs root, ip with bridges, ping, nft and /dev/net/tun".to_owned());
        }
        Ok(_) => {}
    }
    let has = Command::new(PROGRAM).arg("--version").output();
    has.map(drop).map_err(|error| format!("needs {PROGRAM}: {error}"))
}

#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("SKIP: {why}");
}
