//! Hosts whose own config refuses what services need: nothing of it is touched, and it is said.

use fluke_model::event::EventKind;
use fluke_model::status::Status;

use super::support::{described, has_image, running, runs_one, service};
use crate::hosts::support::{Bed, Host, Join, bed};

const REFUSED: &str = "`container` is not among `allow.executors` (/etc/fluke/agent.hcl:";

/// An agent that runs commands, and nothing else.
fn keeps_to_shell() -> Join {
    let more = "allow {\n    executors = [\"shell\"]\n  }".into();
    Join { labels: "role=app".into(), more, ..Join::default() }
}

/// Whether the host has nothing at all of services.
fn is_untouched(host: &Host) -> bool {
    let interfaces = host.run("ls /sys/class/net");
    running(host, "web").is_empty()
        && !host.is("podman network exists fluke")
        && !interfaces.contains("fluke")
        && !host.is("ss --listening --numeric --udp --tcp | grep -Eq '10\\.2[0-9]+.*:53 '")
}

fn says_that_it_refuses(bed: &Bed, host: &Host) -> bool {
    let note = |detail: fluke_model::api::AgentDetail| {
        detail.service_details.first()?.deployments.first()?.note.clone()
    };
    let said = bed.agent(host.name()).detail.and_then(note).unwrap_or_default();
    said.contains(REFUSED)
}

#[test]
fn a_host_that_refuses_containers_has_none_and_replicas_go_elsewhere() {
    let Some(bed) = bed() else { return };
    let shy = bed.host("app-1").joins_as(&keeps_to_shell());
    let app = bed.host("app-2").joins("role=app");
    has_image(&shy, "1");
    has_image(&app, "1");
    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    runs_one(&bed, &app, "web");
    bed.until("it is said who refuses", |bed| says_that_it_refuses(bed, &shy));
    assert!(described(&bed).contains(REFUSED), "{}", described(&bed));
    assert_eq!(bed.agent("app-1").status, Status::Failed);

    bed.commit("web.fluke.hcl", &service("web", "1", "replicas = 2"));
    bed.settles();
    bed.until("both are where they may be, and no other", |_| running(&app, "web").len() == 2);
    assert!(is_untouched(&shy), "nothing of it was touched");
    let failed = bed.events_of("app-1", EventKind::CheckFailed);
    assert_eq!(failed.len(), 1, "it is told once: {failed:?}");
    assert_eq!(bed.applies("app-1"), 0);
}

#[test]
fn what_runs_on_a_host_that_refuses_now_is_left_alone_and_taken_up_again_later() {
    let Some(bed) = bed() else { return };
    let app = bed.host("app-1").joins("role=app");
    has_image(&app, "1");
    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    let container = runs_one(&bed, &app, "web");
    bed.settles();

    app.installs_agent(&keeps_to_shell());
    app.run("systemctl restart fluke-agent");
    bed.until("it is said to refuse", |bed| says_that_it_refuses(bed, &app));
    assert!(described(&bed).contains("is left alone"), "{}", described(&bed));
    bed.commit("web.fluke.hcl", "");
    let kept = |bed: &Bed| {
        let network = bed.agent("app-1").detail.map(|detail| detail.network).unwrap_or_default();
        network.into_iter().any(|part| part.part == "containers" && part.refused)
    };
    bed.until("what nobody wants any more is shown", kept);
    assert_eq!(running(&app, "web"), [container], "nobody touched it");

    app.installs_agent(&Join { labels: "role=app".into(), ..Join::default() });
    app.run("systemctl restart fluke-agent");
    bed.until("it goes", |_| running(&app, "web").is_empty());
    bed.settles();
}
