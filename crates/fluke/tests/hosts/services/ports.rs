//! Connections, packets and TLS that is not the proxy's reach a container on another host.

use super::support::{containers, is_proxy, running, service, traefik};
use crate::hosts::support::{Bed, Host, Join, bed};

/// An image on the host, `localhost/speaks:TAG`. It says TAG to who connects to port 7000, to who
/// sends a packet to 7001, and to who speaks TLS at 7002: there in its certificate, too.
fn has_image_that_speaks(host: &Host, tag: &str) {
    host.run(&format!(
        r#"set -e; root=$(mktemp -d); mkdir -p $root/bin $root/tmp
           cp /bin/busybox $root/bin/
           for name in sh cat; do ln -s busybox $root/bin/$name; done
           cp --parents $(command -v socat) $(ldd $(command -v socat) | grep -o '/[^ ]*') $root/
           openssl req -x509 -newkey rsa:2048 -nodes -subj /CN={tag} -keyout $root/key -out $root/cert 2>/tmp/said
           cat $root/key $root/cert > $root/pem
           echo {tag} > $root/says
           cat > $root/bin/speak <<'END'
#!/bin/sh
socat TCP-LISTEN:7000,fork,reuseaddr SYSTEM:'cat /says' &
socat UDP-RECVFROM:7001,fork SYSTEM:'cat /says' &
exec socat OPENSSL-LISTEN:7002,fork,reuseaddr,cert=/pem,verify=0 SYSTEM:'cat /says'
END
           chmod +x $root/bin/speak
           tar -C $root -c . | podman import --quiet --change 'ENV PATH=/bin:/usr/bin' \
               --change 'CMD ["/bin/speak"]' - localhost/speaks:{tag}
           rm -r $root"#
    ));
}

/// A service of this image, which is led to by TLS under its own name.
fn speaks(name: &str, tag: &str, more: &str) -> String {
    let tls = format!(
        r#"port "tls" {{
    container = 7002
    protocol  = "tcp"
    external  = 15443
    domain    = "{name}.example.com"
  }}
  {more}"#
    );
    service(name, tag, &tls).replace("localhost/web:", "localhost/speaks:")
}

const PLAIN: &str = r#"port "sql" {
    container = 7000
    protocol  = "tcp"
    external  = 15432
  }
  port "game" {
    container = 7001
    protocol  = "udp"
    external  = 11001
  }"#;

/// Whose certificate somebody outside is shown under a name, and what they are told then.
fn by_tls(client: &Host, name: &str) -> String {
    let ask = format!(
        "timeout 3 openssl s_client -connect edge-1:15443 -servername {name}.example.com \
         -ign_eof </dev/null 2>/dev/null | grep -x -e 'subject=.*' -e one -e two -e other"
    );
    client.try_run(&ask).stdout.split_whitespace().collect()
}

/// What they are told by a connection, by a packet, and by TLS to `db` and to `web`.
fn told(client: &Host) -> [String; 4] {
    let connects = "timeout 3 socat -u TCP:edge-1:15432,connect-timeout=2 -";
    let sends = "echo ask | timeout 3 socat -t1 - UDP:edge-1:11001";
    let [by_connection, by_packet] = [connects, sends].map(|ask| client.try_run(ask).stdout);
    [by_connection, by_packet, by_tls(client, "db"), by_tls(client, "web")]
}

#[test]
fn connections_packets_and_tls_of_its_own_reach_a_container_on_another_host() {
    let Some(bed) = bed() else { return };
    bed.hosts(["edge-1", "app-1", "out-1"]);
    bed.brings(&traefik(), "traefik");
    let edge = bed.host("edge-1").joins_as(&Join { labels: "role=edge".into(), ..is_proxy() });
    let app = bed.host("app-1").joins("role=app");
    let client = bed.host("out-1");
    for tag in ["one", "two", "other"] {
        has_image_that_speaks(&app, tag);
    }
    bed.commit("db.fluke.hcl", &speaks("db", "one", PLAIN));
    bed.commit("web.fluke.hcl", &speaks("web", "other", ""));
    let answers = |tag: &str| {
        let certified = |tag: &str| format!("subject=CN={tag}{tag}");
        [tag.to_string(), tag.to_string(), certified(tag), certified("other")]
    };
    let are_told = |bed: &Bed, tag: &str| {
        bed.until(&format!("all ports answer {tag}"), |_| told(&client) == answers(tag));
    };
    are_told(&bed, "one");
    assert!(containers(&edge, "db").is_empty(), "it is elsewhere");
    let stranger = by_tls(&client, "nobody");
    assert!(!["one", "other"].iter().any(|it| stranger.contains(it)), "{stranger}");

    // Somebody plays on, from one port, without a pause.
    let plays =
        "while sleep 0.2; do echo ask | socat -t0.2 - UDP:edge-1:11001,sourceport=20000; done";
    let unit = format!("[Service]\nExecStart=/bin/sh -c '{plays} >>/tmp/played'\n");
    client.unit("plays.service", &unit);
    client.run("systemctl start plays");
    client.until("grep -q one /tmp/played");

    bed.commit("db.fluke.hcl", &speaks("db", "two", PLAIN));
    are_told(&bed, "two");
    bed.until("the old one is gone", |_| containers(&app, "db") == running(&app, "db"));
    client.until("tail -n 1 /tmp/played | grep -q two");
    bed.settles();
    // Once more: of packets one may be lost.
    are_told(&bed, "two");
}
