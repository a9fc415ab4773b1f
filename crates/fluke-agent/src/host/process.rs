//! Runs commands, each in a process group of its own, and never leaves one behind by accident.
//!
//! The only place in the agent that starts processes. Guarantees:
//! - the output of a command is bounded, and in the order in which it was printed;
//! - past its timeout, when the agent stops, or when the future is dropped, the whole group is
//!   killed, also when its leader is gone already;
//! - a daemon that keeps the output open delays nothing;
//! - a command that was started is always reaped.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fluke_model::verdict::Output;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::time::Instant;

use super::environment::Environment;
use super::output::Tail;
use super::users::Identity;

mod exit;

use exit::Exit;

/// How long a command has between TERM and KILL.
pub const GRACE: Duration = Duration::from_secs(5);

/// How long a killed process may take to go before it is left to a task in the background; only
/// one that hangs in the kernel takes longer.
const BURIAL: Duration = Duration::from_secs(5);

/// How often a group without its leader is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A command, ready to run.
#[derive(Debug)]
pub struct Command {
    program: PathBuf,
    args: Vec<OsString>,
    dir: PathBuf,
    inherited: Environment,
    /// Set, or removed where there is no value.
    changes: Vec<(OsString, Option<OsString>)>,
    identity: Option<Identity>,
    deputy: Option<Deputy>,
}

impl Command {
    /// `program` (absolute, or found in the agent's PATH), to be run in `dir`.
    pub fn new(
        program: impl Into<PathBuf>,
        dir: impl Into<PathBuf>,
        inherited: &Environment,
    ) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            dir: dir.into(),
            inherited: inherited.clone(),
            changes: Vec::new(),
            identity: None,
            deputy: None,
        }
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets variables; the last one of a name wins.
    pub fn envs<K: Into<OsString>, V: Into<OsString>>(
        mut self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.changes.extend(pairs.into_iter().map(|(k, v)| (k.into(), Some(v.into()))));
        self
    }

    /// Passes variables of these names not on.
    pub fn without(mut self, names: &[&str]) -> Self {
        self.changes.extend(names.iter().map(|name| (name.into(), None)));
        self
    }

    /// Runs it as somebody else; only root can.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Names what to put in front of `kill` where this process may not signal the command.
    pub fn deputy(mut self, prefix: Vec<OsString>) -> Self {
        self.deputy = Some(Deputy { prefix, environment: self.inherited.clone() });
        self
    }
}

/// The bounds of one run.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the start to TERM.
    pub timeout: Duration,
    /// From TERM to KILL.
    pub grace: Duration,
    /// What becomes of children that outlive a command that ended by itself.
    pub leftovers: Leftovers,
}

/// What becomes of children that outlive their command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftovers {
    /// They go with it.
    Kill,
    /// They may stay: a daemon was started.
    Leave,
}

/// How a run ended, and what it printed.
#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub end: End,
    /// Standard output and standard error, as they came.
    pub output: Output,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, which was not ours.
    Signalled(i32),
    /// Past its timeout: killed with its group.
    TimedOut,
    /// The agent is stopping: killed with its group.
    Stopped,
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Exited(code),
            None => Self::Signalled(status.signal().unwrap_or_default()),
        }
    }
}

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The directory is not there, or not a directory.
    #[error("the working directory {} {problem}", dir.display())]
    Directory {
        /// Where it should have run.
        dir: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The program is not there, or not executable.
    #[error("could not run {}: {source}", program.display())]
    Program {
        /// What should have run.
        program: PathBuf,
        /// Why it did not.
        source: io::Error,
    },
    /// The host has no room for another process.
    #[error(
        "this host has no room to start {}: {source}; look at its memory, its open files and its \
         process limit",
        program.display()
    )]
    Exhausted {
        /// What should have run.
        program: PathBuf,
        /// Why it did not.
        source: io::Error,
    },
}

/// Tells running commands that the agent is stopping.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// A switch, and what it switches off.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (switch, stop) = watch::channel(false);
        (switch, Self(stop))
    }

    /// Returns once the agent is stopping. Cancel-safe.
    pub async fn stopped(&mut self) {
        if self.0.wait_for(|stopped| *stopped).await.is_err() {
            // The switch is gone without having been used.
            std::future::pending::<()>().await;
        }
    }
}

/// Runs `command` to its end.
///
/// Dropping the future kills the whole group at once.
pub async fn run(command: Command, limits: Limits, mut stop: Stop) -> Result<Finished, RunError> {
    let mut group = Group::start(&command).map_err(|error| explain(&command, error))?;
    drop(command);
    let ended = {
        let deadline = tokio::time::sleep(limits.timeout);
        // All branches are cancel-safe: each only waits for readiness.
        tokio::select! {
            biased;
            () = group.exited() => None,
            () = deadline => Some(End::TimedOut),
            () = stop.stopped() => Some(End::Stopped),
        }
    };
    let end = match ended {
        None => group.bury(limits.leftovers),
        Some(end) => {
            group.terminate(limits.grace).await;
            end
        }
    };
    Ok(Finished { end, output: group.into_output() })
}

/// A process group that was started here; killed when dropped.
struct Group {
    /// None once reaped.
    leader: Option<Leader>,
    id: Pid,
    /// None once at its end.
    pipe: Option<AsyncFd<OwnedFd>>,
    tail: Tail,
    deputy: Option<Deputy>,
}

struct Leader {
    child: Child,
    exit: Exit,
}

