//! `cargo bed swarm`: how a server bears a fleet that is not there yet.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use fluke_bed::swarm::{Shares, Statistics, Swarm, SwarmOptions, Timing, Timings, Weather};
use fluke_model::id::Hash256;
use fluke_model::secret::Secret;
use fluke_wire::client::{ClientTls, ServerUrl, Target};
use tokio::time::{Instant, interval, sleep_until};

use super::say;

/// How often it says how it fares.
const ROUND: Duration = Duration::from_secs(1);

const ABOUT: &str = "\
Agents are real as far as the server can tell: each has its own connection, its own TLS session, \
its own heartbeats, and speaks the protocol of this version. Their hosts are made up: a check \
finds what the options below say, and an apply puts it right. Nothing is run, so that one machine \
can be ten thousand hosts; it needs some 70 KiB of memory and one file descriptor for each.

Every agent has the labels role (web, db, cache, queue, edge), region (eu, us, ap), env \
(production, one in ten staging) and rack (r00 to r99, 40 hosts each): write selectors by them.

To size a server, give it the tasks that it will have, let as many agents join as it will have, \
and look at the summary here and at the server's memory and processor time. Run the swarm on \
another machine, or give both their own cores: it needs about as much of a processor as the \
server does.";

const EXAMPLES: &str = "\
Examples:
  # As many as there will be, over TLS, until Ctrl-C:
  cargo bed swarm 5000 --url grpcs://fluke.example.net --token \"$TOKEN\" --ca-file ca.crt

  # A bad day, for five minutes: twenty steps drift and five connections break every second,
  # one agent in twenty takes ten seconds for every check:
  cargo bed swarm 5000 --url grpcs://… --ca-fingerprint 3f2c… --for 5m \\
      --drifts 20 --drops 5 --slow 50 --slow-takes 10s

  # With services: every host runs what the repository gives it, ten in a thousand are proxies, and
  # two containers die every second:
  cargo bed swarm 5000 --url grpcs://… --ca-fingerprint 3f2c… --services --proxies 10 --deaths 2";

/// Lets them join, keeps them there, and sums up at the end.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// How many agents.
    #[arg(default_value_t = 1000)]
    count: u32,
    /// The server: `grpcs://host:port`, or `grpc://host:port` without TLS.
    #[arg(long, default_value = "grpc://127.0.0.1:7070")]
    url: ServerUrl,
    /// What lets agents in.
    #[arg(long, env = "FLUKE_TOKEN", hide_env_values = true)]
    token: String,
    /// The certificate of the server's CA, where it is not a public one.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The fingerprint of the server's own CA, as the server prints it when it starts.
    #[arg(long, value_parser = fingerprint, value_name = "SHA256")]
    ca_fingerprint: Option<Hash256>,
    /// Trusts whoever answers.
    #[arg(long)]
    insecure_skip_verify: bool,
    /// How many may be on their way in at the same time; more is a harder storm.
    #[arg(long, default_value_t = 64, value_name = "N")]
    at_once: usize,
    /// Ends by itself after this long, like `90s` or `5m`; else with Ctrl-C.
    #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME")]
    lasts: Option<Duration>,
    /// Steps that drift a second, over all hosts; the server has them put right.
    #[arg(long, default_value_t = 0.0, value_name = "RATE")]
    drifts: f64,
    /// Connections that break a second; their agents come back within a second.
    #[arg(long, default_value_t = 0.0, value_name = "RATE")]
    drops: f64,
    /// Hosts keep services: each runs the containers that it should, is in the mesh, and holds the
    /// tables of names, peers and, with a proxy, routes.
    #[arg(long)]
    services: bool,
    /// How many of a thousand hosts run a proxy.
    #[arg(long, default_value_t = 0, value_name = "PER MILLE")]
    proxies: u32,
    /// How long a container takes to start.
    #[arg(long, default_value = "300ms", value_parser = humantime::parse_duration, value_name = "TIME")]
    start_takes: Duration,
    /// Containers that end a second, over all hosts; their agents start them again.
    #[arg(long, default_value_t = 0.0, value_name = "RATE", requires = "services")]
    deaths: f64,
    /// Containers that are not well for a moment, a second; only those with a health check.
    #[arg(long, default_value_t = 0.0, value_name = "RATE", requires = "services")]
    flaps: f64,
    /// How long a round of checks takes on a host.
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration, value_name = "TIME")]
    check_takes: Duration,
    /// How long the apply of one step takes.
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration, value_name = "TIME")]
    apply_takes: Duration,
    /// How many of a thousand agents are slow with every check.
    #[arg(long, default_value_t = 0, value_name = "PER MILLE")]
    slow: u32,
    /// How long a round of checks takes on those.
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration, value_name = "TIME")]
    slow_takes: Duration,
    /// How many of a thousand hosts have a step that is drifted from the start.
    #[arg(long, default_value_t = Shares::default().drifted, value_name = "PER MILLE")]
    drifted: u32,
    /// How many of a thousand hosts have a step whose check cannot tell.
    #[arg(long, default_value_t = Shares::default().failed, value_name = "PER MILLE")]
    failed: u32,
}

