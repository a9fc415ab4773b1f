//! What others need for the same work, each with the definition that its own manual would give.
//!
//! Definitions are in `peers/`, one folder each. Nobody changes anything outside a temporary folder:
//! state, caches and keys go there, too.

mod definition;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::command::{ran, said};
use crate::folder::folder;
use crate::machine::Taken;
use crate::row::{Bench, Trouble, seconds};
use crate::stage::{Cores, Stage, shell_task};
use crate::statistics::Summary;
use definition::expanded;

/// The most rounds of one work.
const ROUNDS: usize = 5;
/// When a peer has taken so many seconds for a work, it has had its rounds.
const ENOUGH: f64 = 90.0;
/// What everybody keeps in the file.
const RIGHT: &str = "as it should be\n";

/// A figure of somebody else, or of ours for the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerFigure {
    /// Who, and which version.
    pub peer: String,
    /// Which work.
    pub work: String,
    /// Seconds; none where it could not be done here.
    pub measured: Option<Summary>,
    /// Why not, or what has to be known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When, and beside which commit of ours.
    pub taken: Taken,
}

/// What everybody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// So many checks that say yes.
    Checks(usize),
    /// One file that was changed is put right.
    File,
    /// One service that was killed runs again.
    Service,
}

impl Work {
    const ALL: [Self; 4] = [Self::Checks(100), Self::Checks(1000), Self::File, Self::Service];

    fn name(self) -> String {
        match self {
            Self::Checks(100) => "100 satisfied checks".into(),
            Self::Checks(count) => format!("{},000 satisfied checks", count / 1000),
            Self::File => "one changed file".into(),
            Self::Service => "one killed service".into(),
        }
    }
}

/// Somebody who does it.
struct Peer {
    name: &'static str,
    /// The program that does the work.
    program: &'static str,
    /// What its definitions end with.
    ending: &'static str,
    /// The command for a definition, in a folder that is its own.
    command: fn(&Path, &Path, &Path) -> Command,
}

const PEERS: &[Peer] = &[
    Peer { name: "ansible", program: "ansible-playbook", ending: "yml", command: ansible },
    Peer { name: "salt", program: "salt-call", ending: "sls", command: salt },
    Peer { name: "puppet", program: "puppet", ending: "pp", command: puppet },
    Peer { name: "cfengine", program: "cf-agent", ending: "cf", command: cfengine },
];

fn ansible(program: &Path, definition: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    // Its own Python: it would look for others.
    let python = program.with_file_name("python3");
    command.args(["--inventory", "localhost,", "--extra-vars"]);
    command.arg(format!("ansible_python_interpreter={}", python.display())).arg(definition);
    command.env("ANSIBLE_HOME", root.join("ansible")).env("ANSIBLE_LOCALHOST_WARNING", "False");
    command
}

fn salt(program: &Path, definition: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["--local", "--retcode-passthrough", "--out=quiet", "--config-dir"]).arg(root);
    command.arg("state.apply").arg(definition.file_stem().unwrap_or_default());
    command
}

fn puppet(program: &Path, definition: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("apply");
    for place in ["confdir", "vardir", "codedir", "logdir", "rundir", "publicdir"] {
        command.arg(format!("--{place}")).arg(root.join("puppet").join(place));
    }
    command.arg(definition);
    command
}

fn cfengine(program: &Path, definition: &Path, root: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--no-lock").arg("--file").arg(definition);
    command.env("CFENGINE_TEST_OVERRIDE_WORKDIR", root.join("cfengine"));
    command
}

/// What CFEngine wants to find where it works: folders that are its own, and its parser.
fn cfengine_home(home: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, symlink};
    for name in ["bin", "inputs", "outputs", "ppkeys", "state"] {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home.join(name))?;
    }
    match found("cf-promises") {
        Some(parser) => symlink(parser, home.join("bin/cf-promises")),
        None => Ok(()),
    }
}

/// Where Python's peers are installed.
fn venv() -> PathBuf {
    crate::root().join("target/peers/venv")
}

