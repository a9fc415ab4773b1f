//! What goes wrong at night, and how it ends: as Git says.

use std::time::Duration;

use fluke_model::status::Status;

use super::support::{Join, applied, bed, keeps, quick};

#[test]
fn a_server_that_is_killed_comes_back_to_its_agents_and_changes_nothing() {
    let Some(bed) = bed() else { return };
    let [web, db] = bed.hosts(["web-1", "db-1"]);
    let hosts = [web.joins("role=web"), db.joins("role=db")];
    bed.commit("a.fluke.hcl", &keeps("file", "remediate"));
    bed.settles();
    bed.server().kill();
    hosts[1].run("rm /srv/file");
    bed.server().start();
    bed.settles();
    assert_eq!(applied(&hosts[0], "file"), 1, "nothing had drifted there");
    assert_eq!(applied(&hosts[1], "file"), 2, "what had drifted was put right, once");
}

#[test]
fn a_frozen_host_is_missed_after_three_heartbeats_and_back_when_it_thaws() {
    let Some(bed) = bed() else { return };
    bed.server_with(quick());
    let web = bed.host("web-1").joins("");
    bed.commit("a.fluke.hcl", &keeps("first", "remediate"));
    bed.settles();
    web.freeze();
    bed.until("the server misses it", |bed| bed.agent("web-1").status == Status::Offline);
    bed.commit("b.fluke.hcl", &keeps("second", "remediate"));
    web.thaw();
    bed.settles();
    assert_eq!(web.read("/srv/second"), "second\n");
    assert_eq!(applied(&web, "first"), 1);
}

#[test]
fn a_slow_link_that_falls_silent_and_heals_ends_as_git_says() {
    let Some(bed) = bed() else { return };
    bed.server_with(quick());
    let link = bed.link();
    let join = Join { via: Some(link.address()), ..Join::default() };
    let web = bed.host("web-1").joins_as(&join);
    link.delay(Duration::from_millis(150));
    bed.commit("a.fluke.hcl", &keeps("first", "remediate"));
    bed.settles();
    link.blackhole();
    bed.until("the server misses it", |bed| bed.agent("web-1").status == Status::Offline);
    bed.commit("b.fluke.hcl", &keeps("second", "remediate"));
    link.heal();
    bed.settles();
    link.half_open();
    bed.commit("c.fluke.hcl", &keeps("third", "remediate"));
    bed.settles();
    for name in ["first", "second", "third"] {
        assert_eq!(applied(&web, name), 1, "{name}");
    }
}

#[test]
fn a_lossy_network_slows_the_loop_and_does_not_stop_it() {
    let Some(bed) = bed() else { return };
    let web = bed.host("web-1").joins("");
    bed.lossy(&web, 20);
    bed.commit("a.fluke.hcl", &keeps("file", "remediate"));
    bed.settles();
    assert_eq!(applied(&web, "file"), 1);
}
