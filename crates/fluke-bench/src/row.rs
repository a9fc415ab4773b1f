//! What a row of the table is, and what it gets to work with.

use std::path::PathBuf;
use std::time::Instant;

use crate::figure::Figure;

/// One row: a promise, and how it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Short, unique, and the name of its file: `checks`.
    pub id: &'static str,
    /// What is promised, in the words of the promise.
    pub what: &'static str,
    /// What is to be reached, in the same words.
    pub reach: &'static str,
    /// How it is measured, for whoever doubts it.
    pub how: &'static str,
    /// When it has its turn.
    pub turn: Turn,
    /// Measures: a figure for each thing that is promised.
    pub measure: Measure,
}

/// How a row is measured.
pub type Measure = fn(&Bench) -> Result<Vec<Figure>, Trouble>;

/// When a row has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Always.
    Always,
    /// Only if it is asked for by name: it takes minutes.
    OnRequest,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// Something that this machine lacks, or that is yet to be built.
    #[error("not run: {0}")]
    NotRun(String),
    /// It was tried, and went wrong.
    #[error("could not {doing}: {why}")]
    Failed {
        /// What was tried.
        doing: String,
        /// What came of it.
        why: String,
    },
}

impl Trouble {
    /// Says what went wrong.
    pub fn failed(doing: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Failed { doing: doing.into(), why: why.to_string() }
    }
}

/// What a row gets to work with.
#[derive(Debug)]
pub struct Bench {
    /// The release build of `fluke`.
    pub program: PathBuf,
    /// This very program, whose `floor` subcommands are floors with a process of their own.
    pub own: PathBuf,
    /// Whether it has to be quick: ratios are wanted, and not exact.
    pub quick: bool,
}

impl Bench {
    /// How many rounds to do where `usual` are usual.
    pub fn rounds(&self, usual: usize) -> usize {
        if self.quick { usual.div_ceil(3) } else { usual }
    }

    /// Measures the floor and ours in turn, so that what else the machine does hits both alike; a
    /// round of each goes before, and is forgotten. Gives the rounds of the floor, then ours.
    pub fn alternate(
        &self,
        usual: usize,
        mut floor: impl FnMut() -> Result<f64, Trouble>,
        mut ours: impl FnMut() -> Result<f64, Trouble>,
    ) -> Result<(Vec<f64>, Vec<f64>), Trouble> {
        floor()?;
        ours()?;
        let (mut floors, mut all_ours) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds(usual) {
            floors.push(floor()?);
            all_ours.push(ours()?);
        }
        Ok((floors, all_ours))
    }
}

/// Does it, and says how many seconds it took.
pub fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// The figures that there are; a measurement without a single round is a failure.
pub fn figures(all: impl IntoIterator<Item = Option<Figure>>) -> Result<Vec<Figure>, Trouble> {
    let nothing = || Trouble::failed("sum up", "a measurement has no rounds, or one is no number");
    all.into_iter().map(|figure| figure.ok_or_else(nothing)).collect()
}
