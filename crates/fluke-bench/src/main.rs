//! `cargo xtask`: what is done with the repository besides building it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program prints")]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand};
use fluke_bench::baseline::Baseline;
use fluke_bench::command::ran;
use fluke_bench::floor::work::Kind;
use fluke_bench::machine::Taken;
use fluke_bench::profile::Scene;
use fluke_bench::record::{Record, RowRecord};
use fluke_bench::row::{Bench, Row, Trouble, Turn};
use fluke_bench::{floor, pages, peers, root, rows, scale, table};

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
    /// Counts instructions and memory by function, under valgrind, and keeps the result beside the
    /// report.
    Profile {
        /// Only these.
        scenes: Vec<Scene>,
    },
    /// A floor that needs a process of its own; rows start it.
    #[command(subcommand, hide = true)]
    Floor(Floor),
}

#[derive(Args)]
struct BenchArguments {
    /// Only compares ratios with the committed baseline, and counts with what is promised; fails if
    /// one got worse than its margin, or breaks its promise.
    #[arg(long)]
    quick: bool,
    /// With --quick: writes the ratios of now into the baseline.
    #[arg(long, requires = "quick")]
    bless: bool,
    /// Only these rows; also those that run on request alone.
    #[arg(long, value_name = "ROW", num_args = 1..)]
    only: Vec<String>,
    /// Also those rows that run on request alone.
    #[arg(long, conflicts_with_all = ["only", "quick"])]
    all: bool,
    /// Names the rows, and measures nothing.
    #[arg(long)]
    list: bool,
    /// Writes what was found to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Has others do the same work, on a host of the bed.
    #[arg(long)]
    peers: bool,
    /// With others: only these works, `checks-100`, `checks-1000`, `file`, `service`.
    #[arg(long, value_name = "WORK", num_args = 1.., value_parser = peers::Work::named)]
    works: Vec<peers::Work>,
    /// Downloads those that are missing into target/, first; implies --peers.
    #[arg(long)]
    install_peers: bool,
    /// Writes the page of the book, and figures in others; rows that are not measured now stay as
    /// they were.
    #[arg(long, conflicts_with = "quick")]
    report: bool,
    /// With --report: measures nothing, and writes the pages from what was kept.
    #[arg(long, requires = "report", conflicts_with_all = ["only", "all", "peers", "install_peers"])]
    again: bool,
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
    /// Asks systemd for so many units in one call.
    Bus {
        /// How many.
        units: usize,
    },
    /// Connects to a server with nothing around it, and stays.
    Client {
        /// The server's address.
        url: String,
        /// What lets it in.
        token: String,
        /// Whom to trust.
        ca_file: PathBuf,
        /// What it calls itself.
        name: String,
    },
    /// Does work of a given size, for its instructions to be counted.
    Work {
        /// Which work.
        kind: Kind,
        /// How much of it.
        count: usize,
    },
    /// Serves bare gRPC streams over TLS; every line that it reads is a broadcast.
    Streams {
        /// The certificate.
        cert: PathBuf,
        /// Its key.
        key: PathBuf,
    },
}

impl Floor {
    fn run(self) -> Result<(), Trouble> {
        let print = |seconds: f64| println!("{seconds}");
        match self {
            Self::Spawn { times, line } => floor::spawn(times, &line).map(print),
            Self::Bus { units } => floor::bus::ask(units).map(print),
            Self::Client { url, token, ca_file, name } => {
                floor::client::stay(&url, &token, &ca_file, &name)
            }
            Self::Work { kind, count } => kind.run(count),
            Self::Streams { cert, key } => {
                scale::bare::serve_streams(&cert, &key, |answer| println!("{answer}"))
            }
        }
    }
}

