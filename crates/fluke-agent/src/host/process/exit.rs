//! Learning that a child has exited, without reaping it.

use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus};
use tokio::io::unix::AsyncFd;

/// How often to look where the kernel cannot tell.
const LOOK: Duration = Duration::from_millis(10);

/// Tells when one child has exited. It stays a zombie, and so its number stays its own.
pub(super) enum Exit {
    /// The kernel tells: Linux from 5.3 on.
    Told(AsyncFd<OwnedFd>),
    /// One has to look.
    Looked,
}

impl Exit {
    pub(super) fn of(child: &Child) -> Self {
        Self::watch(child).unwrap_or(Self::Looked)
    }

    #[cfg(target_os = "linux")]
    fn watch(child: &Child) -> Option<Self> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        let pid = Pid::from_raw(child.id() as i32)?;
        let watched = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Self::Told(super::readable(watched).ok()?))
    }

    #[cfg(not(target_os = "linux"))]
    fn watch(_: &Child) -> Option<Self> {
        None
    }

    /// Returns once the child has exited. Cancel-safe.
    pub(super) async fn happened(&self, child: &mut Child) {
        if let Self::Told(watched) = self
            && watched.readable().await.is_ok()
        {
            return;
        }
        while !self.has_happened(child) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether the child has exited.
    pub(super) fn has_happened(&self, child: &mut Child) -> bool {
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match nix::sys::wait::waitid(Id::Pid(pid), look) {
            Ok(WaitStatus::StillAlive) => false,
            Ok(_) => true,
            // Somebody else reaped it; there is nothing left to wait for.
            Err(error) => error == nix::Error::ECHILD,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn an_exit_is_learnt_of_with_and_without_the_kernels_help_and_before_it_is_reaped() {
        for told in [true, false] {
            let mut child =
                Command::new("/bin/sh").args(["-c", "exit 7"]).spawn().expect("a shell");
            let exit = if told { Exit::of(&child) } else { Exit::Looked };
            exit.happened(&mut child).await;
            assert!(exit.has_happened(&mut child));
            assert_eq!(child.wait().expect("ours").code(), Some(7));
        }
    }
}
