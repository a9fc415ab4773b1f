//! What is under way when a container is replaced.

use super::support::{HTTP, has_image, is_proxy, running, runs_one, service, shop, traefik};
use crate::hosts::support::{Join, bed};

#[test]
fn a_request_under_way_is_answered_whole_by_the_old_one_when_others_are_led_to_the_new_one() {
    let Some(bed) = bed() else { return };
    let [edge] = bed.hosts(["edge-1"]);
    bed.brings(&traefik(), "traefik");
    has_image(&edge, "1");
    has_image(&edge, "2");
    let edge = edge.joins_as(&Join { labels: "role=app".into(), ..is_proxy() });
    // It does not wait for anybody once it is told to end.
    let ends = r#"command = ["/bin/sh", "-c", "trap exit TERM; httpd -f -p 3000 -h /www & wait"]"#;
    let web = |tag: &str| service("web", tag, &format!("{HTTP}\n  {ends}"));
    bed.commit("web.fluke.hcl", &web("1"));
    bed.until("the shop answers", |_| shop(&edge) == "1");
    let old = runs_one(&bed, &edge, "web");
    edge.run(
        "systemd-run --quiet --unit slow bash -c 'curl --silent --show-error --no-buffer \
         --header \"Host: shop.example.com\" http://127.0.0.1/cgi-bin/slow >/tmp/slow 2>&1'",
    );
    edge.until("grep -qx begun /tmp/slow");

    bed.commit("web.fluke.hcl", &web("2"));
    bed.until("others are led to the new one", |_| (0..5).all(|_| shop(&edge) == "2"));
    edge.run(&format!("podman exec {old} touch /tmp/go"));
    edge.until("! systemctl is-active --quiet slow");
    assert_eq!(edge.read("/tmp/slow"), "begun\n1\n");
    assert_ne!(runs_one(&bed, &edge, "web"), old, "then it goes");
    assert_eq!(running(&edge, "web").len(), 1);
}
