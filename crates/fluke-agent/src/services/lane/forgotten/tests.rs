use fluke_model::policy::Policy;
use fluke_model::verdict::{Drift, Verdict};

use super::*;
use crate::executor::Allow;
use crate::services::fixture;
use crate::services::lane::look::Seen;
use crate::services::lane::tests::{asleep, service, wanting};
use crate::services::plan::Why;

#[test]
fn a_container_is_known_by_its_control_group() {
    let id = "1c492db0abe57ed706bbcb51d9087a2e582279d488fbfa557a4d457047524b0f";
    for (groups, is_its_own) in [
        (format!("0::/machine.slice/libpod-{id}.scope\n"), true),
        (format!("0::/machine.slice/libpod-{id}.scope/init.scope\n"), true),
        (format!("4:memory:/libpod_parent/libpod-{id}\n0::/\n"), true),
        (format!("0::/machine.slice/libpod-conmon-{id}.scope\n"), false),
        (format!("0::/machine.slice/libpod-{}.scope\n", id.replace('1', "2")), false),
        (String::from("0::/system.slice/cron.service\n"), false),
    ] {
        assert_eq!(is_of(id, &groups), is_its_own, "{groups}");
    }
    assert!(!is_of("", "0::/libpod-\n"), "nothing is nobody's name");
}

#[test]
fn nothing_is_found_of_a_container_that_has_none() {
    let found = processes_of(&"0".repeat(64), Path::new("/proc")).expect("a kernel that tells");
    assert!(found.is_empty());
}

/// Folders like those of the kernel, in which process `number` is of container `ID`, and its
/// network ends at port 7 of the bridge.
fn kernel(number: u32) -> (tempfile::TempDir, Interfaces) {
    let dir = tempfile::tempdir().expect("a directory");
    let interfaces = Interfaces { sys: dir.path().join("sys"), proc: dir.path().join("proc") };
    let process = interfaces.proc.join(number.to_string());
    let class = interfaces.sys.join("class/net");
    let write = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
    };
    write(process.join("cgroup"), &format!("0::/machine.slice/libpod-{ID}.scope\n"));
    write(process.join("root/sys/class/net/eth0/iflink"), "7\n");
    write(process.join("root/sys/class/net/eth0/ifindex"), "2\n");
    write(class.join("fluke-br0/brif/veth0"), "");
    write(class.join("veth0/ifindex"), "7\n");
    write(class.join("veth0/iflink"), "2\n");
    (dir, interfaces)
}

/// A process that runs for as long as anybody may want it to.
fn sleeping() -> std::process::Child {
    std::process::Command::new("sleep").arg("1000").spawn().expect("it runs")
}

const ID: &str = "1c492db0abe57ed7";

#[test]
fn its_end_of_the_bridge_is_left_of_a_container_when_its_processes_are_gone() {
    let mut sleep = sleeping();
    let (_dir, interfaces) = kernel(sleep.id());
    let of = |links: &BTreeSet<u32>| Traces::of(ID, links, &interfaces).expect("it tells");
    let alive = of(&BTreeSet::new());
    assert_eq!((alive.processes.len(), &alive.links), (1, &BTreeSet::from([7])));
    sleep.kill().and_then(|()| sleep.wait()).expect("it ends");
    let dead = of(&alive.links);
    assert_eq!((dead.processes.len(), &dead.links), (0, &BTreeSet::from([7])));
    std::fs::remove_file(interfaces.sys.join("class/net/fluke-br0/brif/veth0"))
        .expect("a port that goes");
    assert_eq!(of(&dead.links).links, BTreeSet::new(), "what is no port of ours stays");
}

#[test]
fn what_is_numbered_in_a_network_of_its_own_within_a_container_is_no_port_of_ours() {
    let mut sleep = sleeping();
    let (_dir, interfaces) = kernel(sleep.id());
    let inside = interfaces.proc.join(sleep.id().to_string());
    std::fs::write(inside.join("root/sys/class/net/eth0/ifindex"), "5\n").expect("room");
    let traces = Traces::of(ID, &BTreeSet::new(), &interfaces).expect("it tells");
    sleep.kill().and_then(|()| sleep.wait()).expect("it ends");
    assert_eq!((traces.processes.len(), traces.links), (1, BTreeSet::new()));
}

