//! Containers find each other by name over the mesh, and the world finds them through a proxy.

use std::time::{Duration, Instant};

use fluke_model::event::EventKind;
use fluke_model::id::StepAddress;

use super::support::{
    HTTP, address, answer, containers, described, has_image, is_busy, is_installed, is_proxy,
    nobody_was_let_down, resolved, running, runs_one, service, shop, three_hosts, traefik,
    upstreams,
};
use crate::hosts::support::{Bed, Host, Join, bed};

/// Why a host has put this right, each time that it said so.
fn repairs(bed: &Bed, host: &str, part: &str) -> Vec<String> {
    let ended = bed.events_of(host, EventKind::ApplyFinished);
    let is_it = |step: &StepAddress| step.to_string() == part;
    let of_it = ended.into_iter().filter(|event| event.step.as_ref().is_some_and(is_it));
    of_it.filter_map(|event| event.trigger).collect()
}

#[test]
fn a_container_finds_the_others_by_name_on_every_host_and_reaches_them_through_the_mesh() {
    let Some(bed) = bed() else { return };
    let (_edge, apps) = three_hosts(&bed);
    let well = "health {\n    command  = \"test ! -e /tmp/ill\"\n    interval = \"500ms\"\n  }";
    bed.commit("web.fluke.hcl", &service("web", "1", &format!("{HTTP}\n  {well}")));
    let found = apps.each_ref().map(|app| runs_one(&bed, app, "web"));
    let mut all: Vec<_> = apps.iter().zip(&found).map(|(app, it)| address(app, it)).collect();
    all.sort();
    for (app, container) in apps.iter().zip(&found) {
        bed.until("both are known", |_| resolved(app, container, "web.internal") == all);
        for other in &all {
            let get = format!("timeout 3 podman exec {container} wget -qO- http://{other}:3000");
            app.until(&format!("test \"$({get})\" = 1"));
        }
    }
    // A dead one leaves, and comes back once it is well.
    apps[1].stop_agent();
    apps[1].run(&format!("podman exec {} touch /tmp/ill && podman stop --time 0 --all", found[1]));
    apps[1].start_agent();
    let left = [address(&apps[0], &found[0])];
    let named = || resolved(&apps[0], &found[0], "web.internal");
    bed.until("it has left", |_| named() == left);
    apps[1].until(&format!("podman exec {} busybox rm -f /tmp/ill", found[1]));
    bed.until("both are known again", |_| named() == all);
}

#[test]
fn a_container_asks_as_any_program_does_and_gets_through_to_a_service_on_another_host() {
    let Some(bed) = bed() else { return };
    let apps = bed.hosts(["app-1", "app-2"]).map(|app| {
        has_image(&app, "1");
        has_image(&app, "2");
        app.joins("role=app")
    });
    let (web, shop) = (service("web", "1", ""), service("shop", "2", "replicas = 1"));
    bed.commit_files(&[("web.fluke.hcl", &web), ("shop.fluke.hcl", &shop)]);
    bed.until("the shop is somewhere", |_| apps.iter().any(|app| !running(app, "shop").is_empty()));
    let (with, without): (Vec<_>, Vec<_>) =
        apps.iter().partition(|app| !running(app, "shop").is_empty());
    let (there, here) = (with[0], without[0]);
    let at = address(there, &runs_one(&bed, there, "shop"));
    let web = runs_one(&bed, here, "web");
    // By the resolver that it was given, which nobody named to it.
    let asks =
        |command: &str| here.try_run(&format!("timeout 3 podman exec {web} {command}")).stdout;
    bed.until("it is known", |_| {
        asks("nslookup shop.internal").contains(&format!("Address: {at}"))
    });
    bed.until("it answers", |_| asks("wget -qO- http://shop.internal:3000") == "2");
    let knows_nobody = asks("nslookup nobody.internal");
    assert!(knows_nobody.contains("NXDOMAIN"), "{knows_nobody}");
}

