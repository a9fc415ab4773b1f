//! Learning that a child has exited, and reaping it: one after the other.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus, waitid, waitpid};
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
    pub(super) fn of(child: Pid) -> Self {
        Self::watch(child).unwrap_or(Self::Looked)
    }

    #[cfg(target_os = "linux")]
    fn watch(child: Pid) -> Option<Self> {
        use rustix::process::{PidfdFlags, pidfd_open};
        let watched = pidfd_open(child, PidfdFlags::empty()).ok()?;
        Some(Self::Told(super::readable(watched).ok()?))
    }

    #[cfg(not(target_os = "linux"))]
    fn watch(_: Pid) -> Option<Self> {
        None
    }

    /// Returns once the child has exited. Cancel-safe.
    pub(super) async fn happened(&self, child: Pid) {
        if let Self::Told(watched) = self
            && watched.readable().await.is_ok()
        {
            return;
        }
        while !has_exited(child) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether a child has exited.
pub(super) fn has_exited(child: Pid) -> bool {
    match wait(child, WaitIdOptions::NOHANG) {
        Ok(exited) => exited,
        // Somebody else reaped it; there is nothing left to wait for.
        Err(error) => error == Errno::CHILD,
    }
}

/// Waits until a child has exited, on this thread.
pub(super) fn await_exit(child: Pid) {
    let _ = wait(child, WaitIdOptions::empty());
}

fn wait(child: Pid, options: WaitIdOptions) -> Result<bool, Errno> {
    let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    retry_on_intr(|| waitid(WaitId::Pid(child), options)).map(|exited| exited.is_some())
}

/// Lets go of a child that has exited, and says how. From now on its number may be another's.
pub(super) fn reap(child: Pid) -> Option<WaitStatus> {
    let reaped = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()));
    reaped.ok().flatten().map(|(_, status)| status)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn an_exit_is_learnt_of_with_and_without_the_kernels_help_and_before_it_is_reaped() {
        for told in [true, false] {
            // Signals without a name are ends as well.
            for (script, code, signal) in
                [("exit 7", Some(7), None), ("kill -40 $$", None, Some(40))]
            {
                let shell = Command::new("/bin/sh").args(["-c", script]).spawn();
                let child = Pid::from_child(&shell.expect("a shell"));
                let exit = if told { Exit::of(child) } else { Exit::Looked };
                exit.happened(child).await;
                assert!(has_exited(child));
                let status = reap(child).expect("ours");
                assert_eq!((status.exit_status(), status.terminating_signal()), (code, signal));
            }
        }
    }
}
