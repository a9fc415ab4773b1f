//! Programs of the machine, and what they say.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

/// Why a program did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It is not there, or cannot be started.
    #[error("could not run `{command}`")]
    Start {
        /// As one would type it.
        command: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It ran, and failed.
    #[error("`{command}` failed ({status}): {said}")]
    Failed {
        /// As one would type it.
        command: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The end of what it said on stderr, or else on stdout.
        said: String,
    },
}

/// Runs a program; what it prints is the result.
pub fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<String, CommandError> {
    run_with(program, arguments, "")
}

/// The same, with something to read on stdin.
pub fn run_with<A: AsRef<OsStr>>(
    program: &str,
    arguments: &[A],
    stdin: &str,
) -> Result<String, CommandError> {
    let output = output(program, arguments, stdin)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(CommandError::Failed {
            command: typed(program, arguments),
            status: output.status,
            said: tail(if output.stderr.is_empty() { &output.stdout } else { &output.stderr }),
        }),
    }
}

/// Runs a program; it may fail.
pub fn output<A: AsRef<OsStr>>(
    program: &str,
    arguments: &[A],
    stdin: &str,
) -> Result<Output, CommandError> {
    let failed = |source| CommandError::Start { command: typed(program, arguments), source };
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that does not read is free not to.
        let _ = pipe.write_all(stdin.as_bytes());
    }
    child.wait_with_output().map_err(failed)
}

/// Whether a program says yes.
pub fn holds<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> bool {
    output(program, arguments, "").is_ok_and(|output| output.status.success())
}

fn typed<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> String {
    let words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
    let all: Vec<_> = std::iter::once(program.into()).chain(words).collect();
    let line = all.join(" ");
    match line.char_indices().nth(300) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The last lines, in one.
fn tail(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join("; ")
}
