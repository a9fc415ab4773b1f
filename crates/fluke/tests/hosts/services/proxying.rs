//! Traefik as a unit of its host: who keeps it running, when it has to leave, and what is in its way.

use super::support::{HTTP, answer, described, has_image, is_proxy, service, shop, traefik};
use crate::hosts::support::{Bed, Host, Join, bed};

/// A host that has the image of `web`, and is to run it and take requests for it.
fn edge(bed: &Bed) -> Host {
    bed.brings(&traefik(), "traefik");
    let edge = bed.host("edge-1");
    has_image(&edge, "1");
    edge
}

fn joins(edge: Host) -> Host {
    edge.joins_as(&Join { labels: "role=app".into(), ..is_proxy() })
}

fn processes(edge: &Host) -> String {
    edge.try_run("pgrep -x traefik").stdout
}

/// Lists units of proxies, in whatever state.
const UNITS: &str = "systemctl list-units --all --plain --no-legend 'fluke-proxy-*'";

fn units(edge: &Host) -> Vec<String> {
    let said = edge.run(UNITS);
    said.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

/// The shop, and ports of its own beside it.
fn with_ports(external: &[u16]) -> String {
    let port = |external: &u16| {
        format!(
            "\n  port \"p{external}\" {{\n    container = 3000\n    protocol  = \"tcp\"\n    \
             external  = {external}\n  }}"
        )
    };
    std::iter::once(HTTP.to_owned()).chain(external.iter().map(port)).collect()
}

/// What is answered at one of them.
fn at(edge: &Host, port: u16) -> String {
    answer(edge, &format!("http://127.0.0.1:{port}/"))
}

#[test]
fn traefik_outlives_its_agent_and_leaves_when_another_took_over_though_it_was_started_again() {
    let Some(bed) = bed() else { return };
    let edge = joins(edge(&bed));
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    bed.until("the shop answers", |_| shop(&edge) == "1");
    let before = processes(&edge);
    edge.kill_agent();
    assert_eq!(shop(&edge), "1", "nobody needs the agent for that");
    edge.run("systemctl restart fluke-agent");
    bed.settles();
    assert_eq!(processes(&edge), before, "it is the same one");

    // Somebody is connected, and says nothing.
    bed.commit("web.fluke.hcl", &service("web", "1", &with_ports(&[15431])));
    bed.until("its port answers", |_| at(&edge, 15431) == "1");
    edge.until("test $(pgrep -xc traefik) = 1");
    edge.unit(
        "session.service",
        "[Service]\nExecStart=/bin/sh -c 'sleep 1000 | busybox nc 127.0.0.1 15431'\n",
    );
    edge.run("systemctl start session");
    edge.until("ss -Htnp state established '( sport = :15431 )' | grep -q traefik");
    let (leaves, process) = (units(&edge).remove(0), processes(&edge));
    bed.commit("web.fluke.hcl", &service("web", "1", &with_ports(&[15431, 15432])));
    bed.until("the new port answers", |_| at(&edge, 15432) == "1");
    edge.until(&format!("! ss -Hltnp 'sport = :15431' | grep -q 'pid={process},'"));
    assert!(units(&edge).len() == 2 && edge.is_active(&leaves), "it has a connection");

    edge.run(&format!("systemctl kill --signal=KILL {leaves}"));
    edge.until(&format!("journalctl --unit {leaves} | grep -q 'restart counter is at 1'"));
    bed.until("it is told to leave once more", |_| !units(&edge).contains(&leaves));
    assert_eq!(shop(&edge), "1");
    assert_eq!(units(&edge).len(), 1);
}

#[test]
fn a_proxy_that_is_rebooted_serves_again() {
    let Some(bed) = bed() else { return };
    let edge = joins(edge(&bed));
    bed.commit("web.fluke.hcl", &service("web", "1", &with_ports(&[15431])));
    let serves = |_: &Bed| shop(&edge) == "1" && at(&edge, 15431) == "1";
    bed.until("it serves", serves);
    edge.reboot();
    bed.until("it serves again", serves);
    bed.settles();
    assert_eq!((units(&edge).len(), processes(&edge).lines().count()), (1, 1));
}

/// Traefik, once it may start.
const SLOW: &str = "#!/bin/sh\nuntil test -e /srv/go; do sleep 0.1; done\n\
                    exec /opt/fluke/traefik \"$@\"\n";

#[test]
fn an_agent_killed_as_a_traefik_starts_or_takes_over_ends_up_with_one_that_serves_everything() {
    let Some(bed) = bed() else { return };
    let edge = edge(&bed);
    edge.write("/usr/local/bin/slow-traefik", SLOW);
    edge.run("chmod +x /usr/local/bin/slow-traefik");
    let more = "proxy {\n    program = \"/usr/local/bin/slow-traefik\"\n  }".into();
    let edge = edge.joins_as(&Join { labels: "role=app".into(), more, ..Join::default() });
    let there_are = |count: usize| edge.until(&format!("test $({UNITS} | wc -l) = {count}"));
    let is_killed = || {
        edge.kill_agent();
        edge.run("systemctl restart fluke-agent");
    };

    // The first one starts, and has not come up.
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    there_are(1);
    is_killed();
    edge.run("touch /srv/go");
    bed.until("the shop answers", |_| shop(&edge) == "1");

    // The next one has not come up, is about to, has just done so.
    let moments: [fn(&Host); 3] = [
        |_| {},
        |edge| drop(edge.run("touch /srv/go")),
        |edge| {
            edge.run("touch /srv/go");
            edge.until("ss -Hltn 'sport = :15433' | grep -q .");
        },
    ];
    let mut ports = Vec::new();
    for (port, moment) in (15431..).zip(moments) {
        ports.push(port);
        edge.run("rm /srv/go");
        bed.commit("web.fluke.hcl", &service("web", "1", &with_ports(&ports)));
        there_are(2);
        moment(&edge);
        is_killed();
        // One that listens has not loaded its routes at once.
        bed.until("it is served meanwhile", |_| shop(&edge) == "1");
        edge.run("touch /srv/go");
        bed.until("every port answers", |_| ports.iter().all(|port| at(&edge, *port) == "1"));
        there_are(1);
        assert_eq!(shop(&edge), "1");
    }
    bed.settles();
    assert_eq!(processes(&edge).lines().count(), 1);
}

#[test]
fn a_port_for_requests_that_another_program_has_is_named_and_taken_once_it_is_free() {
    let Some(bed) = bed() else { return };
    let edge = edge(&bed);
    edge.unit(
        "other.service",
        "[Service]\nExecStart=/usr/bin/socat TCP-LISTEN:80,fork,reuseaddr SYSTEM:'echo other'\n",
    );
    edge.run("systemctl start other");
    edge.until("ss -Hltn 'sport = :80' | grep -q .");
    let edge = joins(edge);
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    let words = "another program of this host has port 80";
    bed.until("it is said", |bed| described(bed).contains(words));
    assert_eq!((units(&edge), processes(&edge)), (Vec::new(), String::new()));
    edge.run("systemctl stop other");
    bed.until("the shop answers", |_| shop(&edge) == "1");
    bed.until("nothing is wrong any more", |bed| !described(bed).contains(words));
}
