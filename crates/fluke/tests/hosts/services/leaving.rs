//! What a host was for services it is no more: a proxy, or any part of it.

use fluke_model::event::EventKind;

use super::support::{
    HTTP, address, answer, containers, described, has_image, is_installed, is_proxy, running,
    runs_one, service, shop, traefik,
};
use crate::hosts::support::{Bed, Host, Join, bed};

/// A host that runs `web` and takes requests for it.
fn edge_with_web(bed: &Bed) -> Host {
    bed.brings(&traefik(), "traefik");
    let join = Join { labels: "role=app".into(), ..is_proxy() };
    let edge = bed.host("edge-1").joins_as(&join);
    has_image(&edge, "1");
    let more = format!("{HTTP}\n  volume \"data\" {{\n    path = \"/data\"\n  }}");
    bed.commit("web.fluke.hcl", &service("web", "1", &more));
    bed.until("the shop answers", |_| shop(&edge) == "1");
    edge
}

const PROXIES: &str = "systemctl list-units --all --plain --no-legend 'fluke-proxy-*' | grep -q .";

#[test]
fn a_host_that_is_no_proxy_any_more_has_no_traefik_and_all_else_goes_on() {
    let Some(bed) = bed() else { return };
    let edge = edge_with_web(&bed);
    let container = runs_one(&bed, &edge, "web");
    let folder = "/var/lib/fluke/services/traefik";
    edge.run(&format!("echo kept > {folder}/acme.json"));
    edge.run("systemd-run --quiet --unit fluke-other sleep 1000");

    edge.installs_agent(&Join { labels: "role=app".into(), ..Join::default() });
    edge.run("systemctl restart fluke-agent");
    edge.until(&format!("! {PROXIES} && ! pgrep traefik"));
    assert_eq!(shop(&edge), "");
    assert_eq!(edge.run(&format!("ls {folder}")), "access.log\nacme.json");
    assert_eq!(runs_one(&bed, &edge, "web"), container);
    assert!(edge.is("systemctl is-active fluke-other") && edge.is("ip link show fluke0"));
    bed.settles();

    edge.installs_agent(&Join { labels: "role=app".into(), ..is_proxy() });
    edge.run("systemctl restart fluke-agent");
    bed.until("the shop answers again", |_| shop(&edge) == "1");
}

#[test]
fn an_agent_that_is_uninstalled_takes_proxy_mesh_and_network_along() {
    let Some(bed) = bed() else { return };
    let edge = edge_with_web(&bed);
    let container = runs_one(&bed, &edge, "web");
    let stranger = edge.run("podman run --detach --name stranger --network podman localhost/web:1");
    assert!(edge.is("ip link show fluke0") && edge.is("nft list table ip fluke-mesh"));
    is_installed(&bed, &edge);

    let shown = edge.run("fluke uninstall agent --dry-run");
    assert!(shown.contains("end Traefik") && shown.contains("leave the mesh"), "{shown}");
    assert!(edge.is(PROXIES), "nothing was done");
    let told = edge.run("fluke uninstall agent");
    edge.until(&format!("! {PROXIES} && ! pgrep traefik && ! pgrep wireguard-go"));
    assert!(!edge.is("ip link show fluke0") && !edge.is("nft list table ip fluke-mesh"));
    assert_eq!(running(&edge, "web"), [container], "it goes on: {told}");
    assert_eq!(answer(&edge, "--header 'Host: shop.example.com' http://127.0.0.1/"), "");

    // What is left to people can be done with what was said to them.
    let command = |what: &str| {
        let line =
            told.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{told}"));
        line.split_once("podman ").map(|(_, rest)| format!("podman {rest}")).expect("a command")
    };
    edge.run(&command("containers of services stay"));
    assert!(containers(&edge, "web").is_empty() && !edge.is("podman network exists fluke"));
    edge.run(&command("volumes of services stay"));
    assert_eq!(edge.run("podman volume ls --quiet"), "");
    assert_eq!(
        edge.run("podman ps --quiet --no-trunc"),
        stranger,
        "what is nobody's is left alone"
    );

    let again = edge.run("/opt/fluke/fluke uninstall agent");
    assert!(again.contains("nothing that was installed is left"), "{again}");
}

#[test]
fn a_host_whose_agent_is_uninstalled_is_led_to_no_more_at_once() {
    let Some(bed) = bed() else { return };
    let [one, two] = bed.hosts(["app-1", "app-2"]).map(|host| host.joins("role=app"));
    has_image(&one, "1");
    has_image(&two, "1");
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    let at = [&one, &two].map(|host| address(host, &runs_one(&bed, host, "web")));
    is_installed(&bed, &one);
    let is_led_to = |host: usize| described(&bed).contains(&at[host]);
    bed.until("both are led to", |_| is_led_to(0) && is_led_to(1));

    one.run("systemctl restart fluke-agent");
    assert!(is_led_to(0), "an agent that restarts takes nothing along");
    bed.settles();
    one.run("fluke uninstall agent");
    // One that might come back is shown as offline instead, also when nobody is led to it any more.
    bed.until("nothing of the first is left", |_| !described(&bed).contains("app-1"));
    assert!(!is_led_to(0) && is_led_to(1), "{}", described(&bed));
    let others = "wg show fluke0 allowed-ips | grep -q .";
    two.until(&format!("! {others}"));
    let why = |bed: &Bed| {
        let events = bed.events_of("app-1", EventKind::AgentDisconnected);
        events.last().and_then(|event| event.output.clone()).unwrap_or_default()
    };
    bed.until("it is told why", |bed| why(bed).contains("was uninstalled"));
}
