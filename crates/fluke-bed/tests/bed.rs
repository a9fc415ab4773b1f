//! What stories may rely on: hosts are hosts, cuts cut, and nothing is left behind.

use std::process::Command;

use fluke_bed::site::Site;
use fluke_bed::{Bed, Host};

/// A bed without fluke: any program will do.
fn bed() -> Option<Bed> {
    Bed::up("/bin/true")
}

fn reaches(from: &Host, to: &str) -> bool {
    from.is(&format!("ping -c1 -W2 -q {to}"))
}

fn prints(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_host_has_a_systemd_an_address_and_a_name_of_its_own() {
    let Some(bed) = bed() else { return };
    let [one, two] = bed.hosts(["one", "two"]);
    assert_eq!(one.run("cat /proc/1/comm"), "systemd");
    assert_eq!(one.run("hostname"), "one");
    assert_eq!(one.run("hostname -I").trim(), one.address().to_string());
    assert!(reaches(&one, "two") && reaches(&two, "one") && reaches(&one, "server"));
    assert_ne!(one.read("/etc/machine-id"), two.read("/etc/machine-id"));
    assert!(!one.is("ip route get 198.51.100.1"), "there is no way out of the bed");
    one.unit("sleeper.service", "[Service]\nExecStart=/bin/sleep infinity\n");
    one.run("systemctl start sleeper");
    assert!(one.is_active("sleeper.service") && !two.is_active("sleeper.service"));
}

#[test]
fn a_reboot_keeps_the_disk_and_the_address_and_nothing_else() {
    let Some(bed) = bed() else { return };
    let host = bed.host("one");
    host.unit(
        "kept.service",
        "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
    );
    host.run("systemctl enable --quiet kept; systemd-run --quiet --unit=passing sleep infinity");
    host.run("ip link add br0 type bridge; touch /run/passing /srv/kept");
    let id = host.read("/etc/machine-id");
    for power_cut in [false, true] {
        if power_cut {
            host.kill();
            host.start();
        } else {
            host.reboot();
        }
        assert_eq!(host.read("/etc/machine-id"), id);
        assert!(host.has("/srv/kept") && host.is_active("kept.service"));
        assert!(!host.has("/run/passing") && !host.is_active("passing.service"));
        assert!(!host.is("ip link show dev br0"), "interfaces are not kept");
        assert!(reaches(&host, "server"));
    }
}

#[test]
fn cuts_cut_what_they_name_until_they_are_healed() {
    let Some(bed) = bed() else { return };
    let [one, two, three] = bed.hosts(["one", "two", "three"]);
    bed.partition(&one);
    assert!(!reaches(&one, "two") && !reaches(&two, "one") && !reaches(&one, "server"));
    assert!(reaches(&two, "three"));
    one.reboot();
    assert!(!reaches(&one, "server"), "a reboot mends no network");
    bed.heal();
    one.until("ping -c1 -W2 -q server");

    bed.cut(&one, &two);
    assert!(!reaches(&one, "two") && !reaches(&two, "one"));
    assert!(reaches(&one, "three") && reaches(&two, "server"));
    bed.cut(&three, bed.gateway());
    assert!(!reaches(&three, "server") && reaches(&three, "one"));
    bed.heal();
    one.until("ping -c1 -W2 -q two");

    bed.unplug(&three);
    assert_eq!(three.run("cat /sys/class/net/eth0/carrier"), "0", "it sees that");
    bed.plug(&three);
    three.until("ping -c1 -W2 -q server");

    bed.lossy(&two, 100);
    assert!(!reaches(&two, "three"));
    bed.heal();
    two.until("ping -c1 -W2 -q three");
}

#[test]
fn a_frozen_host_stands_still_and_goes_on() {
    let Some(bed) = bed() else { return };
    let host = bed.host("one");
    host.unit(
        "clock.service",
        "[Service]\nExecStart=/bin/sh -c 'while sleep 0.02; do echo >> /srv/ticks; done'\n",
    );
    host.run("systemctl start clock");
    host.until("test -s /srv/ticks");
    host.freeze();
    let ticks = host.read("/srv/ticks").len();
    // What would be a second of ticks.
    host.run("sleep 1");
    assert_eq!(host.read("/srv/ticks").len(), ticks);
    host.thaw();
    host.until(&format!("test $(stat -c %s /srv/ticks) -gt {ticks}"));
}

#[test]
fn a_host_runs_containers_of_its_own() {
    let Some(bed) = bed() else { return };
    let host = bed.host("one");
    host.run(
        "mkdir -p /tmp/image/bin && cp /bin/busybox /tmp/image/bin/ \
         && ln -s busybox /tmp/image/bin/sh && ln -s busybox /tmp/image/bin/sleep \
         && tar -C /tmp/image -c . | podman import --quiet - localhost/tiny:1",
    );
    host.run("podman network create --disable-dns --subnet 10.200.1.0/24 inner");
    let run = "podman run --rm --network inner --ip 10.200.1.10 localhost/tiny:1";
    assert_eq!(
        host.run(&format!("{run} sh -c 'echo hello; busybox hostname -i'")),
        "hello\n10.200.1.10"
    );
    let limited = "podman run --rm --network none --memory 32m localhost/tiny:1 \
                   busybox dd if=/dev/zero of=/dev/null bs=100M count=1";
    assert_eq!(host.try_run(limited).code, 137, "limits hold");
    host.until("curl -sf --unix-socket /run/podman/podman.sock http://d/v4.0.0/libpod/_ping");
}

#[test]
fn beds_do_not_see_each_other() {
    let (Some(here), Some(there)) = (bed(), bed()) else { return };
    let (one, two) = (here.host("one"), there.host("one"));
    assert_ne!(one.address(), two.address());
    assert!(!reaches(&one, &two.address().to_string()));
}

#[test]
fn nothing_is_left_of_a_bed_that_is_done_nor_of_one_whose_owner_died() {
    let Some(bed) = bed() else { return };
    let done = id(&bed);
    let host = bed.host("one");
    host.freeze();
    drop((host, bed));
    assert_eq!(traces(&done), Vec::<String>::new());

    let (site, owner) = Site::for_story("of somebody who dies").expect("a site");
    site.boot("one").expect("a host");
    let left = site.id().to_string();
    assert_eq!(traces(&left).len(), 4, "{:?}", traces(&left));
    // The lock is all that tells a living owner from a dead one.
    drop(owner);
    drop(self::bed());
    assert_eq!(traces(&left), Vec::<String>::new());
}

fn id(bed: &Bed) -> String {
    bed.folder().file_name().expect("a name").to_string_lossy().into_owned()
}

/// Where a bed can still be seen.
fn traces(id: &str) -> Vec<String> {
    let mut traces = Vec::new();
    let mut look = |what: &str, seen: bool| {
        if seen {
            traces.push(what.to_string());
        }
    };
    look("folder", std::path::Path::new("/var/lib/fluke-bed").join(id).exists());
    look("links", prints("ip", &["-brief", "link"]).contains(&format!("fb-{id}")));
    look("tables", prints("nft", &["list", "tables"]).contains(&format!("fluke_bed_{id}")));
    let names = prints("podman", &["ps", "--all", "--format={{.Names}}"]);
    look("containers", names.contains(&format!("fluke-bed-{id}-")));
    traces
}