#[test]
fn a_request_to_the_proxy_reaches_a_container_on_another_host_and_workers_have_no_proxy() {
    let Some(bed) = bed() else { return };
    let (edge, apps) = three_hosts(&bed);
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    bed.until("the shop answers", |_| shop(&edge) == "1");
    for app in &apps {
        assert!(!app.is("pgrep traefik"), "{} is a worker", app.name());
    }
    edge.run("pkill -KILL traefik");
    bed.until("the shop answers again", |_| shop(&edge) == "1");
    // What systemd does not start again, the agent does.
    edge.try_run("systemctl stop 'fluke-proxy-*'");
    bed.until("the shop answers once more", |_| shop(&edge) == "1");
    bed.until("it is on record", |bed| !repairs(bed, "edge-1", "routes.traefik").is_empty());
    let left = at(&apps[1], &runs_one(&bed, &apps[1], "web"));
    bed.until("both are led to", |_| upstreams(&edge).len() == 2);
    apps[0].kill();
    bed.until("only the other one is led to", |_| upstreams(&edge) == [left.clone()]);
    assert!((0..10).all(|_| shop(&edge) == "1"));
}

/// Where a container is led to.
fn at(host: &Host, container: &str) -> String {
    format!("http://{}:3000", address(host, container))
}

#[test]
fn an_update_under_constant_load_fails_no_request() {
    let well = "health {\n    command  = \"wget -qO- localhost:3000\"\n    interval = \"1s\"\n  }";
    no_request_fails(|bed, _, tag| drop(bed.commit("web.fluke.hcl", &shop_of(tag, well))));
}

#[test]
fn an_update_without_a_health_check_fails_no_request_either() {
    // It runs for a while before it listens.
    let late = "command = [\"/bin/sh\", \"-c\", \"sleep 2; exec httpd -f -p 3000 -h /www\"]";
    no_request_fails(|bed, _, tag| drop(bed.commit("web.fluke.hcl", &shop_of(tag, late))));
}

#[test]
fn another_value_of_a_host_s_variable_fails_no_request_either() {
    let says = r#"env = { SAYS = "$SAYS" }
  command = ["/bin/sh", "-c", "echo $SAYS > /www/index.html; exec httpd -f -p 3000 -h /www"]"#;
    no_request_fails(|bed, apps, tag| {
        for app in apps {
            let unit = "[Service]\nEnvironment=SAYS=";
            app.write(
                "/etc/systemd/system/fluke-agent.service.d/says.conf",
                &format!("{unit}{tag}\n"),
            );
            app.run("systemctl daemon-reload && systemctl restart fluke-agent");
        }
        if tag == "1" {
            bed.commit("web.fluke.hcl", &shop_of(tag, says));
        }
    });
}

fn shop_of(tag: &str, more: &str) -> String {
    service("web", tag, &format!("{HTTP}\n  {more}"))
}

/// Has the shop answer `1`, then `2`, and asks it without a pause.
fn no_request_fails(shall_answer: impl Fn(&Bed, &[Host; 2], &str)) {
    let Some(bed) = bed() else { return };
    let (edge, apps) = three_hosts(&bed);
    shall_answer(&bed, &apps, "1");
    bed.until("the shop answers", |_| shop(&edge) == "1");
    is_busy(&edge);
    shall_answer(&bed, &apps, "2");
    bed.until("both hosts run the new one alone", |_| {
        apps.iter().all(|app| {
            let now = running(app, "web");
            let is_new =
                |it: &String| answer(app, &format!("http://{}:3000", address(app, it))) == "2";
            now.len() == 1 && containers(app, "web") == now && is_new(&now[0])
        })
    });
    bed.until("all are led to it", |_| (0..10).all(|_| shop(&edge) == "2"));
    nobody_was_let_down(&edge);
}

