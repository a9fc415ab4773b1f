//! Programs that put themselves into the background, and outlive the agent.

use std::path::Path;
use std::process::Stdio;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::Command;

/// Where a program gets a network interface to serve.
const TUN: &str = "/dev/net/tun";

/// Starts one, with one argument; it is up when this returns. What it prints goes nowhere.
pub async fn start(program: &Path, argument: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg(argument).env("LOG_LEVEL", "error").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let ended = command.status().await.map_err(|error| error.to_string())?;
    if ended.success() { Ok(()) } else { Err(format!("it ended with {ended}")) }
}

/// Kills whoever serves a network interface of this host's, whether it hangs or not; how many that
/// were. The interface goes when they have. Looks through all processes, which may take a while.
pub fn kill_servers(interface: &str) -> usize {
    let killed = servers(interface).into_iter().filter(|pid| kill(*pid, interface).is_ok());
    killed.count()
}

/// Kills one, if it still is who it was: a number may be somebody else's by now.
fn kill(pid: Pid, interface: &str) -> rustix::io::Result<()> {
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    match holds(&pid.as_raw_pid().to_string(), interface) {
        true => pidfd_send_signal(process, Signal::KILL),
        false => Err(Errno::SRCH),
    }
}

/// The processes that hold the interface, by what the kernel says of their open files: of what they
/// are called, and who started them, nothing is assumed.
fn servers(interface: &str) -> Vec<Pid> {
    // Names are those of one network; containers have others.
    let network = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let Some(own) = network("thread-self") else { return Vec::new() };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|process| process.file_name().into_string().ok());
    numbers
        .filter(|of| network(of).as_ref() == Some(&own) && holds(of, interface))
        .filter_map(|of| of.parse().ok().and_then(Pid::from_raw))
        .collect()
}

fn holds(process: &str, interface: &str) -> bool {
    let said = format!("iff:\t{interface}");
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut tuns = files.filter(|file| {
        std::fs::read_link(file.path()).is_ok_and(|target| target == Path::new(TUN))
    });
    tuns.any(|file| {
        let about = Path::new("/proc").join(process).join("fdinfo").join(file.file_name());
        std::fs::read_to_string(about).is_ok_and(|text| text.lines().any(|line| line == said))
    })
}
