//! The first processes of containers: the kernel tells at once when one ends, Podman after it has
//! started a process and has read its own log.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::task::{AbortHandle, JoinSet};

/// More than a host has of containers; those beyond are for Podman's events alone.
const MOST: usize = 512;
/// What Podman's monitor takes to note that a container has ended.
const NOTED: Duration = Duration::from_millis(20);

/// Those that are watched.
#[derive(Debug, Default)]
pub struct Lives {
    watched: BTreeMap<i32, Life>,
    running: JoinSet<i32>,
}

#[derive(Debug)]
struct Life {
    /// When it was first seen.
    since: Instant,
    /// Readable once it has ended.
    end: Arc<AsyncFd<OwnedFd>>,
    task: AbortHandle,
}

impl Lives {
    /// Watches these, and no others.
    pub fn see(&mut self, processes: &BTreeSet<i32>) {
        self.watched.retain(|process, life| {
            let keep = processes.contains(process);
            if !keep {
                life.task.abort();
            }
            keep
        });
        for process in processes {
            if self.watched.len() < MOST
                && !self.watched.contains_key(process)
                && let Some(end) = watch(*process)
            {
                let end = Arc::new(end);
                let task = self.running.spawn(ended(*process, end.clone()));
                self.watched.insert(*process, Life { since: Instant::now(), end, task });
            }
        }
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

    /// When a process was first seen, by a clock that never jumps.
    pub fn since(&self, process: i32) -> Option<Instant> {
        self.watched.get(&process).map(|life| life.since)
    }

    /// Waits until one has ended. Cancel-safe.
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
fn watch(process: i32) -> Option<AsyncFd<OwnedFd>> {
    use crate::host::process::readable;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let life = pidfd_open(Pid::from_raw(process)?, PidfdFlags::NONBLOCK).ok()?;
    readable(life).ok()
}

#[cfg(not(target_os = "linux"))]
fn watch(_: i32) -> Option<AsyncFd<OwnedFd>> {
    None
}

#[cfg(test)]
mod tests;
