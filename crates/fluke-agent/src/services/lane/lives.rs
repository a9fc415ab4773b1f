//! The first processes of containers: the kernel tells at once when one ends, Podman after it has
//! started a process and has read its own log.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::task::{AbortHandle, JoinSet};

/// More than a host has of containers; those beyond are for Podman's events alone.
const MOST: usize = 512;
/// What Podman's monitor takes to note that a container has ended.
const NOTED: Duration = Duration::from_millis(20);

/// What it may take on the busiest of hosts. One that is not noted by then never is: its monitor is
/// gone as well, and without its word Podman takes a container for one that runs.
const OVERDUE: Duration = Duration::from_secs(5);

/// Those that are watched.
#[derive(Debug, Default)]
pub struct Lives {
    watched: BTreeMap<i32, Life>,
    /// Those that had ended when Podman said that they run.
    unnoted: BTreeMap<i32, Unnoted>,
    running: JoinSet<i32>,
}

#[derive(Debug)]
struct Life {
    /// Readable once it has ended.
    end: Arc<AsyncFd<OwnedFd>>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Unnoted {
    /// When that was first seen.
    since: tokio::time::Instant,
    task: AbortHandle,
}

/// What the kernel says of a process.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "it does not tell there"))]
enum Sight {
    /// It lives; readable once it has ended.
    Lives(AsyncFd<OwnedFd>),
    /// It has ended, or is not there.
    Ended,
    /// It does not tell.
    Unknown,
}

impl Lives {
    /// Watches these, which run as Podman says, and no others.
    pub fn see(&mut self, processes: &BTreeSet<i32>) {
        let keep = |process: &i32, task: &AbortHandle| {
            let keep = processes.contains(process);
            if !keep {
                task.abort();
            }
            keep
        };
        self.watched.retain(|process, life| keep(process, &life.task));
        self.unnoted.retain(|process, it| keep(process, &it.task));
        for process in processes {
            if !self.knows(*process) && !self.unnoted.contains_key(process) {
                self.see_first(*process);
            }
        }
    }

    fn see_first(&mut self, process: i32) {
        match look_at(process) {
            Sight::Lives(end) if self.watched.len() < MOST => {
                let end = Arc::new(end);
                let task = self.running.spawn(ended(process, end.clone()));
                self.watched.insert(process, Life { end, task });
            }
            Sight::Ended => {
                let since = tokio::time::Instant::now();
                let task = self.running.spawn(async move {
                    tokio::time::sleep_until(since + OVERDUE).await;
                    process
                });
                self.unnoted.insert(process, Unnoted { since, task });
            }
            Sight::Lives(_) | Sight::Unknown => {}
        }
    }

    /// Whether one has ended and Podman, which still says that it runs, has had its time to note it.
    pub fn is_overdue(&self, process: i32) -> bool {
        self.unnoted.get(&process).is_some_and(|it| it.since.elapsed() >= OVERDUE)
    }

    /// Whether it is watched.
    pub fn knows(&self, process: i32) -> bool {
        self.watched.contains_key(&process)
    }

    /// Whether one of those that are watched has ended, as the kernel says now; or may have, where it
    /// does not say.
    pub fn has_one_ended(&self) -> bool {
        let ends = self.watched.values().map(|life| PollFd::new(&*life.end, PollFlags::IN));
        let mut ends: Vec<_> = ends.collect();
        poll(&mut ends, Some(&Timespec::default())) != Ok(0)
    }

    /// Waits until one has ended, or its end is overdue. Cancel-safe.
    pub async fn next(&mut self) {
        while let Some(ended) = self.running.join_next().await {
            if let Ok(process) = ended {
                self.watched.remove(&process);
                return;
            }
        }
        std::future::pending().await
    }
}

async fn ended(process: i32, end: Arc<AsyncFd<OwnedFd>>) -> i32 {
    // One that cannot be waited for is told of by Podman.
    if end.readable().await.is_err() {
        std::future::pending().await
    }
    tokio::time::sleep(NOTED).await;
    process
}

#[cfg(target_os = "linux")]
fn look_at(process: i32) -> Sight {
    use crate::host::process::readable;
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(process) = Pid::from_raw(process) else { return Sight::Unknown };
    let life = match pidfd_open(process, PidfdFlags::NONBLOCK) {
        Ok(life) => life,
        Err(Errno::SRCH) => return Sight::Ended,
        Err(_) => return Sight::Unknown,
    };
    // One that nobody has asked for its exit code is still there, and has ended all the same.
    let mut end = [PollFd::new(&life, PollFlags::IN)];
    if poll(&mut end, Some(&Timespec::default())) == Ok(1) {
        return Sight::Ended;
    }
    readable(life).map_or(Sight::Unknown, Sight::Lives)
}

#[cfg(not(target_os = "linux"))]
fn look_at(_: i32) -> Sight {
    Sight::Unknown
}

#[cfg(test)]
mod tests;
