//! What runs of a container that is gone. Who removes one in the moment in which it is started again
//! has Podman forget it, and leave its processes: with its volumes, and at its address. Nothing takes
//! its place beside them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use fluke_model::gather::Gather;
use fluke_model::message::Fact;
use fluke_model::verdict::Outcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::look::Seen;
use super::round::end;
use super::saying::Note;
use super::{Account, Lane, doing};
use crate::services::bridge::Interfaces;
use crate::services::mesh::netlink::{Family, Socket, route};
use crate::services::plan::{Change, Container, Origin};

/// Who removes a container is through with it after that.
const A_MOMENT: Duration = Duration::from_secs(30);
/// What is killed ends at once, where the kernel is not stuck with it.
const MOST: Duration = Duration::from_secs(5);

impl Lane {
    /// Takes note of what Podman has started, or removed because it was told to.
    pub(super) fn remember(&mut self, change: &Change, container: Option<&str>) {
        let origin = match change {
            Change::Remove { container, .. } => return drop(self.started.remove(container)),
            Change::Start { origin, .. } => origin.clone(),
            Change::Deploy { deployment, ahead: false, .. } => Origin {
                deployment: Some(deployment.id),
                service: Some(deployment.service.clone()),
                replica: Some(deployment.replica),
            },
            _ => return,
        };
        let started = container.map(|it| (it.to_owned(), (origin, Instant::now())));
        self.started.extend(started);
    }

    /// Ends what still runs of containers that Podman started a moment ago, and does not know any more.
    /// Of others that are not in its list nothing follows.
    pub(super) async fn end_leftovers(&mut self, seen: &Seen, account: &Account) {
        self.started.retain(|_, (_, since)| since.elapsed() < A_MOMENT);
        if self.refusal().is_some() {
            return;
        }
        let is_there = |id: &str| seen.containers.iter().any(|it: &Container| it.id == id);
        let gone = self.started.iter().filter(|(id, _)| !is_there(id));
        let gone: BTreeMap<String, Origin> =
            gone.map(|(id, (origin, _))| (id.clone(), origin.clone())).gather();
        for (id, origin) in gone {
            if !self.podman.inspect(&id).await.is_err_and(|error| error.is_not_found()) {
                continue;
            }
            let (began, interfaces) = (Instant::now(), self.interfaces.clone());
            let container = id.clone();
            let done = tokio::task::spawn_blocking(move || end_all_of(&container, &interfaces));
            match done.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
                // One that was not removed for good yet is looked for again.
                Ok(0) => {}
                Ok(_) => {
                    self.started.remove(&id);
                    self.tell_of_leftovers(&id, &origin, account, began, None).await;
                }
                // It is tried again with the next look.
                Err(why) => {
                    self.tell_of_leftovers(&id, &origin, account, began, Some(why)).await;
                }
            }
        }
    }

    async fn tell_of_leftovers(
        &self,
        id: &str,
        origin: &Origin,
        account: &Account,
        began: Instant,
        failed: Option<io::Error>,
    ) {
        let reason = format!(
            "container {} was removed as it was started, and goes on without Podman's knowledge",
            id.get(..12).unwrap_or(id)
        );
        tracing::warn!(reason, ?failed, "processes without a container are ended");
        let outcome = if failed.is_some() { Outcome::Failure } else { Outcome::Success };
        let text = failed.map_or_else(String::new, |why| {
            format!("its processes cannot be ended: {why}; see `systemd-cgls`, and reboot the host if they stay")
        });
        let Some(subject) = doing::part(origin, id) else { return };
        let Account { cause, held } = account.clone();
        for fact in [Fact::Began { reason }, end(outcome, began, text)] {
            let (cause, held, subject) = (cause.clone(), held.clone(), subject.clone());
            self.scribe.record(Note { cause, held, subject, fact }).await;
        }
    }
}

/// Ends all processes of a container, and takes its end of the bridge away; how many there were.
fn end_all_of(container: &str, interfaces: &Interfaces) -> io::Result<usize> {
    let processes = processes_of(container, &interfaces.proc)?;
    let attached = interfaces.ports().into_iter().filter_map(|port| interfaces.number(&port));
    let attached: Vec<u32> = attached.collect();
    let ends = processes.iter().filter_map(|(process, _)| interfaces.other_end(*process));
    let ends: Vec<u32> = ends.filter(|end| attached.contains(end)).collect();
    for (_, process) in &processes {
        // One that has ended by now is as good.
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    let deadline = Instant::now() + MOST;
    for (number, process) in &processes {
        wait_for(*number, process, deadline)?;
    }
    // Its network outlasts it, and would answer for whoever has its address next.
    if let Some(end) = ends.first() {
        let _ = Socket::open(Family::Route)?.change(route::delete_link(*end));
    }
    Ok(processes.len())
}

fn wait_for(number: i32, process: &OwnedFd, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let left =
        Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left))? {
        0 => Err(io::Error::other(format!("process {number} does not end"))),
        _ => Ok(()),
    }
}

/// The processes in the control group that Podman made for a container. Each is held before it is
/// looked at: a number may be another's by then.
fn processes_of(container: &str, proc: &Path) -> io::Result<Vec<(i32, OwnedFd)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(proc)?.flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(process) = Pid::from_raw(number) else { continue };
        let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { continue };
        let groups = std::fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        if is_of(container, &groups) {
            found.push((number, process));
        }
    }
    Ok(found)
}

/// Whether control groups, as the kernel lists them, are those of a container: `libpod-ID.scope`, or
/// `libpod-ID`. Its monitor is in one that is called otherwise, and ends with it.
fn is_of(container: &str, groups: &str) -> bool {
    let own = |folder: &str| {
        let rest = folder.strip_prefix("libpod-").and_then(|it| it.strip_prefix(container));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    container.len() >= 12 && groups.lines().any(|line| line.split('/').any(own))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
