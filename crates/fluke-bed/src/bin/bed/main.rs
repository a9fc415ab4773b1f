//! `cargo bed`: hosts to play with, and the image that stories' hosts boot from.

mod swarm;

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::{Parser, Subcommand};
use fluke_bed::network::GATEWAY;
use fluke_bed::site::{Power, Site, SiteError};
use fluke_bed::{image, machine};

/// A fleet of real hosts on this machine, each with its own systemd, address and disk.
#[derive(Parser)]
#[command(name = "cargo bed")]
struct Cli {
    /// Which bed; several can be up side by side.
    #[arg(long, global = true, default_value = "bed")]
    bed: String,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Brings up hosts h1 … hN, or those named; installs and builds what is missing first.
    Up {
        /// How many, or their names.
        #[arg(default_value = "3")]
        hosts: Vec<String>,
    },
    /// Takes the bed down: hosts, disks, network.
    Down {
        /// Every bed, those of stories and those left over, and the image with its cache.
        #[arg(long)]
        all: bool,
    },
    /// Shows every bed and its hosts.
    List,
    /// Runs a command on a host.
    Exec {
        /// Which host.
        host: String,
        /// What to run; bash without.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Lets nothing to or from a host.
    Partition {
        /// Which host.
        host: String,
    },
    /// Loses packets to and from a host.
    Lossy {
        /// Which host.
        host: String,
        /// How many of a hundred.
        percent: u8,
    },
    /// Undoes the partition of a host, or everything that was done to the network.
    Heal {
        /// Which host.
        host: Option<String>,
    },
    /// Cuts a host's power.
    Kill {
        /// Which host.
        host: String,
    },
    /// Shuts a host down.
    Stop {
        /// Which host.
        host: String,
    },
    /// Boots a host that is off.
    Start {
        /// Which host.
        host: String,
    },
    /// Shuts a host down and boots it again.
    Reboot {
        /// Which host.
        host: String,
    },
    /// Stops every process of a host where it stands.
    Freeze {
        /// Which host.
        host: String,
    },
    /// Lets a frozen host go on.
    Thaw {
        /// Which host.
        host: String,
    },
    /// Puts a server under the load of thousands of simulated hosts, and tells how it bears it.
    Swarm(Box<swarm::Args>),
    /// Installs what is missing and builds the image of the hosts, unless it is there.
    Image {
        /// Builds it anew.
        #[arg(long)]
        force: bool,
    },
}

#[expect(clippy::print_stderr, reason = "this is a program")]
fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => code,
        Err(error) => {
            eprint!("error: {error}");
            let mut cause = error.source();
            while let Some(next) = cause {
                eprint!(": {next}");
                cause = next.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode, Box<dyn Error>> {
    let site = || Site::find(&cli.bed)?.ok_or_else(|| SiteError::NoBed(cli.bed.clone()));
    match &cli.verb {
        Verb::Up { hosts } => up(&cli.bed, hosts)?,
        Verb::Down { all: false } => {
            if let Some(site) = Site::find(&cli.bed)? {
                site.remove()?;
            }
        }
        Verb::Down { all: true } => {
            for site in Site::all()? {
                site.remove()?;
            }
            image::remove_all()?;
        }
        Verb::List => list()?,
        Verb::Exec { host, command } => return Ok(exec(&site()?, host, command)?),
        Verb::Partition { host } => {
            let site = site()?;
            site.network.isolate(site.number(host)?)?;
        }
        Verb::Lossy { host, percent } => {
            let site = site()?;
            site.network.lose(site.number(host)?, *percent)?;
        }
        Verb::Heal { host: Some(host) } => {
            let site = site()?;
            site.network.reunite(site.number(host)?)?;
        }
        Verb::Heal { host: None } => site()?.network.heal()?,
        Verb::Kill { host } => site()?.kill(host)?,
        Verb::Stop { host } => site()?.stop(host)?,
        Verb::Start { host } => {
            let site = site()?;
            site.number(host)?;
            site.boot(host)?;
        }
        Verb::Reboot { host } => {
            let site = site()?;
            site.stop(host)?;
            site.boot(host)?;
        }
        Verb::Freeze { host } => site()?.freeze(host)?,
        Verb::Thaw { host } => site()?.thaw(host)?,
        Verb::Swarm(args) => swarm::run(args)?,
        Verb::Image { force } => prepare(*force)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn up(bed: &str, hosts: &[String]) -> Result<(), SiteError> {
    let hosts: Vec<String> = match hosts {
        [count] if count.parse::<u8>().is_ok() => {
            (1..=count.parse().unwrap_or(0)).map(|number: u8| format!("h{number}")).collect()
        }
        names => names.to_vec(),
    };
    prepare(false)?;
    let began = Instant::now();
    let site = Site::kept(bed)?;
    for host in &hosts {
        site.add(host)?;
    }
    // Podman takes turns anyway; two at a time keep both the disk and the cores busy.
    for two in hosts.chunks(2) {
        std::thread::scope(|scope| {
            let booting: Vec<_> = two.iter().map(|host| scope.spawn(|| site.boot(host))).collect();
            booting.into_iter().try_for_each(|boot| boot.join().unwrap_or(Ok(())))
        })?;
    }
    say(&format!(
        "bed `{bed}`: {} hosts up in {:.1} s",
        hosts.len(),
        began.elapsed().as_secs_f32()
    ));
    list()
}

fn prepare(force: bool) -> Result<(), SiteError> {
    machine::prepare()?;
    let began = Instant::now();
    let name = if force { image::rebuild()? } else { image::ensure()? };
    if began.elapsed().as_secs() > 2 {
        say(&format!("{name} was built in {} s", began.elapsed().as_secs()));
    }
    Ok(())
}

fn list() -> Result<(), SiteError> {
    for site in Site::all()? {
        let gateway = site.network.subnet.address(GATEWAY);
        say(&format!("{}  {}  {}", site.id(), site.network.subnet, site.story()));
        say(&format!("  {gateway:<13} {:<16} this machine", "server"));
        for (host, number) in site.hosts() {
            let power = match site.power(&host)? {
                Power::On => "on",
                Power::Frozen => "frozen",
                Power::Off => "off",
                Power::Absent => "not booted yet",
            };
            let address = site.network.subnet.address(number);
            say(&format!("  {address:<13} {host:<16} {power}"));
        }
    }
    Ok(())
}

/// With the terminal, if there is one.
fn exec(site: &Site, host: &str, command: &[String]) -> Result<ExitCode, SiteError> {
    let entering = site.entering(host, None)?;
    let shell = [String::from("bash")];
    let command = if command.is_empty() { &shell } else { command };
    let status = Command::new(&entering[0]).args(&entering[1..]).args(command).status();
    let code = status.ok().and_then(|status| status.code()).unwrap_or(125);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(125)))
}

#[expect(clippy::print_stdout, reason = "this is a program")]
fn say(line: &str) {
    println!("{line}");
}
