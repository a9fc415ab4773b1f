//! Replicas are spread over hosts, stay where they are, and move when their host stays away.

use fluke_model::event::EventKind;

use super::support::{address, answer, has_image, running, service, told};
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

/// What is on record of replicas that went from one host to another.
fn moved(bed: &Bed) -> Vec<String> {
    let moved = bed.all_events().into_iter().filter(|it| it.kind == EventKind::ReplicaMoved);
    moved.filter_map(|event| event.output).collect()
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
    assert_eq!(moved(&bed), Vec::<String>::new(), "none was ever elsewhere");
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
    bed.until("no commit is said to have done it", |bed| {
        let ended = bed.events_of(hosts[spare].name(), EventKind::ApplyFinished);
        ended.iter().any(|event| event.trigger.as_deref() == Some("placement"))
    });
    hosts[lost].start();
    bed.until("there are two again, no more", |_| {
        let now = spread(&hosts);
        count(&now) == 2 && now[lost].is_empty()
    });
    let (from, to) = (hosts[lost].name(), hosts[spare].name());
    let moved = moved(&bed);
    assert_eq!(moved.len(), 1, "{moved:?}");
    let why = format!("goes from {from} to {to}: {from} was away for 5s");
    assert!(moved[0].ends_with(&why), "{moved:?}");
    let it = running(&hosts[spare], "web").remove(0);
    let at = format!("http://{}:3000", address(&hosts[spare], &it));
    bed.until("it answers", |_| answer(&hosts[spare], &at) == "1");
}

/// What a replica of `db` has in its volume, wherever it runs; nothing where it does not.
fn data(hosts: &[Host; 3], number: u32) -> Vec<String> {
    let read = |host: &Host| {
        let filter =
            format!("--filter label=fluke.service.name=db --filter label=fluke.replica={number}");
        let list = host.run(&format!("podman ps --no-trunc --format '{{{{.ID}}}}' {filter}"));
        let read = |it: &str| host.try_run(&format!("podman exec {it} cat /data/it")).stdout;
        list.lines().map(read).collect::<Vec<_>>()
    };
    hosts.iter().flat_map(read).map(|said| said.trim().to_string()).collect()
}

#[test]
fn a_replica_finds_its_data_again_however_it_went() {
    let Some(bed) = bed() else { return };
    let hosts = three_apps(&bed);
    let db = |replicas: u32| {
        let more =
            format!("replicas = {replicas}\n  volume \"data\" {{\n    path = \"/data\"\n  }}");
        service("db", "1", &more)
    };
    let is = |wanted: &[&str]| {
        let all: Vec<Vec<String>> = (0..wanted.len() as u32).map(|it| data(&hosts, it)).collect();
        wanted.iter().zip(&all).all(|(wanted, found)| match wanted.is_empty() {
            true => found.is_empty(),
            false => *found == [wanted.to_string()],
        })
    };
    bed.commit("db.fluke.hcl", &db(2));
    bed.until("both run, with nothing in them", |_| {
        (0..2).all(|number| data(&hosts, number) == [""])
    });
    for number in 0..2 {
        let volume = format!("fluke.db.data.{number}");
        let owner = hosts.iter().find(|host| host.is(&format!("podman volume exists {volume}")));
        let owner = owner.expect("one has it");
        let path =
            owner.run(&format!("podman volume inspect --format '{{{{.Mountpoint}}}}' {volume}"));
        owner.run(&format!("echo of-{number} > {}/it", path.trim()));
    }
    assert!(is(&["of-0", "of-1"]));

    bed.commit("db.fluke.hcl", &db(1));
    bed.until("the second one is gone", |_| is(&["of-0", ""]));
    // What the server knew it has to hear again.
    bed.server().kill();
    bed.server().start();
    bed.settles();
    bed.commit("db.fluke.hcl", &db(2));
    bed.until("the second one is back, with its data", |_| is(&["of-0", "of-1"]));

    bed.commit("db.fluke.hcl", "");
    bed.until("both are gone", |_| is(&["", ""]));
    bed.commit("db.fluke.hcl", &db(2));
    bed.until("both are back, with their data", |_| is(&["of-0", "of-1"]));
}

#[test]
fn a_replica_whose_host_is_gone_for_good_starts_elsewhere_once_somebody_says_so() {
    let Some(bed) = bed() else { return };
    let hosts = three_apps(&bed);
    let volume = "volume \"data\" {\n    path = \"/data\"\n  }";
    let of = |name: &str, replicas: u32, more: &str| {
        let lines = format!("replicas = {replicas}\n  reschedule_after = \"5s\"\n  {more}");
        service(name, "1", &lines)
    };
    let (db, web) = (of("db", 1, volume), of("web", 3, ""));
    bed.commit_files(&[("db.fluke.hcl", &db), ("web.fluke.hcl", &web)]);
    let owner = || hosts.iter().position(|host| !running(host, "db").is_empty());
    let each_has_web = || spread(&hosts).iter().all(|on| on.len() == 1);
    bed.until("both run", |_| owner().is_some() && each_has_web());
    bed.settles();
    let lost = owner().expect("it runs");
    let name = hosts[lost].name().to_string();
    let forget = |name: &str| {
        let said = bed.server().delete(&format!("/api/v1/agents/{name}"));
        said.expect("an answer")
    };
    let (status, said) = forget(&name);
    assert_eq!(status, 409, "it is here: {said}");

    hosts[lost].kill();
    bed.until("it is missed", |bed| !bed.agent(&name).connected);
    // What has no volume, and the same patience, shows when that has ended.
    let others: Vec<&Host> = hosts.iter().filter(|host| host.name() != name).collect();
    let runs =
        |service: &str| others.iter().map(|host| running(host, service).len()).sum::<usize>();
    bed.until("three run on two hosts", |_| runs("web") == 3);
    bed.settles();
    let [moved] = &moved(&bed)[..] else { panic!("{}", bed.account()) };
    assert!(moved.ends_with(&format!("{name} was away for 5s")), "{moved}");
    assert_eq!(runs("db"), 0, "its data is elsewhere");
    let said = told(&bed, "services/db");
    let why = "it waits for that host, where its volume `data` is";
    assert!(said.contains(why), "{said}");

    let (status, said) = forget(&name);
    assert!(status == 200 && said.contains("fluke.db.data.0"), "{status} {said}");
    bed.until("another host has it", |_| runs("db") == 1);
    assert!(bed.agent(&name).detail.is_none(), "nobody knows it");
    assert_eq!(forget(&name).0, 404);
    let told = bed.events_of(&name, EventKind::AgentForgotten);
    assert!(told[0].by.as_deref().is_some_and(|by| by.contains("socket")), "{told:?}");
}
