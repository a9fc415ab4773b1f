//! The size of the program, and how long it takes to build.

use std::process::Command;

use crate::command::ran;
use crate::figure::{Figure, Target, Unit};
use crate::folder::folder;
use crate::row::{Bench, Row, Trouble, Turn, figures, seconds};

pub(super) const SIZE: Row = Row {
    id: "size",
    what: "stripped binary",
    reach: "≤ 20 MB",
    how: "The file that `cargo build --release` makes.",
    turn: Turn::Always,
    measure: size,
};

pub(super) const BUILD: Row = Row {
    id: "build",
    what: "clean `cargo build --release` on two cores",
    reach: "≤ 5 min",
    how: "Into an empty folder, packages being there already, with two jobs. Beside it: what rustc \
          itself uses of the processor, as it would take alone on two cores.",
    turn: Turn::OnRequest,
    measure: build,
};

fn size(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let file = std::fs::metadata(&bench.program);
    let bytes = file.map_err(|error| Trouble::failed("look at the program", error))?.len();
    let figure = Figure::new("binary", Unit::Bytes, &[bytes as f64]);
    figures([figure.map(|figure| figure.target(Target::AtMost(20e6)))])
}

fn build(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let folder = folder()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--release",
        "--locked",
        "--quiet",
        "--jobs",
        "2",
        "--package",
        "fluke",
    ]);
    command.arg("--target-dir").arg(folder.path()).current_dir(crate::root());
    let before = crate::process::children_seconds(std::process::id())?;
    let (took, done) = seconds(|| ran(&mut command));
    done?;
    let used = crate::process::children_seconds(std::process::id())? - before;
    let _ = bench;
    let figure = Figure::new("clean", Unit::Seconds, &[took]);
    let beside = "processor time, halved";
    figures([figure.map(|it| it.beside(beside, &[used / 2.0]).target(Target::AtMost(300.0)))])
}
