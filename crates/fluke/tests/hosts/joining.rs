//! Hosts join over TLS and become what a commit says.

use fluke_model::event::EventKind;
use fluke_model::status::Status;

use super::support::{ServerOptions, applied, bed, drifts_and_is_repaired, keeps, quick};

#[test]
fn two_hosts_join_over_tls_and_become_what_a_commit_says() {
    let Some(bed) = bed() else { return };
    let [web, db] = bed.hosts(["web-1", "db-1"]);
    let web = web.joins("role=web");
    let db = db.joins("role=db");
    let manifest = keeps("page", "remediate").replace("{}", "{ role = \"web\" }");
    bed.commit_files(&[
        ("page.fluke.hcl", &manifest),
        ("everywhere.fluke.hcl", &keeps("motd", "remediate")),
    ]);
    bed.settles();
    assert_eq!(web.read("/srv/page"), "page\n");
    assert_eq!(web.read("/srv/motd"), "motd\n");
    assert_eq!(db.read("/srv/motd"), "motd\n");
    assert!(!db.has("/srv/page"), "that task is not for databases");
    assert_eq!(bed.applies("web-1"), 2);
    assert_eq!(bed.applies("db-1"), 1);
    let detail = web.agent().expect("known");
    assert_eq!(detail.agent.labels.to_string(), "role=web");
    assert!(!web.agent_log(50).contains("plaintext"));
}

#[test]
fn a_host_that_is_powered_off_and_on_again_catches_up() {
    let Some(bed) = bed() else { return };
    // Nobody waits for heartbeats to be missed: the story would take half an hour.
    bed.server_with(ServerOptions { heartbeat: Some("10m".into()), ..ServerOptions::default() });
    let [web, db] = bed.hosts(["web-1", "db-1"]);
    let (web, db) = (web.joins(""), db.joins(""));
    bed.commit("a.fluke.hcl", &keeps("first", "remediate"));
    bed.settles();
    web.kill();
    bed.commit("b.fluke.hcl", &keeps("second", "remediate"));
    bed.settles();
    assert_eq!(db.read("/srv/second"), "second\n");
    web.start();
    bed.settles();
    assert_eq!(web.read("/srv/second"), "second\n");
    assert_eq!(applied(&web, "first"), 1, "what was there is not applied again");
}

#[test]
fn a_host_that_was_cut_off_catches_up_when_it_is_reached_again() {
    let Some(bed) = bed() else { return };
    bed.server_with(quick());
    let web = bed.host("web-1").joins("");
    bed.commit("a.fluke.hcl", &keeps("first", "remediate"));
    bed.settles();
    bed.partition(&web);
    bed.until("the server misses it", |bed| bed.agent("web-1").status == Status::Offline);
    bed.commit("b.fluke.hcl", &keeps("second", "remediate"));
    drifts_and_is_repaired(&web, "first", 2);
    assert!(!web.has("/srv/second"), "nobody could tell it");
    bed.heal();
    bed.settles();
    assert_eq!(web.read("/srv/second"), "second\n");
    let finished = bed.events_of("web-1", EventKind::ApplyFinished);
    let told: Vec<_> = finished
        .iter()
        .map(|event| (event.task.as_ref().expect("a task").as_str(), event.trigger.as_deref()))
        .collect();
    let count =
        |task: &str, trigger| told.iter().filter(|it| **it == (task, Some(trigger))).count();
    assert_eq!(count("first", "commit"), 1, "{told:?}");
    assert_eq!(count("first", "offline"), 1, "the record was handed over, once: {told:?}");
    assert_eq!(told.iter().filter(|(task, _)| *task == "second").count(), 1, "{told:?}");
    assert_eq!(applied(&web, "first"), 2);
}
