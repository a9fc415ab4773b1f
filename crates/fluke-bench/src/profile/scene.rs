//! What is profiled: real work of real processes, under callgrind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::ran;
use crate::folder::folder;
use crate::row::{Bench, Trouble};
use crate::stage::{Cores, Stage, shell_task};

use super::Profile;

/// How many cycles are profiled: start and end are little beside them.
const CYCLES: usize = 20;
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
}

impl Scene {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Compile, Self::Cycle, Self::Reports];

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::Cycle => "cycle",
            Self::Reports => "reports",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Compile => "10,000 manifests to a compiled model",
            Self::Cycle => "an agent, 20 cycles of 100 checks",
            Self::Reports => "a server, 20 reports of 100 checks",
        }
    }

    /// Plays it. `bench` has programs that kept their symbols.
    pub fn profile(self, bench: &Bench) -> Result<Profile, Trouble> {
        let folder = folder()?;
        let file = folder.path().join("profile");
        match self {
            Self::Compile => {
                let mut command = callgrind(&file);
                ran(command.arg(&bench.own).args(["floor", "work", "estate", "10000"]))?;
            }
            Self::Cycle => cycles(bench, None, Some(&wrapped(bench, folder.path(), &file)?))?,
            Self::Reports => cycles(bench, Some(&wrapped(bench, folder.path(), &file)?), None)?,
        }
        written(&file)?;
        Profile::of(self.what(), &file)
    }
}

fn callgrind(file: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind"]);
    command.arg(format!("--callgrind-out-file={}", file.display()));
    command
}

/// A program that is the real one under callgrind.
fn wrapped(bench: &Bench, folder: &Path, file: &Path) -> Result<PathBuf, Trouble> {
    let wrapper = folder.join("fluke");
    let command = callgrind(file);
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
    stage.agent("web-1", Cores::All)?;
    stage.settle(&shell_task("test -d /", "false", 100))?;
    let mut feed = stage.feed()?;
    for _ in 0..CYCLES {
        stage.reconcile(&mut feed)?;
    }
    stage.ends();
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
