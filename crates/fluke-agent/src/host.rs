//! The host as the agent touches it. Only here: processes, users, files, the environment.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod daemon;
pub mod environment;
pub mod files;
pub mod memory;
pub mod orphans;
pub mod output;
pub mod process;
pub mod users;

use environment::Environment;
use process::{Command, Finished, GRACE, Leftovers, Limits, RunError, Stop};

/// What every command on this host is run with.
#[derive(Debug, Clone)]
pub struct Host {
    /// What children inherit.
    pub environment: Environment,
    /// Where commands run that name no directory.
    pub home: PathBuf,
    /// Set when the agent stops.
    pub stop: Stop,
}

impl Host {
    /// A command that inherits the environment.
    pub fn command(&self, program: impl Into<PathBuf>, dir: impl Into<PathBuf>) -> Command {
        Command::new(program, dir, &self.environment)
    }

    /// Runs a command to its end, or to its timeout.
    pub async fn run(
        &self,
        command: Command,
        timeout: Duration,
        leftovers: Leftovers,
    ) -> Result<Finished, RunError> {
        process::run(command, Limits { timeout, grace: GRACE, leftovers }, self.stop.clone()).await
    }

    /// Looks for a program in PATH, and then in the directories of `more`.
    pub fn find_program(&self, name: &str, more: &[PathBuf]) -> Option<PathBuf> {
        let path = self.environment.get("PATH").unwrap_or(OsStr::new("/usr/bin:/bin"));
        let dirs = std::env::split_paths(path).filter(|dir| dir.is_absolute());
        dirs.chain(more.iter().cloned()).map(|dir| dir.join(name)).find(|path| is_program(path))
    }
}

fn is_program(path: &Path) -> bool {
    let meta = std::fs::metadata(path);
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
