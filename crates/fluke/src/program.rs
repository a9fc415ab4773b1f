//! Other programs that the command line runs: systemd's, and a `fluke` that is to take over.
//! The only place of this crate that starts processes.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How much of its output is kept: the end.
const KEPT: usize = 16 * 1024;

/// Why a program did not do what it was run for.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started.
    #[error("could not run {program}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is still at it.
    #[error("`{command}` did not end within {patience:?}")]
    Hangs {
        /// What was run.
        command: String,
        /// How long it had.
        patience: Duration,
    },
    /// It ended badly.
    #[error("`{command}` {how}{output}")]
    Failed {
        /// What was run.
        command: String,
        /// Code or signal.
        how: String,
        /// What it printed, behind a colon.
        output: String,
    },
}

/// A program that is about to be run.
pub struct Program {
    command: tokio::process::Command,
    line: String,
    patience: Duration,
}

impl Program {
    /// `name` is looked for in PATH, unless it is a path.
    pub fn new(name: impl AsRef<OsStr>, arguments: &[&str]) -> Self {
        let mut command = tokio::process::Command::new(&name);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let name = name.as_ref().to_string_lossy().into_owned();
        let line = std::iter::once(name.as_str()).chain(arguments.iter().copied());
        let line = line.collect::<Vec<_>>().join(" ");
        Self { command, line, patience: PATIENCE }
    }

    /// Gives it variables besides those of this process.
    pub fn with<'a>(mut self, variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.command.envs(variables);
        self
    }

    /// Gives it less or more time.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What it printed to standard output, if it ended well.
    pub async fn output(self) -> Result<String, ProgramError> {
        let command = self.line.clone();
        let output = self.end().await?;
        let printed = text(&output.stdout);
        match output.status.success() {
            true => Ok(printed),
            false => {
                let told = if output.stderr.is_empty() { printed } else { text(&output.stderr) };
                let told = Some(told.trim()).filter(|told| !told.is_empty());
                let how = how(output.status);
                let output = told.map(|told| format!(": {told}")).unwrap_or_default();
                Err(ProgramError::Failed { command, how, output })
            }
        }
    }

    /// Whether it ended well; what it printed is of no interest.
    pub async fn succeeds(self) -> bool {
        self.end().await.is_ok_and(|output| output.status.success())
    }

    async fn end(mut self) -> Result<std::process::Output, ProgramError> {
        match tokio::time::timeout(self.patience, self.command.output()).await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(source)) => {
                let program = self.line.split(' ').next().unwrap_or_default().to_string();
                Err(ProgramError::Start { program, source })
            }
            Err(_) => Err(ProgramError::Hangs { command: self.line, patience: self.patience }),
        }
    }
}

fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exited {code}"),
        None => format!("was ended by signal {}", status.signal().unwrap_or_default()),
    }
}

fn text(bytes: &[u8]) -> String {
    let end = &bytes[bytes.len().saturating_sub(KEPT)..];
    String::from_utf8_lossy(end).into_owned()
}

/// Sees whether `fluke` is a fluke that runs here, and returns the version it says.
pub async fn try_out(fluke: &Path) -> Result<String, ProgramError> {
    let told = Program::new(fluke, &["version"]).within(Duration::from_secs(20)).output().await?;
    match told.trim().strip_prefix("fluke ") {
        Some(version) => Ok(version.to_string()),
        None => Err(ProgramError::Failed {
            command: format!("{} version", fluke.display()),
            how: "is no fluke".into(),
            output: format!("; it says {:?}", told.trim().chars().take(80).collect::<String>()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_went_wrong_is_told_with_its_output() {
        let told =
            Program::new("/bin/sh", &["-c", "echo out; echo bad >&2; exit 3"]).output().await;
        let told = told.expect_err("it fails").to_string();
        assert!(told.ends_with("exited 3: bad"), "{told}");
        assert!(Program::new("/nowhere/fluke", &[]).output().await.is_err());
        let hangs = Program::new("sleep", &["60"]).within(Duration::from_millis(10)).output().await;
        assert!(matches!(hangs, Err(ProgramError::Hangs { .. })));
    }

    #[tokio::test]
    async fn a_program_that_is_no_fluke_is_not_taken_for_one() {
        let told = try_out(Path::new("/bin/echo")).await.expect_err("echo is no fluke");
        assert!(told.to_string().contains("is no fluke"), "{told}");
        assert!(try_out(Path::new("/bin/false")).await.is_err());
    }
}
