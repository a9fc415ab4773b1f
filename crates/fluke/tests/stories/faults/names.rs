//! One name, one agent: namesakes, copies, and agents that come back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_bed::{Link, ServerOptions};
use fluke_model::event::EventKind;

use super::processes::{Agent, Fleet, figure, quiet};

fn count(fleet: &Fleet, kind: EventKind) -> usize {
    fleet.server.events(None).iter().filter(|event| event.kind == kind).count()
}

/// Who has the name, by the folder that its host is.
fn holder(fleet: &Fleet) -> String {
    fleet.known("web-1").map(|known| known.agent.labels.to_string()).unwrap_or_default()
}

fn settled(fleet: &Fleet, agent: &mut Agent) {
    fleet.commit(&["page"], "1");
    agent.should_have(&["page"], "1");
    fleet.settles("web-1");
}

#[test]
fn a_copy_of_a_host_is_refused_while_the_first_one_speaks_and_nothing_runs_twice() {
    let fleet = Fleet::start(quiet());
    let mut first = fleet.joined("web-1");
    settled(&fleet, &mut first);
    let mut copy = fleet.namesake("web-1", "copy");
    copy.copy(&first);
    copy.start();
    let refused = || copy.log().contains("looks like a copy");
    fleet.until("the copy is refused", refused);
    let refusals = || count(&fleet, EventKind::AgentRefused);
    fleet.until("again, when it comes again", || refusals() >= 2);
    assert_eq!(count(&fleet, EventKind::AgentDisconnected), 0, "nobody took over from anybody");
    assert_eq!(holder(&fleet), "folder=web-1");
    first.remove(&["page"]);
    let body = r#"{"scope":"all","by":"a story"}"#;
    assert_eq!(fleet.server.post("/api/v1/reconcile", body).expect("answered").0, 202);
    fleet.until("the first one does its work", || first.has("page"));
    assert!(!copy.has("page"), "the copy is told nothing");
    fleet.ends_well(&mut first);

    first.stop();
    fleet.until("the copy has the name", || holder(&fleet) == "folder=copy");
    copy.should_have(&["page"], "1");
    fleet.until("it is put right as well", || copy.has("page"));
    fleet.settles("web-1");
    assert_eq!(copy.begun(), 1);
}

#[test]
fn of_two_hosts_with_one_name_the_newer_is_told_nothing() {
    let fleet = Fleet::start(quiet());
    let mut first = fleet.joined("web-1");
    let mut second = fleet.namesake("web-1", "second");
    second.start();
    let refused = || second.log().contains("another agent is connected as `web-1`");
    fleet.until("the second is refused", refused);
    settled(&fleet, &mut first);
    assert!(!second.has("page"));
    assert_eq!(count(&fleet, EventKind::AgentDisconnected), 0);
    fleet.ends_well(&mut first);
}

/// A link whose agent the server knows.
fn linked(fleet: &Fleet) -> (Arc<Link>, Agent) {
    let link = Arc::new(Link::new(fleet.address, fleet.server.grpc()).expect("a link"));
    let mut agent = fleet.agent_via("web-1", link.address());
    agent.start();
    fleet.until("it has joined", || fleet.is_connected("web-1"));
    settled(fleet, &mut agent);
    (link, agent)
}

#[test]
fn an_agent_takes_over_from_the_connection_that_it_lost_at_once() {
    let fleet = Fleet::start(quiet());
    let (link, mut agent) = linked(&fleet);
    let lost = Instant::now();
    link.half_open();
    fleet.until("it is back", || count(&fleet, EventKind::AgentConnected) == 2);
    figure(format_args!("back after {:?}, heartbeats are 2 s", lost.elapsed()));
    let why = fleet.server.events(None);
    let why = why.iter().find(|event| event.kind == EventKind::AgentDisconnected);
    let why = why.and_then(|event| event.output.clone()).unwrap_or_default();
    assert!(why.contains("replaced"), "{why}");
    fleet.ends_well(&mut agent);
}

#[test]
fn an_agent_that_restarts_behind_a_dead_connection_is_back_within_three_heartbeats() {
    // So long that it has to come twice: it does not wait that long for an answer.
    let heartbeat = Duration::from_secs(5);
    let fleet = Fleet::start(ServerOptions { heartbeat: Some("5s".into()), ..quiet() });
    let (link, mut agent) = linked(&fleet);
    // As in a power cut: the server hears of nothing.
    agent.freeze();
    link.half_open();
    let lost = Instant::now();
    agent.kill();
    agent.start();
    fleet.until("it is back", || count(&fleet, EventKind::AgentConnected) == 2);
    let took = lost.elapsed();
    figure(format_args!("back after {took:?}, heartbeats are {heartbeat:?}"));
    let events = fleet.server.events(None);
    let ended = events.iter().find(|event| event.kind == EventKind::AgentDisconnected);
    let why = ended.and_then(|event| event.output.clone()).unwrap_or_default();
    assert!(why.contains("replaced"), "before three heartbeats were missed: {why}");
    assert_eq!(count(&fleet, EventKind::AgentRefused), 0, "it is no stranger");
    fleet.ends_well(&mut agent);
}
