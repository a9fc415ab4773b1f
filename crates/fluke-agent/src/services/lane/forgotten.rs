//! What runs of a container that Podman forgot. Who removes one in the moment in which it is started
//! again leaves its processes: with its volumes, and at its address. It is a container in the way as
//! any other, until its processes have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use fluke_model::gather::Gather;
use fluke_model::service::{DeploymentReport, Health};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::Lane;
use super::doing::ChangeError;
use crate::services::bridge::Interfaces;
use crate::services::mesh::netlink::{Family, Socket, route};
use crate::services::plan::{Change, Container, Origin, State};
use crate::services::podman::{Podman, short};

/// Who removes a container is through with it after that.
const A_MOMENT: Duration = Duration::from_secs(30);
/// What is said of one that is not even stopped.
const FORGOTTEN: &str = "Podman forgot it, and its processes go on";
/// What is killed ends at once, where the kernel is not stuck with it.
const MOST: Duration = Duration::from_secs(5);

/// Containers that Podman was told to start a moment ago, and what is left of those of them that it
/// does not know any more.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    started: BTreeMap<String, Started>,
    left: BTreeSet<String>,
}

#[derive(Debug)]
struct Started {
    what: Remains,
    /// The ends of its network on this host, as far as they were seen: they may outlast it, and
    /// would answer for whoever has its address next.
    links: BTreeSet<u32>,
    until: Instant,
}

/// What is known of a container that Podman may have forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remains {
    origin: Origin,
    name: String,
    image: String,
}

impl Forgotten {
    /// With what an agent before this one left to end.
    pub(super) fn with(left: BTreeMap<String, Remains>, now: Instant) -> Self {
        let ids = left.keys().cloned().gather();
        let begun = |what| Started { what, links: BTreeSet::new(), until: now };
        let started = left.into_iter().map(|(id, what)| (id, begun(what))).gather();
        Self { started, left: ids }
    }

    /// What is left to end.
    pub(super) fn left(&self) -> BTreeMap<String, Remains> {
        let left = self.left.iter().filter_map(|id| Some((id, self.started.get(id)?)));
        left.map(|(id, it)| (id.clone(), it.what.clone())).gather()
    }

    /// The remains of this one, if Podman cannot end it.
    pub(super) fn remains(&self, container: &str) -> Option<BTreeSet<u32>> {
        let left = self.started.get(container).filter(|_| self.left.contains(container));
        left.map(|it| it.links.clone())
    }

    /// What is there beside what Podman lists. Of others that are not in its list nothing follows.
    pub(super) async fn beside(
        &mut self,
        listed: &[Container],
        podman: &Podman,
        interfaces: &Interfaces,
    ) -> Vec<Container> {
        let now = Instant::now();
        let is_listed = |id: &str| listed.iter().any(|it| it.id == id);
        // Whoever removes one may take long, and it is in the list all that time; one that runs is
        // nobody's but Podman's. Who is not in the list is looked for once more, however late that is.
        let runs = |id: &str| listed.iter().any(|it| it.id == id && it.state == State::Running);
        self.started.retain(|id, it| it.until > now || !runs(id));
        self.left.clear();
        let (mut beside, mut ended) = (Vec::new(), Vec::new());
        for (id, it) in self.started.iter_mut().filter(|(id, _)| !is_listed(id)) {
            if it.has_ended(id, interfaces).await {
                ended.extend((it.until <= now).then(|| id.clone()));
                continue;
            }
            it.until = now + A_MOMENT;
            let is_gone = podman.inspect(id).await.is_err_and(|error| error.is_not_found());
            if is_gone {
                self.left.insert(id.clone());
            }
            beside.push(it.what.as_container(id, is_gone));
        }
        ended.iter().for_each(|id| drop(self.started.remove(id)));
        beside
    }
}

impl Started {
    /// Whether nothing is left of it; takes note of what is.
    async fn has_ended(&mut self, id: &str, interfaces: &Interfaces) -> bool {
        let (id, links, interfaces) = (id.to_owned(), self.links.clone(), interfaces.clone());
        let found = tokio::task::spawn_blocking(move || Traces::of(&id, &links, &interfaces)).await;
        let Ok(Ok(traces)) = found else { return false };
        let is_over = traces.processes.is_empty() && traces.links.is_empty();
        self.links = traces.links;
        is_over
    }
}

