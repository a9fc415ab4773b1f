//! Who is not well is led to by nobody, and who waits for something keeps nobody else waiting.

use std::process::Command;

use super::support::{
    HTTP, address, answer, has_image, is_busy, is_proxy, nobody_was_let_down, resolved, runs_one,
    service, shop, started, three_hosts, told, traefik, trusts_registry, upstreams,
};
use crate::hosts::support::{Bed, Join, bed, keeps};

#[test]
fn a_container_that_is_not_well_is_led_to_by_nobody_until_it_is_again() {
    let Some(bed) = bed() else { return };
    let (edge, apps) = three_hosts(&bed);
    let health = "health {\n    command  = \"test ! -e /tmp/ill\"\n    interval = \"500ms\"\n    \
                  timeout  = \"5s\"\n    retries  = 1\n  }";
    bed.commit("web.fluke.hcl", &service("web", "1", &format!("{HTTP}\n  {health}")));
    let found = apps.each_ref().map(|app| runs_one(&bed, app, "web"));
    let at = [0, 1].map(|it| address(&apps[it], &found[it]));
    let are_led_to = |all: &[String]| {
        let mut urls: Vec<_> = all.iter().map(|at| format!("http://{at}:3000")).collect();
        let mut all = all.to_vec();
        urls.sort();
        all.sort();
        resolved(&apps[0], &found[0], "web.internal") == all && upstreams(&edge) == urls
    };
    bed.until("both are led to", |_| are_led_to(&at));

    let since = started(&apps[1], &found[1]);
    apps[1].run(&format!("podman exec {} touch /tmp/ill", found[1]));
    bed.until("it is led to no more", |_| are_led_to(&at[..1]));
    is_busy(&edge);
    // What ails it is still there then.
    bed.until("it was restarted", |_| started(&apps[1], &found[1]) != since);
    assert!(are_led_to(&at[..1]), "it is not well");
    apps[1].until(&format!("podman exec {} busybox rm /tmp/ill", found[1]));
    bed.until("both are led to again", |_| are_led_to(&at));
    nobody_was_let_down(&edge);
}

/// What `fluke describe service NAME` prints.
fn describes(bed: &Bed, service: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fluke"))
        .args(["describe", "service", service])
        .env("FLUKE_SERVER", format!("unix://{}", bed.server().socket().display()))
        .output()
        .expect("fluke runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_image_that_never_comes_keeps_nothing_else_waiting() {
    let Some(bed) = bed() else { return };
    let [one, two] = bed.hosts(["app-1", "app-2"]);
    bed.brings(&traefik(), "traefik");
    for host in [&one, &two] {
        has_image(host, "1");
        trusts_registry(host, "app-1");
    }
    // A registry that takes connections, and says nothing.
    one.unit(
        "registry.service",
        "[Service]\nExecStart=/usr/bin/socat TCP-LISTEN:5000,fork,reuseaddr EXEC:'sleep 1000'\n",
    );
    one.run("systemctl start registry");
    one.until("ss -Hltn 'sport = :5000' | grep -q .");
    let one = one.joins_as(&Join { labels: "role=app".into(), ..is_proxy() });
    let slow = service("slow", "1", "").replace("localhost/web:1", "app-1:5000/slow:1");
    bed.commit("slow.fluke.hcl", &slow);
    let waits = |bed: &Bed| told(bed, "services/slow").contains("Trying to pull app-1:5000/slow:1");
    bed.until("it is waited for", waits);

    let (web, task) = (service("web", "1", HTTP), keeps("file", "remediate"));
    bed.commit_files(&[("web.fluke.hcl", &web), ("file.fluke.hcl", &task)]);
    let first = runs_one(&bed, &one, "web");
    bed.until("it has a route", |_| shop(&one) == "1");
    one.until("test -e /srv/file");
    let two = two.joins("role=app");
    let second = runs_one(&bed, &two, "web");
    let at = address(&two, &second);
    bed.until("it has a name", |_| resolved(&one, &first, "web.internal").contains(&at));
    bed.until("there is a way to it", |_| answer(&one, &format!("http://{at}:3000")) == "1");
    let said = describes(&bed, "slow");
    assert!(
        said.contains("pulling") && said.contains("Trying to pull app-1:5000/slow:1"),
        "{said}"
    );
}