#[test]
fn an_interface_that_is_taken_down_or_away_is_put_back() {
    let Some(bed) = bed() else { return };
    let (_edge, apps) = three_hosts(&bed);
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    let found = apps.each_ref().map(|app| runs_one(&bed, app, "web"));
    let other = format!("http://{}:3000", address(&apps[1], &found[1]));
    bed.until("the other host's container answers", |_| answer(&apps[0], &other) == "1");
    let mut ways = vec!["ip link set fluke0 down", "ip link delete fluke0"];
    // Where the kernel serves it there is nobody who could hang.
    if apps[0].is("systemctl is-active fluke-mesh-fluke0") {
        ways.push("systemctl kill --signal=STOP fluke-mesh-fluke0");
    }
    for how in ways {
        apps[0].run(how);
        bed.until(&format!("it answers again after `{how}`"), |_| answer(&apps[0], &other) == "1");
    }
    // Not only because it is looked at every ten seconds, which may come first.
    let on_a_word = |bed: &Bed| repairs(bed, "app-1", "mesh.peers").iter().any(|it| it == "watch");
    bed.until("it is on record that the kernel told of it", on_a_word);
    bed.settles();
    let before = repairs(&bed, "app-1", "mesh.peers").len();
    apps[0].reboot();
    bed.until("it answers again after a reboot", |_| answer(&apps[0], &other) == "1");
    bed.until("that is on record, too", |bed| repairs(bed, "app-1", "mesh.peers").len() > before);
}

#[test]
fn a_host_that_is_cut_off_goes_on_and_is_led_to_again_when_it_is_back() {
    let Some(bed) = bed() else { return };
    let (edge, apps) = three_hosts(&bed);
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    let found = apps.each_ref().map(|app| runs_one(&bed, app, "web"));
    let mut all: Vec<_> = apps.iter().zip(&found).map(|(app, it)| address(app, it)).collect();
    all.sort();
    bed.until("both are known", |_| resolved(&apps[0], &found[0], "web.internal") == all);
    bed.partition(&apps[1]);
    let left = [address(&apps[0], &found[0])];
    bed.until("it has left the names", |_| resolved(&apps[0], &found[0], "web.internal") == left);
    let led_to = |count: usize| {
        let mut at: Vec<_> = (0..count).map(|it| at(&apps[it], &found[it])).collect();
        at.sort();
        at
    };
    bed.until("and the routes", |_| upstreams(&edge) == led_to(1));
    assert!((0..10).all(|_| shop(&edge) == "1"));
    assert_eq!(running(&apps[1], "web"), [found[1].clone()], "it goes on");
    bed.reunite(&apps[1]);
    bed.until("it is back", |_| resolved(&apps[0], &found[0], "web.internal") == all);
    bed.until("it is led to again", |_| upstreams(&edge) == led_to(2));
}

/// Why the agent of a host was last gone.
fn why_gone(bed: &Bed, host: &str) -> String {
    let events = bed.events_of(host, EventKind::AgentDisconnected);
    events.last().and_then(|event| event.output.clone()).unwrap_or_default()
}

/// An apply that begins, and ends when it may.
const SLOW: &str = r#"
task "slow" {
  selector {
    match_labels = { role = "app" }
  }
  shell "slow" {
    check   = "test -e /srv/go"
    command = "touch /srv/began; until test -e /srv/go; do sleep 0.1; done"
  }
}
"#;

#[test]
fn a_host_that_goes_down_in_good_order_says_so_and_is_led_to_no_more_from_then_on() {
    let Some(bed) = bed() else { return };
    let (edge, apps) = three_hosts(&bed);
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    let found = apps.each_ref().map(|app| runs_one(&bed, app, "web"));
    let mut all: Vec<_> = apps.iter().zip(&found).map(|(app, it)| address(app, it)).collect();
    all.sort();
    let left = [address(&apps[0], &found[0])];
    let named = || resolved(&apps[0], &found[0], "web.internal");
    is_installed(&bed, &apps[1]);
    bed.until("both are known", |_| named() == all);
    apps[1].run("systemctl restart fluke-agent");
    bed.settles();
    assert_eq!(named(), all, "an agent that restarts takes nothing along");
    assert_eq!(why_gone(&bed, "app-2"), "the agent closed the connection");

    let drifts = || bed.events_of("app-2", EventKind::DriftDetected).len();
    let before = drifts();
    apps[1].stop();
    bed.until("it is on record why", |bed| why_gone(bed, "app-2").contains("going down"));
    bed.until("it has left the names", |_| named() == left);
    // Not for want of its agent, which others would be led there without for thirty seconds.
    let why = "its host was shut down or rebooted";
    assert!(described(&bed).contains(why), "{}", described(&bed));
    assert_eq!(drifts(), before, "what ends with its host is no drift");
    apps[1].start();
    bed.until("it is back", |_| named() == all);

    // The agent has something to end first, and the whole host waits for that.
    apps[0].run("touch /srv/go");
    bed.commit("slow.fluke.hcl", SLOW);
    apps[1].until("test -e /srv/began");
    let before = drifts();
    apps[1].run("systemctl reboot");
    bed.until("it has left the names", |_| named() == left);
    bed.until("the shop answers", |_| (0..10).all(|_| shop(&edge) == "1"));
    assert!(apps[1].agent().is_some_and(|it| it.agent.connected), "its agent has not ended");
    assert!(described(&bed).contains(why), "{}", described(&bed));
    assert_eq!(drifts(), before);
    apps[1].run("touch /srv/go");
    apps[1].reboot();
    bed.until("it is back once more", |_| named() == all);
    bed.settles();
}