/// With or without the colons that some tools print.
fn fingerprint(text: &str) -> Result<Hash256, &'static str> {
    Hash256::try_from(text.replace(':', "").to_lowercase())
        .map_err(|_| "a fingerprint has 64 hexadecimal digits")
}

/// Runs until it is over or interrupted.
pub fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let ca_pem = args.ca_file.as_ref().map(std::fs::read).transpose()?;
    let tls = ClientTls {
        ca_pem,
        ca_fingerprint: args.ca_fingerprint,
        insecure_skip_verify: args.insecure_skip_verify,
    };
    let target = Target { url: args.url.clone(), token: Secret::new(&args.token), tls };
    let options = SwarmOptions {
        at_once: args.at_once,
        shares: Shares {
            drifted: args.drifted,
            failed: args.failed,
            slow: args.slow,
            proxies: args.proxies,
        },
        services: args.services,
        start_takes: args.start_takes,
        check_takes: args.check_takes,
        apply_takes: args.apply_takes,
        slow_takes: args.slow_takes,
        ..SwarmOptions::to(target)
    };
    tokio::runtime::Runtime::new()?.block_on(swarm(args, options))
}

async fn swarm(args: &Args, options: SwarmOptions) -> Result<(), Box<dyn Error>> {
    let mut swarm = Swarm::new(options)?;
    // Joining has no end of its own: a person may lose patience.
    let took = tokio::select! {
        took = swarm.join(args.count) => took?,
        _ = tokio::signal::ctrl_c() => return Ok(()),
    };
    say(&format!("{} agents joined in {:.1} s", args.count, took.as_secs_f32()));
    let ends = args.lasts.map(|lasts| Instant::now() + lasts);
    let Args { drops, drifts, deaths, flaps, .. } = *args;
    let weather = swarm.weather(Weather { drops, drifts, deaths, flaps });
    tokio::select! {
        () = weather => {}
        () = tells(&swarm) => {}
        () = at(ends) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    say(&summary(&swarm.timings()));
    Ok(())
}

/// Says how it fares whenever that has changed.
async fn tells(swarm: &Swarm) {
    let mut said = None;
    let mut rounds = interval(ROUND);
    loop {
        rounds.tick().await;
        let now = swarm.statistics();
        if said != Some(now) {
            let Statistics { connected, sessions, refused, checks, applies, edits, resends } = now;
            let tables = match edits {
                0 => String::new(),
                _ => format!("  {edits} edits  {resends} sent again"),
            };
            say(&format!(
                "{connected} connected  {sessions} sessions  {refused} refused  \
                 {checks} checks  {applies} applies{tables}"
            ));
            said = Some(now);
        }
    }
}

fn summary(timings: &Timings) -> String {
    let Timings { join, notice, record, repair, commit, answer, names: _ } = timings;
    let heading =
        format!("{:36} {:>9} {:>10} {:>10} {:>10} {:>10}", "", "times", "p50", "p90", "p99", "max");
    let line = |what: &str, timing: &Timing| format!("\n{what:36} {timing}");
    [
        heading,
        line("joining, to the welcome", join),
        line("drift noticed, to the check of it", notice),
        line("record, to its acknowledgement", record),
        line("drift, to the record of its repair", repair),
        line("newest commit, to the answer", commit),
        line("check, to its answer (the swarm's own)", answer),
    ]
    .concat()
}

/// Sleeps until `instant`; for ever if there is none.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
