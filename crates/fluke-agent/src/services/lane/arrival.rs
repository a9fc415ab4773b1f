//! Podman's socket, while nobody answers at it: whether somebody made it anew. The kernel tells.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// From when a socket is there until somebody listens at it.
const LISTENS: Duration = Duration::from_millis(20);
/// How often folders may come and go under the eyes of whoever looks for the nearest one.
const TRIES: usize = 16;

/// Which socket is there: another one each time that somebody makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sighting(Option<(u64, u64, i64, i64)>);

impl Sighting {
    /// The one that is there now.
    pub fn of(socket: &Path) -> Self {
        let found = std::fs::metadata(socket).ok().filter(|it| it.file_type().is_socket());
        Self(found.map(|it| (it.dev(), it.ino(), it.ctime(), it.ctime_nsec())))
    }
}

/// A socket that is waited for, for as long as this lives.
#[derive(Debug)]
pub struct Arrival {
    seen: mpsc::Receiver<()>,
    task: JoinHandle<()>,
}

impl Arrival {
    /// Waits for another one than `known`.
    pub fn expected(socket: &Path, known: Sighting) -> Self {
        let (told, seen) = mpsc::channel(1);
        Self { seen, task: tokio::spawn(wait(socket.to_owned(), known, told)) }
    }

    /// Returns once when it is there. Cancel-safe.
    pub async fn next(&mut self) {
        if self.seen.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn wait(socket: PathBuf, mut known: Sighting, told: mpsc::Sender<()>) {
    // Where the kernel does not tell, the safety net finds it.
    while let Some(news) = listen(&socket) {
        let now = Sighting::of(&socket);
        if now != known && now != Sighting::default() {
            tokio::time::sleep(LISTENS).await;
            let _ = told.try_send(());
            return;
        }
        known = now;
        if news.readable().await.is_err() {
            return;
        }
    }
}

/// The nearest folder on the way to the socket that is there.
fn nearest(socket: &Path) -> Option<&Path> {
    socket.ancestors().skip(1).find(|folder| folder.is_dir())
}

/// Something to read as soon as anything is made where the socket, or a folder on the way to it,
/// should be.
#[cfg(target_os = "linux")]
fn listen(socket: &Path) -> Option<AsyncFd<OwnedFd>> {
    use crate::host::process::readable;
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    let what = WatchFlags::CREATE | WatchFlags::MOVED_TO;
    let end = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
    (0..TRIES).find_map(|_| {
        let folder = nearest(socket)?;
        let news = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        add_watch(&news, folder, what | end | WatchFlags::ONLYDIR).ok()?;
        // What was made before anybody listened is not told of.
        (nearest(socket) == Some(folder)).then(|| readable(news).ok()).flatten()
    })
}

#[cfg(not(target_os = "linux"))]
fn listen(_: &Path) -> Option<AsyncFd<OwnedFd>> {
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use tokio::time::timeout;

    use super::*;

    /// Nobody waits for so long.
    const PATIENCE: Duration = Duration::from_secs(30);

    async fn arrives(mut arrival: Arrival) {
        timeout(PATIENCE, arrival.next()).await.expect("it was told");
    }

    #[tokio::test]
    async fn a_socket_in_a_folder_that_is_not_there_yet_is_told_of_when_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = dir.path().join("run/podman/podman.sock");
        let arrival = Arrival::expected(&socket, Sighting::of(&socket));
        tokio::task::yield_now().await;
        std::fs::create_dir_all(socket.parent().expect("it has one")).expect("made");
        tokio::task::yield_now().await;
        let _podman = UnixListener::bind(&socket).expect("bound");
        arrives(arrival).await;
    }

    #[tokio::test]
    async fn a_socket_that_was_made_anew_is_another_and_one_that_stays_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = dir.path().join("podman.sock");
        let old = UnixListener::bind(&socket).expect("bound");
        let known = Sighting::of(&socket);
        drop(old);
        let mut arrival = Arrival::expected(&socket, known);
        // It listens when the first is told of, hears of the second, and what it would tell of that
        // comes before anybody is told of the third.
        for name in ["first", "second", "third"] {
            let other = dir.path().join(name);
            let there = Arrival::expected(&other, Sighting::default());
            let _other = UnixListener::bind(&other).expect("bound");
            arrives(there).await;
        }
        assert!(arrival.seen.try_recv().is_err(), "nobody made it anew");
        std::fs::remove_file(&socket).expect("removed");
        let _new = UnixListener::bind(&socket).expect("bound");
        arrives(arrival).await;
    }

    #[tokio::test]
    async fn one_that_came_before_anybody_waited_is_told_of_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = dir.path().join("podman.sock");
        let known = Sighting::of(&socket);
        let _podman = UnixListener::bind(&socket).expect("bound");
        arrives(Arrival::expected(&socket, known)).await;
    }
}
