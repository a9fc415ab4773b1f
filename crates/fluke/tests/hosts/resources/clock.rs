//! Clocks that jump by a day and by ten years, ahead and back, while things go on.
//!
//! Hosts share the machine's clock, which nobody touches: the program under test is given another
//! one, which is read from a file with every look at it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fluke_model::event::EventKind;

use super::super::support::{Bed, Host, Join, ServerOptions, applied, bed, keeps};
use super::{assert_every_apply_has_one_end, assert_no_bug, polling};

/// From the right time, to each of these in turn.
const JUMPS: [&str; 5] = ["+1d", "-1d", "+3650d", "-3650d", "+0"];

/// A file that tells the time, and what makes a program believe it.
fn believing(library: &str, file: &str) -> [(String, String); 4] {
    [
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", file),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ]
    .map(|(name, value)| (name.to_string(), value.to_string()))
}

/// Where Debian puts it, whatever the architecture.
fn library_under(root: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(root.join("usr/lib")).ok()?;
    let mut files = folders.flatten().map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    files.find(|file| file.exists())
}

/// A step that counts how often it is looked at.
fn counted() -> String {
    keeps("file", "remediate").replace("check   = \"", "check   = \"echo x >> /srv/looks; ")
}

fn looks(host: &Host) -> usize {
    host.read("/srv/looks").lines().count()
}

fn connections(bed: &Bed) -> usize {
    bed.events_of("web-1", EventKind::AgentConnected).len()
}

/// Breaks the step and waits for it to be put right: once, and at the pace of polls.
fn assert_it_is_put_right_at_leisure(bed: &Bed, host: &Host, jump: &str) {
    let (looked, before, began) = (looks(host), applied(host, "file"), Instant::now());
    host.run("rm /srv/file");
    host.until("test -f /srv/file");
    bed.settles();
    // A check after 0.85 s at the earliest, three around an apply; and time passes between asking
    // and looking.
    let due = began.elapsed().as_secs() as usize * 20 / 17 + 8;
    let more = looks(host) - looked;
    assert!(more <= due, "{jump}: {more} looks where {due} were due: a burst");
    assert_eq!(applied(host, "file"), before + 1, "{jump}");
}

#[test]
fn an_agents_clock_may_jump_and_nothing_happens_but_other_dates() {
    let Some(bed) = bed() else { return };
    bed.server_with(polling());
    let host = bed.host("web-1");
    host.write("/run/clock", "+0");
    let library = host.run("ls /usr/lib/*/faketime/libfaketime.so.1");
    let variables = believing(&library, "/run/clock")
        .map(|(name, value)| format!("Environment={name}={value}"));
    let web = host.joins_as(&Join { service: variables.join("\n"), ..Join::default() });
    bed.commit("a.fluke.hcl", &counted());
    bed.settles();
    for jump in JUMPS {
        web.write("/run/clock", jump);
        assert_it_is_put_right_at_leisure(&bed, &web, jump);
    }
    assert_eq!(connections(&bed), 1, "the stream stays up:\n{}", bed.account());
    let told = bed.events_of("web-1", EventKind::ApplyFinished);
    // In the order of the jumps, behind the first apply; they are what the clock said.
    let days = |later: usize, earlier: usize| {
        told[later].time.since(told[earlier].time).as_secs() / (24 * 3600)
    };
    let (ahead, back) = (days(3, 0), days(0, 4));
    // Ten times 365 days apart, and the story went on for a while in between.
    assert_eq!((ahead, back), (3650, 3649), "{}", bed.account());

    // A handshake by a wrong clock says that it is the clock; by the right one it succeeds.
    web.write("/run/clock", "+3650d");
    bed.server().restart();
    web.until("journalctl -u fluke-agent | grep 'expired by the clock of this host' | grep -q 'set the clock'");
    web.run("rm /srv/file");
    web.until("test -f /srv/file");
    web.write("/run/clock", "+0");
    bed.settles();
    assert_every_apply_has_one_end(&bed, &web);
    assert_no_bug(&web);
}

#[test]
fn the_servers_clock_may_jump_and_agents_stay_or_come_back() {
    let Some(bed) = bed() else { return };
    let library = library_under(Path::new("/")).expect("the bed installs it");
    let clock = bed.folder().join("clock");
    let set = |time: &str| std::fs::write(&clock, time).expect("a file is written");
    set("+0");
    let environment = believing(&library.to_string_lossy(), &clock.to_string_lossy()).to_vec();
    bed.server_with(ServerOptions { environment, ..polling() });
    let web = bed.host("web-1").joins("");
    bed.commit("a.fluke.hcl", &counted());
    bed.settles();
    for jump in JUMPS {
        set(jump);
        assert_it_is_put_right_at_leisure(&bed, &web, jump);
    }
    assert_eq!(connections(&bed), 1, "the stream stays up:\n{}", bed.account());
    let ids: Vec<_> = bed.all_events().iter().map(|event| event.id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "ids only grow");

    // Agents that come while the clock is wrong: behind the CA's own beginning it is not believed…
    set("-3650d");
    web.kill_agent();
    bed.until("it is back", |_| connections(&bed) == 2);
    // …ahead, the certificate is of another time. The agent says so, and goes on by itself.
    set("+3650d");
    wait_for_a_second_look();
    web.kill_agent();
    web.until("journalctl -u fluke-agent | grep 'not valid yet by the clock of this host' | grep -q 'at the server'");
    web.run("rm /srv/file");
    web.until("test -f /srv/file");
    set("+0");
    bed.settles();
    assert_eq!(connections(&bed), 3, "{}", bed.account());
    assert_every_apply_has_one_end(&bed, &web);
    assert!(!bed.server().log().contains("panicked"));
}

/// The server looks at its certificate once a second at most; this is about the next time.
fn wait_for_a_second_look() {
    std::thread::sleep(Duration::from_millis(1100));
}
