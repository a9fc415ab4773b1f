//! 10,000 manifests: from a bare clone, and from text, to a compiled model.

use std::time::Duration;

use fluke_manifest::tree::MemoryTree;
use fluke_model::policy::Policy;
use fluke_model::snapshot::{Compiler, Model};

use crate::callgrind::instructions;
use crate::estate::{Estate, loader};
use crate::figure::{Figure, Target, Unit};
use crate::floor::work::{Kind, hashes};
use crate::process::{most_resident, resident};
use crate::row::{Bench, Row, Trouble, Turn, figures, seconds};
use crate::stage::Stage;

pub(super) const ROW: Row = Row {
    id: "manifests",
    what: "10,000 manifests (100,000 steps) from a bare clone to a compiled model",
    reach: "≤ 1 s",
    how: "from-clone: a mirror that holds the commit is opened anew; timed are the look at the \
          remote, the listing, the reading of blobs, parsing and compiling. Beside it: `git ls-tree` \
          and `git cat-file --batch` of the same blobs. from-text: the same files from memory. \
          Beside it: the SHA-256 of each. memory: what a server takes more than one without \
          manifests, once it has them in force and came to rest; memory-peak: the most that it ever \
          took more. Beside both: how long the texts are. instructions: from text, for 1,000 of \
          them, counted by callgrind.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 7;
/// Until a server has given back what it does not need any more.
const RESTS: Duration = Duration::from_secs(25);

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let estate = Estate::new(10_000);
    let counted = counted(bench)?;
    // A busy machine changes times, and no count.
    if bench.quick {
        return figures([counted]);
    }
    let [memory, peak] = memory(bench, &estate)?;
    figures([from_clone(bench, &estate)?, from_text(bench, &estate)?, counted, memory, peak])
}

/// What a server takes for them: while it has them, and the most.
fn memory(bench: &Bench, estate: &Estate) -> Result<[Option<Figure>; 2], Trouble> {
    let stage = Stage::start(bench)?;
    let gone = || Trouble::failed("look at the server", "it is gone");
    let pid = stage.server().pid().ok_or_else(gone)?;
    std::thread::sleep(RESTS);
    let before = resident(pid)?;
    let files = estate.files();
    let texts: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let commit = stage.repository().commit("the estate", &texts);
    stage.announce(commit.as_str())?;
    stage.until("the estate is in force", |stage| stage.is_in_force(&commit))?;
    std::thread::sleep(RESTS);
    let bytes = files.iter().map(|(_, text)| text.len() as f64).sum::<f64>();
    let figure = |id: &str, now: f64| {
        let figure = Figure::new(id, Unit::Bytes, &[now - before]);
        figure.map(|figure| figure.beside("their texts", &[bytes]))
    };
    Ok([figure("memory", resident(pid)?), figure("memory-peak", most_resident(pid)?)])
}

fn from_clone(bench: &Bench, estate: &Estate) -> Result<Option<Figure>, Trouble> {
    let clone = estate.cloned()?;
    let read = || {
        let (took, done) = seconds(|| clone.reads_blobs());
        done.map(|()| took)
    };
    let compile = || {
        let (took, done) = seconds(|| {
            let tree = clone.opened()?.checkout()?.tree;
            compiled(loader()?.load(&tree).model)
        });
        done.map(|_| took)
    };
    let (floor, ours) = bench.alternate(ROUNDS, read, compile)?;
    let figure = Figure::new("from-clone", Unit::Seconds, &ours);
    let beside = "git cat-file --batch of the blobs";
    Ok(figure.map(|figure| figure.beside(beside, &floor).target(Target::AtMost(1.0))))
}

fn from_text(bench: &Bench, estate: &Estate) -> Result<Option<Figure>, Trouble> {
    let files = estate.files();
    let tree = MemoryTree::new(files.clone());
    let hash = || {
        let (took, hashes) = seconds(|| hashes(&files));
        std::hint::black_box(hashes);
        Ok(took)
    };
    let compile = || {
        let (took, done) = seconds(|| compiled(loader()?.load(&tree).model));
        done.map(|_| took)
    };
    let (floor, ours) = bench.alternate(ROUNDS, hash, compile)?;
    let figure = Figure::new("from-text", Unit::Seconds, &ours);
    Ok(figure.map(|figure| figure.beside("SHA-256 of every file", &floor)))
}

/// A tenth of the estate, by instructions; those for making its text are in both.
fn counted(bench: &Bench) -> Result<Option<Figure>, Trouble> {
    let of = |kind: Kind| -> Result<f64, Trouble> {
        Ok(instructions(bench, kind, kind.usual())? - instructions(bench, kind, 0)?)
    };
    let (ours, floor) = (of(Kind::Estate)?, of(Kind::Hash)?);
    let figure = Figure::new("instructions", Unit::Count, &[ours]);
    Ok(figure.map(|figure| figure.beside("SHA-256 of every file, and its making", &[floor])))
}

fn compiled(model: Option<Model>) -> Result<Compiler, Trouble> {
    let model = model.ok_or_else(|| Trouble::failed("compile the estate", "it is not valid"))?;
    Ok(Compiler::new(&model, Policy::Remediate))
}
