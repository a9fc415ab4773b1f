//! The benchmarks: every figure that fluke promises, beside a floor or a peer that is measured in
//! turn with it, because machines are noisy. `cargo xtask bench` runs them.
//!
//! ```text
//! rows/*.rs ─▶ Figure { ours, beside, target } ─▶ Record (JSON) ─┬─▶ table      the terminal
//!    │ drive stage: the real server and agents as processes      ├─▶ baseline   CI: did a ratio get worse?
//!    └ against floor: the least that could do the same           └─▶ report     a page of the book
//! ```
//!
//! # To add a row
//!
//! 1. A file `rows/ID.rs` with a `pub(super) const ROW: Row`: what is promised in the words of the
//!    promise, how it is measured, and a function that measures.
//! 2. Its line in `rows::ALL`, where the table wants it.
//!
//! ```no_run
//! use fluke_bench::figure::{Figure, Target, Unit};
//! use fluke_bench::row::{Bench, Trouble, figures, seconds};
//!
//! fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
//!     let floor = || Ok(seconds(|| { /* the least that could do it */ }).0);
//!     let ours = || Ok(seconds(|| { /* ours */ }).0);
//!     // So many rounds of each, in turn; fewer in quick mode.
//!     let (floor, ours) = bench.alternate(31, floor, ours)?;
//!     let figure = Figure::new("cold", Unit::Seconds, &ours);
//!     figures([figure.map(|it| it.beside("a bare loop", &floor).target(Target::Times(1.3)))])
//! }
//! ```
//!
//! - A row may give several figures; each is judged by itself. What is sampled once is a series of
//!   one: `&[bytes]`.
//! - What is measured is a process wherever it is one in life: [`stage::Stage`] starts a real server
//!   with TLS on an address of its own, and real agents; [`process`] looks at what they take.
//! - A floor that must be a process, too, is a subcommand of [`floor`].
//! - What cannot run here says so: `Err(Trouble::NotRun(why))`. It is listed, and is no failure.
//! - A panic in a row is that row's failure, and no other's.

pub mod baseline;
pub mod callgrind;
pub mod cited;
pub mod command;
pub mod estate;
pub mod figure;
pub mod floor;
pub mod folder;
pub mod machine;
pub mod pages;
pub mod peers;
pub mod process;
pub mod profile;
pub mod record;
pub mod report;
pub mod row;
pub mod rows;
pub mod scale;
pub mod stage;
pub mod statistics;
pub mod table;

/// The repository that this was built from.
pub fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
