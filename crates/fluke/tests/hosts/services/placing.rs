//! Replicas are spread over hosts, stay where they are, and move when their host stays away.

use super::support::{address, answer, has_image, running, service};
use crate::hosts::support::{Bed, Host, bed};

/// Three hosts that may run `web`.
fn three_apps(bed: &Bed) -> [Host; 3] {
    let names = ["app-1", "app-2", "app-3"];
    bed.hosts(names);
    names.map(|name| {
        let host = bed.host(name).joins("role=app");
        has_image(&host, "1");
        has_image(&host, "2");
        host
    })
}

/// The containers of `web`, host by host.
fn spread(hosts: &[Host; 3]) -> [Vec<String>; 3] {
    hosts.each_ref().map(|host| running(host, "web"))
}

fn count(spread: &[Vec<String>; 3]) -> usize {
    spread.iter().map(Vec::len).sum()
}

#[test]
fn replicas_are_spread_and_a_server_that_starts_anew_leaves_them_where_they_are() {
    let Some(bed) = bed() else { return };
    let hosts = three_apps(&bed);
    bed.commit("web.fluke.hcl", &service("web", "1", "replicas = 2"));
    bed.until("two run, on two hosts", |_| {
        let spread = spread(&hosts);
        count(&spread) == 2 && spread.iter().all(|on| on.len() <= 1)
    });
    let before = spread(&hosts);
    bed.server().kill();
    bed.server().start();
    bed.settles();
    // A commit that concerns everybody shows that the new server has made up its mind.
    bed.commit("web.fluke.hcl", &service("web", "1", "replicas = 3"));
    bed.until("three run", |_| count(&spread(&hosts)) == 3);
    let after = spread(&hosts);
    for (one, other) in before.iter().zip(&after) {
        assert!(one.iter().all(|it| other.contains(it)), "moved: {before:?} {after:?}");
    }
    bed.commit("web.fluke.hcl", &service("web", "1", "replicas = 1"));
    bed.until("one is left", |_| count(&spread(&hosts)) == 1);
    let last = spread(&hosts).concat();
    assert!(after.concat().contains(&last[0]), "it is one of those that were there");
}

#[test]
fn a_replica_moves_when_its_host_stays_away_and_is_not_doubled_when_the_host_is_back() {
    let Some(bed) = bed() else { return };
    let hosts = three_apps(&bed);
    bed.commit("web.fluke.hcl", &service("web", "1", "replicas = 2\n  reschedule_after = \"5s\""));
    bed.until("two run", |_| count(&spread(&hosts)) == 2);
    let before = spread(&hosts);
    let lost = before.iter().position(|on| !on.is_empty()).expect("two run");
    let spare = before.iter().position(Vec::is_empty).expect("one has none");
    let stays = 3 - lost - spare;
    hosts[lost].kill();
    bed.until("the spare host has it", |_| running(&hosts[spare], "web").len() == 1);
    assert_eq!(running(&hosts[stays], "web"), before[stays], "the other one was not touched");
    hosts[lost].start();
    bed.until("there are two again, no more", |_| {
        let now = spread(&hosts);
        count(&now) == 2 && now[lost].is_empty()
    });
    let it = running(&hosts[spare], "web").remove(0);
    let at = format!("http://{}:3000", address(&hosts[spare], &it));
    bed.until("it answers", |_| answer(&hosts[spare], &at) == "1");
}
