//! Disks that are full, read-only or empty, and state files that are damaged.

use std::path::PathBuf;
use std::process::Command;

use fluke_model::event::EventKind;
use fluke_model::verdict::Outcome;

use super::super::support::{Host, Join, applied, bed, keeps};
use super::{assert_every_apply_has_one_end, assert_no_bug, polling};

/// A step that says more than the last page of a file has room for.
fn loud(name: &str) -> String {
    let said = "head -c 20000 /dev/zero | tr '\\\\0' x";
    keeps(name, "remediate").replace("command = \"", &format!("command = \"{said}; "))
}

/// A step that takes long enough to be interrupted.
fn slow(name: &str) -> String {
    keeps(name, "remediate")
        .replace("command = \"", &format!("command = \"touch /srv/{name}.began; sleep 3; "))
}

fn assert_state_is_sound(host: &Host) {
    let files = "for f in /var/lib/fluke/{identity,snapshot,settings}.json /var/lib/fluke/journal";
    let told =
        host.run(&format!("{files}; do jq . $f > /dev/null || exit 1; done; ls /var/lib/fluke"));
    assert!(!told.contains(".new"), "{told}");
}

#[test]
fn a_full_disk_under_the_state_loses_no_event_and_repeats_no_apply() {
    let Some(bed) = bed() else { return };
    bed.server_with(polling());
    let [bytes, inodes] = bed.hosts(["bytes-1", "inodes-1"]);
    let mount = "mkdir -p /var/lib/fluke && mount -t tmpfs state /var/lib/fluke -o mode=700";
    bytes.run(&format!("{mount},size=128k"));
    inodes.run(&format!("{mount},nr_inodes=30"));
    let hosts = [bytes.joins(""), inodes.joins("")];
    bed.commit("a.fluke.hcl", &keeps("first", "remediate"));
    bed.settles();

    hosts[0].run("head -c 1M /dev/zero > /var/lib/fluke/fill 2> /dev/null; true");
    hosts[1].run("for n in {1..50}; do : > /var/lib/fluke/fill.$n; done 2> /dev/null; true");
    bed.commit("b.fluke.hcl", &loud("second"));
    bed.settles();
    for host in &hosts {
        host.until("journalctl -u fluke-agent | grep -q 'state cannot be written'");
    }

    // Killed in the middle of what could not be written down.
    bed.commit("c.fluke.hcl", &slow("third"));
    for host in &hosts {
        host.until("test -f /srv/third.began");
        host.kill_agent();
    }
    bed.settles();
    bed.commit("d.fluke.hcl", &loud("fourth"));
    bed.settles();
    for host in &hosts {
        let of = |task: &str| -> Vec<Option<Outcome>> {
            let ended = bed.events_of(host.name(), EventKind::ApplyFinished);
            let of_task = ended
                .iter()
                .filter(|event| event.task.as_ref().is_some_and(|t| t.as_str() == task));
            of_task.map(|event| event.outcome).collect()
        };
        let (interrupted, success) = (Some(Outcome::Interrupted), Some(Outcome::Success));
        assert_eq!(of("third"), [interrupted, success], "{}", bed.account());
        for task in ["first", "second", "fourth"] {
            assert_eq!(of(task), [success], "{task} on {}: {}", host.name(), bed.account());
            assert_eq!(applied(host, task), 1, "{task} on {}", host.name());
        }
        assert_every_apply_has_one_end(&bed, host);
        assert_no_bug(host);
    }

    for host in &hosts {
        host.run("rm -f /var/lib/fluke/fill*");
        host.until("journalctl -u fluke-agent | grep -q 'state can be written again'");
        assert_state_is_sound(host);
    }
    // And it is there when it is needed.
    bed.server().stop();
    for host in &hosts {
        host.kill_agent();
        host.run("rm /srv/fourth");
        host.until("test -f /srv/fourth");
    }
}

