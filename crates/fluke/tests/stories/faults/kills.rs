//! `kill -9` of the server and of the agent, at every phase of a cycle.

use super::processes::{Agent, Fleet, Hang, quiet};

use fluke_bed::ServerOptions;

/// The one that is killed.
#[derive(Clone, Copy, PartialEq)]
enum Victim {
    Server,
    Agent,
}

struct Story {
    fleet: Fleet,
    agent: Agent,
    hang: Option<Hang>,
}

impl Story {
    fn begin(options: ServerOptions) -> Self {
        let fleet = Fleet::start(options);
        let agent = fleet.joined("web-1");
        Self { fleet, agent, hang: None }
    }

    /// Commits the page in this version.
    fn commit(&mut self, version: &str) {
        self.fleet.commit(&["page"], version);
        self.agent.should_have(&["page"], version);
    }

    /// Commits it, and comes to where something is held.
    fn held(&mut self, at: &str, hold: &str) {
        self.agent.write(hold, "");
        self.commit("1");
        self.waits(at);
    }

    fn waits(&self, at: &str) {
        self.fleet.until("a step is held", || self.agent.has(at));
    }

    /// Kills, lets everything go on, and ends well.
    fn kill(mut self, victim: Victim) {
        match victim {
            Victim::Server => {
                self.fleet.kill_server(&mut [&mut self.agent]);
                self.let_go();
                self.fleet.server.start();
            }
            Victim::Agent => {
                self.agent.kill();
                let left = self.fleet.strays();
                self.agent.start();
                self.fleet.until("what the agent left under way is ended", || {
                    let strays = self.fleet.strays();
                    left.iter().all(|stray| !strays.contains(stray))
                });
                self.let_go();
            }
        }
        self.fleet.ends_well(&mut self.agent);
    }

    fn let_go(&mut self) {
        self.agent.let_go();
        self.hang.take().into_iter().for_each(Hang::end);
    }
}

/// One phase a line, each with both victims.
macro_rules! killed {
    ($($phase:ident),* $(,)?) => {
        $(mod $phase {
            use super::{Victim, phases};

            #[test]
            fn the_server_is_killed() {
                phases::$phase().kill(Victim::Server);
            }

            #[test]
            fn the_agent_is_killed() {
                phases::$phase().kill(Victim::Agent);
            }
        })*
    };
}

killed! {
    during_the_check,
    during_the_check_before_an_apply,
    during_an_apply,
    during_the_check_after_an_apply,
    during_an_apply_that_a_new_commit_waits_for,
    during_a_manual_reconcile,
    during_a_fetch_that_hangs,
}

mod phases {
    use super::*;

    pub(super) fn during_the_check() -> Story {
        let mut story = Story::begin(quiet());
        story.held("at.check", "hold.check");
        story
    }

    pub(super) fn during_the_check_before_an_apply() -> Story {
        let mut story = Story::begin(quiet());
        story.held("at.check", "hold.second");
        story
    }

    pub(super) fn during_an_apply() -> Story {
        let mut story = Story::begin(quiet());
        story.held("at.apply", "hold.apply");
        story
    }

    pub(super) fn during_the_check_after_an_apply() -> Story {
        let mut story = Story::begin(quiet());
        story.held("at.check", "hold.verify");
        story
    }

    pub(super) fn during_an_apply_that_a_new_commit_waits_for() -> Story {
        let mut story = Story::begin(quiet());
        story.held("at.apply", "hold.apply");
        story.commit("2");
        let newest = Some(story.fleet.repository.head());
        story.fleet.until("the commit is in force", || story.fleet.source().commit == newest);
        story
    }

    pub(super) fn during_a_manual_reconcile() -> Story {
        let mut story = Story::begin(quiet());
        story.commit("1");
        story.fleet.settles("web-1");
        story.agent.remove(&["page"]);
        story.agent.write("hold.apply", "");
        let body = r#"{"scope":"agent","name":"web-1","by":"a story"}"#;
        let (status, said) = story.fleet.server.post("/api/v1/reconcile", body).expect("answered");
        assert_eq!(status, 202, "{said}");
        story.waits("at.apply");
        story
    }

    pub(super) fn during_a_fetch_that_hangs() -> Story {
        let mut story = Story::begin(ServerOptions { poll_interval: "1s".into(), ..quiet() });
        story.commit("1");
        story.fleet.settles("web-1");
        story.agent.remove(&["page"]);
        story.hang = Some(Hang::new(&story.fleet));
        story.fleet.until("a fetch hangs", || story.fleet.running("upload-pack") > 0);
        story
    }
}
