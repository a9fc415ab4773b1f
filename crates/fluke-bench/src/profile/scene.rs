//! What is profiled: real work of real processes, under callgrind or dhat.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::{ran, said};
use crate::folder::folder;
use crate::row::{Bench, Trouble};
use crate::scale::crowd::Crowd;
use crate::stage::{Cores, Stage, shell_task};

use super::Profile;

/// How many cycles are profiled.
const CYCLES: usize = 20;
/// How many agents a commit is for, and how many commits are profiled.
const CROWD: u32 = 1000;
const COMMITS: usize = 3;
/// How long a process may take to write its profile.
const PATIENCE: Duration = Duration::from_secs(120);

/// A piece of work to profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scene {
    /// 10,000 manifests from text to a compiled model.
    Compile,
    /// An agent that checks 100 shell steps, again and again.
    Cycle,
    /// A server that hears an agent's reports on 100 steps, again and again.
    Reports,
    /// A server that tells a thousand agents of a commit, and hears their answers.
    Commit,
    /// A server that a thousand agents come back to over TLS.
    Join,
    /// What a server with a thousand agents has in memory.
    Memory,
}

impl Scene {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Compile, Self::Cycle, Self::Reports, Self::Commit, Self::Join, Self::Memory];

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::Cycle => "cycle",
            Self::Reports => "reports",
            Self::Commit => "commit",
            Self::Join => "join",
            Self::Memory => "memory",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Compile => "10,000 manifests to a compiled model",
            Self::Cycle => "an agent, 20 cycles of 100 checks",
            Self::Reports => "a server, 20 reports of 100 checks",
            Self::Commit => "a server, 3 commits for 1,000 agents",
            Self::Join => "a server, 1,000 agents whose connections broke come back",
            Self::Memory => "a server with 1,000 agents",
        }
    }

    /// Plays it. `bench` has programs that kept their symbols.
    pub fn profile(self, bench: &Bench) -> Result<Profile, Trouble> {
        let folder = folder()?;
        let file = folder.path().join("profile");
        let under = |tool: Command| wrapped(bench, folder.path(), &tool);
        match self {
            Self::Compile => {
                let mut command = callgrind(&file);
                ran(command.arg(&bench.own).args(["floor", "work", "estate", "10000"]))?;
            }
            Self::Cycle => cycles(bench, None, Some(&under(waiting(&file))?))?,
            Self::Reports => cycles(bench, Some(&under(waiting(&file))?), None)?,
            Self::Commit => counted(bench, &under(waiting(&file))?, |crowd| {
                (0..COMMITS).try_for_each(|_| crowd.commits_for_all().map(drop))
            })?,
            Self::Join => counted(bench, &under(waiting(&file))?, |crowd| crowd.breaks())?,
            Self::Memory => {
                crowd(bench, &under(dhat(&file))?)?.stage.server().stop();
                return Profile::of_heap(self.what(), &file);
            }
        }
        written(&file)?;
        Profile::of(self.what(), &file)
    }
}

fn valgrind(tool: &str, file: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", &format!("--tool={tool}")]);
    command.arg(format!("--{tool}-out-file={}", file.display()));
    command
}

fn callgrind(file: &Path) -> Command {
    valgrind("callgrind", file)
}

/// Counts nothing until it is told to: what happens before is not what is looked at.
fn waiting(file: &Path) -> Command {
    let mut command = callgrind(file);
    command.arg("--instr-atstart=no");
    command
}

fn dhat(file: &Path) -> Command {
    valgrind("dhat", file)
}

/// Has a process under callgrind count from now on, or not any more.
fn counts(pid: u32, whether: bool) -> Result<(), Trouble> {
    let whether = if whether { "on" } else { "off" };
    said(Command::new("callgrind_control").args(["-i", whether, &pid.to_string()])).map(drop)
}

/// A program that is the real one under a tool.
fn wrapped(bench: &Bench, folder: &Path, command: &Command) -> Result<PathBuf, Trouble> {
    let wrapper = folder.join("fluke");
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let text = format!("#!/bin/sh\nexec {} {} \"$@\"\n", words.join(" "), bench.program.display());
    let failed = |error| Trouble::failed("write a wrapper", error);
    std::fs::write(&wrapper, text).map_err(failed)?;
    let permissions = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&wrapper, permissions).map_err(failed)?;
    Ok(wrapper)
}

/// A server and an agent, either of them another program than usual, and many cycles; then both end
/// in order.
fn cycles(bench: &Bench, server: Option<&Path>, agent: Option<&Path>) -> Result<(), Trouble> {
    let program = |other: Option<&Path>| other.unwrap_or(&bench.program).to_path_buf();
    let servers = Bench { program: program(server), own: bench.own.clone(), quick: false };
    let mut stage = Stage::start(&servers)?;
    stage.agents_run(program(agent));
    let agent_pid = stage.agent("web-1", Cores::All)?;
    stage.settle(&shell_task("test -d /", "false", 100))?;
    let mut feed = stage.feed()?;
    let gone = || Trouble::failed("look at the server", "it is gone");
    let watched = match server {
        Some(_) => stage.server().pid().ok_or_else(gone)?,
        None => agent_pid,
    };
    counts(watched, true)?;
    for _ in 0..CYCLES {
        stage.reconcile(&mut feed)?;
    }
    counts(watched, false)?;
    stage.ends();
    Ok(())
}

/// A server that is another program than usual, with agents that have what the first commit says.
fn crowd(bench: &Bench, server: &Path) -> Result<Crowd, Trouble> {
    let bench = Bench { program: server.to_path_buf(), own: bench.own.clone(), quick: false };
    Crowd::start(&bench, CROWD, "1h")
}

/// Commits for everybody; then the server ends in order.
/// What such a server does while something happens to its agents; then it ends in order.
fn counted(
    bench: &Bench,
    server: &Path,
    happens: impl FnOnce(&mut Crowd) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let mut crowd = crowd(bench, server)?;
    let pid = crowd.pid()?;
    counts(pid, true)?;
    happens(&mut crowd)?;
    counts(pid, false)?;
    crowd.stage.server().stop();
    Ok(())
}

/// Waits until the profile is written.
fn written(file: &Path) -> Result<(), Trouble> {
    let start = Instant::now();
    let is_whole = || {
        let text = std::fs::read(file).unwrap_or_default();
        String::from_utf8_lossy(&text).contains("\ntotals:")
    };
    while !is_whole() {
        if start.elapsed() > PATIENCE {
            return Err(Trouble::failed("wait for a profile", "it was not written"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
