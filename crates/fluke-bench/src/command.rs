//! Programs that have to succeed.

use std::process::{Command, Stdio};

use crate::row::Trouble;

/// Runs it; what it prints goes where ours goes.
pub fn ran(command: &mut Command) -> Result<(), Trouble> {
    let doing = format!("run {command:?}");
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Trouble::failed(doing, status)),
        Err(error) => Err(Trouble::failed(doing, error)),
    }
}

/// Runs it; what it prints is the result.
pub fn said(command: &mut Command) -> Result<String, Trouble> {
    let doing = format!("run {command:?}");
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Trouble::failed(&doing, error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<_> = said.lines().rev().take(5).collect();
    let last: Vec<_> = last.into_iter().rev().collect();
    Err(Trouble::failed(doing, format!("{}: {}", output.status, last.join("; "))))
}