#[test]
fn state_that_is_removed_damaged_or_read_only_is_said_and_made_anew() {
    let Some(bed) = bed() else { return };
    bed.server_with(polling());
    // The agent's own affair: systemd starts nothing where it cannot make the directory.
    let service = "StateDirectory=".to_string();
    let web = bed.host("web-1").joins_as(&Join { service, ..Join::default() });
    bed.commit("a.fluke.hcl", &keeps("first", "remediate"));
    bed.settles();

    says_whose_it_is(&web);
    // Removed under a running agent.
    let identity = web.read("/var/lib/fluke/identity.json");
    web.run("rm -r /var/lib/fluke");
    bed.commit("b.fluke.hcl", &keeps("second", "remediate"));
    bed.settles();
    assert_eq!(web.read("/var/lib/fluke/identity.json"), identity, "it is who it was");
    web.until("journalctl -u fluke-agent | grep -q 'state was removed; it is written anew'");
    assert_state_is_sound(&web);

    // Out of reach for a while: what is mounted over it is read-only.
    web.run("mount -t tmpfs -o ro cover /var/lib/fluke");
    bed.commit("c.fluke.hcl", &keeps("third", "remediate"));
    bed.settles();
    web.until("journalctl -u fluke-agent | grep -q 'Read-only file system'");
    // Also at its start, where there is nothing to begin with.
    web.kill_agent();
    bed.commit("d.fluke.hcl", &keeps("fourth", "remediate"));
    bed.settles();
    web.run("umount /var/lib/fluke");
    web.until("journalctl -u fluke-agent | grep -q 'state can be written again'");
    web.kill_agent();
    bed.settles();
    assert_state_is_sound(&web);

    // Damaged, every file in another way.
    web.stop_agent();
    web.run(
        "cd /var/lib/fluke; : > identity.json; echo '{\"comm' > snapshot.json; \
         head -c 500 /dev/urandom > journal; printf '\\0\\0\\0' > settings.json",
    );
    web.start_agent();
    bed.settles();
    for file in ["identity.json", "snapshot.json", "journal", "settings.json"] {
        assert!(web.has(&format!("/var/lib/fluke/{file}.corrupt-1")), "{file} is kept");
        let said =
            format!("journalctl -u fluke-agent | grep 'a state file is damaged' | grep -q {file}");
        assert!(web.is(&said), "{file} is warned of");
    }
    assert_state_is_sound(&web);
    for task in ["first", "second", "third", "fourth"] {
        assert_eq!(applied(&web, task), 1, "{task}");
    }
    assert_every_apply_has_one_end(&bed, &web);
    assert_no_bug(&web);
}

#[test]
fn power_that_is_cut_while_state_is_written_leaves_files_that_can_be_read() {
    let Some(bed) = bed() else { return };
    bed.server_with(polling());
    let web = bed.host("web-1").joins("");
    for round in 0..3 {
        let name = format!("round-{round}");
        bed.commit("a.fluke.hcl", &loud(&name));
        web.until(&format!("test -f /srv/{name}"));
        web.kill();
        web.start();
        bed.settles();
        assert_state_is_sound(&web);
        assert_eq!(applied(&web, &name), 1, "what was done is not done again");
    }
    assert!(!web.is("ls /var/lib/fluke/*.corrupt-*"));
    assert_every_apply_has_one_end(&bed, &web);
}

/// Two agents do not share a state, and one that may not write there says so at once.
fn says_whose_it_is(web: &Host) {
    let told = web.try_run("fluke agent --config /etc/fluke/agent.hcl");
    assert!(told.stderr.contains("another agent uses the state directory"), "{told:?}");
    let other = "s/^agent {/agent {\\n  state_dir = \"\\/var\\/lib\\/other\"/";
    web.run(&format!("useradd app; sed '{other}' /etc/fluke/agent.hcl > /tmp/other.hcl"));
    let told =
        web.try_run("setpriv --reuid=app --clear-groups fluke agent --config /tmp/other.hcl");
    assert!(!told.ok());
    for part in ["/var/lib/other cannot be used", "Permission denied", "`state_dir`"] {
        assert!(told.stderr.contains(part), "{told:?}");
    }
}

/// A small disk, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).expect("a folder");
        assert!(mount(&["-t", "tmpfs", "-o", "size=1m", "small", &path.to_string_lossy()]));
        Self(path)
    }

    fn fill(&self) {
        let _ = std::fs::write(self.0.join("fill"), vec![b'x'; 2 << 20]);
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("fill")).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str]) -> bool {
    Command::new("mount").args(arguments).status().is_ok_and(|status| status.success())
}

#[test]
fn a_full_disk_under_the_servers_mirror_keeps_the_commit_in_force_and_heals_by_itself() {
    let Some(bed) = bed() else { return };
    let disk = SmallDisk::at(bed.folder().join("server/cache"));
    bed.server_with(polling());
    let web = bed.host("web-1").joins("");
    let good = bed.commit("a.fluke.hcl", &keeps("first", "remediate"));
    bed.settles();

    disk.fill();
    let news = bed.commit("b.fluke.hcl", &keeps("second", "remediate"));
    bed.until("the server says that its disk is full", |bed| {
        bed.source().error.is_some_and(|error| {
            error.contains("cannot be written") && error.contains("No space left")
        })
    });
    assert_eq!(bed.source().commit, Some(good), "what was in force stays");
    web.run("rm /srv/first");
    web.until("test -f /srv/first");
    assert!(!web.has("/srv/second"));

    disk.free();
    bed.settles();
    assert_eq!(bed.source().commit, Some(news));
    assert_eq!(applied(&web, "second"), 1);
    assert_every_apply_has_one_end(&bed, &web);
}
