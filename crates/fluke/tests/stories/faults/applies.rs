//! Applies that turn against the agent, leave something behind, or meet a new commit.

use fluke_model::event::EventKind;
use fluke_model::verdict::Outcome;

use std::net::TcpListener;

use fluke_bed::ServerOptions;
use fluke_bed::criterion::Step;
use fluke_model::status::StepStatus;

use super::processes::{Agent, Fleet, ROOT, quiet};

fn outcomes(agent: &Agent) -> Vec<Option<Outcome>> {
    let events = agent.chronicle.events();
    let ends = events.filter(|event| event.kind == EventKind::ApplyFinished);
    ends.map(|event| event.outcome).collect()
}

#[test]
fn an_apply_that_kills_the_agent_is_interrupted_and_the_next_check_decides() {
    let fleet = Fleet::start(quiet());
    let mut agent = fleet.joined("web-1");
    agent.write("then", "rm -f then; kill -9 \"$(cat agent.pid)\"; sleep 600");
    fleet.commit(&["page"], "1");
    agent.should_have(&["page"], "1");
    agent.ends();
    agent.start();
    fleet.ends_well(&mut agent);
    assert_eq!(outcomes(&agent), [Some(Outcome::Interrupted), Some(Outcome::Success)]);
}

#[test]
fn an_apply_that_leaves_a_daemon_with_its_output_open_returns() {
    let fleet = Fleet::start(quiet());
    let mut agent = fleet.joined("web-1");
    agent.write("then", "rm -f then; setsid sleep 600 9>&- & echo $! > daemon");
    fleet.commit(&["page"], "1");
    agent.should_have(&["page"], "1");
    fleet.settles("web-1");
    assert_eq!(fleet.running("sleep 600"), 1, "what is meant to stay, stays");
    let daemon = agent.read("daemon");
    let killed = std::process::Command::new("kill").arg(daemon.trim()).status();
    assert!(killed.expect("kill runs").success());
    fleet.ends_well(&mut agent);
    assert_eq!(outcomes(&agent), [Some(Outcome::Success)]);
}

#[test]
fn a_commit_that_comes_during_an_apply_waits_and_commits_are_never_mixed() {
    let tasks = ["a", "b", "c"];
    let fleet = Fleet::start(quiet());
    let mut agent = fleet.joined("web-1");
    agent.write("hold.apply", "");
    let first = fleet.commit(&tasks, "1");
    fleet.until("the first apply is held", || agent.has("at.apply"));
    for version in ["2", "3"] {
        fleet.commit(&tasks, version);
        let newest = Some(fleet.repository.head());
        fleet.until("the commit is in force", || fleet.source().commit == newest);
    }
    let third = fleet.repository.head();
    agent.should_have(&tasks, "3");
    agent.let_go();
    fleet.ends_well(&mut agent);

    let account = agent.read("account");
    let begun = account.lines().filter_map(|line| line.strip_prefix("begin "));
    let begun: Vec<_> = begun.filter_map(|line| line.rsplit_once(' ')).map(|(it, _)| it).collect();
    assert_eq!(begun, ["a 1", "b 1", "c 1", "a 3", "b 3", "c 3"], "the newest wins, and only it");
    let started = agent.chronicle.events().filter(|event| event.kind == EventKind::ApplyStarted);
    let commits: Vec<_> = started.filter_map(|event| event.commit.clone()).collect();
    let expected = [first, third].map(|commit| vec![commit; 3]).concat();
    assert_eq!(commits, expected);
}

#[test]
fn an_apply_that_does_not_help_is_said_so_and_not_tried_with_every_poll() {
    let options = ServerOptions { poll_interval: "1s".into(), ..quiet() };
    let fleet = Fleet::start(options);
    let agent = fleet.joined("web-1");
    agent.write("then", "exit 0");
    fleet.commit(&["page"], "1");
    let step = || {
        let known = fleet.known("web-1")?;
        known.task_details.first()?.steps.first().cloned()
    };
    let is_said = || step().is_some_and(|step| step.status == StepStatus::AppliedButDrifted);
    fleet.until("it is said", is_said);
    for _ in 0..3 {
        let before = step().and_then(|step| step.last_checked);
        fleet.until("it was checked again", || step().and_then(|step| step.last_checked) > before);
    }
    assert_eq!(agent.begun(), 1, "it is left alone for a while");
    assert!(is_said());
}

#[test]
fn a_receiver_of_alerts_that_hangs_holds_up_no_repair() {
    let hangs = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/alerts", hangs.local_addr().expect("an address"));
    let more = format!("drift {{\n    alert_webhook = \"{url}\"\n  }}");
    let fleet = Fleet::start(ServerOptions { more, ..quiet() });
    let mut agent = fleet.joined("web-1");
    for version in ["1", "2", "3"] {
        let step = Step { root: ROOT, task: "page", version, policy: "remediate_and_alert" };
        fleet.commit_text(&step.manifest());
        agent.should_have(&["page"], version);
        fleet.settles("web-1");
    }
    fleet.ends_well(&mut agent);
    assert_eq!(outcomes(&agent), [Some(Outcome::Success); 3]);
}
