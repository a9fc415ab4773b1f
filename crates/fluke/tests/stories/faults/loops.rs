//! Kills at moments that no story can hold: many, at random, from a seed that is printed.

use std::time::{Duration, Instant};

use fluke_bed::ServerOptions;
use fluke_bed::criterion;
use fluke_model::event::EventKind;
use fluke_model::verdict::Outcome;

use super::processes::{Fleet, figure, quiet};

/// How often an agent is killed.
const AGENT_KILLS: usize = 200;
/// How often a server is killed; agents come back more slowly each time.
const SERVER_KILLS: usize = 5;
/// Set to the seed that a failed story printed, to have its moments again.
const SEED: &str = "FLUKE_SEED";

/// Moments, drawn from a seed.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let seed = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
        figure(format_args!("{SEED}={seed}"));
        Self(seed)
    }

    /// Anything from nothing to `most`.
    fn before(&mut self, most: Duration) -> Duration {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        most.mul_f64((self.0 >> 40) as f64 / (1u64 << 24) as f64)
    }
}

#[test]
fn an_agent_that_is_killed_two_hundred_times_around_an_apply_ends_as_git_says() {
    let mut moments = Moments::new();
    let fleet = Fleet::start(quiet());
    let mut agent = fleet.agent("web-1");
    let began = Instant::now();
    agent.start();
    fleet.commit(&["page"], "first");
    fleet.settles("web-1");
    // A whole cycle from the start of the agent.
    let whole = began.elapsed().clamp(Duration::from_millis(50), Duration::from_millis(250));
    agent.kill();
    for round in 0..AGENT_KILLS {
        // A version a round: what was interrupted again and again would be left alone for longer.
        if round % 2 == 0 {
            fleet.commit(&["page"], &round.to_string());
        }
        agent.start();
        match round % 2 {
            // Aimed at the apply, from its first word to the report of its end.
            0 => {
                let begun = agent.begun();
                fleet.until("an apply begins", || agent.begun() > begun);
                std::thread::sleep(moments.before(whole / 4));
            }
            _ => std::thread::sleep(moments.before(whole)),
        }
        agent.kill();
        let evidence = criterion::Evidence { state: agent.state(), ..Default::default() };
        assert_eq!(criterion::broken(&evidence), Vec::<String>::new(), "round {round}");
    }
    fleet.commit(&["page"], "last");
    agent.should_have(&["page"], "last");
    agent.start();
    fleet.ends_well(&mut agent);
    figure(format_args!("{} applies began in {AGENT_KILLS} rounds", agent.begun()));
    let interrupted = agent.chronicle.events().filter(|event| {
        event.kind == EventKind::ApplyFinished && event.outcome == Some(Outcome::Interrupted)
    });
    assert!(interrupted.count() > 0, "the moments missed every apply");
}

#[test]
fn a_server_that_is_killed_at_any_moment_of_a_cycle_ends_as_git_says() {
    let mut moments = Moments::new();
    let fleet = Fleet::start(quiet());
    let mut agent = fleet.joined("web-1");
    fleet.commit(&["page"], "1");
    agent.should_have(&["page"], "1");
    fleet.settles("web-1");
    for _ in 0..SERVER_KILLS {
        fleet.kill_server(&mut [&mut agent]);
        agent.remove(&["page"]);
        fleet.server.start();
        fleet.until("the agent is back", || fleet.is_connected("web-1"));
        std::thread::sleep(moments.before(Duration::from_millis(200)));
        agent.chronicle.read(&fleet.server, &agent.name);
        agent.chronicle.unread();
        fleet.server.kill();
        fleet.server.start();
        fleet.settles("web-1");
    }
    fleet.ends_well(&mut agent);
    let (begun, most) = (agent.begun(), 1 + SERVER_KILLS);
    assert!(begun <= most, "{begun} applies of {most} drifts");
}

/// What happened without a server is handed over to the next one, whoever dies of it.
#[test]
fn whoever_is_killed_while_the_record_is_handed_over_it_is_handed_over_once() {
    let mut moments = Moments::new();
    let tasks: Vec<String> = (0..12).map(|n| format!("page-{n}")).collect();
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let fleet = Fleet::start(ServerOptions { poll_interval: "1s".into(), ..quiet() });
    let mut agent = fleet.joined("web-1");
    fleet.commit(&tasks, "1");
    agent.should_have(&tasks, "1");
    fleet.settles("web-1");
    for victim in ["the agent", "the server"] {
        let before = agent.begun();
        fleet.kill_server(&mut [&mut agent]);
        agent.remove(&tasks);
        fleet.until("all is repaired without a server", || agent.begun() == before + tasks.len());
        fleet.until("the last one, too", || tasks.iter().all(|task| agent.has(task)));
        fleet.server.start();
        fleet.until("the agent is back", || fleet.is_connected("web-1"));
        std::thread::sleep(moments.before(Duration::from_millis(30)));
        match victim {
            "the agent" => {
                agent.kill();
                agent.start();
            }
            _ => {
                agent.chronicle.read(&fleet.server, &agent.name);
                agent.chronicle.unread();
                fleet.server.kill();
                fleet.server.start();
            }
        }
        fleet.ends_well(&mut agent);
        assert_eq!(agent.begun(), before + tasks.len(), "{victim}: nothing is applied twice");
    }
}
