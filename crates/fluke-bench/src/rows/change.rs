//! One task changed among 10,000: from the commit to new snapshots.

use fluke_model::policy::Policy;
use fluke_model::snapshot::Compiler;

use crate::command::ran;
use crate::estate::{Clone, Estate, HOSTS, Opened, hosts, loader};
use crate::figure::{Figure, Target, Unit};
use crate::folder::folder;
use crate::row::{Bench, Row, Trouble, Turn, figures, seconds};

pub(super) const ROW: Row = Row {
    id: "change",
    what: "one task changed among 10,000",
    reach: "≤ 50 ms to new snapshots, work to the hosts concerned only",
    how: "A commit that changes one file of 10,001 is fetched into a mirror that has all others, \
          listed, parsed and compiled, and the snapshots of all 1,000 hosts are made. Beside it: \
          `git fetch` of the same commit into another mirror, which is the network's share. \
          hosts-concerned: how many of the 1,000 got another snapshot.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 11;
const TASK: usize = 1234;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let estate = Estate::new(10_000);
    let clone = estate.cloned()?;
    let other = folder()?;
    let git = |arguments: &[&str]| {
        ran(std::process::Command::new("git").arg("-C").arg(other.path()).args(arguments))
    };
    let origin = clone.origin().display().to_string();
    let fetch = ["fetch", "--quiet", "--depth=1", "--no-tags", &origin, "+main:main"];
    git(&["init", "--quiet", "--bare"])?;
    git(&fetch)?;

    let mut server = Follower::new(&clone)?;
    let (mut floors, mut ours, mut concerned) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=bench.rounds(ROUNDS) {
        clone.commit(&estate.with_change(TASK, round).file(TASK))?;
        let (took, done) = seconds(|| git(&fetch));
        done?;
        floors.push(took);
        let (took, done) = seconds(|| server.follows());
        concerned.push(done? as f64);
        ours.push(took);
    }
    let figure = Figure::new("snapshots", Unit::Seconds, &ours);
    let beside = "git fetch of the commit";
    let figure = figure.map(|figure| figure.beside(beside, &floors).target(Target::AtMost(0.05)));
    let concerned = Figure::new("hosts-concerned", Unit::Count, &concerned);
    figures([figure, concerned.map(|figure| figure.target(Target::AtMost(1.0)))])
}

/// What a server does with a commit, up to its agents.
struct Follower {
    opened: Opened,
    loader: fluke_manifest::Loader,
    compiler: Compiler,
    hosts: Vec<fluke_model::label::Labels>,
    snapshots: Vec<fluke_model::id::Hash256>,
}

impl Follower {
    fn new(clone: &Clone) -> Result<Self, Trouble> {
        let (mut opened, mut loader) = (clone.opened()?, loader()?);
        let model = loader.load(&opened.checkout()?.tree).model.ok_or_else(invalid)?;
        let compiler = Compiler::new(&model, Policy::Remediate);
        let hosts = hosts()?;
        let snapshots = hosts.iter().map(|host| compiler.snapshot(host).hash()).collect();
        Ok(Self { opened, loader, compiler, hosts, snapshots })
    }

    /// Takes up the newest commit; says how many hosts have another snapshot by that.
    fn follows(&mut self) -> Result<usize, Trouble> {
        let tree = self.opened.checkout()?.tree;
        let model = self.loader.load(&tree).model.ok_or_else(invalid)?;
        self.compiler = self.compiler.follow(&model);
        let mut concerned = 0;
        for (at, host) in self.hosts.iter().enumerate().take(HOSTS) {
            let hash = self.compiler.snapshot(host).hash();
            concerned += usize::from(hash != self.snapshots[at]);
            self.snapshots[at] = hash;
        }
        Ok(concerned)
    }
}

fn invalid() -> Trouble {
    Trouble::failed("compile the estate", "it is not valid")
}