impl Remains {
    fn as_container(&self, id: &str, is_gone: bool) -> Container {
        let (state, tampered) = match is_gone {
            true => (State::Stuck, Some(FORGOTTEN.into())),
            // Podman may know it after all: then it is on its way to something.
            false => (State::Changing, None),
        };
        Container {
            id: id.to_owned(),
            name: self.name.clone(),
            is_ours: true,
            origin: self.origin.clone(),
            state,
            check: None,
            health: Health::None,
            tampered,
            outdated: None,
            told_to_end: None,
            address: None,
            image: self.image.clone(),
            digest: None,
            complaint: None,
            exit: None,
            started: None,
            asked_since: None,
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

    /// Takes note of what Podman was through with: what it has made and started, or tried to; and of
    /// what was forgotten and is seen to have ended. That Podman does not have a container any more
    /// says nothing of its processes: they are looked for.
    pub(super) fn remember_end(
        &mut self,
        change: &Change,
        was_forgotten: bool,
        done: Result<Option<&str>, &ChangeError>,
    ) {
        match (change, done) {
            (Change::Remove { container, .. }, Ok(_)) if was_forgotten => {
                drop(self.forgotten.started.remove(container));
            }
            // That may have taken longer than a moment.
            (Change::Start { container, origin, .. }, _) => {
                self.remember(container, origin.clone())
            }
            (Change::Deploy { deployment, ahead: false, .. }, Ok(Some(container))) => {
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
        let what = Remains { origin, name, image };
        let started = Started { what, links: BTreeSet::new(), until: Instant::now() + A_MOMENT };
        self.forgotten.started.insert(container.to_owned(), started);
    }
}

/// Why what Podman forgot is ended.
pub(super) fn reason(container: &str) -> String {
    let why = "was removed as it was started, and goes on without Podman's knowledge";
    format!("container {} {why}", short(container))
}

/// Ends what Podman forgot of a container.
pub(super) async fn end(
    container: &str,
    links: BTreeSet<u32>,
    interfaces: &Interfaces,
) -> Result<(), ChangeError> {
    let (container, interfaces) = (container.to_owned(), interfaces.clone());
    let work = move || {
        let traces = Traces::of(&container, &links, &interfaces);
        traces.map_err(ChangeError::Forgotten)?.wipe()
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ChangeError::Forgotten(io::Error::other(error))))
}

/// What goes on of a container.
struct Traces {
    processes: Vec<(i32, OwnedFd)>,
    /// Ports of the bridge.
    links: BTreeSet<u32>,
}

impl Traces {
    /// With these `links`, if they are still there.
    fn of(container: &str, links: &BTreeSet<u32>, interfaces: &Interfaces) -> io::Result<Self> {
        let processes = processes_of(container, &interfaces.proc)?;
        let ends = processes.iter().filter_map(|(process, _)| interfaces.own_port(*process));
        let links: BTreeSet<u32> = ends.chain(links.iter().copied()).gather();
        if links.is_empty() {
            return Ok(Self { processes, links });
        }
        let ports = interfaces.ports().into_iter();
        let attached: BTreeSet<u32> = ports.filter_map(|it| interfaces.number(&it)).gather();
        Ok(Self { processes, links: links.intersection(&attached).copied().gather() })
    }

    /// Ends all processes, and takes their network away, also from those that do not end.
    fn wipe(&self) -> Result<(), ChangeError> {
        for (_, process) in &self.processes {
            // One that has ended by now is as good.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        let cut = |link: &u32| {
            let error = cut(*link).err()?;
            Some(ChangeError::Uncut { link: *link, error })
        };
        let uncut: Vec<ChangeError> = self.links.iter().filter_map(cut).collect();
        self.end().map_err(ChangeError::Forgotten)?;
        uncut.into_iter().next().map_or(Ok(()), Err)
    }

    /// Waits for all processes, but no longer than for what does not end.
    fn end(&self) -> io::Result<()> {
        let deadline = Instant::now() + MOST;
        for (number, process) in &self.processes {
            if !has_ended(process, deadline)? {
                return Err(io::Error::other(format!("process {number} does not end")));
            }
        }
        Ok(())
    }
}

/// Takes an interface away, if it is there.
fn cut(link: u32) -> io::Result<()> {
    let done = Socket::open(Family::Route)?.change(route::delete_link(link));
    done.or_else(|error| {
        let is_gone = error.raw_os_error() == Some(Errno::NODEV.raw_os_error());
        if is_gone { Ok(()) } else { Err(error) }
    })
}

/// Whether a process has ended by then.
fn has_ended(process: &OwnedFd, deadline: Instant) -> io::Result<bool> {
    let ended = retry_on_intr(|| {
        let left = deadline.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left))
    });
    Ok(ended? > 0)
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
    short(container).len() < container.len() && groups.lines().any(|line| line.split('/').any(own))
}

#[cfg(test)]
mod tests;
