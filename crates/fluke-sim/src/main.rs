//! Plays nights: many of them, or one in detail.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use fluke_sim::schedule::Schedule;
use fluke_sim::{Night, shrink, spend};

/// One server, many agents, thousands of bad nights.
#[derive(Parser)]
struct Arguments {
    /// How many nights to play.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Plays only this night.
    #[arg(long)]
    seed: Option<u64>,
    /// Tells all that happened.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Leaves out of a night what is not needed to break its law.
    #[arg(long)]
    shrink: bool,
    /// How many are played at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let failed = match arguments.seed {
        Some(seed) => one(seed, &arguments),
        None => many(&arguments),
    };
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn say(text: &str) {
    // Nobody listening is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn one(seed: u64, arguments: &Arguments) -> bool {
    let mut night = spend(Schedule::of(seed));
    if arguments.shrink {
        night = shrink(night);
    }
    if arguments.trace || !night.breaches.is_empty() {
        say(&night.tell(arguments.trace));
    }
    say(&format!("seed {seed}: {} laws broken\n", night.breaches.len()));
    !night.breaches.is_empty()
}

fn many(arguments: &Arguments) -> bool {
    let began = Instant::now();
    let next = AtomicU64::new(arguments.from);
    let end = arguments.from + arguments.seeds;
    let bad: Mutex<Vec<Night>> = Mutex::default();
    let counts: Mutex<BTreeMap<String, u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let night = spend(Schedule::of(seed));
                    night.count(&mut counts.lock().expect("no panic"));
                    if let Some(breach) = night.breaches.first() {
                        say(&format!("seed {seed}: {breach}\n"));
                        bad.lock().expect("no panic").push(night);
                    }
                }
            });
        }
    });
    for (name, count) in counts.into_inner().expect("no panic") {
        say(&format!("{count:>10}  {name}\n"));
    }
    let mut bad = bad.into_inner().expect("no panic");
    let took = began.elapsed().as_secs_f64();
    let rate = arguments.seeds as f64 / took;
    let count = bad.len();
    say(&format!("{} nights in {took:.1} s ({rate:.0}/s), {count} bad\n", arguments.seeds));
    bad.sort_by_key(|night| night.schedule.actions.len());
    if let Some(night) = bad.into_iter().next() {
        let night = if arguments.shrink { shrink(night) } else { night };
        say(&night.tell(false));
        return true;
    }
    false
}