#[test]
fn processes_end_though_their_network_cannot_be_taken_away_which_is_said() {
    let mut sleep = sleeping();
    let number = sleep.id().cast_signed();
    let process = Pid::from_raw(number).expect("a number");
    let process = pidfd_open(process, PidfdFlags::empty()).expect("it is there");
    // Nobody can take away the loopback.
    let traces = Traces { processes: vec![(number, process)], links: BTreeSet::from([1]) };
    let said = traces.wipe().expect_err("something stays").to_string();
    assert!(has_ended(&traces.processes[0].1, Instant::now()).expect("it can be told"));
    sleep.wait().expect("it ended");
    let how = "its processes have ended, and interface 1, their end of the network, cannot be";
    assert!(said.starts_with(how), "{said}");
}

/// What was started, and for how long it would have been remembered is over.
fn a_moment_ago() -> Forgotten {
    let what = Remains { origin: Origin::default(), name: "db".into(), image: "db:1".into() };
    let started = Started { what, links: BTreeSet::new(), until: Instant::now() };
    Forgotten { started: BTreeMap::from([(ID.into(), started)]), left: BTreeSet::new() }
}

#[tokio::test]
async fn what_takes_somebody_long_to_remove_is_looked_for_after_that() {
    let db = fixture::deployment("db", fixture::spec("db:1"));
    let listed = |state| [fixture::container(ID, &db, state)];
    for (meanwhile, is_found) in [
        (State::Changing, true),
        (State::Stuck, true),
        (State::Exited, true),
        (State::Running, false),
    ] {
        let mut sleep = sleeping();
        let (dir, interfaces) = kernel(sleep.id());
        let podman = Podman::at(&dir.path().join("podman.sock")).expect("a client");
        let mut forgotten = a_moment_ago();
        assert_eq!(forgotten.beside(&listed(meanwhile), &podman, &interfaces).await, []);
        let beside = forgotten.beside(&[], &podman, &interfaces).await;
        sleep.kill().and_then(|()| sleep.wait()).expect("it ends");
        assert_eq!(!beside.is_empty(), is_found, "{meanwhile:?}");
    }
}

#[tokio::test]
async fn what_podman_removed_is_looked_for_and_what_was_seen_to_end_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let (container, origin) = (ID.to_owned(), Origin::default());
    let removed = Change::Remove { container, origin, why: Why::Stuck };
    for (was_forgotten, left) in [(false, 1), (true, 0)] {
        lane.forgotten = a_moment_ago();
        lane.remember_end(&removed, was_forgotten, Ok(Some(ID)));
        assert_eq!(lane.forgotten.started.len(), left, "{was_forgotten}");
    }
}

#[tokio::test]
async fn what_podman_forgot_is_told_as_that_whoever_may_do_something_about_it() {
    let db = fixture::deployment("db", fixture::spec("db:1"));
    let Container { origin, .. } = fixture::container(ID, &db, State::Stuck);
    let what = Remains { origin, name: "db".into(), image: "db:1".into() };
    let found = what.as_container(ID, true);
    let dir = tempfile::tempdir().expect("a directory");
    let lane = asleep(dir.path(), &Allow::default());
    let seen = Seen { containers: vec![found], ..Seen::nothing() };
    let mut alert_only = service("db", fixture::spec("db:1"));
    alert_only.policy = Policy::AlertOnly;
    let desired = wanting(&lane, alert_only);
    let plan = lane.plan(&desired, &seen, &BTreeMap::new());
    assert_eq!(plan.changes, []);
    let how = "its container was changed: Podman forgot it, and its processes go on";
    let report = &plan.reports[0];
    assert_eq!(report.verdict, Verdict::Drifted(Drift::because(how)));
    assert_eq!(report.note, Some(format!("{how}; its policy is alert_only")));
}

#[test]
fn what_an_agent_left_to_end_is_looked_for_by_the_next_one() {
    let origin = Origin::default();
    let what = Remains { origin, name: "db".into(), image: "db:1".into() };
    let left = BTreeMap::from([(ID.to_owned(), what)]);
    let next = Forgotten::with(left.clone(), Instant::now());
    assert_eq!(next.left(), left, "it stays on disk until somebody has looked");
    assert!(next.remains(ID).is_some());
}
