//! Commands that outlived an agent which was killed, found by a mark in their environment.
//!
//! Ends what is still under way and nothing else: a daemon that an apply left behind has lost the
//! leader of its group, or has made a session of its own.

use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid, getpgrp, getsid};
use tokio::time::{Instant, sleep};

/// The variable that every command of an agent has.
pub const MARK: &str = "FLUKE_RUN";

/// How long killed processes may take to go; only one that hangs in the kernel takes longer.
const BURIAL: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// Kills every command that carries `mark`, with its group, and says how many there were.
///
/// Those of other users are out of sight for an agent that is not root.
pub async fn end(mark: &str) -> usize {
    let commands = commands(mark);
    for group in &commands {
        let _ = killpg(*group, Signal::SIGKILL);
    }
    let patience = Instant::now() + BURIAL;
    while !self::commands(mark).is_empty() && Instant::now() < patience {
        sleep(LOOK).await;
    }
    commands.len()
}

/// The leaders of groups that are no sessions of their own, and carry `mark`.
fn commands(mark: &str) -> Vec<Pid> {
    let entry = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let leads = |pid: &Pid| getpgid(Some(*pid)) == Ok(*pid) && getsid(Some(*pid)) != Ok(*pid);
    numbers
        .map(Pid::from_raw)
        .filter(|pid| *pid != getpgrp() && leads(pid) && carries(*pid, entry.as_bytes()))
        .collect()
}

fn carries(pid: Pid, entry: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == entry)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    use super::*;

    fn command(mark: &str, script: &str) -> Child {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", script]).env(MARK, mark).process_group(0);
        command.spawn().expect("bash")
    }

    #[tokio::test]
    async fn what_a_killed_agent_left_under_way_is_ended_and_daemons_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let pid_file = dir.path().join("daemon");
        let (mark, other) = (format!("m{}", std::process::id()), "another's");
        let daemon = format!(
            "setsid --fork bash -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 60' && exit",
            pid_file.display()
        );
        let mut daemons_parent = command(&mark, &daemon);
        while !pid_file.exists() {
            sleep(LOOK).await;
        }
        daemons_parent.wait().expect("ours");
        let mut left = command(&mark, "sleep 60; true");
        let mut others = command(other, "sleep 60; true");
        // A process that was started a moment ago has no environment yet.
        while commands(&mark).is_empty() {
            sleep(LOOK).await;
        }

        assert_eq!(end(&mark).await, 1);
        assert_eq!(left.wait().expect("ours").signal(), Some(Signal::SIGKILL as i32));
        assert!(others.try_wait().expect("ours").is_none(), "of another agent");
        let daemon: i32 =
            std::fs::read_to_string(&pid_file).expect("written").trim().parse().expect("a number");
        nix::sys::signal::kill(Pid::from_raw(daemon), Signal::SIGKILL).expect("it lives on");
        killpg(Pid::from_raw(others.id() as i32), Signal::SIGKILL).expect("it lives on");
        others.wait().expect("ours");
    }
}