/// Installs those that are missing: Python's into `target/`, Debian's by apt.
pub fn install() -> Result<(), Trouble> {
    let python = venv();
    if !python.join("bin/salt-call").exists() {
        ran(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
        ran(Command::new(python.join("bin/pip")).args(["install", "-q", "ansible-core", "salt"]))?;
    }
    if found("puppet").is_none() || found("cf-agent").is_none() {
        let packages = ["puppet-agent", "cfengine3"];
        let options = ["install", "-qq", "-y", "--no-install-recommends"];
        let mut apt = Command::new("apt-get");
        ran(apt.args(options).args(packages).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    Ok(())
}

/// The program, in the venv or on the path.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(venv().join("bin")).chain(std::env::split_paths(&path));
    places.map(|place| place.join(program)).find(|file| file.exists())
}

/// Has everybody do everything; `tell` hears what is under way.
pub fn measure(bench: &Bench, tell: impl Fn(&str)) -> Vec<PeerFigure> {
    let mut figures = Vec::new();
    for work in Work::ALL {
        tell(&format!("fluke: {}", work.name()));
        figures.push(figure("fluke".into(), work, ours(bench, work)));
        for peer in PEERS {
            tell(&format!("{}: {}", peer.name, work.name()));
            let measured = peer.does(work);
            if let Err(trouble @ Trouble::Failed { .. }) = &measured {
                tell(&format!("{}: {trouble}", peer.name));
            }
            figures.push(figure(peer.versioned(), work, measured));
        }
    }
    figures
}

fn figure(peer: String, work: Work, measured: Result<Vec<f64>, Trouble>) -> PeerFigure {
    let (measured, note) = match measured {
        Ok(rounds) => (Summary::of(&rounds), String::new()),
        Err(Trouble::NotRun(why)) => (None, why),
        // The details speak of this machine; they were told.
        Err(Trouble::Failed { .. }) => (None, "failed here".into()),
    };
    PeerFigure { peer, work: work.name(), measured, note, taken: Taken::now() }
}

/// The rounds of one work: the first warms up and is forgotten, unless it took too long by itself.
fn rounds(mut round: impl FnMut() -> Result<f64, Trouble>) -> Result<Vec<f64>, Trouble> {
    let first = round()?;
    if first > ENOUGH {
        return Ok(vec![first]);
    }
    let mut taken = Vec::new();
    while goes_on(&taken) {
        taken.push(round()?);
    }
    Ok(taken)
}

/// Whether there is to be another round after these.
fn goes_on(taken: &[f64]) -> bool {
    taken.is_empty() || (taken.len() < ROUNDS && taken.iter().sum::<f64>() < ENOUGH)
}

/// What fluke takes for it: server, agent, server, over TLS.
fn ours(bench: &Bench, work: Work) -> Result<Vec<f64>, Trouble> {
    let mut stage = Stage::start(bench)?;
    stage.agent("web-1", Cores::All)?;
    let file = stage.root().join("file");
    let name = file.display();
    match work {
        Work::Checks(count) => stage.settle(&shell_task("test -d /", "false", count))?,
        Work::File => stage.settle(&shell_task(
            &format!("printf 'as it should be\\\\n' | cmp -s - {name}"),
            &format!("printf 'as it should be\\\\n' > {name}"),
            1,
        ))?,
        Work::Service => return Err(by_the_bed()),
    }
    let mut feed = stage.feed()?;
    rounds(|| {
        spoil(&file, work)?;
        let took = stage.reconcile(&mut feed)?;
        mended(&file, work).map(|()| took)
    })
}

fn by_the_bed() -> Trouble {
    Trouble::NotRun("needs a host with systemd: fluke's figure is in the row `killed`".into())
}

/// Somebody changes the file.
fn spoil(file: &Path, work: Work) -> Result<(), Trouble> {
    if work != Work::File {
        return Ok(());
    }
    std::fs::write(file, "something else\n").map_err(|error| Trouble::failed("spoil a file", error))
}

fn mended(file: &Path, work: Work) -> Result<(), Trouble> {
    match work != Work::File || std::fs::read_to_string(file).is_ok_and(|text| text == RIGHT) {
        true => Ok(()),
        false => Err(Trouble::failed("put the file right", "it is not as it should be")),
    }
}

impl Peer {
    fn versioned(&self) -> String {
        let version = found(self.program).and_then(|program| {
            let text = said(Command::new(program).arg("--version")).ok()?;
            definition::version(&text)
        });
        format!("{} {}", self.name, version.unwrap_or_default()).trim_end().to_string()
    }

    fn does(&self, work: Work) -> Result<Vec<f64>, Trouble> {
        let program = found(self.program).ok_or_else(|| {
            Trouble::NotRun(format!("{} is not here; add --install-peers", self.program))
        })?;
        if work == Work::Service {
            return Err(by_the_bed());
        }
        let folder = folder()?;
        let definition = self.prepare(work, folder.path())?;
        let file = folder.path().join("file");
        let mut command = (self.command)(&program, &definition, folder.path());
        command.env("HOME", folder.path()).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        rounds(|| {
            spoil(&file, work)?;
            let (took, done) = seconds(|| said(&mut command));
            done?;
            mended(&file, work).map(|()| took)
        })
    }

    /// Writes the definition, and what else the peer wants to have around.
    fn prepare(&self, work: Work, root: &Path) -> Result<PathBuf, Trouble> {
        let source = crate::root().join("crates/fluke-bench/peers").join(self.name);
        let (name, count) = match work {
            Work::Checks(count) => ("checks", count),
            Work::File | Work::Service => ("file", 1),
        };
        let states = root.join("states");
        let failed = |error| Trouble::failed(format!("prepare {}", self.name), error);
        std::fs::create_dir(&states).map_err(failed)?;
        let shown = root.display().to_string();
        let place = |from: &str, to: &Path| -> Result<(), Trouble> {
            let text = std::fs::read_to_string(source.join(from)).map_err(failed)?;
            std::fs::write(to, expanded(&text, count, &shown)).map_err(failed)?;
            // CFEngine takes no definition that others may write to.
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o600)).map_err(failed)
        };
        if source.join("minion").exists() {
            place("minion", &root.join("minion"))?;
        }
        if self.name == "cfengine" {
            cfengine_home(&root.join("cfengine")).map_err(failed)?;
        }
        let file = format!("{name}.{}", self.ending);
        place(&file, &states.join(&file))?;
        Ok(states.join(&file))
    }
}

#[cfg(test)]
mod tests;
