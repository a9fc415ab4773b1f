//! Floors that need a process of their own: the least that could do the work. Each is a hidden
//! subcommand, `xtask floor …`, and prints the seconds it took.

use std::process::{Command, Stdio};

use crate::row::{Trouble, seconds};

/// Runs a floor, and gives the seconds that it printed.
pub fn seconds_of(command: &mut Command) -> Result<f64, Trouble> {
    let doing = format!("run the floor {command:?}");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Trouble::failed(&doing, error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| Trouble::failed(&doing, format!("it said {text:?}")))
}

/// The least that a check can be: std uses posix_spawn for this.
pub fn spawn(times: usize, line: &str) -> Result<f64, Trouble> {
    let (took, done) = seconds(|| (0..times).try_for_each(|_| shell(line)));
    done.map(|()| took)
}

fn shell(line: &str) -> Result<(), Trouble> {
    let mut command = Command::new("/bin/sh");
    let status = command.args(["-c", line]).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Trouble::failed(format!("run {line:?}"), status)),
        Err(error) => Err(Trouble::failed(format!("run {line:?}"), error)),
    }
}
