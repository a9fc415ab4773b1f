//! `cargo xtask`: what is done with the repository besides building it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program prints")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand};
use fluke_bench::baseline::Baseline;
use fluke_bench::command::ran;
use fluke_bench::machine::{self, Machine};
use fluke_bench::record::{Record, RowRecord};
use fluke_bench::row::{Bench, Row, Trouble, Turn};
use fluke_bench::{floor, rows, scale, table};

/// How often quick mode measures what seems worse before it believes it.
const ATTEMPTS: usize = 4;

/// What is done with the repository besides building it.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measures what is promised, each figure beside a floor or a peer.
    Bench(BenchArguments),
    /// A floor that needs a process of its own; rows start it.
    #[command(subcommand, hide = true)]
    Floor(Floor),
}

#[derive(Args)]
struct BenchArguments {
    /// Only compares ratios with the committed baseline; fails if one got worse than its margin.
    #[arg(long)]
    quick: bool,
    /// With --quick: writes the ratios of now into the baseline.
    #[arg(long, requires = "quick")]
    bless: bool,
    /// Only these rows; also those that run on request alone.
    #[arg(long, value_name = "ROW", num_args = 1..)]
    only: Vec<String>,
    /// Names the rows, and measures nothing.
    #[arg(long)]
    list: bool,
    /// Writes what was found to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Floor {
    /// Spawns `sh -c LINE` and waits for it, so many times.
    Spawn {
        /// How many times.
        times: usize,
        /// What the shell is told.
        line: String,
    },
    /// Serves bare gRPC streams over TLS; every line that it reads is a broadcast.
    Streams {
        /// The certificate.
        cert: PathBuf,
        /// Its key.
        key: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Bench(arguments) => bench(&arguments),
        Task::Floor(Floor::Spawn { times, line }) => {
            floor::spawn(times, &line).map(|seconds| println!("{seconds}"))
        }
        Task::Floor(Floor::Streams { cert, key }) => {
            scale::bare::serve_streams(&cert, &key, |answer| println!("{answer}"))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("xtask: {trouble}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &BenchArguments) -> Result<(), Trouble> {
    if arguments.list {
        rows::ALL.iter().for_each(list);
        return Ok(());
    }
    let rows = rows::chosen(&arguments.only).map_err(Trouble::NotRun)?;
    let bench = prepared(arguments.quick)?;
    if arguments.quick {
        return quick(&bench, arguments);
    }
    let record = measured(&bench, &rows);
    print!("{}", table::render(&record));
    if let Some(path) = &arguments.json {
        record.write(path)?;
    }
    match record.failed().as_slice() {
        [] => Ok(()),
        failed => {
            Err(Trouble::failed("measure everything", format!("failed: {}", failed.join(", "))))
        }
    }
}

fn list(row: &Row) {
    let turn = if row.turn == Turn::OnRequest { " (only on request)" } else { "" };
    println!("{:<12} {}: {}{turn}", row.id, row.what, row.reach);
}

/// Builds the program that is measured.
fn prepared(quick: bool) -> Result<Bench, Trouble> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "--quiet", "--package", "fluke"]);
    ran(build.current_dir(root()))?;
    let own = std::env::current_exe().map_err(|error| Trouble::failed("find myself", error))?;
    let program = own.with_file_name("fluke");
    Ok(Bench { program, own, quick })
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn baseline_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.json")
}

fn measured(bench: &Bench, rows: &[&Row]) -> Record {
    let rows = rows.iter().map(|row| {
        eprintln!("measuring {} …", row.id);
        let measured = catch_unwind(AssertUnwindSafe(|| (row.measure)(bench)));
        let panicked =
            |_| Err(Trouble::failed(format!("measure {}", row.id), "it panicked; see above"));
        RowRecord::of(row, measured.unwrap_or_else(panicked))
    });
    Record {
        rows: rows.collect(),
        machine: Machine::here(),
        date: machine::now(),
        commit: machine::commit(),
        peers: Vec::new(),
    }
}

/// Measures what the baseline knows. What seems worse is measured again, and the best rounds of all
/// count: other work on the machine makes single rounds slow, never fast.
fn quick(bench: &Bench, arguments: &BenchArguments) -> Result<(), Trouble> {
    let whole = Baseline::read(&baseline_file())?;
    let baseline = match arguments.only.is_empty() {
        true => whole.clone(),
        false => whole.clone().of(&arguments.only),
    };
    let chosen = |ids: &[String]| rows::chosen(ids).map_err(Trouble::NotRun);
    let ids: Vec<_> = baseline.rows().into_iter().map(str::to_string).collect();
    let mut record = measured(bench, &chosen(&ids)?);
    for _ in 1..ATTEMPTS {
        let worse = baseline.worse(&record);
        let mut again: Vec<_> = worse.iter().map(|worse| worse.row().to_string()).collect();
        again.dedup();
        if again.is_empty() {
            break;
        }
        eprintln!("worse than the baseline, measuring again: {}", again.join(", "));
        record = record.again(measured(bench, &chosen(&again)?));
    }
    print!("{}", table::render(&record));
    if let Some(path) = &arguments.json {
        record.write(path)?;
    }
    if arguments.bless {
        return whole.renewed(&record).write(&baseline_file());
    }
    let worse = baseline.worse(&record);
    if worse.is_empty() {
        println!("no ratio got worse than the baseline allows");
        return Ok(());
    }
    let lines: Vec<_> = worse.iter().map(|worse| format!("\n  {worse}")).collect();
    Err(Trouble::failed("stay as fast as the baseline", lines.concat()))
}
