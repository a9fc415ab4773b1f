//! Programs that put themselves into the background, and outlive the agent.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

/// Starts one, with one argument; it is up when this returns. What it prints goes nowhere.
pub async fn start(program: &Path, argument: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg(argument).env("LOG_LEVEL", "error").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let ended = command.status().await.map_err(|error| error.to_string())?;
    if ended.success() { Ok(()) } else { Err(format!("it ended with {ended}")) }
}
