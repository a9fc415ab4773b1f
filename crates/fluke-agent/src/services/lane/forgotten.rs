//! What runs of a container that Podman forgot. Who removes one in the moment in which it is started
//! again leaves its processes: with its volumes, and at its address. It is a container in the way as
//! any other, until its processes have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use fluke_model::service::{DeploymentReport, Health};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Lane;
use super::doing::ChangeError;
use crate::services::bridge::Interfaces;
use crate::services::mesh::netlink::{Family, Socket, route};
use crate::services::plan::{Change, Container, Origin, State};
use crate::services::podman::Podman;

/// Who removes a container is through with it after that.
const A_MOMENT: Duration = Duration::from_secs(30);
/// What is killed ends at once, where the kernel is not stuck with it.
const MOST: Duration = Duration::from_secs(5);
/// Of an id, for people: as many characters as Podman shows.
const SHORT: usize = 12;

/// Containers that Podman was told to start a moment ago, and what is left of those of them that it
/// does not know any more.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    started: BTreeMap<String, Started>,
    left: BTreeSet<String>,
}

#[derive(Debug)]
struct Started {
    origin: Origin,
    name: String,
    image: String,
    until: Instant,
}

impl Forgotten {
    /// Why this one is ended, if Podman cannot do that.
    pub(super) fn why(&self, container: &str) -> Option<String> {
        let id = short(container);
        let why = "was removed as it was started, and goes on without Podman's knowledge";
        self.left.contains(container).then(|| format!("container {id} {why}"))
    }

    /// What is there beside what Podman lists. Of others that are not in its list nothing follows.
    pub(super) async fn beside(
        &mut self,
        listed: &[Container],
        podman: &Podman,
        interfaces: &Interfaces,
    ) -> Vec<Container> {
        let now = Instant::now();
        self.started.retain(|_, it| it.until > now);
        self.left.clear();
        let is_listed = |id: &str| listed.iter().any(|it| it.id == id);
        let mut beside = Vec::new();
        for (id, it) in self.started.iter_mut().filter(|(id, _)| !is_listed(id)) {
            let (container, proc) = (id.clone(), interfaces.proc.clone());
            let found = tokio::task::spawn_blocking(move || processes_of(&container, &proc)).await;
            if found.is_ok_and(|found| found.is_ok_and(|found| found.is_empty())) {
                continue;
            }
            it.until = now + A_MOMENT;
            let is_gone = podman.inspect(id).await.is_err_and(|error| error.is_not_found());
            if is_gone {
                self.left.insert(id.clone());
            }
            // Podman may know it after all: then it is on its way to something.
            let state = if is_gone { State::Stuck } else { State::Changing };
            beside.push(it.as_container(id, state));
        }
        beside
    }
}

impl Started {
    fn as_container(&self, id: &str, state: State) -> Container {
        Container {
            id: id.to_owned(),
            name: self.name.clone(),
            is_ours: true,
            origin: self.origin.clone(),
            state,
            check: None,
            health: Health::None,
            tampered: None,
            outdated: None,
            told_to_end: None,
            address: None,
            image: self.image.clone(),
            digest: None,
            complaint: None,
            exit: None,
            started: None,
            process: None,
            silent_at: None,
            in_network: true,
        }
    }
}

impl Lane {
    /// Takes note of what Podman is told to start, whatever it answers.
    pub(super) fn remember_start(&mut self, change: &Change) {
        if let Change::Start { container, origin, .. } = change {
            self.remember(container, origin.clone());
        }
    }

    /// Takes note of what Podman has made and started, or does not have any more because it was told
    /// so.
    pub(super) fn remember_end(&mut self, change: &Change, container: Option<&str>) {
        match (change, container) {
            (Change::Remove { container, .. }, _) => drop(self.forgotten.started.remove(container)),
            (Change::Deploy { deployment, ahead: false, .. }, Some(container)) => {
                let origin = Origin {
                    deployment: Some(deployment.id),
                    service: Some(deployment.service.clone()),
                    replica: Some(deployment.replica),
                };
                self.remember(container, origin);
            }
            _ => {}
        }
    }

    fn remember(&mut self, container: &str, origin: Origin) {
        let is_its = |it: &&DeploymentReport| Some(it.id) == origin.deployment;
        let report = self.reports.iter().flatten().find(is_its);
        let name = report.and_then(|it| it.container.clone());
        let name = name.unwrap_or_else(|| short(container).to_owned());
        let image = report.map(|it| it.image.clone()).unwrap_or_default();
        let until = Instant::now() + A_MOMENT;
        self.forgotten.started.insert(container.to_owned(), Started { origin, name, image, until });
    }
}

fn short(container: &str) -> &str {
    container.get(..SHORT).unwrap_or(container)
}

/// Ends what Podman forgot of a container.
pub(super) async fn end(container: &str, interfaces: &Interfaces) -> Result<(), ChangeError> {
    let (container, interfaces) = (container.to_owned(), interfaces.clone());
    let done = tokio::task::spawn_blocking(move || end_all_of(&container, &interfaces)).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(ChangeError::Forgotten)
}

/// Ends all processes of a container, and takes its end of the bridge away.
fn end_all_of(container: &str, interfaces: &Interfaces) -> io::Result<()> {
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
        if !has_ended(process, deadline)? {
            return Err(io::Error::other(format!("process {number} does not end")));
        }
    }
    // Its network outlasts it, and would answer for whoever has its address next.
    if let Some(end) = ends.first() {
        let _ = Socket::open(Family::Route)?.change(route::delete_link(*end));
    }
    Ok(())
}

/// Whether a process has ended by then.
fn has_ended(process: &OwnedFd, deadline: Instant) -> io::Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    let left =
        Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    Ok(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left))? > 0)
}

/// The processes in the control group that Podman made for a container, without those that have ended.
/// Each is held before it is looked at: a number may be another's by then.
fn processes_of(container: &str, proc: &Path) -> io::Result<Vec<(i32, OwnedFd)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(proc)?.flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(process) = Pid::from_raw(number) else { continue };
        let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { continue };
        let groups = std::fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        if is_of(container, &groups) && !has_ended(&process, Instant::now())? {
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
