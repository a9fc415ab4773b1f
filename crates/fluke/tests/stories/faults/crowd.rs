//! Many agents at once: a server that restarts under load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fluke_bed::criterion::Step;
use fluke_bed::{ServerOptions, Tls};
use fluke_model::api;
use fluke_model::event::EventKind;

use super::processes::{Agent, Fleet, ROOT, figure, is_at, quiet};

const AGENTS: usize = 50;
/// The one that gets a new version with every commit.
const NEWS: &str = "host-1";

/// One agent gets a new version with every commit; the others are not concerned.
fn manifest(version: usize) -> String {
    let all = Step { root: ROOT, task: "page", version: "1", policy: "remediate" }.manifest();
    let version = version.to_string();
    let few = Step { root: ROOT, task: "news", version: &version, policy: "remediate" }.manifest();
    let its_own = format!("match_labels = {{ folder = \"{NEWS}\" }}");
    all + &few.replace("match_labels = {}", &its_own)
}

/// How many agents are back: connected, and all known of them.
fn back(fleet: &Fleet) -> usize {
    let Ok(known) = fleet.server.get::<api::Agents>("/api/v1/agents") else { return 0 };
    let is_known = |agent: &&api::Agent| {
        // What is new on the one that gets the news may be drifted at any moment.
        let may_drift = u32::from(agent.name.as_str() == NEWS);
        let tasks = &agent.tasks;
        agent.connected && tasks.total > 0 && tasks.in_sync + may_drift >= tasks.total
    };
    known.agents.iter().filter(is_known).count()
}

fn all_at_head(fleet: &Fleet) -> bool {
    let head = fleet.repository.head();
    let known = fleet.server.get::<api::Agents>("/api/v1/agents");
    let known = known.map_or(Vec::new(), |known| known.agents);
    known.len() == AGENTS && known.iter().all(|agent| is_at(agent, &head))
}

#[test]
fn fifty_agents_are_back_after_a_kill_of_the_server_under_load_and_nothing_is_applied_that_was_not_due()
 {
    let options = ServerOptions { heartbeat: Some("5s".into()), tls: Tls::Own, ..quiet() };
    let fleet = Fleet::start(options);
    fleet.commit_text(&manifest(0));
    let mut agents: Vec<Agent> = (1..=AGENTS).map(|n| fleet.agent(&format!("host-{n}"))).collect();
    let began = Instant::now();
    agents.iter_mut().for_each(Agent::start);
    fleet.until("all are there", || all_at_head(&fleet));
    figure(format_args!("{AGENTS} agents started, joined and applied in {:?}", began.elapsed()));

    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1.. {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let text = manifest(version);
                let commit = fleet.repository.commit("news", &[("tasks.fluke.hcl", &text)]);
                let _ = fleet.server.pushed(commit.as_str());
                let body = format!(r#"{{"scope":"agent","name":"host-{}"}}"#, version % AGENTS + 1);
                let _ = fleet.server.post("/api/v1/reconcile", &body);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let head = fleet.repository.head();
        fleet.until("it is under load", || fleet.source().commit.is_some_and(|it| it != head));
        fleet.server.kill();
        fleet.server.start();
        let listening = Instant::now();
        fleet.until("all are back and known", || back(&fleet) == AGENTS);
        figure(format_args!(
            "{AGENTS} agents back and known {:?} after the server",
            listening.elapsed()
        ));
        over.store(true, Ordering::SeqCst);
    });
    let head = fleet.repository.head();
    fleet.server.pushed(head.as_str()).expect("the push is taken");
    fleet.until("all are at the last commit", || all_at_head(&fleet));
    for agent in &mut agents[1..] {
        agent.should_have(&["page"], "1");
        assert_eq!(agent.begun(), 1, "{}: nothing was due", agent.name);
    }
    let refused = fleet.server.events(None);
    let refused = refused.iter().filter(|event| event.kind == EventKind::AgentRefused).count();
    assert_eq!(refused, 0, "nobody was turned away");
    for agent in &mut agents {
        // The server was killed while it was told of what it did not survive.
        agent.chronicle.unread();
        fleet.ends_well(agent);
    }
}
