//! What each command does, one file a command.

pub mod agent;
pub mod describe;
pub mod dev;
pub mod eval;
pub mod events;
pub mod fmt;
pub mod forget;
pub mod get;
pub mod install;
pub mod join_line;
pub mod man;
pub mod reconcile;
pub mod server;
pub mod show;
pub mod top;
pub mod update;
pub mod validate;
pub mod watch;

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix;

use crate::cli::{Cli, Colour, Command, Format, Global};
use crate::client::address::Server;
use crate::client::{Access, Client};
use crate::document::{Document, yaml};
use crate::failure::Failure;
use crate::screen::{self, Style};

/// How many things that block are done at once.
const BLOCKING_THREADS: usize = 16;
/// Longer than any process lives.
const FOR_GOOD: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Does what the command line says.
pub fn run(cli: Cli) -> Result<(), Failure> {
    let global = cli.global;
    match cli.command {
        Command::Dev(args) => dev::run(&args, &global),
        Command::Server(args) => server::run(&args, &global),
        Command::Agent(args) => agent::run(&args, &global),
        Command::Get { what } => in_one_thread(get::run(what, &global)),
        Command::Describe { what } => in_one_thread(describe::run(what, &global)),
        Command::Events(args) => in_one_thread(events::run(args, &global)),
        Command::Top => in_one_thread(top::run(&global)),
        Command::Reconcile(args) => in_one_thread(reconcile::run(args, &global)),
        Command::Forget { what } => in_one_thread(forget::run(what, &global)),
        Command::Validate(args) => validate::run(&args, &global),
        Command::Eval(args) => eval::run(&args, &global),
        Command::Fmt(args) => fmt::run(&args, &global),
        Command::Install { what } => install::run(&what, &global),
        Command::Uninstall(args) => install::undo(&args),
        Command::Update(args) => update::run(&args),
        Command::JoinLine(args) => join_line::run(&args, &global),
        Command::Version => version(&global),
        Command::Completions { shell } => completions(shell),
        Command::Man(args) => man::run(&args),
    }
}

/// How the results of a command are printed.
#[derive(Debug, Clone, Copy)]
pub struct Printing {
    format: Format,
    colour: Colour,
}

impl Printing {
    fn of(global: &Global) -> Self {
        Self { format: global.output.unwrap_or(Format::Table), colour: global.colour }
    }

    /// Asked every time: terminals change their size.
    fn style(&self) -> Style {
        Style::of_stdout(self.colour)
    }

    /// The document in the format asked for, unless that is the table.
    fn document(&self, json: &str) -> Option<Result<String, serde_json::Error>> {
        match self.format {
            Format::Table => None,
            Format::Json => Some(Document::parse(json).map(|document| document.to_json())),
            Format::Yaml => Some(Document::parse(json).map(|document| yaml::render(&document))),
        }
    }
}

fn client(global: &Global) -> Result<Client, Failure> {
    let server = Server::choose(global.server.as_deref())?;
    Ok(Client::new(server, Access::from_environment())?)
}

/// How long work that nobody waits for may go on at the end.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// One thread is plenty for a client, and for an agent that waits for other processes.
fn in_one_thread<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = started(Builder::new_current_thread())?;
    let result = runtime.block_on(command);
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_timeout(LAST_MOMENT);
    result
}

/// All cores, for a server.
fn in_threads(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    threads()?.block_on(command)
}

/// A thread for every core.
fn threads() -> Result<Runtime, Failure> {
    started(Builder::new_multi_thread())
}

/// A runtime whose threads for blocking work stay, from the first one on: where a host has run out
/// of processes there is no new one to be had, and a runtime that has none at all panics.
fn started(mut builder: Builder) -> Result<Runtime, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new("could not start the threads that fluke needs")
            .because(&error)
            .help("look at this host's memory and process limit (`ulimit -u`, `TasksMax=`)")
    };
    // The runtime would panic over it.
    std::thread::Builder::new().spawn(|| ()).map_err(failed)?;
    builder.enable_all().max_blocking_threads(BLOCKING_THREADS).thread_keep_alive(FOR_GOOD);
    let runtime = builder.build().map_err(failed)?;
    let first = runtime.spawn_blocking(|| ());
    // It does nothing that could fail.
    let _ = runtime.block_on(first);
    Ok(runtime)
}

/// What the system tells a process that runs until it is told to stop.
struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Stop,
    Reload,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            unix::signal(kind)
                .map_err(|error| Failure::new("could not listen to signals").because(&error))
        };
        Ok(Self {
            interrupt: listen(unix::SignalKind::interrupt())?,
            terminate: listen(unix::SignalKind::terminate())?,
            hang_up: listen(unix::SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.hang_up.recv() => Signal::Reload,
        }
    }
}

fn version(global: &Global) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let json = format!("{{\"version\":\"{version}\"}}");
    match Printing::of(global).document(&json) {
        Some(text) => screen::print(&text.unwrap_or(json)),
        None => screen::print(&format!("fluke {version}\n")),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = <Cli as clap::CommandFactory>::command();
    clap_complete::generate(shell, &mut command, "fluke", &mut script);
    screen::print(&String::from_utf8_lossy(&script))
}
