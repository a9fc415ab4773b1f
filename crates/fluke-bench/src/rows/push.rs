//! From a push to its command having run.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::ran;
use crate::figure::{Figure, Target, Unit};
use crate::folder::folder;
use crate::row::{Bench, Row, Trouble, Turn, figures, seconds};
use crate::stage::{Cores, Stage, shell_task};
use tempfile::TempDir;

pub(super) const ROW: Row = Row {
    id: "push",
    what: "push (webhook) → applied on a connected agent",
    reach: "≤ 50 ms + the command's own time",
    how: "Server and agent as processes, over TLS; the repository is a folder. A commit is made, \
          then announced by webhook, and timed until the file is there that its command makes. \
          Beside it: the same check and command by `sh -c`, which is what may come on top of what is \
          promised. with-fetch: the same rounds; beside them `git fetch` of one commit into a bare \
          mirror, then check and command, which is the least that could do it.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 21;
const PATIENCE: Duration = Duration::from_secs(60);
/// How often to look for the file: far less than what is measured.
const LOOK: Duration = Duration::from_micros(200);

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let mut stage = Stage::start(bench)?;
    stage.agent("web-1", Cores::All)?;
    let root = stage.root();
    let mirror = Mirror::new(&stage)?;
    let mut round = 0;
    let (mut fetches, mut commands, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    // The first one is forgotten.
    for number in 0..=bench.rounds(ROUNDS) {
        round += 1;
        let file = root.join(round.to_string());
        let name = file.display();
        let manifest = shell_task(&format!("test -f {name}"), &format!("touch {name}"), 1);
        let commit = stage.repository().commit("round", &[("tasks.fluke.hcl", &manifest)]);
        let fetch = timed(|| mirror.fetch())?;
        let command = timed(|| check_and_run(&root.join(format!("floor-{round}"))))?;
        let start = Instant::now();
        stage.announce(commit.as_str())?;
        let took = until_there(&file, start)?;
        stage.settles()?;
        if number > 0 {
            fetches.push(fetch + command);
            commands.push(command);
            ours.push(took);
        }
    }
    let figure = |id: &str, beside: &str, rounds: &[f64]| {
        Figure::new(id, Unit::Seconds, &ours).map(|figure| figure.beside(beside, rounds))
    };
    let applied = figure("applied", "the command", &commands);
    figures([
        applied.map(|figure| figure.target(Target::Over(0.05))),
        figure("with-fetch", "git fetch of one commit + the command", &fetches),
    ])
}

fn timed(work: impl FnOnce() -> Result<(), Trouble>) -> Result<f64, Trouble> {
    let (took, done) = seconds(work);
    done.map(|()| took)
}

fn check_and_run(file: &Path) -> Result<(), Trouble> {
    let file = file.display();
    let line = format!("test -f {file} || touch {file}");
    ran(Command::new("/bin/sh").args(["-c", &line]))
}

fn until_there(file: &Path, start: Instant) -> Result<f64, Trouble> {
    while !file.exists() {
        if start.elapsed() > PATIENCE {
            return Err(Trouble::failed("wait for the push to be applied", "it was not"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(start.elapsed().as_secs_f64())
}

/// A bare mirror that does nothing but follow.
struct Mirror {
    folder: TempDir,
    origin: String,
}

impl Mirror {
    fn new(stage: &Stage) -> Result<Self, Trouble> {
        let folder = folder()?;
        let origin = stage.repository().path().display().to_string();
        let mirror = Self { folder, origin };
        mirror.git(&["init", "--quiet", "--bare"])?;
        Ok(mirror)
    }

    fn fetch(&self) -> Result<(), Trouble> {
        self.git(&["fetch", "--quiet", "--depth=1", "--no-tags", &self.origin, "+main:main"])
    }

    fn git(&self, arguments: &[&str]) -> Result<(), Trouble> {
        ran(Command::new("git").arg("-C").arg(self.folder.path()).args(arguments))
    }
}
