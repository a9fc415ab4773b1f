//! Connections that are slow, narrow, torn, silent, forgotten or damaged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_bed::{Link, ServerOptions, Tls};
use fluke_model::event::EventKind;

use super::processes::{Agent, Fleet, figure, quiet};

struct Story {
    fleet: Fleet,
    link: Arc<Link>,
    agent: Agent,
}

impl Story {
    fn begin() -> Self {
        let fleet = Fleet::start(ServerOptions { tls: Tls::Own, ..quiet() });
        let link = Arc::new(Link::new(fleet.address, fleet.server.grpc()).expect("a link"));
        let mut agent = fleet.agent_via("web-1", link.address());
        agent.start();
        fleet.commit(&["page"], "1");
        fleet.settles("web-1");
        Self { fleet, link, agent }
    }

    fn sessions(&self) -> usize {
        let events = self.fleet.server.events(Some("web-1"));
        events.iter().filter(|event| event.kind == EventKind::AgentConnected).count()
    }

    /// The first session ends, and another one begins.
    fn comes_back(&self) {
        let began = Instant::now();
        self.fleet.until("there is a new session", || self.sessions() >= 2);
        figure(format_args!("a new session after {:?}, heartbeats are 2 s", began.elapsed()));
    }

    /// A new version gets through, and all ends well.
    fn ends_well(mut self) {
        self.fleet.commit(&["page"], "2");
        self.agent.should_have(&["page"], "2");
        self.fleet.ends_well(&mut self.agent);
        assert_eq!(self.agent.begun(), 2, "each version once");
    }

    /// The same, with so many sessions and none after them.
    fn ends_well_after(self, sessions: usize) {
        assert_eq!(self.sessions(), sessions, "one session at a time, and no endless takeover");
        self.ends_well();
    }
}

#[test]
fn a_slow_link() {
    let story = Story::begin();
    story.link.delay(Duration::from_millis(200));
    story.ends_well_after(1);
}

#[test]
fn a_narrow_link() {
    let story = Story::begin();
    story.link.limit(4096);
    story.ends_well_after(1);
}

#[test]
fn a_link_that_tears() {
    let story = Story::begin();
    story.link.drop_connections();
    story.comes_back();
    story.ends_well_after(2);
}

#[test]
fn a_link_that_is_silent_for_longer_than_three_heartbeats() {
    let story = Story::begin();
    story.link.blackhole();
    let fleet = &story.fleet;
    fleet.until("the server misses it", || !fleet.is_connected("web-1"));
    fleet.until("the agent misses the server", || {
        story.agent.log().contains("the server said nothing")
    });
    story.link.heal();
    story.comes_back();
    story.ends_well();
}

#[test]
fn a_link_that_forgets_its_connections_as_a_nat_does() {
    let story = Story::begin();
    story.link.forget();
    story.comes_back();
    story.ends_well_after(2);
}

#[test]
fn a_link_that_is_gone_for_the_agent_and_not_for_the_server() {
    let story = Story::begin();
    story.link.half_open();
    story.comes_back();
    story.ends_well_after(2);
}

#[test]
fn a_link_that_damages_what_it_passes_on() {
    let story = Story::begin();
    story.link.corrupt();
    story.comes_back();
    story.ends_well();
}
