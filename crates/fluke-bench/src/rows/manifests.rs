//! 10,000 manifests: from a bare clone, and from text, to a compiled model.

use fluke_manifest::tree::MemoryTree;
use fluke_model::policy::Policy;
use fluke_model::snapshot::{Compiler, Model};

use crate::callgrind::instructions;
use crate::estate::{Estate, loader};
use crate::figure::{Figure, Target, Unit};
use crate::floor::work::{Kind, hashes};
use crate::row::{Bench, Row, Trouble, Turn, figures, seconds};

pub(super) const ROW: Row = Row {
    id: "manifests",
    what: "10,000 manifests (100,000 steps) from a bare clone to a compiled model",
    reach: "≤ 1 s",
    how: "from-clone: a mirror that holds the commit is opened anew; timed are the look at the \
          remote, the listing, the reading of blobs, parsing and compiling. Beside it: `git ls-tree` \
          and `git cat-file --batch` of the same blobs. from-text: the same files from memory. \
          Beside it: the SHA-256 of each. instructions: the same for 1,000 of them, counted by \
          callgrind.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 7;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let estate = Estate::new(10_000);
    let counted = counted(bench)?;
    // A busy machine changes times, and no count.
    if bench.quick {
        return figures([counted]);
    }
    figures([from_clone(bench, &estate)?, from_text(bench, &estate)?, counted])
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