fn main() -> ExitCode {
    // What rows use of the server warns as the server does.
    let level = tracing_subscriber::filter::LevelFilter::WARN;
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    let done = match Cli::parse().task {
        Task::Bench(arguments) => bench(&arguments),
        Task::Profile { scenes } => profile(&scenes),
        Task::Floor(floor) => floor.run(),
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
    if arguments.again {
        return pages::write(&Record::read(&pages::kept())?);
    }
    let rows = match arguments.all {
        true => rows::ALL.iter().collect(),
        false => rows::chosen(&arguments.only).map_err(Trouble::NotRun)?,
    };
    let bench = prepared(arguments.quick)?;
    if arguments.quick {
        return quick(&bench, arguments);
    }
    let mut record = measured(&bench, &rows);
    if arguments.peers || arguments.install_peers {
        let tell = |what: &str| eprintln!("measuring {what} …");
        match peers::measure(&bench, &arguments.works, arguments.install_peers, tell) {
            Ok(figures) => record.peers = figures,
            Err(trouble) => eprintln!("the others: {trouble}"),
        }
    }
    print!("{}", table::render(&record));
    if let Some(path) = &arguments.json {
        record.write(path)?;
    }
    if arguments.report {
        let ids: Vec<_> = rows::ALL.iter().map(|row| row.id).collect();
        let whole = match Record::read(&pages::kept()) {
            Ok(earlier) => record.clone().completed(earlier, &ids),
            Err(_) => record.clone(),
        };
        whole.write(&pages::kept())?;
        pages::write(&whole)?;
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
    Ok(Bench { quick, ..built("release", &["fluke"])? })
}

/// Builds packages, and says where the programs are.
fn built(profile: &str, packages: &[&str]) -> Result<Bench, Trouble> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let own = std::env::current_exe().map_err(|error| Trouble::failed("find myself", error))?;
    let target = own.parent().and_then(Path::parent).unwrap_or(Path::new("target"));
    let mut build = Command::new(cargo);
    build.args(["build", "--locked", "--quiet", "--profile", profile]);
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    ran(build.arg("--target-dir").arg(target).current_dir(root()))?;
    let place = target.join(profile);
    Ok(Bench { program: place.join("fluke"), own: place.join("xtask"), quick: false })
}

fn baseline_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.json")
}

fn profile(scenes: &[Scene]) -> Result<(), Trouble> {
    let bench = built("profiling", &["fluke", "fluke-bench"])?;
    let scenes = if scenes.is_empty() { &Scene::ALL } else { scenes };
    for scene in scenes {
        eprintln!("profiling {} …", scene.name());
        let profile = scene.profile(&bench)?;
        println!("{}: {:.0} {}", profile.what, profile.total, profile.unit.what());
        profile.top.iter().for_each(|line| println!("{:>5.1} %  {}", line.percent, line.function));
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("keep a profile", error);
        let text = serde_json::to_string_pretty(&profile).map_err(|error| failed(&error))?;
        std::fs::write(pages::profile_file(*scene), text + "\n").map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn measured(bench: &Bench, rows: &[&Row]) -> Record {
    let rows = rows.iter().map(|row| {
        eprintln!("measuring {} …", row.id);
        let taken = Taken::now();
        let measured = catch_unwind(AssertUnwindSafe(|| (row.measure)(bench)));
        let panicked =
            |_| Err(Trouble::failed(format!("measure {}", row.id), "it panicked; see above"));
        RowRecord::of(row, taken, measured.unwrap_or_else(panicked))
    });
    Record { rows: rows.collect(), peers: Vec::new() }
}

/// Measures what the baseline knows. What seems worse is measured again, and the best rounds of all
/// count: other work on the machine makes single rounds slow, never fast.
fn quick(bench: &Bench, arguments: &BenchArguments) -> Result<(), Trouble> {
    let whole = Baseline::read(&baseline_file())?;
    let baseline = whole.clone().of(&arguments.only).map_err(Trouble::NotRun)?;
    let chosen = |ids: &[String]| rows::chosen(ids).map_err(Trouble::NotRun);
    let ids: Vec<_> = baseline.rows().into_iter().map(str::to_string).collect();
    let mut record = measured(bench, &chosen(&ids)?);
    for _ in 1..ATTEMPTS {
        let worse = baseline.worse(&record);
        let again: BTreeSet<_> = worse.iter().map(|worse| worse.row().to_string()).collect();
        let again: Vec<_> = again.into_iter().collect();
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
        println!("no ratio got worse than the baseline allows, and every count is as promised");
        return Ok(());
    }
    let lines: Vec<_> = worse.iter().map(|worse| format!("\n  {worse}")).collect();
    Err(Trouble::failed("stay as good as the baseline", lines.concat()))
}
