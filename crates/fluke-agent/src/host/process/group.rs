//! A command and all that it started: watched, signalled, killed and reaped as one.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fluke_model::verdict::Output;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid as GroupId;
use rustix::process::{Pid, WaitStatus};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::exit::{self, Exit};
use super::spawn::spawn;
use super::{Command, End, Leftovers, readable};
use crate::host::environment::Environment;
use crate::host::output::Tail;

/// How long a killed process may take to go before it is left to a task in the background; only
/// one that hangs in the kernel takes longer.
const BURIAL: Duration = Duration::from_secs(5);

/// How often a group without its leader is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A process group that was started here; killed when dropped.
pub(super) struct Group {
    /// None once reaped.
    leader: Option<Leader>,
    id: GroupId,
    /// None once at its end.
    pipe: Option<AsyncFd<OwnedFd>>,
    tail: Tail,
    deputy: Option<Deputy>,
}

struct Leader {
    child: Pid,
    exit: Exit,
}

impl Group {
    /// Has the command begin.
    pub(super) fn start(command: &Command) -> io::Result<Self> {
        reap_left();
        let (reader, writer) = io::pipe()?;
        let reader = OwnedFd::from(reader);
        rustix::io::ioctl_fionbio(&reader, true)?;
        let pipe = readable(reader)?;
        let child = spawn(command, writer.into())?;
        let id = GroupId::from_raw(child.as_raw_pid());
        let leader = Some(Leader { child, exit: Exit::of(child) });
        let deputy = command.deputy.clone();
        Ok(Self { leader, id, pipe: Some(pipe), tail: Tail::default(), deputy })
    }

    /// Collects output until the leader has exited. Cancel-safe: what was read is kept.
    pub(super) async fn exited(&mut self) {
        let Some(leader) = &self.leader else { return };
        loop {
            tokio::select! {
                biased;
                () = leader.exit.happened(leader.child) => return,
                () = read_some(&mut self.pipe, &mut self.tail), if self.pipe.is_some() => {}
            }
        }
    }

    /// Reaps the leader, which has exited, and deals with what it left.
    pub(super) fn bury(&mut self, leftovers: Leftovers) -> End {
        if leftovers == Leftovers::Kill {
            // Before the leader is reaped: until then nobody else can have its number.
            let _ = killpg(self.id, Signal::SIGKILL);
        }
        let status = self.reap();
        if leftovers == Leftovers::Kill && self.deputy.is_some() && self.is_there() {
            self.signal(Signal::SIGKILL);
        }
        self.drain();
        status.map_or(End::Exited(-1), End::from)
    }

    fn reap(&mut self) -> Option<WaitStatus> {
        self.leader.take().and_then(|leader| exit::reap(leader.child))
    }

    /// TERM to all, KILL to whoever is still there after `grace`.
    pub(super) async fn terminate(&mut self, grace: Duration) {
        let patience = Instant::now() + grace;
        self.signal(Signal::SIGTERM);
        // Stopped processes handle nothing until they are continued.
        self.signal(Signal::SIGCONT);
        let _ = tokio::time::timeout_at(patience, self.exited()).await;
        if self.has_exited() {
            self.reap();
            while self.is_there() && Instant::now() < patience {
                tokio::time::sleep(LOOK).await;
            }
        }
        if self.leader.is_some() || self.is_there() {
            self.signal(Signal::SIGKILL);
        }
        let _ = tokio::time::timeout(BURIAL, self.exited()).await;
        if self.has_exited() {
            self.reap();
        }
        self.drain();
    }

    /// Whether the leader waits to be reaped.
    fn has_exited(&self) -> bool {
        self.leader.as_ref().is_some_and(|leader| exit::has_exited(leader.child))
    }

    /// Signals every member.
    fn signal(&self, signal: Signal) {
        let _ = killpg(self.id, signal);
        if let Some(deputy) = &self.deputy {
            deputy.signal(self.id, signal);
        }
    }

    /// Whether there is any member; one that is not reaped counts.
    fn is_there(&self) -> bool {
        matches!(killpg(self.id, None), Ok(()) | Err(nix::Error::EPERM))
    }

    /// Takes what is in the pipe now, without waiting for those who may still hold it open.
    fn drain(&mut self) {
        if let Some(pipe) = &self.pipe {
            // A survivor may print faster than this reads; one pipeful was there when we came.
            for _ in 0..32 {
                match rustix::io::read(pipe, rustix::buffer::spare_capacity(self.tail.room())) {
                    Ok(0) => break,
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => break,
                }
            }
        }
        self.pipe = None;
    }

    /// What was said, in its order.
    pub(super) fn into_output(mut self) -> Output {
        std::mem::take(&mut self.tail).into_output()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(leader) = self.leader.take() else { return };
        self.signal(Signal::SIGKILL);
        reap_aside(leader.child);
    }
}

/// Reads what is there, once there is something.
async fn read_some(pipe: &mut Option<AsyncFd<OwnedFd>>, tail: &mut Tail) {
    let Some(reader) = pipe else { return };
    let read = reader.async_io(Interest::READABLE, |reader| {
        Ok(rustix::io::read(reader, rustix::buffer::spare_capacity(tail.room()))?)
    });
    match read.await {
        Ok(0) => *pipe = None,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(_) => *pipe = None,
    }
}

/// Sends signals where this process may not: to another user's processes.
#[derive(Debug, Clone)]
pub(super) struct Deputy {
    pub(super) prefix: Vec<OsString>,
    /// What any command inherits: this process's own holds the agent's token.
    pub(super) environment: Environment,
}

impl Deputy {
    /// Does not wait for it to be done: that may take as long as somebody's directory service.
    fn signal(&self, group: GroupId, signal: Signal) {
        let Some((program, args)) = self.prefix.split_first() else { return };
        let (name, group) = (&signal.as_str()["SIG".len()..], format!("-{group}"));
        let kill = Command::new(program, "/", &self.environment).args(args);
        let kill = kill.args(["kill", "-s", name, "--", &group]);
        let nowhere = File::options().write(true).open("/dev/null");
        if let Ok(child) = nowhere.and_then(|nowhere| spawn(&kill, nowhere.into())) {
            reap_aside(child);
        }
    }
}

/// Children that were killed and are still to be reaped.
static UNREAPED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Waits for a child on a thread, because the runtime may be going down as well; the thread ends
/// as soon as the kernel has let go of the process. Where the host has no room for a thread, the
/// next command that is started reaps it.
fn reap_aside(child: Pid) {
    UNREAPED.lock().unwrap_or_else(PoisonError::into_inner).push(child);
    let wait = move || {
        exit::await_exit(child);
        reap_left();
    };
    let _ = std::thread::Builder::new().name("reaper".into()).spawn(wait);
}

/// Reaps those of the killed that have gone; a zombie takes the place of a process.
fn reap_left() {
    let mut left = UNREAPED.lock().unwrap_or_else(PoisonError::into_inner);
    for child in left.extract_if(.., |child| exit::has_exited(*child)) {
        exit::reap(child);
    }
}
