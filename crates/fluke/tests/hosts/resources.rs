//! What a host, or the server's machine, can run out of; and how it ends: as Git says, with every
//! apply told from its beginning to its end.

mod children;
mod clock;
mod crowd;
mod disk;
mod limits;

use std::collections::BTreeSet;

use fluke_model::event::EventKind;

use super::support::{Bed, Host, ServerOptions, quick};

/// What a process holds of what a machine has.
#[derive(Debug, Clone, Copy)]
struct Holds {
    descriptors: usize,
    threads: usize,
    children: usize,
    memory_kib: usize,
}

/// A server that polls every second.
fn polling() -> ServerOptions {
    quick()
}

/// The agent's process on its host.
fn agent_pid(host: &Host) -> String {
    host.run("systemctl show --property=MainPID --value fluke-agent.service")
}

/// What the agent holds.
fn held_by_agent(host: &Host) -> Holds {
    let pid = agent_pid(host);
    let told = host.run(&format!(
        "ls /proc/{pid}/fd | wc -l; ls /proc/{pid}/task | wc -l; \
         (ps --no-headers --ppid {pid} || true) | wc -l; \
         awk '/VmRSS/ {{ print $2 }}' /proc/{pid}/status"
    ));
    let numbers: Vec<usize> = told.lines().map(|line| line.trim().parse().unwrap_or(0)).collect();
    let [descriptors, threads, children, memory_kib] = numbers[..] else {
        panic!("the agent is not there: {told}");
    };
    Holds { descriptors, threads, children, memory_kib }
}

/// What the server holds.
fn held_by_server(bed: &Bed) -> Holds {
    let folder = format!("/proc/{}", bed.server().pid().expect("the server runs"));
    let count = |name: &str| {
        std::fs::read_dir(format!("{folder}/{name}")).expect("the server lives").count()
    };
    let status = std::fs::read_to_string(format!("{folder}/status")).expect("the server lives");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("memory");
    let memory_kib = memory.trim().trim_end_matches(" kB").parse().expect("a number");
    Holds { descriptors: count("fd"), threads: count("task"), children: 0, memory_kib }
}

/// Waits until the agent holds no more than it did, and nothing of what it started is left.
fn assert_it_gave_back(bed: &Bed, host: &Host, before: Holds) {
    bed.until("the agent has given back what it took", |_| {
        let now = held_by_agent(host);
        now.descriptors <= before.descriptors && now.children == 0 && now.threads <= 16
    });
}

/// Every apply that began on a host comes to exactly one end, and none ended that had not begun.
fn assert_every_apply_has_one_end(bed: &Bed, host: &Host) {
    // A host may be in sync before the last of what it did alone has been told.
    bed.until("every apply has its end", |bed| open_applies(bed, host).is_empty());
}

/// What began on a host and has no end yet.
fn open_applies(bed: &Bed, host: &Host) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for event in bed.events(host.name()) {
        let (Some(task), Some(step)) = (&event.task, &event.step) else { continue };
        let place = format!("{task}/{step}");
        let in_order = match event.kind {
            EventKind::ApplyStarted => open.insert(place.clone()),
            EventKind::ApplyFinished => open.remove(&place),
            _ => true,
        };
        assert!(in_order, "{place}: {:?} out of order\n{}", event.kind, bed.account());
    }
    open
}

/// The agent neither panicked nor blames itself.
fn assert_no_bug(host: &Host) {
    let log = host.agent_log(2000);
    for word in ["panicked", "a bug in fluke"] {
        assert!(!log.contains(word), "{log}");
    }
}

/// Why a step is not as it should be, as the server tells it.
fn reason(bed: &Bed, host: &Host, place: &str) -> String {
    let step = bed.agent(host.name()).step(place);
    step.and_then(|step| step.reason).unwrap_or_default()
}
