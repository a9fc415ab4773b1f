//! Runs commands, each in a process group of its own, and never leaves one behind by accident.
//!
//! The only place in the agent that runs commands. Guarantees:
//! - the output of a command is bounded, and in the order in which it was printed;
//! - past its timeout, when the agent stops, or when the future is dropped, the whole group is
//!   killed, also when its leader is gone already;
//! - a daemon that keeps the output open delays nothing;
//! - a command that was started is always reaped.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluke_model::verdict::Output;
use rustix::process::WaitStatus;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::environment::Environment;
use super::users::Identity;

mod exit;
mod group;
mod spawn;

use group::{Deputy, Group};

/// How long a command has between TERM and KILL.
pub const GRACE: Duration = Duration::from_secs(5);

/// A command, ready to run.
#[derive(Debug)]
pub struct Command {
    program: PathBuf,
    args: Vec<OsString>,
    dir: PathBuf,
    inherited: Environment,
    /// Set, or removed where there is no value.
    changes: Vec<(OsString, Option<OsString>)>,
    identity: Option<Arc<Identity>>,
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
    pub fn identity(mut self, identity: Arc<Identity>) -> Self {
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

impl From<WaitStatus> for End {
    fn from(status: WaitStatus) -> Self {
        match status.exit_status() {
            Some(code) => Self::Exited(code),
            None => Self::Signalled(status.terminating_signal().unwrap_or_default()),
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

/// Has the runtime tell when there is something to read.
#[expect(unsafe_code, reason = "the runtime cannot see that a descriptor stays open")]
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by what is registered, and nothing replaces or closes it.
    unsafe { Ok(AsyncFd::register_with_interest(fd, Interest::READABLE)?) }
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