impl Group {
    fn start(command: &Command) -> io::Result<Self> {
        reap_left();
        let (reader, writer) = io::pipe()?;
        let reader = OwnedFd::from(reader);
        rustix::io::ioctl_fionbio(&reader, true)?;
        let pipe = readable(reader)?;
        let child = prepare(command, writer)?.spawn()?;
        let id = Pid::from_raw(child.id() as i32);
        let exit = Exit::of(&child);
        let leader = Some(Leader { child, exit });
        let deputy = command.deputy.clone();
        Ok(Self { leader, id, pipe: Some(pipe), tail: Tail::default(), deputy })
    }

    /// Collects output until the leader has exited. Cancel-safe: what was read is kept.
    async fn exited(&mut self) {
        let Some(leader) = &mut self.leader else { return };
        loop {
            tokio::select! {
                biased;
                () = leader.exit.happened(&mut leader.child) => return,
                () = read_some(&mut self.pipe, &mut self.tail), if self.pipe.is_some() => {}
            }
        }
    }

    /// Reaps the leader, which has exited, and deals with what it left.
    fn bury(&mut self, leftovers: Leftovers) -> End {
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

    fn reap(&mut self) -> Option<ExitStatus> {
        self.leader.take().and_then(|mut leader| leader.child.wait().ok())
    }

    /// TERM to all, KILL to whoever is still there after `grace`.
    async fn terminate(&mut self, grace: Duration) {
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
    fn has_exited(&mut self) -> bool {
        self.leader.as_mut().is_some_and(|leader| leader.exit.has_happened(&mut leader.child))
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

    fn into_output(mut self) -> Output {
        std::mem::take(&mut self.tail).into_output()
    }
}

/// Sends signals where this process may not: to another user's processes.
#[derive(Debug, Clone)]
struct Deputy {
    prefix: Vec<OsString>,
    /// What any command inherits: this process's own holds the agent's token.
    environment: Environment,
}

impl Deputy {
    /// Does not wait for it to be done: that may take as long as somebody's directory service.
    fn signal(&self, group: Pid, signal: Signal) {
        let Some((program, args)) = self.prefix.split_first() else { return };
        let mut kill = std::process::Command::new(program);
        kill.args(args).args(["kill", "-s"]).arg(&signal.as_str()["SIG".len()..]);
        kill.arg("--").arg(format!("-{group}"));
        kill.env_clear().envs(self.environment.pairs().iter().map(|(name, value)| (name, value)));
        kill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(child) = kill.spawn() {
            reap_aside(child);
        }
    }
}

/// Children that were killed and are still to be reaped.
static UNREAPED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Waits for a child on a thread, because the runtime may be going down as well; the thread ends
/// as soon as the kernel has let go of the process. Where the host has no room for a thread, the
/// next command that is started reaps it.
fn reap_aside(child: Child) {
    let pid = Pid::from_raw(child.id() as i32);
    UNREAPED.lock().unwrap_or_else(PoisonError::into_inner).push(child);
    let wait = move || {
        let _ = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        reap_left();
    };
    let _ = std::thread::Builder::new().name("reaper".into()).spawn(wait);
}

/// Reaps those of the killed that have gone; a zombie takes the place of a process.
fn reap_left() {
    let mut left = UNREAPED.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(leader) = self.leader.take() else { return };
        self.signal(Signal::SIGKILL);
        reap_aside(leader.child);
    }
}

/// Has the runtime tell when there is something to read.
#[expect(unsafe_code, reason = "the runtime cannot see that a descriptor stays open")]
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by what is registered, and nothing replaces or closes it.
    unsafe { Ok(AsyncFd::register_with_interest(fd, Interest::READABLE)?) }
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

fn prepare(command: &Command, output: io::PipeWriter) -> io::Result<std::process::Command> {
    let mut prepared = std::process::Command::new(&command.program);
    prepared
        .args(&command.args)
        .current_dir(&command.dir)
        .env_clear()
        .envs(command.inherited.pairs().iter().map(|(name, value)| (name, value)))
        // What the shell would otherwise have to find out.
        .env("PWD", &command.dir)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0);
    for (name, value) in &command.changes {
        match value {
            Some(value) => prepared.env(name, value),
            None => prepared.env_remove(name),
        };
    }
    if let Some(identity) = &command.identity {
        become_somebody(&mut prepared, identity);
    }
    Ok(prepared)
}

/// Makes the child drop to `identity` just before it executes the program.
///
/// After the working directory was entered, so that one which only the agent can enter will do.
#[expect(unsafe_code, reason = "std can set a user, but not his supplementary groups")]
fn become_somebody(command: &mut std::process::Command, identity: &Identity) {
    let Identity { uid, gid, groups, .. } = identity.clone();
    let drop_privileges = move || {
        nix::unistd::setgroups(&groups)?;
        nix::unistd::setgid(gid)?;
        nix::unistd::setuid(uid)?;
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe things may happen. The closure makes
    // three system calls over values that it owns; it neither allocates nor locks nor panics.
    unsafe { command.pre_exec(drop_privileges) };
}

/// Finds out what a failed start was about.
fn explain(command: &Command, source: io::Error) -> RunError {
    use nix::libc::{EAGAIN, EMFILE, ENFILE, ENOMEM};
    let program = command.program.clone();
    match source.raw_os_error() {
        Some(EAGAIN | EMFILE | ENFILE | ENOMEM) => RunError::Exhausted { program, source },
        _ => match problem_with(&command.dir) {
            Some(problem) => RunError::Directory { dir: command.dir.clone(), problem },
            None => RunError::Program { program, source },
        },
    }
}

/// What keeps `dir` from being a working directory.
pub fn problem_with(dir: &Path) -> Option<&'static str> {
    match std::fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => None,
        Ok(_) => Some("is not a directory"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("does not exist"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some("cannot be entered"),
        Err(_) => Some("cannot be read"),
    }
}

#[cfg(test)]
mod tests;
