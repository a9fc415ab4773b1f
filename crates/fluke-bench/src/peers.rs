//! What others need for the same work, each with the definition that its own manual would give.
//!
//! All of it happens on hosts of the bed: ours on one that has an agent, with the server outside,
//! the others' on a second one without. Nobody changes anything of this machine. Definitions are in
//! `peers/`, one folder each.

mod definition;
mod grid;
mod guest;
mod install;
mod tool;

use fluke_bed::{Bed, Host};
use serde::{Deserialize, Serialize};

use crate::machine::Taken;
use crate::row::{Bench, Trouble};
use crate::rows::killed::{KEEP, UNIT, killed};
use crate::rows::units::bed;
use crate::stage::{Feed, reconcile, shell_task};
use crate::statistics::Summary;
use guest::Guest;
use install::Installed;
use tool::{PEERS, Peer};

pub use grid::grid;

/// The most rounds of one work.
const ROUNDS: usize = 5;
/// When a peer has taken so many seconds for a work, it has had its rounds.
const ENOUGH: f64 = 90.0;
/// What everybody keeps in the file.
const RIGHT: &str = "as it should be\n";
/// What somebody else writes there.
const WRONG: &str = "something else\n";

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
pub enum Work {
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
            Self::Checks(count @ ..1000) => format!("{count} satisfied checks"),
            Self::Checks(count) => format!("{},000 satisfied checks", count / 1000),
            Self::File => "one changed file".into(),
            Self::Service => "one killed service".into(),
        }
    }

    /// What its definition is called.
    fn definition(self) -> &'static str {
        match self {
            Self::Checks(_) => "checks",
            Self::File => "file",
            Self::Service => "service",
        }
    }

    /// How many there are of what a definition repeats.
    fn count(self) -> usize {
        if let Self::Checks(count) = self { count } else { 1 }
    }

    /// A name without spaces: `checks-100`.
    fn file(self) -> String {
        match self {
            Self::Checks(count) => format!("checks-{count}"),
            _ => self.definition().into(),
        }
    }

    /// The work of that name.
    pub fn named(name: &str) -> Result<Self, String> {
        let all = Self::ALL.map(Self::file).join(", ");
        let found = Self::ALL.into_iter().find(|work| work.file() == name);
        found.ok_or_else(|| format!("there are {all}"))
    }
}

/// The file that everybody keeps.
fn file_of(root: &str) -> String {
    format!("{root}/file")
}

/// Has everybody do these works, or all, after installing who is missing if that is wanted; `tell`
/// hears what is under way.
pub fn measure(
    bench: &Bench,
    works: &[Work],
    install: bool,
    tell: impl Fn(&str),
) -> Result<Vec<PeerFigure>, Trouble> {
    let installed = Installed::here()?;
    let bed = bed(bench)?;
    let host = bed.host("peer-1");
    if install {
        tell("installing the others");
        installed.complete(&host)?;
    }
    if !installed.is_complete() {
        let why = "the others are not installed below target/; add --install-peers";
        return Err(Trouble::NotRun(why.into()));
    }
    installed.bring(&bed, &host)?;
    let names: Vec<_> = PEERS.iter().map(|peer| versioned(peer, &host, &installed)).collect();
    let own = bed.host("web-1").joins("");
    let mut figures = Vec::new();
    for work in Work::ALL.into_iter().filter(|it| works.is_empty() || works.contains(it)) {
        tell(&format!("fluke: {}", work.name()));
        figures.push(figure("fluke".into(), work, ours(&bed, &own, work)));
        for (peer, name) in PEERS.iter().zip(&names) {
            tell(&format!("{name}: {}", work.name()));
            let measured = Guest::prepared(peer, work, &host, &installed)
                .and_then(|guest| rounds(|| guest.round()));
            if let Err(trouble @ Trouble::Failed { .. }) = &measured {
                tell(&format!("{name}: {trouble}"));
            }
            figures.push(figure(name.clone(), work, measured));
        }
    }
    Ok(figures)
}

fn versioned(peer: &Peer, host: &Host, installed: &Installed) -> String {
    let said = host.try_run(&peer.version(&installed.venv())).stdout;
    let version = definition::version(&said).unwrap_or_default();
    format!("{} {version}", peer.name).trim_end().to_string()
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

/// What fluke takes for it: server, agent, server, over TLS; for a killed service nobody asks.
fn ours(bed: &Bed, host: &Host, work: Work) -> Result<Vec<f64>, Trouble> {
    let file = file_of("/srv");
    let manifest = match work {
        Work::Checks(count) => shell_task("test -d /", "false", count),
        Work::File => shell_task(
            &format!("printf 'as it should be\\\\n' | cmp -s - {file}"),
            &format!("printf 'as it should be\\\\n' > {file}"),
            1,
        ),
        Work::Service => {
            host.unit("kept.service", UNIT);
            KEEP.into()
        }
    };
    bed.commit("work.fluke.hcl", &manifest);
    bed.settles();
    if work == Work::Service {
        return rounds(|| killed(bed, host));
    }
    let mut feed = Feed::open(&bed.server().socket())?;
    rounds(|| {
        if work == Work::File {
            host.write(&file, WRONG);
        }
        let took = reconcile(bed.server(), &mut feed)?;
        match work != Work::File || host.read(&file) == RIGHT {
            true => Ok(took),
            false => Err(Trouble::failed("put the file right", "it is not as it should be")),
        }
    })
}

#[cfg(test)]
mod tests;
