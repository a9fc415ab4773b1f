//! The first processes of containers: the kernel tells at once when one ends, Podman after it has
//! started a process and has read its own log.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::task::{AbortHandle, JoinSet};

/// More than a host has of containers; those beyond are for Podman's events alone.
const MOST: usize = 512;
/// What Podman's monitor takes to note that a container has ended.
const NOTED: Duration = Duration::from_millis(20);

/// Those that are watched.
#[derive(Debug, Default)]
pub struct Lives {
    watched: BTreeMap<i32, AbortHandle>,
    running: JoinSet<i32>,
}

impl Lives {
    /// Watches these, and no others.
    pub fn see(&mut self, processes: &BTreeSet<i32>) {
        self.watched.retain(|process, task| {
            let keep = processes.contains(process);
            if !keep {
                task.abort();
            }
            keep
        });
        for process in processes {
            if self.watched.len() < MOST
                && !self.watched.contains_key(process)
                && let Some(life) = watch(*process)
            {
                let task = self.running.spawn(ended(*process, life));
                self.watched.insert(*process, task);
            }
        }
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

async fn ended(process: i32, life: AsyncFd<OwnedFd>) -> i32 {
    // One that cannot be waited for is told of by Podman.
    if life.readable().await.is_err() {
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
mod tests {
    use std::process::Command;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_is_heard_once_and_of_one_that_is_not_watched_never() {
        let sleep = || Command::new("sleep").arg("1000").spawn().expect("it runs");
        let [mut one, mut other, mut third] = [sleep(), sleep(), sleep()];
        let ids = |all: &[&std::process::Child]| all.iter().map(|it| it.id() as i32).collect();
        let mut lives = Lives::default();
        lives.see(&ids(&[&one, &other, &third]));
        lives.see(&ids(&[&other, &third]));
        for child in [&mut one, &mut other] {
            child.kill().expect("killed");
            child.wait().expect("gone");
        }
        lives.next().await;
        assert_eq!(lives.watched.keys().copied().collect::<Vec<_>>(), [third.id() as i32]);
        assert!(std::pin::pin!(lives.next()).as_mut().now_or_never().is_none());
        lives.see(&ids(&[&other, &third]));
        assert_eq!(lives.watched.len(), 1, "who is gone cannot be watched");
        third.kill().expect("killed");
        third.wait().expect("gone");
        lives.next().await;
    }
}
