//! `fluke update`: a new program in the place of this one, and the agent that runs becomes it.

mod fetching;
pub mod swap;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fluke_agent::store::Store;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::agent::Identity;
use super::in_one_thread;
use crate::cli::UpdateArgs;
use crate::failure::Failure;
use crate::program::{Program, try_out};
use crate::screen;
use swap::{Beside, Swap};

/// How long to wait until the agent is the new program; an apply may take longer, and then it is
/// left at that.
const PATIENCE: Duration = Duration::from_secs(10);
/// Set for everything that an agent runs.
const WITHIN_A_STEP: &str = fluke_agent::host::orphans::MARK;

/// Puts a new program in place, or the previous one back, and tells those who run the old one.
pub fn run(args: &UpdateArgs) -> Result<(), Failure> {
    let to = match &args.to {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(|error| {
            Failure::new("it is not known where this program is").because(&error)
        })?,
    };
    in_one_thread(async {
        let beside = Beside::of(&to);
        let swap = match &args.from {
            Some(from) => put_in_place(from, args, &beside).await?,
            None => put_back(&beside).await?,
        };
        match swap {
            Swap::Same => screen::print(&format!("{} is that program already\n", to.display()))?,
            Swap::Changed { version } => {
                screen::print(&format!("{} is fluke {version} now\n", to.display()))?;
            }
        }
        match args.no_reload {
            true => Ok(()),
            false => tell_those_who_run(&to, &args.state_dir).await,
        }
    })
}

async fn put_in_place(from: &str, args: &UpdateArgs, beside: &Beside) -> Result<Swap, Failure> {
    let (candidate, hash) = fetching::fetch(from, args.sha256, beside).await?;
    if beside.is(&hash) {
        return Ok(Swap::Same);
    }
    let version = try_out(candidate.path()).await.map_err(|error| {
        let from = fetching::shown(from);
        Failure::new(format!("{from} does not run here; nothing was changed")).because(&error).help(
            "is it for this kind of machine? `file` and `ldd` tell what it is and what it needs",
        )
    })?;
    candidate.take_the_place().map_err(|error| failed(beside.program(), &error))?;
    Ok(Swap::Changed { version })
}

async fn put_back(beside: &Beside) -> Result<Swap, Failure> {
    let previous = beside.previous();
    if !previous.exists() {
        return Err(Failure::new(format!("there is no previous program: {}", previous.display()))
            .help("only what `fluke update` or `fluke install` has replaced can be put back"));
    }
    let version = try_out(&previous).await.map_err(|error| {
        Failure::new("the previous program does not run; nothing was changed").because(&error)
    })?;
    beside.exchange().map_err(|error| failed(beside.program(), &error))?;
    Ok(Swap::Changed { version })
}

fn failed(program: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("could not replace {}", program.display()))
        .because(error)
        .help("it takes the right to write in its folder: run it as root, with sudo for example")
}

/// The agent makes way for the new program by itself; a server is started anew.
async fn tell_those_who_run(program: &Path, state_dir: &Path) -> Result<(), Failure> {
    if let Some(agent) = Store::inhabitant(state_dir)
        && runs_something_else(agent, program)
    {
        tell_agent(agent, program).await?;
    }
    if let Some(server) = main_process(super::install::SERVER_UNIT).await
        && runs_something_else(server, program)
    {
        Program::new("systemctl", &["try-restart", super::install::SERVER_UNIT])
            .output()
            .await
            .map_err(|error| Failure::new("the server still runs the old one").because(&error))?;
        screen::print("the server was started anew; agents come back by themselves\n")?;
    }
    Ok(())
}

/// Whether a process runs a file that this one has replaced.
fn runs_something_else(process: u32, program: &Path) -> bool {
    let running = PathBuf::from(format!("/proc/{process}/exe"));
    let Ok(link) = std::fs::read_link(&running) else { return false };
    let link = link.to_string_lossy();
    let path = link.strip_suffix(" (deleted)").unwrap_or(&link);
    let beside = Beside::of(program);
    let is_ours = Path::new(path) == beside.program() || Path::new(path) == beside.previous();
    is_ours && Identity::of(&running) != Identity::of(program)
}

async fn tell_agent(agent: u32, program: &Path) -> Result<(), Failure> {
    let process = Pid::from_raw(i32::try_from(agent).unwrap_or_default());
    kill(process, Signal::SIGHUP).map_err(|error| {
        Failure::new(format!("could not tell the agent (process {agent})"))
            .because(&error)
            .help("run `systemctl reload fluke-agent` as root")
    })?;
    if std::env::var_os(WITHIN_A_STEP).is_some() {
        return screen::print("the agent takes it up when this apply has ended\n");
    }
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience {
        if !runs_something_else(agent, program) {
            return screen::print(&format!("the agent (process {agent}) runs it now\n"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    screen::print(&format!(
        "the agent (process {agent}) takes it up when what it is doing has ended; \
         `journalctl -u fluke-agent -n 20` tells why if it does not\n"
    ))
}

/// The process of a unit that runs.
pub async fn main_process(unit: &str) -> Option<u32> {
    let shown = Program::new("systemctl", &["show", "--property=MainPID", "--value", unit]);
    shown.output().await.ok()?.trim().parse().ok().filter(|pid| *pid != 0)
}