/// The first process of a container; 0 while there is none.
fn process(host: &Host, container: &str) -> String {
    host.try_run(&format!("podman inspect --format '{{{{.State.Pid}}}}' {container}")).stdout
}

#[test]
fn a_proxy_that_does_not_come_up_keeps_no_container_waiting() {
    let Some(bed) = bed() else { return };
    let [edge] = bed.hosts(["edge-1"]);
    bed.brings(&traefik(), "traefik");
    has_image(&edge, "1");
    // Somebody has the port at which Traefik would say how it is, and says nothing.
    edge.unit(
        "other.service",
        "[Service]\nExecStart=/usr/bin/socat TCP-LISTEN:781,fork,reuseaddr EXEC:'sleep 1000'\n",
    );
    edge.run("systemctl start other");
    edge.until("ss -Hltn 'sport = :781' | grep -q .");
    let edge = edge.joins_as(&Join { labels: "role=app".into(), ..is_proxy() });
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    let web = runs_one(&bed, &edge, "web");
    // Each try to have Traefik up takes its fifteen seconds.
    bed.until("it is tried", |_| edge.is("ls /var/lib/fluke/services/traefik/traefik-*.yaml"));
    for _ in 0..3 {
        let before = process(&edge, &web);
        let killed = Instant::now();
        edge.run(&format!("kill -9 {before}"));
        bed.until("it runs again", |_| !["0", "", &before].contains(&&*process(&edge, &web)));
        let took = killed.elapsed();
        assert!(took < Duration::from_secs(10), "it took {took:?}");
    }
    edge.run("systemctl stop other");
    bed.until("the shop is open once it can be", |_| shop(&edge) == "1");
}

#[test]
fn a_connection_outlasts_the_process_that_it_came_by_and_a_new_port_waits_for_neither() {
    let Some(bed) = bed() else { return };
    let [edge] = bed.hosts(["edge-1"]);
    bed.brings(&traefik(), "traefik");
    has_image(&edge, "1");
    let edge = edge.joins_as(&Join { labels: "role=app".into(), ..is_proxy() });
    let port = |external: u16| {
        format!(
            "port \"plain\" {{\n    container = 3000\n    protocol  = \"tcp\"\n    \
             external  = {external}\n  }}"
        )
    };
    let at = |external: u16| answer(&edge, &format!("http://127.0.0.1:{external}"));
    bed.commit("web.fluke.hcl", &service("web", "1", &port(15432)));
    bed.until("it answers at its port", |_| at(15432) == "1");
    // Somebody connects, and takes their time.
    edge.write("/tmp/asked", "");
    let asks = "tail -f /tmp/asked | busybox nc 127.0.0.1 15432 >/tmp/answered";
    edge.unit("long.service", &format!("[Service]\nExecStart=/bin/sh -c '{asks}'\n"));
    edge.run("systemctl start long");
    edge.until("ss -tnH state established dport = :15432 | grep -q .");
    bed.commit("db.fluke.hcl", &service("db", "1", &port(15433)));
    bed.until("the new port answers, too", |_| at(15433) == "1" && at(15432) == "1");
    bed.settles();
    assert_eq!(edge.run("pgrep -xc traefik"), "2", "one is left to those whom it served");
    edge.run(r"printf 'GET / HTTP/1.0\r\n\r\n' >>/tmp/asked");
    edge.until("grep -qx 1 /tmp/answered");
    edge.until("test $(pgrep -xc traefik) = 1");
    bed.until("all goes on", |_| at(15433) == "1" && at(15432) == "1");
}
