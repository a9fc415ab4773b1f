//! Secrets that are on a host stay there.

use super::support::{asks, containers, has_image, running, service, told};
use crate::hosts::support::{Bed, Host, Join, bed};

const FIRST: &str = "hunter2-of-the-shop";
const SECOND: &str = "swordfish-of-the-shop";

/// Looks again and again at what everybody on the host was started with, for what is in a file.
const WATCHES: &str = "[Service]\nExecStart=/bin/bash -c 'while sleep 0.01; do \
     grep -ahof /run/secrets.txt /proc/[0-9]*/cmdline >>/run/seen; done'\n";

fn value(host: &Host, value: &str) {
    host.write("/etc/fluke/agent.env", &format!("KEY={value}\n"));
}

/// Whether one container alone runs, with this value, of this image.
fn runs_with(host: &Host, value: &str, tag: &str) -> bool {
    let now = running(host, "web");
    let says = |it: &str| host.try_run(&format!("podman exec {it} sh -c 'echo $KEY; cat /www/*l'"));
    now.len() == 1
        && containers(host, "web") == now
        && says(&now[0]).stdout == format!("{value}\n{tag}")
}

/// All that the server tells anybody.
fn all_told(bed: &Bed) -> String {
    let paths = ["services", "services/web", "agents", "agents/app-1", "events?limit=500", "drift"];
    let told = |path: &str| {
        let said = told(bed, path);
        assert!(!said.is_empty(), "{path}");
        said
    };
    paths.map(told).join("\n")
}

#[test]
fn a_value_of_the_host_is_in_the_container_and_is_told_to_nobody() {
    let Some(bed) = bed() else { return };
    let app = bed.host("app-1");
    has_image(&app, "1");
    has_image(&app, "2");
    value(&app, FIRST);
    app.write("/run/secrets.txt", &format!("{FIRST}\n{SECOND}\n"));
    app.unit("watches.service", WATCHES);
    app.unit(
        "careless.service",
        &format!("[Service]\nExecStart=/bin/sh -c 'sleep 1000; true' {FIRST}\n"),
    );
    app.run("systemctl start watches careless");
    app.until("grep -q . /run/seen");
    app.run("systemctl stop watches careless && rm /run/seen && systemctl start watches");

    let service_lines = "EnvironmentFile=/etc/fluke/agent.env".into();
    let app = app.joins_as(&Join {
        labels: "role=app".into(),
        service: service_lines,
        ..Join::default()
    });
    let web = |tag: &str| {
        let health = r#"health {
    command  = "test -e /tmp/well || { echo no $KEY; false; }"
    interval = "500ms"
  }"#;
        service("web", tag, &format!("env = {{ KEY = \"$KEY\" }}\n  {health}"))
    };
    let becomes_well = || {
        bed.until("it complains", |bed| told(bed, "services/web").contains("no •••"));
        app.run("podman exec $(podman ps --quiet --latest) touch /tmp/well");
    };
    bed.commit("web.fluke.hcl", &web("1"));
    becomes_well();
    bed.until("it has the value", |_| runs_with(&app, FIRST, "1"));
    bed.settles();
    bed.commit("web.fluke.hcl", &web("2"));
    becomes_well();
    bed.until("the new one has it, too", |_| runs_with(&app, FIRST, "2"));
    bed.settles();
    value(&app, SECOND);
    app.run("systemctl restart fluke-agent");
    becomes_well();
    bed.until("another value makes another one", |_| runs_with(&app, SECOND, "2"));
    bed.settles();

    app.run("systemctl stop watches");
    let places = [
        ("somebody's arguments", app.read("/run/seen")),
        ("the API", all_told(&bed)),
        ("what was done", format!("{:?}", asks(&bed, r#"{"scope":"service","name":"web"}"#))),
        ("the server's log", bed.server().log()),
        ("the host's journal", app.run("journalctl --no-pager --output=cat")),
    ];
    for (place, text) in &places {
        for secret in [FIRST, SECOND] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "it is in {place}");
        }
    }
}
