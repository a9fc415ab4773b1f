//! Podman comes later than its agent, goes away, and comes back.

use std::collections::BTreeSet;

use fluke_model::event::EventKind;

use super::support::{
    HTTP, address, answer, described, has_image, lives, resolved, running, runs_one, service, shop,
    three_hosts, told, upstreams,
};
use crate::hosts::support::{Bed, Host, bed, keeps};

/// Podman's socket is gone, with all that leads to it; its command line needs none.
fn podman_goes(host: &Host) {
    host.run("systemctl stop podman.socket podman.service; rm -rf /run/podman");
}

fn podman_comes(host: &Host) {
    host.run("systemctl start podman.socket");
}

/// The process of the agent.
fn agent(host: &Host) -> String {
    host.run("systemctl show --property MainPID --value fluke-agent")
}

/// Whether it is told what is wrong, and what to do.
fn is_told(bed: &Bed) -> bool {
    let said = described(bed);
    said.contains("Podman does not answer at /run/podman/podman.sock")
        && said.contains("systemctl enable --now podman.socket")
}

fn count(bed: &Bed, kind: EventKind) -> usize {
    bed.events_of("app-1", kind).iter().filter(|event| event.service.is_some()).count()
}

#[test]
fn a_podman_that_is_started_later_runs_what_git_says_and_no_agent_is_restarted() {
    let Some(bed) = bed() else { return };
    let host = bed.host("app-1");
    has_image(&host, "1");
    podman_goes(&host);
    let host = host.joins("role=app");
    let first = agent(&host);
    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    bed.until("it is told why nothing runs", is_told);
    assert!(running(&host, "web").is_empty());
    podman_comes(&host);
    let container = runs_one(&bed, &host, "web");
    bed.until("it answers", |_| {
        answer(&host, &format!("http://{}:3000", address(&host, &container))) == "1"
    });
    bed.settles();
    assert_eq!(agent(&host), first, "it was not restarted");
}

/// A host without Podman gets no replica; it need not be told when it has one.
#[test]
fn a_replica_that_waits_for_a_host_goes_to_the_one_where_podman_is_started() {
    let Some(bed) = bed() else { return };
    for (name, goes) in [("app-1", "rm -rf /run/podman"), ("app-2", "true")] {
        let host = bed.host(name);
        has_image(&host, "1");
        // Its socket may be gone, or lead nowhere.
        host.run(&format!("systemctl stop podman.socket podman.service; {goes}"));
    }
    let hosts = ["app-1", "app-2"].map(|name| bed.host(name).joins(&format!("role={name}")));
    for host in hosts {
        let name = host.name();
        let web = service(name, "1", "replicas = 1")
            .replace("role = \"app\"", &format!("role = \"{name}\""));
        podman_comes(&host);
        bed.commit(&format!("{name}.fluke.hcl"), &web);
        runs_one(&bed, &host, name);
    }
    bed.settles();
}

#[test]
fn a_podman_that_goes_away_takes_nothing_with_it_and_what_happened_meanwhile_is_put_right() {
    let Some(bed) = bed() else { return };
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    let container = runs_one(&bed, &host, "web");
    bed.settles();
    let first = agent(&host);
    let before = [bed.applies("app-1"), count(&bed, EventKind::DriftDetected)];
    podman_goes(&host);
    bed.until("it is told", is_told);
    let said = described(&bed);
    assert!(said.contains(r#""phase":"running""#), "what runs is not gone: {said}");
    bed.until("nobody can tell", |bed| count(bed, EventKind::CheckFailed) == 1);

    // Restarted in the time of a breath, with the agent looking on.
    for verb in ["start", "restart"] {
        host.run(&format!("systemctl {verb} podman.socket"));
        bed.until("all is known again", |bed| !described(bed).contains("does not answer"));
        bed.settles();
    }
    assert_eq!(running(&host, "web"), std::slice::from_ref(&container));
    let after = [bed.applies("app-1"), count(&bed, EventKind::DriftDetected)];
    assert_eq!(after, before, "it was no drift, and nothing was done: {}", bed.account());

    podman_goes(&host);
    bed.until("it is told again", is_told);
    host.run(&format!("podman kill {container}"));
    podman_comes(&host);
    assert_eq!(runs_one(&bed, &host, "web"), container, "it was started again");
    bed.settles();
    assert_eq!(agent(&host), first, "it was not restarted");
}

#[test]
fn an_agent_that_is_started_anew_while_podman_is_away_takes_nothing_out_of_names() {
    let Some(bed) = bed() else { return };
    let apps = ["app-1", "app-2"].map(|name| bed.host(name));
    apps.iter().for_each(|host| has_image(host, "1"));
    let apps = apps.map(|host| host.joins("role=app"));
    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    let found = apps.each_ref().map(|host| runs_one(&bed, host, "web"));
    let mut all: Vec<_> = apps.iter().zip(&found).map(|(host, it)| address(host, it)).collect();
    all.sort();
    let named = || resolved(&apps[1], &found[1], "web.internal");
    bed.until("both are known", |_| named() == all);
    podman_goes(&apps[0]);
    bed.until("it is told", is_told);
    apps[0].stop_agent();
    apps[0].start_agent();
    // What was not wanted before only this agent can speak of.
    bed.commit("late.fluke.hcl", &service("late", "1", ""));
    bed.until("it has spoken", |bed| told(bed, "services/late").contains("Podman does not answer"));
    runs_one(&bed, &apps[1], "late");
    bed.until("that one has a name", |_| {
        !resolved(&apps[1], &found[1], "late.internal").is_empty()
    });
    assert_eq!(named(), all, "it runs on, and nobody knows otherwise: {}", described(&bed));
    podman_comes(&apps[0]);
    runs_one(&bed, &apps[0], "late");
    bed.settles();
    assert_eq!(running(&apps[0], "web"), std::slice::from_ref(&found[0]));
    assert_eq!(named(), all);
}

#[test]
fn a_podman_that_hangs_keeps_no_name_route_or_task_waiting_and_nothing_is_restarted() {
    let Some(bed) = bed() else { return };
    let (edge, apps) = three_hosts(&bed);
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    let found = apps.each_ref().map(|app| runs_one(&bed, app, "web"));
    let [one, two] = [0, 1].map(|it| address(&apps[it], &found[it]));
    let gateway = one.rsplit_once('.').map(|(net, _)| format!("{net}.1")).expect("an address");
    // Whoever asks Podman for it would wait with the agent.
    let named = || {
        let dig = format!("dig +short +tries=1 +time=1 @{gateway} web.internal | sort");
        apps[0].try_run(&dig).stdout.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    bed.until("both are known", |_| named() == [one.clone(), two.clone()].into());
    bed.settles();
    let (before, first) = (lives(&apps[0]), agent(&apps[0]));

    apps[0].run("systemctl kill --signal=STOP podman.service");
    bed.until("it is told", |bed| told(bed, "services/web").contains("Podman took more than"));
    apps[1].kill();
    bed.until("what died has no name", |_| named() == [one.clone()].into());
    bed.until("nor a route", |_| upstreams(&edge) == [format!("http://{one}:3000")]);
    assert_eq!(shop(&edge), "1");
    bed.commit("file.fluke.hcl", &keeps("file", "remediate"));
    apps[0].until("test -e /srv/file");

    apps[0].run("systemctl kill --signal=CONT podman.service");
    bed.until("all is known again", |bed| !told(bed, "services/web").contains("took more than"));
    apps[1].start();
    bed.until("all are back", |_| named().len() == 2);
    bed.settles();
    assert_eq!((lives(&apps[0]), agent(&apps[0])), (before, first), "nothing was restarted");
}
